"""Test f, L and B of every query against mpmath values and suprema over grids of pairs."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import GaussianKernel, Query, Threshold
from tests.oracles import MAKERS

INFINITY = math.inf
BETA_SIZES = (1e-3, 0.1, 0.3, 1.0, 3.0, 12.0)
SIZES = (16_000.0, 0.37, 3e-3)
SUPPORTED = list(itertools.product(MAKERS, ("exponential", "linear"), (0.0, INFINITY)))


def probes(size: float) -> np.ndarray:
    """Points in, at the edge of, near, and far from where f varies, on both sides."""
    near = np.linspace(-3, 3, 25)
    edges = np.array([-0.5, 0.5, np.nextafter(0.5, 1), -1, 1, 1 - 1e-4, 1 + 1e-4, 1 + 1e-7])
    far = np.array([-4.5, 5.0, 7.0, -11.0, 30.0, 150.0])
    return np.concatenate([near, edges, far]) * size


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("size", SIZES)
def test_value_is_the_profile_of_the_signed_distance(oracles, name, size):
    query = MAKERS[name](size)
    points = probes(size)
    with mp.workdps(30):
        expected = [
            float(oracles.value(query, oracles.signed_distance(query, float(x)))) for x in points
        ]
    np.testing.assert_allclose(query.value(points), expected, rtol=2e-13, atol=1e-15)


def test_value_of_shifted_and_planar_queries(oracles):
    threshold = Threshold(at=100_000, width=16_000, profile="smoothstep")
    planar = GaussianKernel(center=(300.0, -200.0, 50.0), bandwidth=120.0)
    points = np.random.default_rng(5).normal(size=(40, 3)) * 150 + np.asarray(planar.center)
    with mp.workdps(30):
        for x in (91_999.0, 92_000.0, 96_000.5, 100_000.0, 107_999.0, 1e15, -1e15):
            expected = float(oracles.value(threshold, oracles.signed_distance(threshold, x)))
            assert float(threshold.value(x)) == pytest.approx(expected, rel=1e-13, abs=1e-16)
        expected_planar = [
            float(oracles.value(planar, oracles.signed_distance(planar, list(map(float, x)))))
            for x in points
        ]
    np.testing.assert_allclose(planar.value(points), expected_planar, rtol=1e-12)


def test_value_keeps_the_shape():
    threshold, planar = MAKERS["linear"](1.0), GaussianKernel((0.0, 0.0), 1.0)
    assert threshold.value(0.25).shape == ()
    assert threshold.value(np.zeros((3, 4))).shape == (3, 4)
    assert threshold.value([]).shape == (0,)
    assert planar.value((0.0, 1.0)).shape == ()
    assert planar.value(np.zeros((5, 2))).shape == (5,)
    assert planar.value(np.zeros((0, 2))).shape == (0,)
    assert planar.smooth_bound(np.zeros((5, 2)), 1.0).shape == (5,)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("size", SIZES)
def test_lipschitz_constant_is_the_steepest_slope(oracles, name, size):
    query = MAKERS[name](size)
    with mp.workdps(30):
        assert query.lipschitz == pytest.approx(float(oracles.lipschitz(query)), rel=1e-15, abs=0)
    s = np.linspace(-3, 3, 60_001) * size
    steepest = np.max(np.abs(np.diff(oracles.float_value(query, s))) / np.diff(s))
    assert steepest <= query.lipschitz * (1 + 1e-9)
    assert steepest >= query.lipschitz * (1 - 1e-6)


@pytest.mark.deep(keep=11)
@pytest.mark.parametrize(("name", "growth", "reach"), SUPPORTED)
@pytest.mark.parametrize("beta_size", BETA_SIZES)
def test_bound_is_the_supremum(oracles, name, growth, reach, beta_size):
    for size in SIZES:
        query = MAKERS[name](size)
        beta, points = beta_size / size, probes(size)
        brute = oracles.brute_force_bound(query, points, beta, growth, reach)
        ours = query.smooth_bound(points, beta, growth=growth, reach=reach)
        assert np.all(ours >= brute * (1 - 1e-9)), "below the definition"
        # A grid of step 16/3000 misses a smooth maximum by a few 1e-6.
        assert np.all(ours <= brute * (1 + 2e-5)), "above the definition"


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("reach", [0.0, INFINITY])
def test_brute_force_tells_a_wrong_bound(oracles, reach):
    """Control: the bound of a β one per cent off, or of the other reach, is told apart."""
    query, points = MAKERS["kernel"](1.0), probes(1.0)
    brute = oracles.brute_force_bound(query, points, 0.5, "exponential", reach)
    assert np.any(query.smooth_bound(points, 0.505, reach=reach) < brute * (1 - 1e-4))
    assert np.any(query.smooth_bound(points, 0.495, reach=reach) > brute * (1 + 1e-4))
    other = query.smooth_bound(points, 0.5, reach=INFINITY - reach if reach == 0 else 0.0)
    assert np.max(np.abs(other / brute - 1)) > 1e-2


@pytest.mark.deep(keep=8)
@pytest.mark.parametrize(("name", "growth", "reach"), SUPPORTED)
@pytest.mark.parametrize("beta_size", BETA_SIZES)
def test_bound_is_smooth(name, growth, reach, beta_size):
    query = MAKERS[name](2.5)
    beta = beta_size / 2.5
    rng = np.random.default_rng(11)
    x = np.concatenate(
        [np.linspace(-8, 8, 700), rng.normal(size=200) * 3, 1 + np.logspace(-9, -2, 60), [40.0]]
    )
    x = np.sort(np.concatenate([x, -x])) * 2.5
    bound = query.smooth_bound(x, beta, growth=growth, reach=reach)
    t = beta * np.abs(x[:, None] - x[None, :])
    log_growth = t if growth == "exponential" else np.log1p(t)
    excess = np.log(bound)[:, None] - np.log(bound)[None, :] - log_growth
    assert np.max(excess) <= 1e-11


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize(("name", "growth", "reach"), SUPPORTED)
def test_bound_far_from_the_band(oracles, name, growth, reach):
    """Still the supremum where f has long been constant: the noise must not vanish."""
    query = MAKERS[name](1.0)
    for distance in (1e2, 1e4, 1e6, 1e8, 1e12):
        beta = 3 / distance if reach == 0 else 0.4
        brute = float(oracles.brute_force_bound(query, [distance], beta, growth, reach)[0])
        for x in (distance, -distance):
            ours = float(query.smooth_bound(x, beta, growth=growth, reach=reach))
            assert ours >= brute * (1 - 1e-9)
            assert ours <= brute * (1 + 2e-5)


@pytest.mark.deep
@pytest.mark.parametrize("reach", [0.0, INFINITY])
@pytest.mark.parametrize("beta_h", [0.003, 0.3, 1.0])
def test_planar_kernel_against_pairs_in_the_plane(oracles, reach, beta_h):
    """The reduction to the distance from the centre: pairs of points of the plane itself."""
    query = GaussianKernel(center=(10.0, -4.0), bandwidth=2.0)
    beta = beta_h / 2.0
    axis = np.linspace(-5, 5, 41) * 2.0
    plane = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2) + np.asarray(query.center)
    radius = np.linalg.norm(plane - np.asarray(query.center), axis=1)
    f = np.exp(-(radius**2) / 8)
    gap = np.linalg.norm(plane[:, None, :] - plane[None, :, :], axis=2)
    steepest = radius / 4 * f
    if reach:
        chord = np.abs(f[:, None] - f[None, :]) / np.where(gap == 0, 1.0, gap)
        steepest = np.maximum(steepest, chord.max(axis=1))
    brute = np.max(steepest[None, :] * np.exp(-beta * gap), axis=1)
    ours = query.smooth_bound(plane, beta, reach=reach)
    assert np.all(ours >= brute * (1 - 1e-9))
    # The steepest point may lie between points of a grid this coarse.
    assert np.all(ours <= brute * 1.2)
    assert np.median(ours / brute) <= 1.02


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("beta_size", [1e-3, 0.3, 3.0])
def test_closed_forms_that_release_is_checked_with(oracles, name, beta_size):
    """Ties the 200-digit formulas of the release tests to the brute force above."""
    query = MAKERS[name](1.0)
    reaches = (0.0,) if name == "kernel" else (0.0, INFINITY)
    points = [0.0, 0.2, 0.45, 0.5, 0.6, 1.0, 1.7, 4.0]
    for reach in reaches:
        brute = oracles.brute_force_bound(query, points, beta_size, "exponential", reach)
        with mp.workdps(40):
            ours = [
                float(oracles.bound(query, mp.mpf(s), mp.mpf(beta_size), reach)) for s in points
            ]
        np.testing.assert_allclose(ours, brute, rtol=2e-5)


@pytest.mark.parametrize("x", [1e15, -1e15, 1e90, -1e90])
@pytest.mark.parametrize("name", MAKERS)
def test_extreme_points_have_a_value_and_a_bound(name, x):
    """A point may be any double up to 1e90; warnings are errors here."""
    query: Query = MAKERS[name](1000.0)
    low, high = {"kernel": (0.0, 0.0)}.get(name, (0.0, 1.0))
    assert float(query.value(x)) == (high if x > 0 else low)
    for reach in (0.0, INFINITY):
        assert 0 <= float(query.smooth_bound(x, 1e-4, reach=reach)) <= query.lipschitz


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("beta", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("reach", [0.1, 0.7, 3.0, 20.0])
@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("name", MAKERS)
def test_bound_at_a_finite_reach(oracles, name, growth, reach, beta):
    """Sound, and tight to the resolution of the brute force; linear growth of the kernel too."""
    query = MAKERS[name](1.0)
    points = [0.0, 0.3, 0.5, 0.8, 1.0, 1.7, 3.0, 6.0, 12.0]
    brute = oracles.brute_force_bound(query, points, beta, growth, reach)
    ours = query.smooth_bound(points, beta, growth=growth, reach=reach)
    assert np.all(ours >= np.asarray(brute) * (1 - 1e-9))
    # Where the chord just fails to reach the band the slope is 0, up to the rounding of points.
    near = np.asarray(brute) > 1e-12
    np.testing.assert_allclose(ours[near], np.asarray(brute)[near], rtol=3e-5)
