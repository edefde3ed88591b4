"""Test means, variances and densities of mechanisms against quadrature of their definitions."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    LaplacePareto,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    PowerLaw,
    SmoothMechanism,
    StudentT,
)
from tests.oracles import MAKERS

PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6)
RATE = 0.25
NOISE_TO_SIZE = (0.01, 0.1, 0.7, 3.0, 10.0)
POSITIONS = (0.0, 0.21, -0.49999, 0.5, 0.50001, -0.9, 2.0, -6.0, 14.0)


def smooth_mechanisms() -> list[SmoothMechanism]:
    found = [
        SmoothMechanism(MAKERS[name](9.0), PRIVACY, beta=fraction * RATE)
        for name in MAKERS
        for fraction in (0.01, 0.2, 0.45)
    ]
    found += [
        SmoothMechanism(MAKERS["kernel"](2.0), PRIVACY, noise=noise, beta=0.1 * RATE)
        for noise in (StudentT(3), GeneralizedCauchy(4), LaplacePareto(2.0, 0.5), PowerLaw(1, 0.2))
    ]
    return found


@pytest.mark.deep(keep=5)
@pytest.mark.parametrize("mechanism", smooth_mechanisms(), ids=repr)
def test_smooth_variance(oracles, mechanism):
    x = np.array([0.0, 1.0, -4.4, 4.5, -4.6, 12.0, 60.0, -900.0])
    with mp.workdps(25):
        beta, eta = mp.mpf(mechanism.beta), mp.mpf(mechanism.eta)
        expected = [
            float(
                (
                    oracles.bound(
                        mechanism.query, oracles.signed_distance(mechanism.query, v), beta
                    )
                    / eta
                )
                ** 2
                * oracles.noise_variance(mechanism.noise)
            )
            for v in x.tolist()
        ]
    np.testing.assert_allclose(mechanism.variance(x), expected, rtol=1e-10)
    assert mechanism.variance(x).shape == x.shape
    assert mechanism.variance(0.0).shape == ()


@pytest.mark.parametrize("fraction", [0.5, 0.8, 1.0])
def test_variance_is_infinite_for_beta_from_half_epsilon(fraction):
    for name in MAKERS:
        mechanism = SmoothMechanism(MAKERS[name](3.0), PRIVACY, beta=fraction * RATE)
        x = np.array([0.0, 1.0, 10.0, -1e4, 1e5, 1e15])
        np.testing.assert_array_equal(mechanism.variance(x), np.full(6, math.inf))


def test_baselines(oracles):
    x = np.array([-1e9, -3.0, 0.0, 1.0, 1e9])
    for name in MAKERS:
        query = MAKERS[name](3.0)
        lipschitz = LipschitzMechanism(query, PRIVACY)
        expected = float(2 * (oracles.lipschitz(query) / RATE) ** 2)
        np.testing.assert_allclose(lipschitz.variance(x), np.full(5, expected), rtol=1e-13)
        local = LocalLaplace(query, LocalPrivacy(0.4))
        np.testing.assert_allclose(local.variance(x), np.full(5, 12.5), rtol=1e-13)
        for mechanism in (lipschitz, local):
            np.testing.assert_array_equal(mechanism.mean(x), query.value(x))
            assert mechanism.unbiased


@pytest.mark.parametrize("name", ["smoothstep", "kernel"])
@pytest.mark.parametrize("ratio", NOISE_TO_SIZE)
class TestDebiasedLaplace:
    def mechanism(self, name: str, ratio: float) -> DebiasedLaplace:
        return DebiasedLaplace(MAKERS[name](4.0 / ratio), PRIVACY)

    @pytest.mark.deep
    def test_variance(self, oracles, name, ratio):
        """Relative, but for the cancellation of E[g²] − f², an ulp of the square of the range.

        A variance is never negative, however far from where the query varies.
        """
        mechanism = self.mechanism(name, ratio)
        size = 4.0 / ratio
        # In units of the size, and beyond the band in units of the noise.
        s = [p * size for p in POSITIONS] + [size / 2 + 4.0 * k for k in (1, 10, 60, 200)]
        ours = mechanism.variance(np.array(s))
        b = 1 / mp.mpf(RATE)
        with mp.workdps(25):
            for point, variance in zip(s, ours.tolist(), strict=True):
                expected = oracles.debiased_variance(mechanism.query, point, b)
                largest = max(abs(limit) for limit in mechanism.range)
                off_band = name == "smoothstep" and abs(point) >= size / 2
                slack = 0.0 if off_band else 1e-15 * largest**2
                assert variance == pytest.approx(float(expected), rel=1e-10, abs=slack)
                assert variance >= 0

    def test_range(self, oracles, name, ratio):
        """The extremes of g, by a grid; and MATH §5.1 for the smoothstep."""
        mechanism = self.mechanism(name, ratio)
        low, high = mechanism.range
        size = 4.0 / ratio
        if name == "smoothstep":
            lift = 6 * ratio**2
            assert (low, high) == pytest.approx((-lift, 1 + lift), rel=1e-14, abs=0)
            return
        # The trough lies at u² = 3 + 1/c²: beyond u = 30 it is 0 in double precision.
        u = np.append(np.linspace(0, 30, 60_001), 0.0)
        g = np.exp(-u * u / 2) * (1 + ratio**2 * (1 - u * u))
        assert low == pytest.approx(g.min(), rel=1e-6, abs=1e-190)
        assert high == pytest.approx(g.max(), rel=1e-12, abs=0)
        assert size > 0

    @pytest.mark.deep(keep=4)
    def test_density_and_atoms_have_mass_one_and_the_moments(self, oracles, name, ratio):
        if name == "kernel" and ratio > 1:
            pytest.skip("the density near 0 reaches below the smallest double")
        mechanism = self.mechanism(name, ratio)
        size = 4.0 / ratio
        low, high = mechanism.range
        for p in (0.0, 0.3, 0.7):
            s = p * size

            def density(y: np.ndarray, power: int, s: float = s) -> np.ndarray:
                return np.exp(mechanism.log_density(y, s)) * y**power

            with mp.workdps(20):
                cusp = float(oracles.debiased(mechanism.query, mp.mpf(s), 1 / mp.mpf(RATE)))
            moments = []
            for power in range(3):
                total = sum(
                    a**power * math.exp(mechanism.log_density(a, s)) for a in mechanism.atoms
                )
                if name == "smoothstep":
                    marks = [low, high, 0.0, 1.0, min(max(cusp, low), high)]
                    total += oracles.gauss(lambda y, k=power: density(y, k), marks)
                else:
                    total += kernel_integral(oracles, density, power, low, high, cusp)
                moments.append(total)
            f = float(mechanism.mean(s))
            assert moments[0] == pytest.approx(1, abs=1e-8)
            assert moments[1] == pytest.approx(f, abs=1e-8 * (1 + ratio**2))
            assert moments[2] - f**2 == pytest.approx(
                float(mechanism.variance(s)), rel=1e-6, abs=1e-8
            )


def kernel_integral(
    oracles: Any, density: Any, power: int, low: float, high: float, cusp: float
) -> float:
    """Integrate a density that is infinite at both extremes of g, like a root, and near 0."""

    def upper(t: np.ndarray) -> np.ndarray:
        return np.asarray(density(high * (1 - t * t), power) * 2 * high * t)

    total = oracles.gauss(upper, [0.0, 1.0, math.sqrt(max(0.0, min(1.0, 1 - cusp / high)))])
    if low > -1e-250:
        return float(total)
    start = -math.log(-low)

    def lower(r: np.ndarray) -> np.ndarray:
        y = -np.exp(-start - r * r)
        return np.asarray(density(y, power) * -y * 2 * r)

    end = math.sqrt(640 - start)
    inner = [math.sqrt(max(-math.log(-cusp) - start, 0.0))] if cusp < 0 else []
    return float(total + oracles.gauss(lower, [1e-9, *inner, 1.0, 4.0, end]))


def test_debiased_variance_in_the_plane_and_in_blocks():
    """Only the distance counts, and an array is its elements."""
    line = DebiasedLaplace(GaussianKernel(0.0, 3.0), PRIVACY)
    plane = DebiasedLaplace(GaussianKernel((10.0, -7.0), 3.0), PRIVACY)
    r = np.random.default_rng(8).exponential(5.0, size=20_000)
    angle = np.random.default_rng(9).uniform(0, 2 * math.pi, size=r.size)
    x = np.asarray(plane.query.center) + r[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)  # type: ignore[attr-defined]
    np.testing.assert_allclose(plane.variance(x), line.variance(r), rtol=1e-9, atol=1e-14)
    some = [0, 8191, 8192, 16_384, 19_999]
    np.testing.assert_array_equal(
        line.variance(r)[some], [float(line.variance(r[i])) for i in some]
    )


@pytest.mark.parametrize(
    "mechanism",
    [
        SmoothMechanism(MAKERS["linear"](3.0), PRIVACY),
        SmoothMechanism(MAKERS["kernel"](3.0), PRIVACY, beta=0.9 * RATE),
        SmoothMechanism(MAKERS["smoothstep"](3.0), PRIVACY, noise=StudentT(3), beta=0.02),
        LipschitzMechanism(MAKERS["kernel"](3.0), PRIVACY),
        LocalLaplace(MAKERS["linear"](3.0), LocalPrivacy(2.0)),
    ],
    ids=repr,
)
def test_additive_densities_have_mass_one(oracles, mechanism):
    for x in (0.0, 1.2, -7.0):
        f = float(mechanism.query.value(x))

        def in_log(t: np.ndarray, x: float = x, f: float = f) -> np.ndarray:
            away = np.exp(t)
            both = (mechanism.log_density(f + away, x), mechanism.log_density(f - away, x))
            return np.asarray(np.exp(both[0] + t) + np.exp(both[1] + t))

        mass = oracles.gauss(in_log, [-32.0, -3.0, 0.0, 2.0, 6.0, 40.0], panels=200)
        assert mass == pytest.approx(1, abs=1e-8)


def test_far_from_the_band_densities_are_finite():
    """The scale underflows before its logarithm does; warnings are errors here."""
    for name in MAKERS:
        mechanism = SmoothMechanism(MAKERS[name](3.0), PRIVACY)
        for x in (1e3, 1e5, 1e8, 1e15):
            assert not np.any(np.isnan(mechanism.log_density([0.0, 0.5, 1.0, 3.0], x)))
            assert float(mechanism.variance(x)) >= 0


def test_a_mean_that_does_not_exist_is_not_called_unbiased():
    """MATH §4: the noise has a mean for β < ε only."""
    assert SmoothMechanism(MAKERS["linear"](3.0), PRIVACY, beta=0.99 * RATE).unbiased
    assert not SmoothMechanism(MAKERS["linear"](3.0), PRIVACY, beta=RATE).unbiased
