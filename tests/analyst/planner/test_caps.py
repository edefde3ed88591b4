"""Test caps by a public prior against brute force over pairs of sides."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst.planner import HistogramPrior, LogNormalPrior, SamplePrior
from geoveil.analyst.planner.caps import ChosenCap, cheapest_cap, default_cap, least_cap
from geoveil.campaign import (
    Allocation,
    Attribute,
    Question,
    Readings,
    SmoothSpec,
    StatisticCampaign,
)
from geoveil.gp import (
    Cap,
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    LipschitzMechanism,
    Range,
    SmoothMechanism,
    Threshold,
    UnsupportedError,
    VectorSmoothMechanism,
)
from geoveil.simulation.populations import household_incomes

INCOME = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
STEP = Threshold(100_000.0, 24_000.0, "smoothstep")


@pytest.fixture(scope="module")
def incomes():
    people = household_incomes()
    return SamplePrior(people.values, people.weights)


def total(mechanism, prior):
    """Return the variance of a report of somebody drawn from the prior."""
    ends = mechanism.query.varies_within or ()
    points, weights = prior.nodes(sorted(float(end) for pair in ends for end in pair))
    value = mechanism.query.unclipped.value(points)
    mean = np.sum(weights * value)
    return float(np.sum(weights * (mechanism.variance(points) + (value - mean) ** 2)))


def factor(query, cap, prior, kind=DebiasedLaplace):
    capped = kind(cap.on(query, INCOME.exact_rate), INCOME)
    return total(capped, prior) / total(kind(query, INCOME), prior)


def test_the_demo_s_threshold_is_capped_for_what_is_promised(incomes):
    """Any two incomes at most e^8 for at most 1.05 times the total variance, e^6 for 1.12."""
    found = least_cap([DebiasedLaplace(STEP, INCOME)], incomes)
    assert found.cap.below + found.cap.above <= 8
    assert found.factor <= 1.05
    assert found.factor == pytest.approx(factor(STEP, found.cap, incomes), rel=1e-9)
    points, weights = incomes.nodes(STEP.varies_within[0])
    capped = DebiasedLaplace(found.cap.on(STEP, INCOME.exact_rate), INCOME).variance(points)
    free = DebiasedLaplace(STEP, INCOME).variance(points)
    assert found.noise_factor == pytest.approx((weights @ capped) / (weights @ free), rel=1e-6)
    assert found.noise_factor > 1.05 >= factor(STEP, Cap(4.0, 4.0), incomes)
    assert factor(STEP, Cap(3.0, 3.0), incomes) <= 1.12
    half = least_cap([DebiasedLaplace(STEP, INCOME)], incomes, cost=0.12)
    assert half.cap.below + half.cap.above <= 6


@pytest.mark.parametrize(
    ("share", "together"), [(0.49, 7.5), (0.18, 8.5), (0.05, 9.9), (0.02, 11.0), (0.003, 12.75)]
)
def test_rarer_answers_need_more_room_outside_and_no_more_inside(incomes, share, together):
    points, weights = incomes.nodes()
    at = float(points[np.searchsorted(np.cumsum(weights), 1 - share)])
    query = Threshold(at, 24_000.0, "smoothstep")
    found = least_cap([DebiasedLaplace(query, INCOME)], incomes)
    assert found.cap.below + found.cap.above == pytest.approx(together, abs=0.26)
    assert found.cap.above < 4 < found.cap.below + 0.5
    assert factor(query, found.cap, incomes) <= 1.05 + 1e-9
    nearer = Cap(found.cap.below - 0.125, found.cap.above)
    assert factor(query, nearer, incomes) > 1.05


@pytest.mark.parametrize(
    "query", [STEP, Range(60_000.0, 140_000.0, 24_000.0, "smoothstep")], ids=["above", "between"]
)
@pytest.mark.parametrize(
    "prior",
    [
        LogNormalPrior(11.1, 0.8),
        HistogramPrior([0, 50_000, 100_000, 200_000, 400_000], [30, 40, 20, 10]),
        SamplePrior([20_000.0, 75_000.0, 104_000.0, 150_000.0, 300_000.0]),
    ],
    ids=["law", "histogram", "sample"],
)
@pytest.mark.parametrize("kind", [DebiasedLaplace, SmoothMechanism])
def test_no_pair_of_sides_is_less_and_as_cheap(query, prior, kind):
    """The oracle clips the mechanism and adds up its variances, at 20 sides around those chosen."""
    found = least_cap([kind(query, INCOME)], prior)
    assert factor(query, found.cap, prior, kind) == pytest.approx(found.factor, rel=1e-3)
    chosen = found.cap.below + found.cap.above
    for below in np.arange(found.cap.below - 0.5, found.cap.below + 0.51, 0.125):
        for above in np.arange(found.cap.above - 0.5, found.cap.above + 0.51, 0.25):
            if below + above < chosen - 0.01 and min(below, above) >= 1.5:
                cap = Cap(float(below), float(above))
                assert factor(query, cap, prior, kind) > 1.05 - 1e-3


@pytest.mark.parametrize("most", [4.1, 3.5])
def test_no_pair_of_sides_within_a_sum_is_cheaper(most):
    """The oracle clips the mechanism at every pair of sides whose sum is no more."""
    prior = SamplePrior([20_000.0, 75_000.0, 104_000.0, 150_000.0, 300_000.0])
    found, least = cheapest_cap([DebiasedLaplace(STEP, INCOME)], prior, most)
    assert found.cap.below + found.cap.above <= most
    sides = np.arange(1.5, most - 1.4, 0.125)
    pairs = [(float(b), float(a)) for b in sides for a in sides if b + a <= most]
    cheapest = min(factor(STEP, Cap(*pair), prior) for pair in pairs)
    assert found.factor == pytest.approx(cheapest, rel=1e-9)
    assert (least, cheapest_cap([DebiasedLaplace(STEP, INCOME)], prior, 2.875)[0]) == (3.0, None)


def test_several_questions_each_cost_so_little(incomes):
    rich = Threshold(400_000.0, 24_000.0, "smoothstep")
    alone = [least_cap([DebiasedLaplace(q, INCOME)], incomes).cap for q in (STEP, rich)]
    both = least_cap([DebiasedLaplace(q, INCOME) for q in (STEP, rich)], incomes)
    assert both.cap.below == max(cap.below for cap in alone)
    assert all(factor(q, both.cap, incomes) <= 1.05 + 1e-9 for q in (STEP, rich))


def test_a_kernel_is_clipped_where_it_has_faded_and_noise_of_one_scale_where_f_settles(incomes):
    bell = GaussianKernel(100_000.0, 16_000.0)
    found = least_cap([DebiasedLaplace(bell, INCOME)], incomes)
    assert found.cap.above >= 2 * 3.7169  # 0.001 of the bell
    flat = least_cap([LipschitzMechanism(STEP, INCOME)], incomes)
    assert (flat.cap, flat.factor) == (Cap(1.5, 1.5), 1.0)


def asking(*queries, **more):
    questions = tuple(Question(f"q{i}", query) for i, query in enumerate(queries))
    return StatisticCampaign(
        campaign_id="c",
        title="C",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=INCOME,
        questions=questions,
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2027, 1, 1, tzinfo=UTC),
        **more,
    )


def test_without_a_prior_it_is_4_scales_a_side_or_what_is_needed_if_it_promises_something(incomes):
    bells = [GaussianKernel(100_000.0, width) for width in (16_000.0, 24_000.0)]
    assert default_cap(asking(STEP)) == ChosenCap(Cap(4.0, 4.0))
    assert default_cap(asking(bells[0])) == ChosenCap(Cap(4.0, 7.5))  # no distance is below 0
    assert default_cap(asking(bells[1])) is None  # 11.2 scales
    assert default_cap(asking(STEP, STEP, allocation=Allocation.SPLIT)) is None  # 8 each
    assert default_cap(asking(STEP), incomes) == least_cap([DebiasedLaplace(STEP, INCOME)], incomes)
    paper = SmoothSpec(noise="student-t", nu=3.0, calibration="paper", reach=math.inf)
    assert default_cap(asking(STEP, mechanism=paper)) is None
    assert default_cap(asking(STEP, mechanism=SmoothSpec())) == ChosenCap(Cap(4.0, 4.0))
    assert default_cap(asking(STEP, readings=Readings(every=timedelta(days=7)))) is None


def test_where_none_is_cheap_there_is_none(incomes):
    rare = Threshold(5e6, 24_000.0, "smoothstep")
    assert least_cap([SmoothMechanism(rare, INCOME)], incomes, cost=1e-6) is None
    vector = VectorSmoothMechanism([STEP, Threshold(200_000.0, 24_000.0)], INCOME)
    with pytest.raises(UnsupportedError, match="depends on all its queries"):
        least_cap(vector.answers, incomes)
    together = asking(*vector.queries, mechanism=SmoothSpec(), allocation=Allocation.VECTOR)
    assert default_cap(together, incomes) is None
