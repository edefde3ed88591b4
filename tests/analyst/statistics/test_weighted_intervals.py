"""Test intervals of weighted means with few unusual answers and few large weights.

Weights are log-normal with σ = 1.5. A share of 2 in 1,000 holds 1, and everybody's answer has noise
of ±0.3 at random, within public ends. Coverage is asked to be no less than 94.5 %, at α = 1e-4.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from geoveil.gp.intervals import (
    Interval,
    IntervalMethod,
    interval_of_mean,
    interval_of_weighted_mean,
)
from geoveil.gp.limits import UNLIMITED, Limits

LIMITS = Limits((-0.3, 1.3), (0.0, 1.0))
SHARE, CAMPAIGNS = 0.002, 400
LEAST = binom.ppf(1e-4, CAMPAIGNS, 0.945)


def held_by(weights: np.ndarray, y: np.ndarray, limits: Limits = UNLIMITED) -> Interval:
    """Return the interval of Hájek's mean of answers y, with Kish's degrees of freedom."""
    people, mean = weights.sum(), float(weights @ y / weights.sum())
    parts = weights * (y - mean) / people
    parts = (parts - parts.mean()) * math.sqrt(len(y) / (len(y) - 1))
    square = float(parts @ parts)
    alike = people**2 / float(weights @ weights)
    return interval_of_weighted_mean(
        mean,
        square,
        0.95,
        limits,
        largest=float(weights.max() / people),
        skewness=float((parts**3).sum() / square**1.5) if square else 0.0,
        freedom=max(min(len(y), alike) - 1 if limits.bounded else len(y) - 1, 1.0),
    )


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
        found = held_by(weights, y, LIMITS)
        held += found.low <= truth <= found.high
        clear = held_by(weights, np.round(y))
        held_by_student += math.isfinite(clear.low) and clear.low <= truth <= clear.high
    assert held >= LEAST > held_by_student


def test_no_weighted_interval_is_of_width_0():
    """50 reports of 0: up to what one more person, who counts most, might bring; else endless."""
    weights = np.exp(1.5 * np.random.default_rng(1).standard_normal(50))
    found = held_by(weights, np.zeros(50), Limits((0.0, 1.0), (0.0, 1.0)))
    assert found.low == 0.0
    assert weights.max() / weights.sum() < found.high < 1.0
    endless = held_by(weights, np.zeros(50))
    assert (endless.low, endless.high) == (-math.inf, math.inf)


@pytest.mark.parametrize("people", [20, 300, 5_000])
def test_equal_weights_are_no_weights(people):
    """Against Clopper and Pearson where nobody answers, and against the unweighted interval."""
    weights, shares = np.full(people, 7.0), Limits((0, 1), (0, 1))
    nobody = held_by(weights, np.zeros(people), shares).high
    assert nobody == pytest.approx(beta.ppf(0.975, 1, people), rel=0.06)
    y = np.random.default_rng(2).choice([-0.3, 1.3], people)
    found = held_by(weights, y, LIMITS)
    alone = interval_of_mean(people, y.mean(), y.var(), 0.95, LIMITS)
    wide = 0.02 if people > 1_000 else 0.15  # whose skewness is not known
    width = alone.high - alone.low
    assert found.low == pytest.approx(alone.low, abs=wide * width)
    assert found.high == pytest.approx(alone.high, abs=wide * width)


@pytest.mark.parametrize(("people", "ones"), [(2, 1), (60, 1), (60, 30), (400, 8)])
def test_equal_weights_have_the_interval_of_none_to_the_last_digits(people, ones):
    """The answers are 0 and 1, so their ends give the skewness, and nothing is cut."""
    limits = Limits((0.0, 1.0), (0.0, 1.0), possible=(-99.0, 99.0))
    y, share = np.repeat([0.0, 1.0], [people - ones, ones]), ones / people
    found = held_by(np.full(people, 7.0), y, limits)
    alone = interval_of_mean(people, share, share * (1 - share), 0.95, limits)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), rel=1e-9)
    assert found.method is alone.method is IntervalMethod.WEIGHTED_ENDS
    endless = held_by(np.full(people, 7.0), y)
    student = interval_of_mean(people, share, share * (1 - share), 0.95)
    assert (endless.low, endless.high) == pytest.approx((student.low, student.high), rel=1e-9)
    assert endless.method is student.method is IntervalMethod.STUDENT


def test_one_report_of_most_weight_counts_as_one_of_two():
    of_two, of_most = (
        interval_of_weighted_mean(0.5, 0.25, 0.95, LIMITS, largest=share, skewness=0.0, freedom=1.0)
        for share in (0.5, 0.8)
    )
    assert of_most == of_two


@pytest.mark.parametrize(
    ("limits", "method"),
    [
        (Limits((0.0, 1.0)), IntervalMethod.WEIGHTED_ENDS),
        (Limits(means=(0.0, 1.0)), IntervalMethod.WEIGHTED_ENDS),
        (Limits(means=(0.0, math.inf)), IntervalMethod.STUDENT),
    ],
)
def test_ends_of_reports_or_of_means_are_enough(limits, method):
    assert interval_of_mean(100, 0.3, 0.2, 0.95, limits).method is method


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
