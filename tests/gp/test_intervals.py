"""Test the coverage of intervals: exactly for reports of 0 and 1, by simulation for mechanisms.

For reports of 0 and 1 every outcome is enumerated, so that coverage is computed, not estimated.
Simulated coverage of R campaigns is compared with a binomial at alpha = 1e-6. Student's interval,
which all of this is there to replace, must fail each comparison.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import optimize, stats

from benchmarks.intervals import B
from geoveil.gp import (
    Array,
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    Range,
    SmoothedRegion,
    SmoothMechanism,
    Threshold,
    intervals,
)
from geoveil.gp.intervals import (
    Interval,
    IntervalMethod,
    _gamma_quantile,
    _moved_quantile,
    _student_quantile,
    interval_of_mean,
    interval_of_weighted_mean,
    kept_within,
    margins_of_mean,
    reach_at_all_looks,
)
from geoveil.gp.limits import UNLIMITED, Limits
from geoveil.gp.report_moments import ReportMoments

SHARE = Limits((0.0, 1.0), (0.0, 1.0))
FULL, STUDENT = IntervalMethod.FULL_ENDS, IntervalMethod.STUDENT
SEQUENCE = IntervalMethod.SEQUENCE
PRIVACY = GeoPrivacy(1.0, B, "dollar")


def of_share(n, count, confidence, limits=SHARE, method=None, noise=0.0):
    share = count / n
    return interval_of_mean(n, share, share * (1 - share) + noise, confidence, limits, method)


def most_misses(n, confidence, method, limits=SHARE, noise=0.0):
    """Return the largest chance to miss a share, as a multiple of the chance that is stated.

    Between neighbouring ends of intervals the same run of counts covers a share p. The chance of
    such a run rises with p, then falls. So it is least beside an end, where all outcomes are
    summed. The shares tried are those up to 200/n and a half, and one next to 0.
    """
    counts = np.arange(min(n, 400) + 1)
    found = [of_share(n, int(count), confidence, limits, method, noise) for count in counts]
    low, high = np.array([(f.low, f.high) for f in found]).T
    ends = np.append(low, high)
    ends = ends[(ends > 0) & (ends <= min(0.5, 200 / n))]
    return max(
        1 - stats.binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum()
        for p in np.concatenate([[0.1 / n], ends * (1 - 1e-9), ends * (1 + 1e-9)])
    ) / (1 - confidence)


@pytest.mark.deep(keep=21)
@pytest.mark.parametrize("n", [6, 10, 20, 53, 104, 1_000, 20_000])
@pytest.mark.parametrize(
    ("confidence", "weighted", "full"),
    [
        (0.8, 1.25, 1.1),
        (0.9, 1.3, 1.05),
        (0.95, 1.24, 1.01),
        (0.99, 1.26, 1),
        (0.999, 1.29, 1),
        (0.9999, 1.31, 1),
    ],
)
def test_every_share_is_covered(n, confidence, weighted, full):
    """Missed at most a third more often than stated; by full ends at most a tenth more often."""
    assert most_misses(n, confidence, None) <= weighted
    assert most_misses(n, confidence, FULL) <= full
    assert most_misses(n, confidence, STUDENT) > 4


@pytest.mark.parametrize("n", [104, 1_000])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_numbers_at_the_ends_of_a_range_are_covered(n, confidence, monkeypatch):
    """Where noise is little, missed at most a third more often. Control: a third moment of 0."""
    numbers = Limits(means=(0.0, 1.0)), 1e-9
    assert most_misses(n, confidence, None, *numbers) <= 4 / 3
    monkeypatch.setattr(Limits, "third_moments", lambda *_: (0.0, 0.0))
    assert most_misses(n, confidence, None, *numbers) > 1.45


@pytest.mark.parametrize("weighted", [False, True])
def test_a_few_people_at_either_end_are_covered(
    weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 % at either end, the others between, 233 people, by enumeration at 99 %.

    Control: margins that the skewness of the sample shortens.
    """
    n, ends = 233, np.array([0.0, 1.0, 0.5])
    moments = ReportMoments(ends[:, None] ** [1, 2, 3])
    limits = Limits((0.0, 1.0), (0.0, 1.0), lambda: moments)
    counts = np.array([(low, high, n - low - high) for low in range(26) for high in range(26)])
    likely = stats.multinomial.pmf(counts, n, [0.03, 0.03, 0.94])

    def interval(shares: Array) -> Interval:
        mean = float(shares @ ends)
        variance, third = (float(shares @ (ends - mean) ** power) for power in (2, 3))
        if not weighted:
            return interval_of_mean(n, mean, variance, 0.99, limits)
        alike = {"largest": 1 / n, "freedom": n - 1}
        skewness = third / max(variance, 1e-9) ** 1.5 / math.sqrt(n)
        error = variance / (n - 1)
        return interval_of_weighted_mean(mean, error, 0.99, limits, skewness=skewness, **alike)

    def missed() -> float:
        each = [interval(row / n) for row in counts]
        return 1 - float(likely[[of.low <= 0.5 <= of.high for of in each]].sum())

    assert missed() < 0.01 * 4 / 3
    monkeypatch.setattr(intervals, "_BOTH", math.inf)
    monkeypatch.setattr(intervals, "_student", lambda *_: (0.0, 0.0))  # nor at the limits
    assert missed() > 0.02


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


@pytest.mark.parametrize("n", [6, 20, 40])
def test_an_imagined_report_is_one_more_in_the_list(n):
    """The limit is computed a second time from the reports themselves, with weights of Dirichlet:
    their mean has the variance v/(N + 1) and the third moment 2k/((N + 1)(N + 2))."""
    rng = np.random.default_rng(1)
    reports = rng.choice([-0.6, 0.0, 0.3, 1.0, 1.6], n, p=[0.05, 0.6, 0.2, 0.1, 0.05])
    limits = Limits((-0.6, 1.6), (-9.0, 9.0))
    mean = reports.mean()
    found = interval_of_mean(n, mean, reports.var(), 0.95, limits, FULL)
    more = np.append(reports, 1.6)
    m, v, total = more.mean(), more.var(), len(more)
    third = v * ((1.6 - m) - v / (1.6 - m))
    error = math.sqrt(v / (total + 1))
    skewness = 2 * third / ((total + 1) * (total + 2)) / error**3
    exact = m + error * stats.pearson3.ppf(0.975, skewness)
    assert found.high - mean == pytest.approx(exact - mean, rel=5e-4)
    assert margins_of_mean(n, 1.6, 0.0, 0.95, limits, FULL)[1] == 0.0


def moved(skewness, quantile):
    """The quantile of a studentised mean by SciPy's gamma law, with negative skewness damped."""
    kept = 1.0 if skewness >= 0 else 1 - min(max((-skewness - 0.2) / 0.3, 0.0), 1.0)
    sign, size = math.copysign(1.0, skewness), abs(skewness) * kept
    if not size:
        return quantile
    law = stats.gamma(1 / size**2 + 0.5 * kept)
    return sign * size * (law.ppf(stats.norm.cdf(sign * quantile)) - 1 / size**2)


@pytest.mark.parametrize("skewness", [-0.3, -0.1, 0.0, 1e-6, 0.05, 0.1, 0.3])
def test_quantiles_of_skewed_means_are_those_of_a_gamma_law(skewness):
    for probability in (0.95, 0.975):
        normal = float(stats.norm.ppf(probability))
        assert _moved_quantile(skewness, normal) == pytest.approx(moved(skewness, normal), rel=1e-3)
        if skewness >= 0:
            exact = stats.pearson3.ppf(probability, skewness)
            assert _gamma_quantile(skewness, normal) == pytest.approx(exact, rel=3e-4)
    assert _moved_quantile(1.0, -6.0) == -1.0, "a gamma law is of numbers above 0"


def limit_of_list(reports, jump, confidence, skewness=None, moved=moved):
    """The upper limit from a list with a person more, of up to half a weight; `skewness` is its own
    unless it is stated."""
    n, probability = len(reports), (1 + confidence) / 2
    effect = jump / math.sqrt(n * np.var(reports))
    share = min(max((effect - 0.2) / 0.3, 0.0), 1.0)
    weights = np.append(np.ones(n), share / 2)
    more = np.append(reports, np.mean(reports) + jump)
    total, mean = weights.sum(), np.average(more, weights=weights)
    variance = np.average((more - mean) ** 2, weights=weights)
    third = np.average((more - mean) ** 3, weights=weights)
    if skewness is not None:
        off = (skewness - stats.skew(reports) / math.sqrt(n)) * np.var(reports) ** 1.5 * n**1.5
        third += off / total
    student, normal = stats.t.ppf(probability, n - 1), stats.norm.ppf(probability)
    quantile = student + share * (normal - student)
    skewness = third / variance**1.5 / math.sqrt(total)
    return mean + math.sqrt(variance / (total - 1)) * moved(skewness, quantile)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("n", "count"), [(60, 1), (60, 2), (60, 9), (60, 30), (400, 8)])
def test_weighted_ends_are_those_of_a_list_with_a_person_more(n, count, confidence):
    """Reports are 0 or 1, which have the largest skewness within these ends; margins to 0.7 %."""
    reports, share = np.repeat([0.0, 1.0], [n - count, count]), count / n
    found = of_share(n, count, confidence)
    above = limit_of_list(reports, 1 - share, confidence) - share
    assert found.high - share == pytest.approx(above, rel=7e-3)
    below = limit_of_list(-reports, share, confidence) + share
    assert share - found.low == pytest.approx(min(below, share), rel=7e-3)
    # To the last digits with the approximation of the gamma quantile that is used.
    above = limit_of_list(reports, 1 - share, confidence, moved=_moved_quantile) - share
    below = limit_of_list(-reports, share, confidence, moved=_moved_quantile) + share
    margins = margins_of_mean(n, share, share * (1 - share), confidence, SHARE)
    assert margins == pytest.approx((below, above), rel=1e-9)
    assert margins_of_mean(n, 1.0, 0.0, confidence, SHARE)[1] == 0.0


def test_a_skewness_that_is_not_known_is_tolerated_up_to_half_a_miss_more():
    """Below the most that ends permit, of two-point laws, but not below the middle."""
    reports = np.repeat([0.0, 0.4, 1.0], [10, 50, 20])
    n, mean, variance = 80, reports.mean(), reports.var()
    bounds = []
    for distance in (-mean, 1 - mean):
        atoms = np.array([distance, -variance / distance])
        chances = np.array([variance, distance**2]) / (variance + distance**2)
        assert chances @ atoms**2 == pytest.approx(variance)
        bounds.append(chances @ atoms**3 / variance**1.5 / math.sqrt(n))
    for confidence in (0.9, 0.95, 0.99):
        z = stats.norm.ppf((1 + confidence) / 2)
        allowed = optimize.brentq(
            lambda error, z=z: (
                stats.norm.sf(z - error * (1 + 2 * z**2) / 6) - 1.5 * stats.norm.sf(z)
            ),
            0,
            1,
        )
        skewness = max(sum(bounds) / 2, bounds[1] - allowed)
        found = interval_of_mean(n, mean, variance, confidence, SHARE)
        exact = limit_of_list(reports, 1 - mean, confidence, skewness, _moved_quantile)
        assert found.high - mean == pytest.approx(exact - mean, rel=1e-6)
        mirrored = interval_of_mean(n, 1 - mean, variance, confidence, SHARE)
        assert mirrored.low == pytest.approx(1 - found.high)


def test_at_all_looks_people_are_imagined_at_each_end():
    """The oracle adds ln 10 / 2 reports to the list, and weighs all of them by a Dirichlet law."""
    reports = np.repeat([0.0, 1.0], [290, 10])
    found = interval_of_mean(300, reports.mean(), reports.var(), 0.9, SHARE, SEQUENCE)
    total = 300 + math.log(10) / 2
    share = (total - 290) / total
    error = math.sqrt(share * (1 - share) / (total + 1))
    assert found.high == pytest.approx(share + reach_at_all_looks(300, 0.9) * error)
    mirrored = interval_of_mean(300, 1 - reports.mean(), reports.var(), 0.9, SHARE, SEQUENCE)
    assert mirrored.low == pytest.approx(1 - found.high)
    varied = interval_of_mean(10_000, 0.4, 0.24, 0.9, SHARE, SEQUENCE)
    total = 10_000 + math.log(10) / 2
    margin = reach_at_all_looks(10_000, 0.9) * math.sqrt(10_000 * 0.24 / total / (total + 1))
    assert (varied.low, varied.high) == pytest.approx((0.4 - margin, 0.4 + margin))


@pytest.mark.parametrize("method", [*IntervalMethod])
@pytest.mark.parametrize(("n", "count"), [(20, 1), (60, 9), (400, 8)])
def test_an_interval_has_the_unit_and_the_origin_of_its_reports(n, count, method):
    share = count / n
    found = margins_of_mean(n, share, share * (1 - share), 0.95, SHARE, method)
    limits = Limits((-3.0, 4.0), (-3.0, 4.0))
    moved = margins_of_mean(n, 7 * share - 3, 49 * share * (1 - share), 0.95, limits, method)
    assert moved == pytest.approx((7 * found[0], 7 * found[1]), rel=1e-9)
    other = margins_of_mean(n, 1 - share, share * (1 - share), 0.95, SHARE, method)
    assert other == pytest.approx(found[::-1], rel=1e-9)


def test_nobody_is_imagined_endlessly_far():
    endless = margins_of_mean(100, 0.3, 0.2, 0.95, UNLIMITED, IntervalMethod.WEIGHTED_ENDS)
    assert endless == margins_of_mean(100, 0.3, 0.2, 0.95, UNLIMITED, STUDENT)


def test_without_skewness_and_far_people_it_is_students_to_the_last_digits():
    found = of_share(60, 30, 0.95)
    assert found.high - 0.5 == pytest.approx(stats.t.ppf(0.975, 59) * math.sqrt(0.25 / 59), 1e-12)
    assert 0.5 - found.low == pytest.approx(found.high - 0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("ends", "mean", "variance"), [((-5.0, 1.0), 0.4, 0.24), ((-1.0, 0.8), -0.9, 1 / 12)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_somebody_far_on_either_side_widens_the_interval_there(ends, mean, variance, sign):
    n, mean, (low, high) = 300, sign * mean, sorted(sign * end for end in ends)
    limits = Limits((low, high))
    side = 0 if mean - low > high - mean else 1
    far = max(mean - low, high - mean)
    more = math.log(20) / 2
    shift = more * far / (n + more)
    error = math.sqrt(((n * variance + more * far**2) / (n + more) - shift**2) / (n + more + 1))
    at_all_looks = margins_of_mean(n, mean, variance, 0.95, limits, SEQUENCE)[side]
    assert at_all_looks == pytest.approx(shift + reach_at_all_looks(n, 0.95) * error)
    found = margins_of_mean(n, mean, variance, 0.95, limits)[side]
    assert found > 1.02 * margins_of_mean(n, mean, variance, 0.95, limits, STUDENT)[side]


def test_many_varied_reports_get_students_interval():
    found = interval_of_mean(10_000, 0.4, 0.24, 0.95, SHARE)
    student = interval_of_mean(10_000, 0.4, 0.24, 0.95, UNLIMITED)
    assert (found.low, found.high) == (student.low, student.high)
    assert found.method is IntervalMethod.WEIGHTED_ENDS
    assert student.method is STUDENT
    margin = stats.t.ppf(0.975, 9_999) * math.sqrt(0.24 / 9_999)
    assert student.high - 0.4 == pytest.approx(margin, rel=1e-12)


def test_students_quantile_is_that_of_scipy_wherever_it_comes_from():
    """To the last digits on both sides of where the expansion takes over, and far out."""
    for probability in (0.6, 0.975, 1 - 1e-6, 1 - 1e-12):
        square = float(stats.norm.ppf(probability)) ** 2
        for freedom in (3.0, 401.0, 399 * (1 + square), 401 * (1 + square), 1e7, 1e12):
            found = _student_quantile(freedom, probability)
            assert found == pytest.approx(stats.t.ppf(probability, freedom), rel=2e-14, abs=0)
    assert _student_quantile(1e9, 1.0) == math.inf


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


LAW = DebiasedLaplace(Threshold(100_000.0, 24_000.0, "smoothstep"), PRIVACY).limits
FREE = SmoothMechanism(Threshold(100_000.0, 24_000.0), PRIVACY).limits


@pytest.mark.parametrize(
    "limits", [SHARE, LAW, FREE, UNLIMITED], ids=["ends", "law", "free", "none"]
)
@pytest.mark.parametrize("variance", [0.0, 5e-324, 1e-300, 1e-206, 1e-150, 1e-20, 0.1])
def test_a_variance_that_underflows_is_as_good_as_none(limits, variance):
    for n in (2, 100, 10**6):
        for mean, method in product((0.0, 1e-110, 0.3, 1.0), (None, FULL)):
            chosen = method if limits.bounded else None
            found = interval_of_mean(n, mean, variance, 0.95, limits, chosen)
            assert math.isfinite(found.high - found.low)
            assert found.low <= mean + 1e-9
            assert found.high >= mean - 1e-9
    bound = interval_of_mean(100, 0.3, 0.0, 0.95, limits)
    near = interval_of_mean(100, 0.3, 5e-324, 0.95, limits)
    assert (near.low, near.high) == pytest.approx((bound.low, bound.high), abs=1e-6)


def test_an_interval_is_of_what_can_be_and_moved_there_if_all_of_it_is_not():
    limits = Limits((-0.7, 1.7), (0.0, 1.0))
    assert interval_of_mean(5_000, 0.001, 0.04, 0.95, limits).low == 0.0
    for mean in (-0.1, 0.0, 1.0, 1.1):
        found = interval_of_mean(5_000, mean, 0.04, 0.95, limits)
        assert 0 <= found.low < found.high <= 1, mean
        assert found.low <= min(max(mean, 0.0), 1.0) <= found.high, mean


def test_an_interval_beside_what_can_be_keeps_its_width():
    ends = (0.0, 1.0)
    assert kept_within(-0.5, 0.0, ends) == kept_within(-0.75, -0.25, ends) == (0.0, 0.5)
    assert kept_within(1.0, 1.5, ends) == kept_within(1.25, 1.75, ends) == (0.5, 1.0)
    assert kept_within(0.25, 0.5, ends) == (0.25, 0.5)
    assert kept_within(-1.0, 2.0, ends) == kept_within(2.0, 9.0, ends) == ends


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
