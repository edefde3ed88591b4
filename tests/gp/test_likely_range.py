"""Test the range of unbounded noise against the tails of densities, by quadrature."""

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    ParameterError,
    PlanarLaplace,
    SmoothMechanism,
    StudentT,
    Threshold,
)
from geoveil.gp.exact import INT64_MAX, INT64_MIN

BEYOND = 2.0**-41
PRIVACY = GeoPrivacy(1.0, per=0.5)
STEP, RAMP = Threshold(0.0, 1.0, profile="smoothstep"), Threshold(0.0, 1.0, profile="linear")
BELL = GaussianKernel((0.0,), bandwidth=1.0)


@cache
def wave() -> Linear:
    formula = FormulaProfile(lambda u, ops: 3 * ops.exp(-u * u) - 1, scale=1.0, extent=8.0)
    return Linear(formula, 1.0)


UNBOUNDED: dict[str, Callable[[], Any]] = {
    "lipschitz": lambda: LipschitzMechanism(STEP, PRIVACY),
    "lipschitz, of a formula": lambda: LipschitzMechanism(wave(), PRIVACY),
    "local": lambda: LocalLaplace(STEP, LocalPrivacy(0.7)),
    "local, of a formula": lambda: LocalLaplace(wave(), LocalPrivacy(2.0)),
    "Laplace and Pareto": lambda: SmoothMechanism(RAMP, PRIVACY, beta=0.3 * PRIVACY.rate),
    "Laplace and Pareto, light": lambda: SmoothMechanism(RAMP, PRIVACY, beta=0.02 * PRIVACY.rate),
    "power law": lambda: SmoothMechanism(BELL, PRIVACY, beta=0.2 * PRIVACY.rate),
    "power law, of a formula": lambda: SmoothMechanism(wave(), PRIVACY, beta=0.15 * PRIVACY.rate),
    "Student t": lambda: SmoothMechanism(STEP, PRIVACY, noise=StudentT(3), beta=0.1 * PRIVACY.rate),
    "Cauchy": lambda: SmoothMechanism(
        STEP, PRIVACY, noise=GeneralizedCauchy(4), beta=0.1 * PRIVACY.rate
    ),
}
POINTS = np.linspace(-3.0, 3.0, 13)


def tail(noise: Any, u: float) -> mp.mpf:
    """Return P[Z > u] from the density alone, by quadrature on a logarithmic axis."""
    density = lambda t: mp.mpf(float(noise.pdf(float(u * mp.e**t)))) * u * mp.e**t  # noqa: E731
    return mp.quad(density, [0, 0.01, 0.1, 0.5, 1, 2, 5, 20, 60])


def outside(mechanism: Any, low: float, high: float) -> float:
    """Return the greatest probability, over points, that a report lies outside of a range."""
    value = mechanism.query.value(POINTS)
    scale = np.sqrt(mechanism.variance(POINTS) / mechanism.noise.variance)
    return max(
        float(tail(mechanism.noise, (high - v) / s) + tail(mechanism.noise, (v - low) / s))
        for v, s in zip(value, scale, strict=True)
    )


@pytest.mark.deep
@pytest.mark.parametrize("name", UNBOUNDED)
def test_reports_leave_the_range_as_seldom_as_asked(name):
    """And a range that is a fifth narrower is left oftener: it is no wider than it has to be."""
    mechanism = UNBOUNDED[name]()
    low, high = (k * mechanism.step for k in mechanism.likely_range(BEYOND))
    assert 0 < outside(mechanism, low, high) <= BEYOND
    assert outside(mechanism, low * 0.8, high * 0.8) > BEYOND
    assert mechanism.grid_range == (INT64_MIN, INT64_MAX)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_rarer_exception_takes_a_wider_range(name):
    mechanism = UNBOUNDED[name]()
    ranges = [mechanism.likely_range(p) for p in (0.5, 1e-3, 1e-9, 1e-30)]
    for (low, high), (lower, higher) in pairwise(ranges):
        assert lower < low < high < higher or (lower, higher) == (INT64_MIN, INT64_MAX)


def test_what_is_bounded_is_left_never():
    mechanism = DebiasedLaplace(STEP, PRIVACY)
    assert mechanism.likely_range(BEYOND) == mechanism.grid_range


def test_a_tail_too_heavy_for_64_bits_ends_with_them():
    heavy = SmoothMechanism(RAMP, PRIVACY, beta=0.95 * PRIVACY.rate)
    assert heavy.likely_range(BEYOND) == (INT64_MIN, INT64_MAX)


@pytest.mark.parametrize("beyond", [0.0, 1.0, -1.0, math.nan])
def test_a_probability_is_asked_for(beyond):
    for ask in (
        LipschitzMechanism(STEP, PRIVACY).likely_range,
        DebiasedLaplace(STEP, PRIVACY).likely_range,
        PlanarLaplace(PRIVACY, 2).likely_reach,
    ):
        with pytest.raises(ParameterError, match="beyond"):
            ask(beyond)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_noise_on_a_point_reaches_as_far_as_its_radius(dimension):
    """P(|N| > r) against quadrature of the Gamma density; one scale less is left oftener."""
    mechanism = PlanarLaplace(PRIVACY, dimension)

    def beyond(radius: float) -> mp.mpf:
        r = radius * PRIVACY.rate
        density = lambda t: t ** (dimension - 1) * mp.e**-t / mp.factorial(dimension - 1)  # noqa: E731
        return mp.quad(density, [r, r + 10, r + 100, mp.inf])

    reach = mechanism.likely_reach(BEYOND)
    assert beyond(reach) <= BEYOND < beyond(reach - 1 / PRIVACY.rate)
