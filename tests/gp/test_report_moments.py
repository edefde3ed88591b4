"""Test moments of reports, and bounds of a third moment, by simulation and linear programmes."""

import numpy as np
import pytest
from scipy.optimize import linprog

from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    LocalPrivacy,
    PlanarLaplace,
    PowerLaw,
    Radial,
    RandomizedResponse,
    Range,
    SmoothedRegion,
    SmoothMechanism,
    TabulatedProfile,
    Threshold,
)
from geoveil.gp.intervals import interval_of_mean
from geoveil.gp.report_moments import MomentsAskedOnce, ReportMoments

PRIVACY = GeoPrivacy(1.0, per=200.0)
STEP = Threshold(0.0, 600.0, "smoothstep")
SQUARE = [(-500.0, -500.0), (500.0, -500.0), (500.0, 500.0), (-500.0, 500.0)]
MECHANISM = DebiasedLaplace(STEP, PRIVACY)


def of_points(query):
    estimator = PlanarLaplace(PRIVACY, query.dimension).estimator(query, debias=True)
    return estimator.limits.moments()


def simulated(query, x):
    mechanism = PlanarLaplace(PRIVACY, query.dimension)
    points = mechanism.simulate(np.tile(x, (200_000, 1)), np.random.default_rng(1))
    values = mechanism.estimator(query, debias=True).value(points)
    return powers(values)


def powers(values):
    return [(np.mean(values**k), np.std(values**k) / np.sqrt(values.size)) for k in (1, 2, 3)]


def assert_between(moments, found):
    """A mixture of the rows of the moments is within five standard errors."""
    means, errors = np.array(found).T
    solved = linprog(
        np.zeros(len(moments.points)),
        A_ub=np.concatenate([moments.points.T, -moments.points.T]),
        b_ub=np.concatenate([means + 5 * errors, 5 * errors - means]),
        A_eq=np.ones((1, len(moments.points))),
        b_eq=[1.0],
    )
    assert solved.status == 0


@pytest.mark.parametrize("x", [-700.0, -300.0, 0.0, 100.0])
def test_moments_of_noisy_distances_are_those_of_reports(x):
    reports = MECHANISM.simulate(np.full(200_000, x), np.random.default_rng(1))
    assert_between(MECHANISM.report_moments(), powers(reports))


@pytest.mark.deep(rest=3)
@pytest.mark.parametrize(
    ("query", "x"),
    [
        (Range(-300.0, 500.0, 400.0, "smoothstep"), [-500.0]),
        (Range(-100.0, 100.0, 200.0, "smoothstep"), [0.0]),
        (GaussianKernel((0.0, 0.0), 300.0), [0.0, 0.0]),
        (GaussianKernel((0.0, 0.0, 0.0), 500.0), [200.0, 0.0, 0.0]),
        (SmoothedRegion(SQUARE, 250.0), [500.0, 0.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_moments_of_values_at_points_are_those_simulated(query, x):
    assert_between(of_points(query), simulated(query, x))


@pytest.mark.parametrize("x", [-700.0, -100.0, 0.0])
@pytest.mark.parametrize(
    "mechanism",
    [
        LipschitzMechanism(STEP, PRIVACY),
        SmoothMechanism(Threshold(0.0, 600.0), PRIVACY, noise=PowerLaw(1.0, 0.08)),
        SmoothMechanism(Threshold(0.0, 600.0), PRIVACY, beta=0.08 / 200),
    ],
    ids=["Lipschitz", "PowerLaw", "LaplacePareto"],
)
def test_moments_of_unbounded_noise_are_those_simulated(mechanism, x):
    reports = mechanism.simulate(np.full(200_000, x), np.random.default_rng(1))
    assert_between(mechanism.report_moments(), powers(reports))


def test_noise_without_a_variance_has_none():
    heavy = SmoothMechanism(STEP, PRIVACY, noise=PowerLaw(1.0, 0.6))
    assert heavy.report_moments() is None
    assert heavy.limits.third_moments(0.5, 0.2) != (0.0, 0.0)  # by the ends of a mean


@pytest.mark.parametrize("share", [0.003, 0.2, 0.7])
@pytest.mark.parametrize("excess", [1.02, 1.1, 1.25])
def test_the_third_moment_is_bounded_as_by_linear_programmes(share, excess):
    """Over all mixtures of the same people with the mean and E y²: nothing but their weights."""
    moments = MECHANISM.report_moments()
    first, second, third = moments.points.T
    mean, square = share, share * excess
    rows = np.array([np.ones_like(first), first, second])
    ends = [
        sign * linprog(sign * third, A_eq=rows, b_eq=[1.0, mean, square]).fun for sign in (1, -1)
    ]
    variance = square - mean**2
    expected = [end - 3 * mean * variance - mean**3 for end in ends]
    assert moments.third(mean, variance) == pytest.approx(expected, abs=1e-6)
    once = MomentsAskedOnce(moments.points, moments.laws)
    assert once.third(mean, variance) == pytest.approx(expected, abs=1e-6)


def test_asked_once_or_often_the_bounds_are_those_of_the_hull():
    """Also where no population is, and where all points lie in a line: there the hull is taken."""
    rng = np.random.default_rng(3)
    laws = [
        DebiasedLaplace(Range(-400.0, 500.0, 300.0, "smoothstep"), PRIVACY),
        LipschitzMechanism(STEP, PRIVACY),
        SmoothMechanism(STEP, PRIVACY),
    ]
    for moments in [*(law.report_moments() for law in laws), ReportMoments(np.eye(2, 3))]:
        assert moments is not None
        hulls = 0
        for times in (1.0, 1.0, 1.0, 1.0, 3.0):
            shares = rng.dirichlet(np.full(len(moments.points), 0.02))
            mean, square, _ = shares @ moments.points
            variance = max(times * square - mean**2, 0.01)
            once = MomentsAskedOnce(moments.points, moments.laws)
            found, expected = once.third(mean, variance), moments.third(mean, variance)
            assert np.abs(np.subtract(found, expected)).max() < 1e-6 * (1 + variance) ** 1.5
            hulls += "_facets" in vars(once)
        assert hulls < 3 or len(moments.points) == 2


def test_nobody_is_beyond_the_jumps():
    """E(y − m)³ of any mixture is within the jumps times E(y − m)²."""
    moments, rng = MECHANISM.report_moments(), np.random.default_rng(2)
    for mean in (0.0, 0.003, 0.4, 1.0):
        low, high = moments.jumps(mean)
        assert low < high <= MECHANISM.range[1] - mean
        for _ in range(50):
            chosen = rng.integers(moments.laws, size=4)
            first, second, third = rng.dirichlet([0.4] * 4) @ moments.points[chosen]
            square = second - 2 * mean * first + mean**2
            cube = third - 3 * mean * second + 3 * mean**2 * first - mean**3
            assert low * square - 1e-9 <= cube <= high * square + 1e-9


def test_people_who_all_answer_alike_have_bounds_too():
    moments = ReportMoments(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    assert moments.third(0.5, 0.25) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_a_person_far_away_counts_however_noisy_others_are():
    at, slopes = (-2.0, -1.0, -0.001, 0.001, 1.5, 2.5), (0.0, -0.5, -0.5, 0.5, 0.5, 0.0)
    ends = np.stack([slopes[:-1], slopes[1:]], axis=1)
    values = np.append(0.0, np.cumsum(ends.mean(axis=1) * np.diff(at)))
    turn = TabulatedProfile(at, tuple(values.tolist()), tuple(ends.ravel().tolist()))
    mechanism = DebiasedLaplace(Linear(turn, 1.0), GeoPrivacy(1.0, per=100.0))
    moments = mechanism.report_moments()
    _, second, third = moments.points[: moments.laws].T
    noisy = second > 1e-9 * second.max()
    assert (third[noisy] / second[noisy]).max() < -1e6  # where there is noise it all goes one way
    assert moments.jumps(0.0)[1] == pytest.approx(values[-1])  # far to the right there is none
    nobody = interval_of_mean(60, 0.0, 0.0, 0.95, mechanism.limits)
    assert nobody.high >= values[-1] * (1 - 0.025 ** (1 / 60))  # it was 0


def test_a_person_counts_whose_noise_points_away_from_their_mean():
    """Control: the ratio of their moments, which has the sign of the noise."""
    at, values = (0.0, 9.6, 10.1, 12.1), (0.95, 0.95, 0.25, 0.18)
    dip = TabulatedProfile(at, values, (0.0, 0.0, 0.0, -1.3, -1.3, 0.0), ray=True)
    mechanism = DebiasedLaplace(Radial(dip, 0.0), GeoPrivacy(1.0, per=1.0))
    truth = 0.98 * 0.18 + 0.02 * float(mechanism.query.value(10.9))
    interval = interval_of_mean(46, 0.18, 0.0, 0.95, mechanism.limits)  # nobody of them is met
    assert interval.low < truth < 0.18
    moments = mechanism.report_moments()
    first, second, third = moments.points[: moments.laws].T
    square = second - 2 * 0.18 * first + 0.18**2
    cube = third - 3 * 0.18 * second + 3 * 0.18**2 * first - 0.18**3
    met = square > 1e-9
    assert (cube[met] / square[met]).min() > -0.01


@pytest.mark.parametrize(
    ("kind", "privacy"),
    [
        (SmoothMechanism, GeoPrivacy(1.0, per=0.3)),
        (DebiasedLaplace, GeoPrivacy(1.0, per=0.3)),
        (LipschitzMechanism, GeoPrivacy(1.0, per=0.3)),
        (RandomizedResponse, LocalPrivacy(1.0)),
    ],
)
def test_values_far_from_zero_lose_no_third_moment(kind, privacy):
    """Four people have values from 0 to 3, or 100,000 more. The control measures from 0."""
    people, share = np.array([0.2, 0.9, 1.5, 3.0]), np.array([0.4, 0.1, 0.2, 0.3])

    def asked(away):
        values = tuple(away + y for y in (0.0, 3.0, 1.0, 2.0))
        mechanism = kind(
            Linear(TabulatedProfile((0.0, 1.0, 2.0, 4.0), values, (0.0,) * 6), 1.0), privacy
        )
        f, v = mechanism.moments(people)
        return mechanism.law(), share @ f, share @ (v + (f - share @ f) ** 2)

    near, mean, variance = asked(0.0)
    size = variance**1.5
    far, moved, spread = asked(100_000.0)
    third = near.third(mean, variance)
    np.testing.assert_allclose(far.third(moved, spread), third, atol=1e-6 * size)
    np.testing.assert_allclose(far.jumps(moved), near.jumps(mean), rtol=1e-6)
    first, second, cubes = far.points.T
    first, second, cubes = (
        first + 1e5,
        second + 2e5 * first + 1e10,
        cubes + 3e5 * second + 3e10 * first + 1e15,
    )
    low, high = ReportMoments(np.stack([first, second, cubes], axis=1)).third(moved, spread)
    assert high - low > third[1] - third[0] + 100 * size
