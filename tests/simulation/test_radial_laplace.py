"""RadialLaplace, the biased baseline: moments, density, guarantee and grid.

Moments come from mpmath's quadrature of functions written here; the density from the distribution
of the noise, counted in histograms of the definition y = φ(s + Laplace(b)).
"""

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    FormulaProfile,
    GeoPrivacy,
    Linear,
    Query,
    Radial,
    Ramp,
    SeededSource,
)
from geoveil.simulation.comparison import RadialLaplace

RATE = 0.25
B = 4.0
PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6)
TOLERANCE = 1 + 1e-9


def walk(u: Any, ops: Any) -> Any:
    return ops.exp(-u)


def cone(u: Any, ops: Any) -> Any:
    return ops.maximum(1 - u, 0)


def volcano(u: Any, ops: Any) -> Any:
    return 100 * u * u * ops.exp(-(u * u) / 2)


# Name → (maker of the query, φ for mpmath, kinks of φ, least and greatest value).
Function = Callable[[Any], Any]
CASES: dict[str, tuple[Callable[[], Query], Function, list[float], tuple[float, float]]] = {
    "cone": (
        lambda: Radial(FormulaProfile(cone, 9.0, extent=4.0), 0.0),
        lambda v: max(1 - abs(v) / 9, mp.mpf(0)),
        [-9.0, 0.0, 9.0],
        (0.0, 1.0),
    ),
    "volcano": (
        lambda: Linear(FormulaProfile(volcano, 5.0, extent=12.0), 1.0),
        lambda v: 4 * v * v * mp.exp(-v * v / 50),
        [0.0],
        (0.0, 200 / math.e),
    ),
    "ramp": (
        lambda: Linear(Ramp(9.0), 1.0),
        lambda v: min(max(v / 9 + mp.mpf(0.5), 0), 1),
        [-4.5, 4.5],
        (0.0, 1.0),
    ),
}


@cache
def query_of(name: str) -> Query:
    return CASES[name][0]()


def moment(phi: Function, s: float, kinks: list[float], power: int) -> Any:
    reach = (-60, -20, -6, -2, 2, 6, 20, 60)
    split = sorted({*kinks, s, *(s + B * k for k in reach)})
    return mp.quad(lambda v: phi(v) ** power * mp.exp(-abs(v - s) / B) / (2 * B), split)


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_moments(name):
    """Mean and variance by quadrature; and the mean is not f."""
    query = query_of(name)
    _, phi, kinks, (low, high) = CASES[name]
    mechanism = RadialLaplace(query, PRIVACY)
    assert mechanism.unbiased is False
    bias = 0.0
    for s in (0.0, 0.7, 4.0, 11.0, 70.0):
        mean, second = (moment(phi, s, kinks, power) for power in (1, 2))
        size = high - low
        assert float(mechanism.mean(s)) == pytest.approx(float(mean), abs=1e-8 * size)
        variance = float(second - mean**2)
        assert float(mechanism.variance(s)) == pytest.approx(variance, rel=1e-6, abs=1e-8 * size**2)
        bias = max(bias, abs(float(mean - phi(mp.mpf(s)))) / size)
    assert bias > 0.05


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_density_and_atoms(name):
    """The mass between two outputs is that of the noise which leads there; all adds up to 1."""
    query = query_of(name)
    _, phi, _, (low, high) = CASES[name]
    mechanism = RadialLaplace(query, PRIVACY)
    # Uniform in the mass of the noise: quantiles of Laplace, mid-point rule.
    u = (np.arange(40_000) + 0.5) / 40_000
    z = np.where(u < 0.5, np.log(2 * u), -np.log(2 - 2 * u))
    vector = np.frompyfunc(lambda v: float(phi(mp.mpf(v))), 1, 1)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    # The densities have singularities at both ends, which these variables remove.
    t = (nodes + 1) / 2
    for s in (1.3, 12.0):
        image = vector((s + B * z)[::8]).astype(float)
        atoms = (
            np.exp(mechanism.log_density(np.array(mechanism.atoms), s)) if mechanism.atoms else []
        )
        edges = low + (high - low) * np.array([0.02, 0.1, 0.3, 0.55, 0.8, 0.93, 0.98])
        inner = 0.0
        for a, b in pairwise(edges.tolist()):
            parts = np.linspace(a, b, 9)
            mass = 0.0
            for left, right in pairwise(parts.tolist()):
                y = left + (right - left) * t
                mass += float(np.exp(mechanism.log_density(y, s)) @ weights) * (right - left) / 2
            counted = float(np.mean((image > a) & (image <= b)))
            assert mass == pytest.approx(counted, abs=1.5e-3)
            inner += mass
        outer = float(np.mean((image <= edges[0]) | (image > edges[-1])))
        assert inner + outer == pytest.approx(1, abs=2e-3)
        if mechanism.atoms:
            for atom, mass in zip(mechanism.atoms, atoms, strict=True):
                assert mass == pytest.approx(float(np.mean(np.abs(image - atom) < 1e-9)), abs=1e-3)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", CASES)
def test_guarantee(name):
    """Neighbours on a path: at most ε, and ε is used up."""
    query = query_of(name)
    low, high = CASES[name][3]
    mechanism = RadialLaplace(query, PRIVACY)
    x = np.linspace(-30, 30, 301) + 0.011
    y = low + (high - low) * np.linspace(0.005, 0.995, 199)
    y = np.concatenate([y, [atom for atom in mechanism.atoms if low <= atom <= high]])
    log_density = mechanism.log_density(y[None, :], x[:, None])
    assert np.isfinite(log_density).all()
    worst = np.max(np.abs(np.diff(log_density, axis=0)) / np.diff(x)[:, None])
    assert 0.99 * RATE <= worst <= RATE * TOLERANCE


def test_noise_scaled_down_fails_that_audit():
    """The control: the density of noise of scale 0.7/ε."""
    mechanism = RadialLaplace(query_of("cone"), GeoPrivacy(epsilon=0.9 / 0.7, per=3.6))
    x, y = np.linspace(-30, 30, 301) + 0.011, np.linspace(0.01, 0.99, 99)
    log_density = mechanism.log_density(y[None, :], x[:, None])
    worst = np.max(np.abs(np.diff(log_density, axis=0)) / np.diff(x)[:, None])
    assert worst > 1.3 * RATE


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", CASES)
def test_releases_stay_in_the_grid_range(name):
    """And have the mean of the quadrature: n = 1500 releases, 5.2 σ for α < 1e-6."""
    query = query_of(name)
    _, phi, kinks, (low, high) = CASES[name]
    mechanism = RadialLaplace(query, PRIVACY)
    least, greatest = mechanism.grid_range
    slack = 0.01 * (high - low)
    assert low - slack <= least * mechanism.step <= greatest * mechanism.step <= high + slack
    for x in (0.0, 4.4, 1e30):
        count = 300 if x else 900
        released = [mechanism.release(x, SeededSource(i)) for i in range(count)]
        assert least <= min(released) <= max(released) <= greatest
        if x < 100:
            mean = float(moment(phi, x, kinks, 1))
            error = math.sqrt(float(mechanism.variance(x)) / count)
            assert abs(np.mean(released) * mechanism.step - mean) <= 5.2 * error
