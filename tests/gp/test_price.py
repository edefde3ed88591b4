"""Test the noise variance of answers against quadrature, enumeration and campaigns."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.analyst.labelled_estimate import Price, bounded_noise_variance
from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    ParameterError,
    PlanarLaplace,
    Query,
    Range,
    SmoothedRegion,
    SmoothMechanism,
    TabulatedProfile,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.deconvolution import KernelEstimator
from geoveil.gp.deconvolution.kernel import planar_expectation
from geoveil.gp.estimation import Accumulator, estimate
from geoveil.gp.limits import UNLIMITED, Limits
from geoveil.gp.mechanisms.base import QueryMechanism
from geoveil.gp.price import (
    Basis,
    NoiseVariance,
    estimated_noise_variance,
)
from geoveil.gp.queries import FormulaProfile, Radial
from geoveil.simulation.comparison import RadialLaplace

Array = NDArray[np.float64]
B = 4.0
PRIVACY = GeoPrivacy(1.0, per=B)
LINE = PlanarLaplace(PRIVACY, 1)
PLANE = PlanarLaplace(PRIVACY, 2)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
# Functions, as a formula takes a while: it is enclosed by whoever runs these tests.
ON_THE_LINE: dict[str, Callable[[], Query]] = {
    "smoothstep": lambda: Threshold(2.0, 9.0, "smoothstep"),
    "wide smoothstep": lambda: Threshold(2.0, 40.0, "smoothstep"),
    "range": lambda: Range(-7.0, 11.0, 9.0, "smoothstep"),
    "kernel": lambda: GaussianKernel(2.0, 6.0),
    "bell": lambda: Linear(FormulaProfile(lambda u, ops: ops.exp(-u * u), scale=5.0), (1.0,), 1.0),
    "cauchy": lambda: Radial(FormulaProfile(lambda u, ops: 1 / (1 + u * u), scale=5.0), (2.0,)),
}


@pytest.fixture(scope="module", params=list(ON_THE_LINE))
def query(request):
    """A query about one number."""
    return ON_THE_LINE[request.param]()


def over_laplace(function: Any, x: float, marks: list[float]) -> float:
    """Return E[function(x + N)], N Laplace, by Gauss-Legendre between marks."""
    edges = np.unique(np.concatenate([marks, x + np.linspace(-40 * B, 40 * B, 401)]))
    half = np.diff(edges)[:, None] / 2
    at = edges[:-1, None] + half * (1 + NODES)
    density = np.exp(-np.abs(at - x) / B) / (2 * B)
    return float(np.sum(half * WEIGHTS * density * function(at.ravel()).reshape(at.shape)))


@pytest.mark.deep
@pytest.mark.parametrize("x", [-9.0, 2.0, 5.5, 30.0])
def test_on_the_line_the_mean_is_the_variance(query, x):
    """To 1e-6, the quadrature of g² against that of h. Control: not with half of the bend."""
    estimator = LINE.estimator(query, debias=True)
    marks = [2 + k for k in (-20, -12, -4.5, 4.5, 12, 20)] + [-11.5, -2.5, 6.5, 15.5]
    second = over_laplace(lambda v: estimator.value(v) ** 2, x, marks)
    variance = second - float(query.value(x)) ** 2
    found = over_laplace(estimator.estimated_variance, x, marks)
    assert found == pytest.approx(variance, rel=1e-6, abs=1e-9)

    def half(v: Array) -> Array:
        return np.asarray(
            estimator.estimated_variance(v) - (estimator.value(v) - query.value(v)) ** 2 / 2
        )

    assert over_laplace(half, x, marks) < 0.999 * variance


@pytest.mark.deep
@pytest.mark.parametrize(("h", "dimension"), [(2.0, 2), (6.0, 2), (12.0, 2), (6.0, 3)])
def test_of_kernels_the_mean_is_the_variance(h, dimension):
    """To 1e-5 of the greatest. Control: not with the debiased form of another bell for f²."""
    mechanism = PlanarLaplace(PRIVACY, dimension)
    center = (0.0,) * dimension
    estimator = mechanism.estimator(GaussianKernel(center, h), debias=True)
    assert isinstance(estimator, KernelEstimator)
    distances = np.array([0.0, 0.7, 1.5, 4.0])

    def over_noise(function: Any) -> Array:
        # A constant is taken off, as the quadrature wants a positive integrand.
        shift = np.abs(estimator.variance_limits or (0.0, 0.0)).max() if h > B else 0.0
        return planar_expectation(lambda r, _: function(r) + shift, distances, B / h, dimension) - (
            shift
        )

    points = np.zeros((len(distances), dimension))
    points[:, 0] = distances * h
    variance = estimator.variance(points)
    found = over_noise(estimator.variance_at)
    assert found == pytest.approx(variance, abs=1e-5 * variance.max())
    other = over_noise(lambda r: estimator.at(r) ** 2 - estimator.at(math.sqrt(2) * r))
    assert np.abs(other - variance).max() > 1e-3 * variance.max()


def test_of_regions_the_mean_is_the_variance():
    """By 40,000 draws at each place, within 4.4 standard errors; α = 1e-5 each."""
    estimator = PLANE.estimator(SmoothedRegion(Disc((0.0, 0.0), 24.0, 1.0), 6.0), debias=True)
    rng = np.random.default_rng(1)
    for x in (0.0, 20.0, 30.0):
        points = np.tile([x, 0.0], (40_000, 1))
        drawn = estimator.estimated_variance(np.asarray(PLANE.simulate(points, rng)))
        error = 4.4 * drawn.std() / math.sqrt(len(drawn))
        assert abs(drawn.mean() - float(estimator.variance([[x, 0.0]])[0])) < error
        assert estimator.variance_limits is not None
        low, high = estimator.variance_limits
        assert low - 1e-5 <= drawn.min()
        assert drawn.max() <= high + 1e-5


@pytest.mark.deep(keep=5)
def test_it_stays_within_its_limits(query):
    estimator = LINE.estimator(query, debias=True)
    found = estimator.estimated_variance(np.linspace(-60, 60, 1_200_001))
    assert estimator.variance_limits is not None
    low, high = estimator.variance_limits
    assert low == 0.0 <= found.min()
    assert found.max() == pytest.approx(high, rel=1e-4)  # it may jump where it is greatest
    assert found.max() <= high * (1 + 1e-5)


def test_a_biased_estimator_has_none():
    for mechanism, query in (
        (LINE, ON_THE_LINE["smoothstep"]()),
        (PLANE, GaussianKernel((0.0, 0.0), 6.0)),
        (PLANE, SmoothedRegion(Disc((0.0, 0.0), 24.0, 1.0), 6.0)),
    ):
        plain = mechanism.estimator(query)  # type: ignore[arg-type]  # either kind of query
        assert plain.variance_limits is None
        with pytest.raises(UnsupportedError):
            plain.estimated_variance(np.zeros((1, mechanism.dimension)))


def people(kind: str, n: int, rng: np.random.Generator) -> Array:
    if kind == "rare":
        return np.where(rng.random(n) < 0.02, 5.0, -60.0)
    if kind == "heaped":
        return np.where(rng.random(n) < 0.3, 2.0, rng.normal(0, 20, n))
    return rng.normal(0, 20, n)


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("kind", ["rare", "heaped", "smooth"])
@pytest.mark.parametrize("n", [20, 400, 5_000])
def test_intervals_from_points_cover(kind, n):
    """At least 94 % of 1,000 campaigns at 95 %. Control: not those for noise of 0.7 the scale."""
    rng = np.random.default_rng([n, len(kind)])
    query = Threshold(2.0, 12.0, "smoothstep")
    estimator = LINE.estimator(query, debias=True)
    ends = estimator.variance_limits
    assert ends is not None
    held = wrong = 0
    values = np.linspace(-120.0, 120.0, 4_801)
    variances = DebiasedLaplace(query, PRIVACY).variance(values)
    for _ in range(1_000):
        x = people(kind, n, rng)
        truth = np.interp(x, values, variances).mean()
        total = float(estimator.estimated_variance(x + rng.laplace(0, B, n)).sum())
        found = estimated_noise_variance(n, total, ends, 0.95)
        assert found is not None
        assert found.value is not None
        assert found.low <= found.value <= found.high
        held += found.low <= truth <= found.high
        wrong += found.low <= 2 * truth <= found.high
    assert held >= 940
    assert wrong < 940 or n == 20


MECHANISMS: list[QueryMechanism] = [
    DebiasedLaplace(Threshold(2.0, 12.0, "smoothstep"), PRIVACY),
    DebiasedLaplace(Threshold(2.0, 40.0, "smoothstep"), PRIVACY),
    DebiasedLaplace(GaussianKernel((2.0, 0.0), 6.0), PRIVACY),
    SmoothMechanism(Threshold(2.0, 12.0, "smoothstep"), PRIVACY),
]


def bounds_of(mechanism: QueryMechanism, answers: Array) -> NoiseVariance:
    sums = Accumulator.of(np.rint(answers / mechanism.step).astype(int).tolist())
    limits = Limits(getattr(mechanism, "range", UNLIMITED.reports), (0.0, 1.0))
    found = estimate(sums, mechanism.step_exponent, limits=limits)
    assert found.ci_low is not None
    assert found.ci_high is not None
    excess = float(np.mean(answers**2 - answers))
    return bounded_noise_variance(
        mechanism, len(answers), (found.ci_low, found.ci_high), excess, limits, 0.95
    )


@pytest.mark.deep
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{m.query.profile}"[:24])
@pytest.mark.parametrize("kind", ["rare", "heaped", "smooth"])
def test_the_law_of_a_mechanism_bounds_its_noise(mechanism, kind):
    """At least 94 % of 60 campaigns of 2,000."""
    rng = np.random.default_rng(len(kind))
    values = np.linspace(-120.0, 120.0, 4_801)
    line = mechanism.dimension == 1
    variances = mechanism.variance(values if line else np.stack([values, 0 * values], axis=1))
    held = 0
    for _ in range(60):
        x = people(kind, 2_000, rng)
        points = x if line else np.stack([x, np.zeros_like(x)], axis=1)
        found = bounds_of(mechanism, np.asarray(mechanism.simulate(points, rng)))
        assert found.basis is Basis.BOUNDED
        held += found.low <= np.interp(x, values, variances).mean() <= found.high
    assert held >= 57


@pytest.mark.deep
def test_no_people_are_outside_the_bounds():
    """40 random laws on a few values, from what reports say of them on average.

    Control: what another mechanism's law allows does not hold for a fifth of them.
    """
    mechanism = DebiasedLaplace(Threshold(2.0, 12.0, "smoothstep"), PRIVACY)
    other = DebiasedLaplace(Threshold(2.0, 12.0, "smoothstep"), GeoPrivacy(0.7, per=B))
    rng = np.random.default_rng(4)
    inside = 0
    for _ in range(40):
        x, share = rng.normal(2, 12, 5), rng.dirichlet(np.full(5, 0.5))
        value, noise = mechanism.mean(x), mechanism.variance(x)
        mean, truth = float(share @ value), float(share @ noise)
        excess = truth + float(share @ value**2) - mean
        ends = mean - 1e-3, mean + 1e-3
        limits = Limits(mechanism.range, (0.0, 1.0))
        found = bounded_noise_variance(mechanism, 10**8, ends, excess, limits, 0.95)
        assert found.low - 1e-4 <= truth <= found.high + 1e-4
        wrong = bounded_noise_variance(other, 10**8, ends, excess, limits, 0.95)
        inside += wrong.low <= truth <= wrong.high
    assert inside < 32


def test_the_bounds_are_met_by_people_who_make_noise_largest():
    """All beside the threshold, and nobody elsewhere; the lower end where nobody is near."""
    mechanism = MECHANISMS[0]
    limits = Limits((-2.0 / 3, 5.0 / 3), (0.0, 1.0))
    for place, end in ((2.0, "high"), (-1e4, "low")):
        mean, noise = mechanism.mean([place])[0], mechanism.variance([place])[0]
        excess = noise + mean**2 - mean
        found = bounded_noise_variance(
            mechanism, 10**12, (mean - 1e-6, mean + 1e-6), excess, limits, 0.95
        )
        assert getattr(found, end) == pytest.approx(noise, abs=1e-4)
    with pytest.raises(ParameterError, match="noise variance"):
        NoiseVariance(None, 1.0, 0.5, Basis.BOUNDED)


@pytest.mark.parametrize("zero", [1_900.0, 1e5])
def test_bounds_do_not_depend_on_where_numbers_have_their_zero(zero):
    """The numbers are years of birth, say, of 100,000 people.

    Control: the mean of y² − y tells less of numbers far from 0 than their noise may be.
    """
    found, people, steep = [], np.linspace(30.0, 90.0, 61), (0.0, 1.25, 1.25, 1.25, 1.25, 0.0)
    for first in (0.0, zero):
        years = tuple(first + year for year in (0.0, 10.0, 110.0, 120.0))
        table = TabulatedProfile((0.0, 20.0, 100.0, 120.0), years, steep)
        mechanism = DebiasedLaplace(Linear(table, 1.0), PRIVACY)
        value, noise, limits = mechanism.mean(people), mechanism.variance(people), mechanism.limits
        mean, n = float(value.mean()), 100_000
        excess = float(np.mean(noise + (value - first) * (value - first - 120.0)))
        ends = mean - 0.2, mean + 0.2
        found.append(bounded_noise_variance(mechanism, n, ends, excess, limits, 0.95))
    assert found[1].low == pytest.approx(found[0].low, rel=1e-3)
    assert found[1].high == pytest.approx(found[0].high, rel=1e-3)
    assert found[0].low > 0.8 * noise.mean()
    u, top = np.mean(noise + value**2 - value), limits.reports[1] ** 2 - limits.reports[1]
    assert 1.96 * math.sqrt((top - u) * (u + 0.25) / n) > mechanism.largest_variance


def test_the_noise_of_a_few_people_may_be_unseen():
    """20 of 1,000 people are at a threshold that is 1/20 of the noise wide.

    With the probability 0.6 none of them answers anything but 0 or 1. Control: the error of the
    mean of y² − y by the answers themselves.
    """
    mechanism = DebiasedLaplace(Threshold(0.0, 1.0, "smoothstep"), GeoPrivacy(1.0, per=20.0))
    noise, limits = 0.02 * mechanism.variance([0.0])[0], Limits(mechanism.range, (0.0, 1.0))
    assert math.exp(-0.5 / 20.0) ** 20 > 0.6
    assert noise <= bounded_noise_variance(mechanism, 1_000, (0.0, 0.02), 0.0, limits, 0.95).high
    _, high = limits.reports
    assert 1.96 * math.sqrt((high**2 - high) / 4 / 1_000) < 0.1 * noise


def test_the_noise_of_a_few_people_may_happen_to_be_seen():
    """2 of 20,000 people are in the middle of a step that is 1/8 of the noise wide.

    With the probability 0.11 one of them answers ±256. Control: Wilson's lower limit.
    """
    parabolas = TabulatedProfile((0.0, 1.0, 2.0), (0.0, 0.5, 1.0), (0.0, 1.0, 1.0, 0.0))
    mechanism, n = DebiasedLaplace(Linear(parabolas, 1.0), GeoPrivacy(1.0, per=16.0)), 20_000
    noise, limits = 2 / n * mechanism.variance([1.0])[0], Limits(mechanism.range, (0.0, 1.0))
    assert 2 * math.exp(-1 / 16.0) * -math.expm1(-1 / 16.0) > 0.11
    found = bounded_noise_variance(mechanism, n, (0.0, 0.05), 256.0**2 / n, limits, 0.95)
    assert found.low < noise < found.high
    assert 256.0**2 / n * (2.92 - 2.744) > 1.3 * noise  # 1 + z²/2 − z√(1 + z²/4) of an answer


def test_noise_that_is_the_same_everywhere_is_known_exactly():
    mechanism = LipschitzMechanism(Threshold(2.0, 12.0), PRIVACY)
    found = bounded_noise_variance(mechanism, 100, (0.4, 0.6), 0.0, UNLIMITED, 0.95)
    variance = float(mechanism.variance([0.0])[0])
    assert found == NoiseVariance(variance, variance, variance, Basis.EXACT)
    price = Price.of(found, 2 * variance, (1.5 * variance, 3 * variance))
    assert (price.value, price.low, price.high) == pytest.approx((2.0, 1.5, 3.0))
    assert Price.of(found, 0.5 * variance, (0.4 * variance, 2 * variance)).value == math.inf


def test_of_biased_noise_nothing_is_known():
    mechanism = RadialLaplace(Threshold(2.0, 12.0, "smoothstep"), PRIVACY)
    found = bounded_noise_variance(mechanism, 100, (0.4, 0.6), 0.0, UNLIMITED, 0.95)
    assert (found.low, found.high) == (0.0, math.inf)
    assert mechanism.largest_variance == math.inf
