"""Numbers perturbed before the question: thresholds, ranges and kernels in one dimension.

Oracles: the definitions in mpmath (oracles.py), finite differences, Monte Carlo.
"""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    PlanarLaplace,
    Query,
    Range,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.queries import FormulaProfile, Gaussian, Linear, Radial, Smoothstep

PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6)
B = 4.0
STEP = Threshold(2.0, 9.0, "smoothstep")
BELL = GaussianKernel(2.0, 6.0)
BOTH = Range(-7.0, 11.0, 9.0, "smoothstep")
TOUCHING = Range(1.0, 6.0, 5.0, "smoothstep")
QUERIES: list[Query] = [STEP, BELL, BOTH, TOUCHING]
POINTS = (-30.0, 2.0, 3.5, 15.0, 60.0)


def exact_f(oracles: Any, query: Query, x: Any) -> Any:
    return oracles.value(query, oracles.signed_distance(query, x))


def exact_g(oracles: Any, query: Query, x: Any, b: Any = B) -> Any:
    """f − b²f'', its f'' by the oracle's curvature: |s'| = 1 wherever f varies."""
    return oracles.debiased(query, oracles.signed_distance(query, x), b)


def exact_moment(oracles: Any, query: Query, x: float, power: int, debias: bool) -> Any:
    """E[(g(x + N) − level)^power], N Laplace, level the nearer of 0 and 1, by mpmath."""
    level = 0 if query is BELL or exact_f(oracles, query, mp.mpf(x)) < 0.5 else 1
    marks = {
        -300.0,
        400.0,
        x,
        x - 12 * B,
        x + 12 * B,
        x - B,
        x + B,
        x - 4 * B,
        x + 4 * B,
        -90.0,
        110.0,
    }
    for end in (-7.0, 11.0, 2.0, 1.0, 6.0):
        marks |= {end, end - 4.5, end + 4.5, end - 2.5, end + 2.5}
    function = exact_g if debias else exact_f

    def integrand(v: Any) -> Any:
        value = function(oracles, query, v) - level
        return value**power * mp.exp(-abs(v - x) / B) / (2 * B)

    return mp.quad(integrand, sorted(marks), method="gauss-legendre"), level


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_g_is_f_less_its_curvature(query):
    """g = f − b²f'' with f'' by central differences, away from its jumps."""
    estimator = PlanarLaplace(PRIVACY, 1).estimator(query, debias=True)
    x = np.random.default_rng(1).uniform(-15, 20, 400)
    jumps = np.array([2.0 - 4.5, 2.0 + 4.5, -7.0 - 4.5, -7.0 + 4.5, 11.0 - 4.5, 11.0 + 4.5])
    jumps = np.concatenate([jumps, [-1.5, 3.5, 8.5]])
    x = x[np.min(np.abs(x[:, None] - jumps), axis=1) > 0.01]
    step = 1e-3
    curvature = (query.value(x + step) - 2 * query.value(x) + query.value(x - step)) / step**2
    np.testing.assert_allclose(
        estimator.value(x), query.value(x) - B**2 * curvature, rtol=0, atol=1e-7
    )


@pytest.mark.deep
@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_mean_and_variance(oracles, query, debias):
    """Both to 1e-8 of themselves, where the variance is 1e-14 too; the mean is f if unbiased."""
    estimator = PlanarLaplace(PRIVACY, 1).estimator(query, debias=debias)
    assert estimator.unbiased == debias
    for x in POINTS:
        mean, level = exact_moment(oracles, query, x, 1, debias)
        second, _ = exact_moment(oracles, query, x, 2, debias)
        assert estimator.mean(x) == pytest.approx(float(mean + level), rel=1e-8, abs=1e-13)
        expected = float(second - mean**2)
        assert estimator.variance(x) == pytest.approx(expected, rel=1e-8, abs=0)
        if debias:
            f = float(exact_f(oracles, query, mp.mpf(x)))
            assert float(mean + level) == pytest.approx(f, abs=1e-12)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_monte_carlo(oracles, query):
    """z-test of mean and variance: n = 400,000, α = 1e-6; plugged in, or b off by 5 %, fails."""
    mechanism = PlanarLaplace(PRIVACY, 1)
    estimator, plugged = (mechanism.estimator(query, debias=flag) for flag in (True, False))
    wrong = [
        PlanarLaplace(GeoPrivacy(0.9 * factor, per=3.6), 1).estimator(query, debias=True)
        for factor in (1.05, 1 / 1.05)
    ]
    count, limit = 400_000, scipy.stats.norm.isf(oracles.ALPHA / 2)
    z = oracles.standard_errors
    rng = np.random.default_rng(3)
    failed = [False, False, False]
    for x in (0.0, 2.0, 4.0, 9.0):
        points = mechanism.simulate(np.full(count, x), rng)
        f = float(query.value(x))
        y = estimator.value(points)
        assert z(y, f) <= limit
        assert z((y - f) ** 2, float(estimator.variance(x))) <= limit
        controls = [plugged, *wrong]
        failed = [a or z(e.value(points), f) > limit for a, e in zip(failed, controls, strict=True)]
    assert all(failed), "the controls must fail"


@pytest.mark.deep(keep=0)
def test_narrow_noise_in_a_wide_range(oracles):
    """Deep inside and far outside, the variance keeps its relative accuracy."""
    query = Range(0.0, 1000.0, 10.0, "smoothstep")
    estimator = PlanarLaplace(GeoPrivacy(1.0, per=2.0), 1).estimator(query, debias=True)
    end = Threshold(0.0, 10.0, "smoothstep")
    with mp.workdps(50):
        for x in (-90.0, -20.0, 0.0, 4.0, 90.0):
            expected = oracles.debiased_variance(end, x, mp.mpf(2))
            assert estimator.variance(x) == pytest.approx(float(expected), rel=1e-9, abs=0)
            assert estimator.variance(1000 - x) == pytest.approx(float(expected), rel=1e-9, abs=0)


def bump(u: Any, ops: Any) -> Any:
    """(1 − u²)³ within 1: its slope and curvature go on evenly through 0, and end at 0."""
    inside = ops.maximum(1 - u * u, ops.constant(0))
    return inside * inside * inside


def decay(u: Any, ops: Any) -> Any:
    return ops.exp(-ops.absolute(u))


PROJECTED: dict[str, Callable[[], Query]] = {
    "a falling step": lambda: Linear(Smoothstep(9.0), -3.0, offset=1.5),
    "a rising step": lambda: Linear(Smoothstep(9.0), 2.0, offset=1.5),
    "a formula": lambda: Radial(FormulaProfile(bump, 12.0, extent=1.0), 1.5),
    "a bell": lambda: Radial(Gaussian(6.0), 1.5),
}


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("name", PROJECTED)
@pytest.mark.parametrize("debias", [False, True])
def test_projected_queries(oracles, name, debias):
    """Mean and variance over the noise by quadrature of the values; unbiased if debiased."""
    query = PROJECTED[name]()
    estimator = PlanarLaplace(PRIVACY, 1).estimator(query, debias=debias)
    ends = (-6.0, -3.0, 3.0, 1.5 - 12, 1.5, 1.5 + 12, 6.0, -1.5, -90.0, 90.0)
    for x in (-5.0, 1.0, 8.0):
        marks = [*ends, x, x - B, x + B, x - 3 * B, x + 3 * B, x - 40 * B, x + 40 * B]

        def moment(power: int, level: float, x: float = x, marks: list[float] = marks) -> float:
            def weighted(v: np.ndarray) -> np.ndarray:
                density = np.exp(-np.abs(v - x) / B) / (2 * B)
                return np.asarray((estimator.value(v) - level) ** power * density)

            return float(oracles.gauss(weighted, marks))

        mean = moment(1, 0.0)
        assert estimator.mean(x) == pytest.approx(mean, rel=0, abs=1e-9)
        assert estimator.variance(x) == pytest.approx(moment(2, mean), rel=1e-8, abs=0)
        gap = abs(mean - float(query.value(x)))
        assert gap <= 1e-9 if debias else gap > 1e-3


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", ["formula", "smoothstep"])
def test_a_corner_at_the_centre_is_not_debiased(name):
    """|x + N − c| is not |x − c| + N: here the point has the noise, not its distance."""
    query = Radial(FormulaProfile(decay, 5.0) if name == "formula" else Smoothstep(9.0), 1.5)
    mechanism = PlanarLaplace(PRIVACY, 1)
    with pytest.raises(UnsupportedError, match="DebiasedLaplace"):
        mechanism.estimator(query, debias=True)
    assert np.array_equal(mechanism.estimator(query).value([0.0, 4.0]), query.value([0.0, 4.0]))


@pytest.mark.parametrize(
    "query", [Linear(Gaussian(6.0), (1.0, 2.0)), Radial(Smoothstep(9.0), (0, 0))]
)
def test_projections_of_the_plane_are_not_debiased(query):
    with pytest.raises(UnsupportedError, match="DebiasedLaplace"):
        PlanarLaplace(PRIVACY, 2).estimator(query, debias=True)


def test_a_radial_bell_is_the_kernel():
    points = np.random.default_rng(1).normal(size=(9, 2)) * 5
    mechanism = PlanarLaplace(PRIVACY, 2)
    bell, kernel = Radial(Gaussian(6.0), (1.0, 2.0)), GaussianKernel((1.0, 2.0), 6.0)
    values = [mechanism.estimator(query, debias=True).value(points) for query in (bell, kernel)]
    assert np.array_equal(*values)
