"""Intervals of weighted means: they hold where few answer otherwise and few count for most.

Weights are log-normal with σ = 1.5. A share of 2 in 1,000 holds 1, and everybody's answer has noise
of ±0.3 at random, within public ends. Coverage is asked to be no less than 94.5 %, at α = 1e-4.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from geoveil.analyst.statistics.weighting import WeightedSample
from geoveil.gp.intervals import Limits, interval_of_mean, interval_of_weighted_mean

LIMITS = Limits((-0.3, 1.3), (0.0, 1.0))
SHARE, CAMPAIGNS = 0.002, 400
LEAST = binom.ppf(1e-4, CAMPAIGNS, 0.945)


def drawn(rng: np.random.Generator, people: int, *, apart: bool) -> tuple[np.ndarray, ...]:
    """Return weights and answers; apart: the heaviest 2 in 1,000 hold 1, and no others."""
    z = rng.standard_normal(people)
    one = z > 2.8782 if apart else rng.random(people) < SHARE
    return np.exp(1.5 * z), one + rng.choice([-0.3, 0.3], people)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    ("people", "apart"),
    [(n, apart) for n in (50, 200, 1_000) for apart in (False, True)] + [(10_000, False)],
)
def test_weighted_means_hold_a_rare_share(people, apart):
    """400 samples; the control, Student's interval of answers in the clear, must hold fewer."""
    truth = 0.0841 if apart else SHARE  # P(N(0, 1) > 2.8782 − 1.5) of all weight
    rng = np.random.default_rng(people)
    held = held_by_student = 0
    for _ in range(CAMPAIGNS):
        weights, y = drawn(rng, people, apart=apart)
        sample = WeightedSample(design_weights=weights)
        found = sample.mean(y, LIMITS)
        held += found.ci_low <= truth <= found.ci_high
        assert found.ci_low <= found.value <= found.ci_high or not 0 <= found.value <= 1
        clear = sample.mean(np.round(y))
        held_by_student += math.isfinite(clear.ci_low) and clear.ci_low <= truth <= clear.ci_high
    assert held >= LEAST > held_by_student


def test_no_weighted_interval_is_of_width_0():
    """50 reports of 0: up to what one more person, who counts most, might bring; else endless."""
    weights = np.exp(1.5 * np.random.default_rng(1).standard_normal(50))
    sample, nothing = WeightedSample(design_weights=weights), np.zeros(50)
    shares = Limits((0.0, 1.0), (0.0, 1.0))
    groups = np.repeat(["a", "b"], 25)
    largest = weights.max() / weights.sum()
    for found in (sample.mean(nothing, shares), sample.means(nothing, groups, shares)):
        row = found.rows()[0]
        assert row["ci_low"] == 0.0
        assert largest < row["ci_high"] < 1.0
    assert sample.total(nothing, shares).ci_high > 0
    assert sample.ratio(nothing, np.ones(50), shares, Limits((0.0, 2.0))).ci_high > largest
    endless = sample.mean(nothing)
    assert (endless.ci_low, endless.ci_high) == (-math.inf, math.inf)
    assert "No limits" in " ".join(endless.notes)


@pytest.mark.parametrize("people", [20, 300, 5_000])
def test_equal_weights_are_no_weights(people):
    """Against Clopper and Pearson where nobody answers, and against the unweighted interval."""
    sample, shares = WeightedSample(design_weights=np.full(people, 7.0)), Limits((0, 1), (0, 1))
    nobody = sample.mean(np.zeros(people), shares).ci_high
    assert nobody == pytest.approx(beta.ppf(0.975, 1, people), rel=0.06)
    y = np.random.default_rng(2).choice([-0.3, 1.3], people)
    found = sample.mean(y, LIMITS)
    alone = interval_of_mean(people, y.mean(), y.var(), 0.95, LIMITS)
    wide = 0.02 if people > 1_000 else 0.15  # whose skewness is not known
    width = alone.high - alone.low
    assert found.ci_low == pytest.approx(alone.low, abs=wide * width)
    assert found.ci_high == pytest.approx(alone.high, abs=wide * width)


def test_a_ratio_of_weighted_totals_holds_what_its_contrast_holds():
    rng = np.random.default_rng(3)
    weights, y = drawn(rng, 500, apart=False)
    x = 1 + rng.random(500)
    sample, ends = WeightedSample(design_weights=weights), Limits((0.0, 2.0), (0.0, 2.0))
    found = sample.ratio(y, x, LIMITS, ends)
    for r in (found.ci_low, found.ci_high):
        of_sum = Limits(
            (-0.3 - max(2 * r, 0), 1.3 - min(2 * r, 0)), (-max(2 * r, 0), 1 - min(2 * r, 0))
        )
        contrast = sample.mean(y - r * x, of_sum)
        nearest = min(abs(contrast.ci_low), abs(contrast.ci_high))
        assert nearest == pytest.approx(0, abs=1e-9)
    none = x - float(weights @ x / weights.sum()) + 0.01  # not told from 0
    assert sample.ratio(y, none, LIMITS, Limits((-2.0, 2.0))).ci_high == math.inf


def test_what_moves_a_weighted_mean_is_as_heavy_as_can_be():
    """The heavier one report, the wider the interval, of the same error and degrees of freedom."""
    common = {"skewness": 0.0, "freedom": 99.0}
    wide = [
        interval_of_weighted_mean(0.1, 1e-4, 0.95, LIMITS, largest=share, **common)
        for share in (0.001, 0.01, 0.05, 0.3)
    ]
    widths = [each.high - each.low for each in wide]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]
