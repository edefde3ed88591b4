"""Test that releases and simulations follow the ideal mechanism, and not another scale of it.

Every test: fixed seeds, n stated, failure probability ALPHA = 1e-6, and controls that must fail.
The seeds never change, so that a test that passes once passes always.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    LaplacePareto,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    PlanarLaplace,
    QueryMechanism,
    SeededSource,
    SmoothMechanism,
    StudentT,
    SystemSource,
    Threshold,
)

PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6)
RATE = 0.25
RAMP = Threshold(2.0, 9.0, "linear")
STEP = Threshold(2.0, 9.0, "smoothstep")
BELL = GaussianKernel(2.0, 9.0)
RELEASES = 20_000
Cdf = Callable[[np.ndarray], np.ndarray]

CASES: dict[str, tuple[QueryMechanism, float]] = {
    "ramp, in the band": (SmoothMechanism(RAMP, PRIVACY), 3.0),
    "kernel, on the slope": (SmoothMechanism(BELL, PRIVACY), 8.0),
    "lipschitz": (LipschitzMechanism(STEP, PRIVACY), -1.0),
    "local": (LocalLaplace(RAMP, LocalPrivacy(0.8)), 5.0),
    "debiased step": (DebiasedLaplace(STEP, PRIVACY), 4.5),
    "debiased kernel": (DebiasedLaplace(BELL, PRIVACY), 14.0),
}
ONLY_SIMULATED: dict[str, tuple[QueryMechanism, float]] = {
    "smoothstep, beyond the band": (SmoothMechanism(STEP, PRIVACY, beta=0.7 * RATE), 30.0),
    "student, the seed's": (
        SmoothMechanism(
            RAMP,
            PRIVACY,
            noise=StudentT(3),
            beta=RATE / 9,
            reach=math.inf,
            calibration="paper",
        ),
        20.0,
    ),
    "cauchy": (SmoothMechanism(BELL, PRIVACY, noise=GeneralizedCauchy(4), beta=0.02), 3.0),
    "laplace-pareto, looser": (
        SmoothMechanism(RAMP, PRIVACY, noise=LaplacePareto(2.0, 1.0), beta=0.1),
        1.0,
    ),
}


def ideal_cdf(oracles: Any, mechanism: QueryMechanism, x: float, factor: float = 1.0) -> Cdf:
    """Return the CDF of the ideal output, its noise scaled by a factor that is 1 if all is well."""
    query = mechanism.query
    s = abs(x - 2.0) if query is BELL else x - 2.0
    f = float(oracles.float_value(query, np.array([s]))[0])
    if not isinstance(mechanism, DebiasedLaplace):
        if isinstance(mechanism, LipschitzMechanism):
            scale = float(oracles.lipschitz(query)) / RATE
        elif isinstance(mechanism, LocalLaplace):
            scale = 1 / 0.8
        else:
            assert isinstance(mechanism, SmoothMechanism)
            bound = oracles.brute_force_bound(
                query, [s], mechanism.beta, "exponential", mechanism.reach
            )
            scale = float(bound[0]) / mechanism.eta
        law = oracles.noise_cdf(mechanism.noise)  # type: ignore[attr-defined]
        return lambda y: np.asarray(law((y - f) / (scale * factor)))
    # g of Laplace noise, by its masses over a fine grid of noisy distances.
    b = factor / RATE
    v = s + b * np.sinh(np.linspace(-5, 5, 400_001))
    size = oracles.length_scale(query)
    u = v / size
    if query is BELL:
        c2 = 1 / (RATE * size) ** 2
        g = np.exp(-u * u / 2) * (1 + c2 * (1 - u * u))
    else:
        t = np.clip(u + 0.5, 0, 1)
        lift = np.where((t > 0) & (t < 1), (6 - 12 * t) / (RATE * size) ** 2, 0.0)
        g = t * t * (3 - 2 * t) - lift
    edges = scipy.stats.laplace.cdf((v[1:] + v[:-1]) / 2, loc=s, scale=b)
    mass = np.diff(edges, prepend=0.0, append=1.0)
    order = np.argsort(g)
    levels, cumulative = g[order], np.cumsum(mass[order])

    def cdf(y: np.ndarray) -> np.ndarray:
        index = np.searchsorted(levels, y, side="right")
        return np.asarray(np.concatenate([[0.0], cumulative])[index])

    return cdf


def distance(sample: np.ndarray, cdf: Cdf) -> float:
    """Return sup |F_n − F| over thresholds between and around the outputs, atoms included."""
    ordered = np.sort(sample)
    levels = np.unique(np.quantile(ordered, np.linspace(0, 1, 2001)))
    levels = np.concatenate([levels - 1e-7, levels + 1e-7])
    empirical = np.searchsorted(ordered, levels, side="right") / ordered.size
    return float(np.max(np.abs(empirical - cdf(levels))))


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_releases_follow_the_ideal_law(oracles, name):
    mechanism, x = CASES[name]
    source = SeededSource(20_240_607)
    indices = np.array([mechanism.release(x, source) for _ in range(RELEASES)], dtype=np.int64)
    sample, limit = indices * mechanism.step, oracles.ks_limit(RELEASES)
    found = distance(sample, ideal_cdf(oracles, mechanism, x))
    assert found <= limit, f"n={RELEASES}, distance {found}, limit {limit}"
    for factor in (1.3, 1 / 1.3):
        control = distance(sample, ideal_cdf(oracles, mechanism, x, factor))
        assert control > limit, "the control must fail"
    if not isinstance(mechanism, DebiasedLaplace):
        # Naive float noise betrays f(x) in the low bits; here every residue is as likely.
        counts = np.bincount(indices & 15, minlength=16)
        low_bits_limit = scipy.stats.chi2.isf(oracles.ALPHA, 15)
        expected = RELEASES / 16
        assert np.sum((counts - expected) ** 2) / expected <= low_bits_limit
        coarse = np.bincount((indices * 2) & 15, minlength=16)
        assert np.sum((coarse - expected) ** 2) / expected > low_bits_limit, "the control must fail"
    # Consecutive releases have nothing to do with each other; repeated ones would.
    correlation_limit = scipy.stats.norm.isf(oracles.ALPHA / 2) / math.sqrt(RELEASES - 1)
    assert abs(rank_correlation(sample)) <= correlation_limit
    assert abs(rank_correlation(np.repeat(sample, 2)[:RELEASES])) > correlation_limit


def rank_correlation(sample: np.ndarray) -> float:
    """Return the lag-one Spearman correlation."""
    return float(scipy.stats.spearmanr(sample[1:], sample[:-1]).statistic)


@pytest.mark.deep(keep=5)
@pytest.mark.parametrize("name", [*CASES, *ONLY_SIMULATED])
def test_simulations_follow_the_ideal_law(oracles, name):
    mechanism, x = (CASES | ONLY_SIMULATED)[name]
    count = 100_000
    sample = mechanism.simulate(np.full(count, x), np.random.default_rng(77))
    assert sample.shape == (count,)
    limit = oracles.ks_limit(count)
    found = distance(sample, ideal_cdf(oracles, mechanism, x))
    assert found <= limit, f"n={count}, distance {found}, limit {limit}"
    for factor in (1.3, 1 / 1.3):
        assert distance(sample, ideal_cdf(oracles, mechanism, x, factor)) > limit


def test_simulation_takes_each_point_for_itself(oracles):
    """Points that differ in an array get their own scale, and independent noise."""
    mechanism = CASES["kernel, on the slope"][0]
    x = np.tile([2.0, 60.0], 50_000)
    y = mechanism.simulate(x, np.random.default_rng(3))
    for point, part in ((2.0, y[::2]), (60.0, y[1::2])):
        assert distance(part, ideal_cdf(oracles, mechanism, point)) <= oracles.ks_limit(50_000)
    assert np.unique(y).size == y.size


def test_a_release_is_fresh_each_time_and_of_the_system_by_default():
    mechanism = CASES["lipschitz"][0]
    assert len({mechanism.release(1.0) for _ in range(50)}) == 50
    assert SystemSource.is_secure
    assert not SeededSource.is_secure
    assert mechanism.release(1.0, SeededSource(1)) == mechanism.release(1.0, SeededSource(1))


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_planar_laplace(oracles, dimension):
    """Radius Gamma(k, 1/ε), direction uniform, density ∝ e^{−ε|N|} with mass one."""
    mechanism = PlanarLaplace(PRIVACY, dimension)
    count = 50_000
    center = np.arange(1.0, dimension + 1)
    x = np.tile(center, (count, 1))
    if dimension == 1:
        x = x[:, 0]
    noise = (mechanism.simulate(x, np.random.default_rng(6)) - x).reshape(count, dimension)
    radius = np.linalg.norm(noise, axis=1)
    limit = oracles.ks_limit(count)
    law = scipy.stats.gamma(dimension, scale=1 / RATE)
    assert oracles.ks_distance(radius, law.cdf) <= limit
    for factor in (1.3, 1 / 1.3):
        assert oracles.ks_distance(radius * factor, law.cdf) > limit
    # One coordinate of a uniform direction: (1 + t)/2 is Beta((k−1)/2, (k−1)/2).
    direction = noise / radius[:, None]
    if dimension == 1:
        assert abs(np.mean(direction)) <= scipy.stats.norm.isf(oracles.ALPHA / 2) / count**0.5
    else:
        shape = (dimension - 1) / 2
        for axis in range(dimension):
            t = (1 + direction[:, axis]) / 2
            assert oracles.ks_distance(t, scipy.stats.beta(shape, shape).cdf) <= limit
        correlation = scipy.stats.spearmanr(radius, direction[:, 0]).statistic
        assert abs(correlation) <= scipy.stats.norm.isf(oracles.ALPHA / 2) / count**0.5
    origin = np.zeros((1, dimension)) if dimension > 1 else np.zeros(1)
    variance = np.full(origin.shape, (dimension + 1) / RATE**2)
    np.testing.assert_allclose(mechanism.variance(origin), variance, rtol=1e-12)
    np.testing.assert_array_equal(mechanism.mean(origin), origin)
    # The density at distance ρ times the area of the sphere is the density of the radius.
    rho = np.array([1e-3, 0.5, 4.0, 30.0])
    area = 2 * math.pi ** (dimension / 2) / math.gamma(dimension / 2) * rho ** (dimension - 1)
    away = np.zeros((4, dimension))
    away[:, 0] = rho
    x, y = (center, center + away) if dimension > 1 else (center[0], (center + away)[:, 0])
    log_density = mechanism.log_density(y, x)
    np.testing.assert_allclose(np.exp(log_density) * area, law.pdf(rho), rtol=1e-11)
