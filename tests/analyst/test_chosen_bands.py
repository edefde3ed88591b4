"""Test that intervals with bands chosen from the reports cover the hard share."""

import math
import re
from functools import cache

import numpy as np
import pytest
from scipy.stats import lognorm, norm

from geoveil.analyst import (
    CampaignEstimates,
    ChosenBands,
    LabelledEstimate,
    ShareAbove,
    ShareBetween,
    hard_shares,
)
from geoveil.analyst.hard_question import Heap, critical_value
from geoveil.analyst.questions import MeanOf
from geoveil.gp import ParameterError, Range, Threshold
from geoveil.gp.intervals import interval_of_mean

from .statistics.populations import PRIVACY, campaign

B = PRIVACY.per
CAMPAIGN = campaign()
HEAPS = tuple(Heap(float(at), 0.012) for at in range(10_000, 210_000, 10_000))
HEAPED = sum(heap.share for heap in HEAPS)


def row(label, values, limits):
    """Return what a server says of the values of an estimator."""
    n, mean, variance = len(values), float(values.mean()), float(values.var())
    ends = interval_of_mean(n, mean, variance, 0.95, limits) if n > 1 else None
    return LabelledEstimate(
        label=label,
        value=mean,
        standard_error=math.sqrt(variance / (n - 1)) if n > 1 else None,
        ci_low=ends and ends.low,
        ci_high=ends and ends.high,
        method=ends and ends.method,
        confidence=0.95,
        n=n,
        privacy=PRIVACY,
        period=0,
        sums=(0, 0),
        step_exponent=-30,
        limits=limits,
    )


@cache
def estimator_of(query):
    estimator = CAMPAIGN.point_mechanism.estimator(query, debias=True)
    return estimator, estimator.limits


def answered(bands, points):
    """Return what points say, after the bands were chosen."""
    rows = []
    for question in bands.questions:
        estimator, limits = estimator_of(question.query)
        rows.append(row(question.label, estimator.value(points), limits))
    found = CampaignEstimates(CAMPAIGN, "open", tuple(rows), "Unbiased.", PRIVACY, PRIVACY)
    return bands.answered(found)


def lognormal(n, rng):
    return rng.lognormal(11.3, 0.8, n)


def heaped(n, rng):
    x, at_heaps = lognormal(n, rng), rng.random(n) < HEAPED
    x[at_heaps] = rng.choice([heap.at for heap in HEAPS], int(at_heaps.sum()))
    return x


def humps(n, rng):
    low = rng.random(n) < 0.5
    return np.where(low, rng.normal(60_000, 12_000, n), rng.normal(130_000, 25_000, n))


def crowd(n, rng):
    return rng.normal(100_000, 9_000, n)


def at_two_places(n, rng):
    return np.where(rng.random(n) < 0.01, 250_000.0, 20_000.0)


def above_lognormal(at):
    return lognorm(0.8, scale=math.exp(11.3)).sf(at)


def above_heaped(at):
    heaps = sum(heap.share for heap in HEAPS if heap.at > at)
    return (1 - HEAPED) * above_lognormal(at) + heaps


def above_humps(at):
    return (norm.sf(at, 60_000, 12_000) + norm.sf(at, 130_000, 25_000)) / 2


def above_crowd(at):
    return norm.sf(at, 100_000, 9_000)


def above_two_places(at):
    return 0.01 if 20_000 <= at < 250_000 else float(at < 20_000)


TWO_PLACES = (Heap(20_000.0, 0.99), Heap(250_000.0, 0.01))
HIDDEN = [
    (lognormal, above_lognormal, (), 55_500.0),
    (lognormal, above_lognormal, (), 212_500.0),
    (lognormal, above_lognormal, (), 600_000.0),  # next to nobody
    (heaped, above_heaped, HEAPS, 100_000.0),
    (heaped, above_heaped, HEAPS, 55_500.0),
    (humps, above_humps, (), 75_000.0),
    (humps, above_humps, (), 60_000.0),
    (crowd, above_crowd, (), 95_000.0),
    (crowd, above_crowd, (), 110_000.0),
    (at_two_places, above_two_places, TWO_PLACES, 20_000.0),
]
N = (40, 400, 4_000)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("people", "above", "heaps", "at", "campaigns"),
    [(*HIDDEN[0], 60), *(pytest.param(*case, 201, marks=pytest.mark.deep) for case in HIDDEN)],
)
def test_intervals_for_hard_shares_cover(people, above, heaps, at, campaigns):
    """2,010 hidden campaigns: 201 of each of these people, of 40, 400 and 4,000 by turns.

    At 95 % at least 189 hold, 94 %. By chance alone a tenth of exact intervals have fewer; that
    these do not is held by the seed, and they are a little too long for most people.
    """
    rng = np.random.default_rng([int(at), len(heaps)])
    bands = ChosenBands(CAMPAIGN, [ShareAbove(at)], heaps=heaps)
    truth, held = above(at), 0
    for number in range(campaigns):
        n = N[number % len(N)]
        (found,) = answered(bands, people(n, rng) + rng.laplace(0, B, n)).estimates
        held += found.hard.ci_low - 1e-12 <= truth <= found.hard.ci_high + 1e-12
    assert held >= math.ceil(0.94 * campaigns)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("mistake", ["heaps left out", "soft"])
def test_without_what_is_assumed_they_do_not(mistake):
    """The control: 20,000 people of whom 5 % have exactly $100,000, 20 campaigns."""
    heaps, rng, held = (Heap(100_000.0, 0.05),), np.random.default_rng(5), 0
    stated = heaps if mistake == "soft" else ()
    bands = ChosenBands(CAMPAIGN, [ShareAbove(100_000)], heaps=stated)
    truth = 0.95 * above_lognormal(100_000)
    for _ in range(20):
        x = np.where(rng.random(20_000) < 0.05, 100_000.0, lognormal(20_000, rng))
        (found,) = answered(bands, x + rng.laplace(0, B, len(x))).estimates
        ends = found if mistake == "soft" else found.hard
        held += ends.ci_low <= truth <= ends.ci_high
    assert held < 15


def test_a_stated_bound_chooses_the_shortest_interval():
    """The wider the less density changes."""
    rng = np.random.default_rng(1)
    points = lognormal(5_000, rng) + rng.laplace(0, B, 5_000)
    widths = []
    for slope in (0.0, 1e-11, 1e-10, 1e-8):
        (found,) = answered(ChosenBands(CAMPAIGN, [ShareAbove(100_000)], slope), points).estimates
        assert found.band.slope_bound == slope
        assert not found.band.from_reports
        bound = slope * found.band.width**2 / 40
        assert found.softness.bound == pytest.approx(bound, rel=0.01)
        widths.append(found.band.width)
    assert widths == sorted(widths, reverse=True)
    assert (widths[0], widths[-1]) == (16 * B, 2 * B)


def test_ranges_have_bands_that_they_have_room_for():
    asked = [ShareBetween(90_000, 98_000), ShareBetween(40_000, 120_000), ShareAbove(70_000)]
    rng = np.random.default_rng(2)
    points = lognormal(20_000, rng) + rng.laplace(0, B, 20_000)
    found = answered(ChosenBands(CAMPAIGN, asked), points).estimates
    assert [row.label for row in found] == [question.label for question in asked]
    assert found[0].band.width <= 8_000
    ends = [(9e4, 9.8e4), (4e4, 1.2e5), (7e4, math.inf)]
    for shown, (low, high) in zip(found, ends, strict=True):
        truth = above_lognormal(low) - above_lognormal(high)
        error = (shown.hard.ci_high - shown.hard.ci_low) / 2 / critical_value(0.0)
        assert abs(shown.hard.value - truth) < 4.9 * error + shown.softness.bound


def test_what_was_chosen_and_assumed_is_said():
    rng = np.random.default_rng(3)
    points = lognormal(2_000, rng) + rng.laplace(0, B, 2_000)
    heaps = (Heap(100_000.0, 0.0105),)
    shown = answered(ChosenBands(CAMPAIGN, [ShareAbove(100_000)], heaps=heaps), points)
    text = " ".join(shown.notes)
    assert "which proves nothing" in text
    assert "0.0105 hold exactly 100,000, as stated" in text
    (told,) = shown.to_dict()["estimates"]
    assert told["band"]["from_reports"]
    assert told["hard_share"]["ci_low"] < told["hard_share"]["value"]
    (row,) = shown.rows()
    hard = told["hard_share"]
    ends = row["hard_share_low"], row["hard_share_high"]
    assert (row["hard_share"], *ends) == (hard["value"], hard["ci_low"], hard["ci_high"])
    head = str(shown).splitlines()[2]
    assert {"hard share", "hard share interval"} <= set(re.split(" {2,}", head))
    stated = answered(ChosenBands(CAMPAIGN, [ShareAbove(100_000)], 1e-10), points)
    assert "1e-10 shares per unit² (as stated)" in " ".join(stated.notes)
    assert "no value near the question" in " ".join(stated.notes)


def test_one_report_chooses_nothing():
    bands = ChosenBands(CAMPAIGN, [ShareAbove(100_000)])
    (found,) = answered(bands, np.array([90_000.0])).estimates
    assert (found.hard, found.band, found.label) == (None, None, "above 100,000")
    assert "hard_share" not in answered(bands, np.array([90_000.0])).rows()[0]


def test_a_range_narrower_than_the_noise_has_bands_wherever_it_lies():
    """Both sharp thresholds fit into it, although ends are rounded; two halves of it did not."""
    for low in np.random.default_rng(1).uniform(0.0, 200_000.0, 100).tolist():
        bands = ChosenBands(CAMPAIGN, [ShareBetween(low, low + 100.1)])
        inside, outside = (question.query for question in bands.questions[-2:])
        assert isinstance(inside, Range)
        assert isinstance(outside, Range)
        assert low < inside.low - inside.width / 2 + 1e-6
        assert outside.low + outside.width / 2 < low + 1e-6


def test_what_has_no_band_is_refused():
    with pytest.raises(ParameterError, match="number of questions"):
        ChosenBands(CAMPAIGN, [ShareAbove(at) for at in range(41)])
    with pytest.raises(ParameterError, match="slope_bound"):
        ChosenBands(CAMPAIGN, [ShareAbove(1)], -1.0)
    soft = MeanOf(Threshold(1.0, 2.0, "smoothstep"), "soft")
    assert hard_shares([ShareAbove(1), soft]) == []
