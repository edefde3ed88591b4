"""Test discs and balls applied to perturbed points: bias and variance of the plug-in.

Oracles: normal mixtures and the non-central χ², adaptive quadrature, Monte Carlo.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from geoveil.gp import Disc, GeoPrivacy, PlanarLaplace, UnsupportedError
from geoveil.gp.deconvolution.disc import landing_within


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("a", [0.01, 0.8, 3.0, 40.0])
def test_probability_of_landing_within(dimension, a):
    """N = √(2τ)Z with τ ~ Gamma((k+1)/2): the mixture of non-central χ², to 1e-8."""
    shape = (dimension + 1) / 2
    for r in (0.0, 0.3 * a, 0.99 * a, a, 1.02 * a, a + 2.0, a + 9.0):

        def integrand(t: float, r: float = r) -> float:  # τ = t²
            law = scipy.stats.ncx2.cdf(a * a / (2 * t * t), dimension, r * r / (2 * t * t))
            return float(law * 2 * t ** (2 * shape - 1) * math.exp(-t * t) / math.gamma(shape))

        marks = [1e-3, abs(a - r) / 4 + 1e-3, 0.05, 0.2, 0.7, 1.5, 3.0, 6.5]
        expected = sum(
            scipy.integrate.quad(integrand, low, high, epsabs=1e-11, limit=200)[0]
            for low, high in pairwise(sorted(marks))
        )
        computed = float(landing_within(np.array(a), np.array(r), dimension))
        assert computed == pytest.approx(expected, rel=0, abs=1e-8)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("profile", ["linear", "smoothstep"])
@pytest.mark.parametrize("dimension", [2, 3])
def test_monte_carlo(oracles, dimension, profile):
    """z-test of mean and variance: n = 200,000, α = 1e-6; f itself, or b off by 5 %, fails."""
    center = tuple(float(i) for i in range(dimension))
    query = Disc(center, 5.0, 3.0, profile)
    mechanism = PlanarLaplace(GeoPrivacy(1.0, per=2.0), dimension)
    estimator = mechanism.estimator(query)
    wrong = PlanarLaplace(GeoPrivacy(1.0, per=2.1), dimension).estimator(query)
    assert not estimator.unbiased
    count, limit = 200_000, scipy.stats.norm.isf(oracles.ALPHA / 2)
    rng = np.random.default_rng(9)
    failed = [False] * 3
    for r in (0.0, 3.0, 5.2, 8.0):
        x = np.array(center) + r * np.eye(dimension)[-1]
        y = estimator.value(mechanism.simulate(np.broadcast_to(x, (count, dimension)), rng))
        mean, variance = float(estimator.mean(x)), float(estimator.variance(x))

        def z(sample: np.ndarray, expected: float) -> float:
            return float(abs(sample.mean() - expected) / (sample.std() / math.sqrt(count)))

        assert z(y, mean) <= limit
        assert z((y - mean) ** 2, variance) <= limit
        failed[0] |= z(y, float(query.value(x))) > limit
        failed[1] |= z(y, float(wrong.mean(x))) > limit
        failed[2] |= z((y - mean) ** 2, 1.05 * variance) > limit
    assert all(failed), "the controls must fail"


@pytest.mark.parametrize("profile", ["linear", "smoothstep"])
@pytest.mark.parametrize("per", [0.02, 1.0, 30.0])
def test_moments_of_a_ball(per, profile):
    """k = 3 by the elementary density of the distance, with adaptive quadrature, to 1e-7."""
    query = Disc((0.0, 0.0, 0.0), 5.0, 3.0, profile)
    estimator = PlanarLaplace(GeoPrivacy(1.0, per=per), 3).estimator(query)
    for r in (0.5, 4.0, 5.0, 9.0):

        def density(rho: float, r: float = r) -> float:
            near, far = abs(r - rho) / per, (r + rho) / per
            tail = (1 + near) * math.exp(-near) - (1 + far) * math.exp(-far)
            return rho * tail / (4 * r * per)

        def moment(power: int, density: Any = density, r: float = r) -> float:
            def integrand(rho: float) -> float:
                return float(query.value([0.0, rho, 0.0])) ** power * density(rho)

            marks = [r + sign * per * v for sign in (1, -1) for v in (0, 1, 4, 12, 40)]
            marks = sorted({v for v in (*marks, 0.0, 3.5, 6.5) if 0 <= v <= 6.5})
            return sum(
                scipy.integrate.quad(integrand, low, high, epsabs=1e-12)[0]
                for low, high in pairwise(marks)
            )

        mean, second = moment(1), moment(2)
        assert estimator.mean([0.0, 0.0, r]) == pytest.approx(mean, abs=1e-7)
        assert estimator.variance([0.0, 0.0, r]) == pytest.approx(second - mean**2, abs=1e-7)


def test_more_dimensions_have_no_quadrature():
    query = Disc((0.0,) * 4, 5.0, 3.0)
    estimator = PlanarLaplace(GeoPrivacy(1.0, per=2.0), 4).estimator(query)
    assert estimator.value(np.zeros(4)) == 1
    with pytest.raises(UnsupportedError, match="simulate"):
        estimator.mean(np.zeros(4))
