"""Intervals cover: exactly for reports of 0 and 1, by simulation for mechanisms.

For reports of 0 and 1 every outcome is enumerated, so that coverage is computed, not estimated.
Simulated coverage of R campaigns is compared with a binomial at alpha = 1e-6. Student's interval,
which all of this is there to replace, must fail each comparison.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    Range,
    SmoothedRegion,
    SmoothMechanism,
    Threshold,
)
from geoveil.gp.intervals import UNLIMITED, IntervalMethod, Limits, interval_of_mean

SHARE = Limits((0.0, 1.0), (0.0, 1.0))
FULL, STUDENT = IntervalMethod.FULL_ENDS, IntervalMethod.STUDENT
ALPHA = 1e-6
B = 8_000.0
PRIVACY = GeoPrivacy(1.0, B, "dollar")


def of_share(n, count, confidence, limits=SHARE, method=None):
    share = count / n
    return interval_of_mean(n, share, share * (1 - share), confidence, limits, method)


def least_coverage(n, confidence, method, shares):
    """Return the least coverage over shares: the sum of all outcomes whose interval holds it."""
    counts = np.arange(min(n, 400) + 1)
    found = [of_share(n, int(count), confidence, method=method) for count in counts]
    low, high = np.array([(f.low, f.high) for f in found]).T
    return min(
        stats.binom.pmf(counts, n, p)[(low <= p + 1e-12) & (p <= high + 1e-12)].sum()
        for p in shares
    )


@pytest.mark.parametrize("n", [10, 20, 50, 200, 1_000, 20_000])
@pytest.mark.parametrize(("confidence", "least"), [(0.95, 0.94), (0.99, 0.985)])
def test_every_share_is_covered(n, confidence, least):
    expected = np.concatenate([np.arange(0.1, 30, 0.4), np.arange(30, 200, 5.3)])
    shares = expected[expected <= n / 2] / n
    assert least_coverage(n, confidence, None, shares) >= least
    assert least_coverage(n, confidence, FULL, shares) >= confidence
    assert least_coverage(n, confidence, STUDENT, shares) < 0.2


@pytest.mark.parametrize(
    ("confidence", "within"), [(0.9, 0.03), (0.95, 0.03), (0.99, 0.03), (0.999, 0.07)]
)
@pytest.mark.parametrize("n", [20, 300, 5_000])
def test_full_ends_are_next_to_clopper_and_pearson(n, confidence, within):
    """Their exact limits are quantiles of a beta law; those here are next to them."""
    for count in (0, 1, 2, 5, 10):
        found = of_share(n, count, confidence, method=FULL)
        exact = stats.beta.ppf((1 + confidence) / 2, count + 1, n - count)
        assert found.high == pytest.approx(exact, rel=within)


def test_an_imagined_report_is_one_more_in_the_list():
    """The limit is computed a second time from the reports themselves, with weights of Dirichlet:
    their mean has the variance v/(N + 1) and the third moment 2k/((N + 1)(N + 2))."""
    rng = np.random.default_rng(1)
    reports = rng.choice([-0.6, 0.0, 0.3, 1.0, 1.6], 40, p=[0.05, 0.6, 0.2, 0.1, 0.05])
    limits = Limits((-0.6, 1.6), (0.0, 1.0))
    found = interval_of_mean(40, reports.mean(), reports.var(), 0.95, limits, FULL)
    more = np.append(reports, 1.6)
    m, v, total = more.mean(), more.var(), len(more)
    third = v * ((1.6 - m) - v / (1.6 - m))
    error = math.sqrt(v / (total + 1))
    skewness = 2 * third / ((total + 1) * (total + 2)) / error**3
    exact = m + error * stats.pearson3.ppf(0.975, skewness)
    assert found.high == pytest.approx(exact, rel=2e-3)


def test_no_skewness_is_more_than_the_ends_permit():
    """Every law on [0, 1] has a third moment of at most v(d − v/d), d from the mean to 1."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        values, weights = rng.uniform(0, 1, 4), rng.dirichlet([0.4] * 4)
        m = weights @ values
        v, third = weights @ (values - m) ** 2, weights @ (values - m) ** 3
        assert third <= v * ((1 - m) - v / (1 - m)) + 1e-12
    p = 0.03  # attained by two points, one at the end
    v = p * (1 - p)
    assert v * ((1 - p) - v / (1 - p)) == pytest.approx(p * (1 - p) ** 3 - (1 - p) * p**3)


def test_many_varied_reports_get_students_interval():
    found = interval_of_mean(10_000, 0.4, 0.24, 0.95, SHARE)
    student = interval_of_mean(10_000, 0.4, 0.24, 0.95, UNLIMITED)
    assert (found.low, found.high) == (student.low, student.high)
    assert found.method is IntervalMethod.WEIGHTED_ENDS
    assert student.method is STUDENT
    margin = stats.t.ppf(0.975, 9_999) * math.sqrt(0.24 / 9_999)
    assert student.high - 0.4 == pytest.approx(margin, rel=1e-12)


@pytest.mark.parametrize("method", [None, FULL])
@pytest.mark.parametrize("n", [2, 3, 1_000])
def test_equal_reports_are_no_certainty(method, n):
    """All at an end, as three people with $300,000 and a question about $100,000."""
    above = interval_of_mean(n, 1.0, 0.0, 0.95, SHARE, method)
    assert above.high == 1.0
    assert above.low <= 1 - stats.beta.ppf(0.975, 1, n) * 0.97
    below = interval_of_mean(n, 0.0, 0.0, 0.95, SHARE, method)
    assert (below.low, below.high) == pytest.approx((0.0, 1 - above.low))
    middle = interval_of_mean(n, 0.5, 0.0, 0.95, SHARE, method)
    assert middle.low < 0.5 < middle.high


def test_what_no_mean_can_be_is_cut_off_unless_all_of_it_is():
    limits = Limits((-0.7, 1.7), (0.0, 1.0))
    assert interval_of_mean(5_000, 0.001, 0.04, 0.95, limits).low == 0.0
    beyond = interval_of_mean(5_000, -0.1, 0.04, 0.95, limits)
    assert beyond.low < beyond.high < 0


def test_full_ends_need_ends():
    with pytest.raises(ParameterError, match="noise without bound"):
        interval_of_mean(9, 0.3, 1.0, 0.95, Limits(means=(0.0, 1.0)), FULL)
    with pytest.raises(ParameterError, match="low < high"):
        Limits((1.0, 0.0))
    with pytest.raises(ParameterError, match="low < high"):
        Limits(means=(0.0, math.nan))


@given(
    st.lists(st.integers(-20, 20), min_size=2, max_size=40),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.sampled_from([None, *IntervalMethod]),
)
def test_an_interval_holds_its_mean_and_grows_with_confidence(reports, confidence, method):
    mean = Fraction(sum(reports), len(reports))
    variance = float(Fraction(sum(k * k for k in reports), len(reports)) - mean**2)
    limits = Limits((-20.0, 20.0), (-20.0, 20.0))
    n = len(reports)
    found = interval_of_mean(n, float(mean), variance, confidence, limits, method)
    assert -20 <= found.low <= mean <= found.high <= 20
    wider = interval_of_mean(n, float(mean), variance, (1 + confidence) / 2, limits, method)
    assert wider.low <= found.low + 1e-12
    assert wider.high >= found.high - 1e-12


@pytest.mark.parametrize(
    ("scale", "query"),
    [
        (200.0, Threshold(0.0, 400.0, "smoothstep")),
        (200.0, Range(-500.0, 500.0, 400.0, "smoothstep")),
        (300.0, GaussianKernel((0.0,), 300.0)),
        (300.0, GaussianKernel((0.0, 0.0), 300.0)),
        (700.0, GaussianKernel((0.0, 0.0), 300.0)),
        (300.0, GaussianKernel((0.0, 0.0, 0.0), 300.0)),
        (300.0, SmoothedRegion([(-500, -500), (500, -500), (500, 500), (-500, 500)], 250.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_estimators_from_points_stay_within_their_limits(scale, query):
    """Searched along lines through the centre; both ends are come near to."""
    mechanism = PlanarLaplace(GeoPrivacy(1.0, scale), query.dimension)
    estimator = mechanism.estimator(query, debias=True)
    r = np.linspace(-4_000, 4_000, 80_001)
    rays = [[1.0], [1.0, 0.0], [1.0, 0.0, 0.0]][query.dimension - 1]
    values = estimator.value(r if query.dimension == 1 else r[:, None] * rays)
    low, high = estimator.limits.reports
    room = 1e-3 * (high - low)
    assert low - room <= values.min()
    assert values.max() <= high + room
    assert values.max() > high - 0.1 * (high - low)
    assert estimator.limits.means == (0.0, 1.0)


def campaigns(mechanism, places, weights, n, repeats, seed, method=None, limits=None):
    """Return how many of so many intervals of 95 % hold the mean over the population."""
    rng = np.random.default_rng(seed)
    places = np.array(places, np.float64)
    truth = float(np.dot(weights, mechanism.mean(places).ravel()))
    x = places[rng.choice(len(places), (repeats, n), p=weights)]
    reports = mechanism.simulate(x.reshape(-1), rng).reshape(repeats, n)
    limits = limits or Limits(mechanism.range, mechanism.query.profile.bounds)
    held = 0
    for mean, variance in zip(reports.mean(axis=1), reports.var(axis=1), strict=True):
        found = interval_of_mean(n, mean, variance, 0.95, limits, method)
        held += found.low <= truth <= found.high
    return held


SMOOTH = DebiasedLaplace(Threshold(0.0, 3 * B, "smoothstep"), PRIVACY)
FAR, NEAR, EDGE, ABOVE = -20 * B, -4.5 * B, -1.5 * B, 20 * B
HARD = {
    "three in a thousand above": ((FAR, ABOVE), (0.997, 0.003)),
    "one place, three scales beside the band": ((NEAR,), (1.0,)),
    "one place, at the band's edge": ((EDGE,), (1.0,)),
    "one place, in the middle": ((0.0,), (1.0,)),
    "a mixture": ((FAR, NEAR, 0.0, ABOVE), (0.9, 0.09, 0.005, 0.005)),
}


def fewest(repeats, coverage=0.94):
    return stats.binom.ppf(ALPHA, repeats, coverage)


@pytest.mark.parametrize("name", HARD)
def test_hard_populations_are_covered(name):
    assert campaigns(SMOOTH, *HARD[name], n=100, repeats=500, seed=3) >= fewest(500)


def test_students_interval_is_caught():
    held = campaigns(SMOOTH, *HARD["three in a thousand above"], 100, 500, 3, STUDENT)
    assert held < fewest(500) / 2


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("n", [10, 30, 1_000, 10_000])
@pytest.mark.parametrize("name", HARD)
def test_hard_populations_are_covered_at_every_size(name, n):
    """2,000 campaigns each, so that a true coverage of 91 % is seen."""
    assert campaigns(SMOOTH, *HARD[name], n=n, repeats=2_000, seed=n) >= fewest(2_000)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("n", [10, 100, 1_000])
def test_noise_without_bound_is_guarded_by_what_a_mean_can_be(n):
    """Far from the band noise that is scaled by the slope is next to none: Student's collapses."""
    mechanism = SmoothMechanism(Threshold(0.0, 3 * B), PRIVACY, beta=0.3 / B)
    limits = Limits(means=(0.0, 1.0))
    places, weights = (-30 * B, ABOVE), (0.997, 0.003)
    held = campaigns(mechanism, places, weights, n, 1_000, n, limits=limits)
    assert held >= fewest(1_000)
    assert campaigns(mechanism, places, weights, n, 1_000, n, limits=UNLIMITED) < fewest(1_000)
