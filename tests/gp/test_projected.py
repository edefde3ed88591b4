"""Radial and Linear queries: values, the odd extension on a ray, audits, ranges beyond [0, 1].

Expectations come from mpmath's quadrature of formulas that are written here again; guarantees from
the ratio of densities between neighbours.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    ParameterError,
    PrivateValueError,
    Query,
    QueryMechanism,
    Radial,
    SmoothMechanism,
)

RATE = 0.25
PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6)
TOLERANCE = 1 + 1e-9


def walk(u: Any, ops: Any) -> Any:
    return ops.exp(-u)


def dome(u: Any, ops: Any) -> Any:
    return ops.maximum(1 - u, 0) ** 2


def bell(u: Any, ops: Any) -> Any:
    return ops.exp(-(u * u) / 2)


def logistic(u: Any, ops: Any) -> Any:
    return 1 / (1 + ops.exp(-u))


def ripple(u: Any, ops: Any) -> Any:
    return ops.exp(-(u * u) / 2) * (1 - u * u)


def tall(u: Any, ops: Any) -> Any:
    return 1e6 + 4e6 * ops.exp(-(u * u) / 2)


FORMULAS: dict[str, tuple[Callable[[Any, Any], Any], float, float]] = {
    "walk": (walk, 6.0, 24.0),
    "dome": (dome, 9.0, 4.0),
    "bell": (bell, 6.0, 9.0),
    "logistic": (logistic, 5.0, 18.0),
    "ripple": (ripple, 6.0, 8.0),
    "line": (lambda u, ops: u, 5.0, 1.0),
    "tall": (tall, 6.0, 8.0),
}
"""Name → formula, scale, extent."""


@cache
def profile_of(name: str) -> FormulaProfile:
    formula, scale, extent = FORMULAS[name]
    return FormulaProfile(formula, scale=scale, extent=extent)


@pytest.mark.deep(keep=0)
def test_values_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    for dimension in (2, 3):
        x = rng.normal(size=(200, dimension)) * 8
        center, direction = rng.normal(size=(2, dimension)) * 3
        along = x @ direction / np.linalg.norm(direction) - 1.5
        r = np.linalg.norm(x - center, axis=1)
        np.testing.assert_allclose(
            Radial(profile_of("walk"), center).value(x), np.exp(-r / 6), rtol=1e-12
        )
        np.testing.assert_allclose(
            Linear(profile_of("logistic"), direction, offset=1.5).value(x),
            1 / (1 + np.exp(-along / 5)),
            rtol=1e-12,
        )
    x = np.linspace(-20, 20, 81)
    np.testing.assert_allclose(
        Radial(profile_of("walk"), 2.0).value(x), np.exp(-np.abs(x - 2) / 6), rtol=1e-12
    )
    for sign in (1, -1e-40, 1e40):
        expected = 1 / (1 + np.exp(-(math.copysign(1, sign) * x - 1) / 5))
        np.testing.assert_allclose(
            Linear(profile_of("logistic"), sign, 1.0).value(x), expected, rtol=1e-12
        )


def test_scalars_are_lipschitz():
    """|s(x) − s(x')| ≤ |x − x'|, whatever the length of the direction."""
    rng = np.random.default_rng(2)
    here = rng.normal(size=(500, 3)) * 10
    there = here + rng.normal(size=(500, 3)) * 10.0 ** rng.uniform(-6, 1, size=(500, 1))
    gap = np.linalg.norm(here - there, axis=1)
    for query in (
        Radial(profile_of("walk"), (1.0, 2.0, 3.0)),
        Linear(profile_of("line"), (3e-30, 4e-30, 0.0)),
        Linear(profile_of("line"), (1e45, -1e45, 1.0), 7.0),
    ):
        change = np.abs(
            np.asarray(query.signed_distance(here)) - np.asarray(query.signed_distance(there))
        )
        assert np.all(change <= gap * (1 + 1e-9) + 1e-13)
        assert change.max() > 0.5 * gap.max()


@pytest.mark.parametrize("query", [Radial, Linear])
def test_refused(query):
    for profile in (None, walk, "walk", 3):
        with pytest.raises(ParameterError, match="profile"):
            query(profile, 1.0)
    for numbers in ([], "ab", None, [math.nan], [math.inf, 1.0], True, [1.0, True], ["1"]):
        with pytest.raises(ParameterError, match=r"center|direction"):
            query(profile_of("walk"), numbers)
    assert query(profile_of("walk"), np.array(2.0)).dimension == 1
    assert query(profile_of("walk"), np.array([2.0, 1.0])).dimension == 2
    for x in (math.nan, [math.inf], "3"):
        with pytest.raises(PrivateValueError):
            query(profile_of("walk"), 1.0).value(x)


def test_directions_out_of_range():
    for direction in (0.0, (0.0, 0.0), (1e-60, 0.0), (1e60, 1.0)):
        with pytest.raises(ParameterError, match="direction"):
            Linear(profile_of("walk"), direction)
    for offset in (math.nan, math.inf, "1", None, True):
        with pytest.raises(ParameterError, match="offset"):
            Linear(profile_of("walk"), 1.0, offset)


def expectation(g: Callable[[Any], Any], s: float, b: float, marks: list[float], power: int) -> Any:
    """E[g(s + Laplace(b))^power] by quadrature in mpmath, split at every kink."""
    split = sorted({*marks, s, *(s + b * k for k in (-60, -20, -6, -2, 2, 6, 20, 60))})
    return mp.quad(lambda v: g(v) ** power * mp.exp(-abs(v - s) / b) / (2 * b), split)


RAYS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "walk": (lambda v: mp.exp(-v / 6), 144.0),
    "dome": (lambda v: max(1 - v / 9, mp.mpf(0)) ** 2, 9.0),
}
CURVATURES: dict[str, Callable[[Any], Any]] = {
    "walk": lambda v: mp.exp(-v / 6) / 36 if v < 144 else mp.mpf(0),
    "dome": lambda v: mp.mpf(2) / 81 if v < 9 else mp.mpf(0),
}


@pytest.mark.deep
@pytest.mark.parametrize("b", [1.0, 6.0, 30.0])
@pytest.mark.parametrize("name", RAYS)
def test_debiased_on_a_ray_with_a_slope_at_0(name, b):
    """E[g(s + Laplace(b))] = φ(s) to 1e-9, s = 0 included, and the variance agrees.

    The control: with φ extended evenly g misses the corner at 0 and is biased.
    """
    profile, (phi, end) = profile_of(name), RAYS[name]
    ray = profile.on_ray()
    mechanism = DebiasedLaplace(Radial(profile, 0.0), GeoPrivacy(1.0, per=b))
    curvature = CURVATURES[name]

    def g(v: Any) -> Any:
        return phi(min(v, end)) - b * b * curvature(v)

    def library(v: Any) -> Any:
        return mp.mpf(float(np.asarray(ray.debiased(np.asarray(float(v)), Fraction(b)))))

    def odd(v: Any) -> Any:
        return g(v) if v >= 0 else 2 * phi(mp.mpf(0)) - g(-v)

    def even(v: Any) -> Any:
        return g(abs(v))

    grid = np.concatenate([np.linspace(-3 * end, 3 * end, 61) + 0.01, [1e-6, -1e-6]])
    for v in grid:
        assert float(library(v)) == pytest.approx(float(odd(mp.mpf(v))), rel=1e-11, abs=1e-11)
    low, high = mechanism.range
    for s in (0.0, 0.4, 7.0, 2 * end):
        found = expectation(odd, s, b, [-end, 0.0, end], 1)
        assert float(found) == pytest.approx(float(phi(mp.mpf(min(s, end)))), abs=1e-9)
        second = expectation(odd, s, b, [-end, 0.0, end], 2)
        variance = float(second - found**2)
        assert float(mechanism.variance(s)) == pytest.approx(variance, rel=1e-6, abs=1e-8)
        assert low <= float(odd(mp.mpf(s))) <= high
    biased = expectation(even, 0.0, b, [-end, 0.0, end], 1)
    assert abs(float(biased - phi(mp.mpf(0)))) > 0.1


def steepest(mechanism: QueryMechanism, x: np.ndarray, y: np.ndarray) -> float:
    """sup |Δ log p| / |Δx| over neighbours, where both densities are numbers."""
    log_density = mechanism.log_density(y[None, :], x[:, None])
    with np.errstate(invalid="ignore"):
        ratio = np.abs(np.diff(log_density, axis=0)) / np.diff(x)[:, None]
    assert np.isfinite(log_density).mean() > 0.5
    return float(np.max(ratio[np.isfinite(ratio)]))


def query_of(name: str) -> Query:
    profile = profile_of(name)
    if name in RAYS:
        return Radial(profile, 0.0)
    return Linear(profile, -2.0, offset=1.0) if name == "ripple" else Linear(profile, 1.0)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", ["logistic", "ripple", "walk", "tall"])
def test_smooth_and_lipschitz_mechanisms_keep_their_rate(name):
    query = query_of(name)
    x = np.unique(np.concatenate([np.linspace(-45, 45, 361), np.linspace(-9, 9, 181)]))
    mechanisms: list[QueryMechanism] = [
        SmoothMechanism(query, PRIVACY),
        LipschitzMechanism(query, PRIVACY),
    ]
    if name == "walk":
        mechanisms.append(SmoothMechanism(query, PRIVACY, beta=0.6 * RATE, reach=math.inf))
    for mechanism in mechanisms:
        f, bound = query.value(x), query.smooth_bound(x, 0.15 * RATE) / RATE
        z = np.concatenate([[0.0], np.logspace(-2.5, 3, 12), -np.logspace(-2.5, 3, 12)])
        pick = slice(None, None, 12)
        y = np.ravel(f[pick, None] + bound[pick, None] * z)
        worst = steepest(mechanism, x, y)
        assert 0.8 * RATE <= worst <= RATE * TOLERANCE


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", ["logistic", "walk", "dome", "tall"])
def test_debiased_keeps_its_rate(name):
    """Density inside the range, and the atoms on the plateaus; each adds up to 1."""
    query = query_of(name)
    mechanism = DebiasedLaplace(query, PRIVACY)
    low, high = mechanism.range
    x = np.linspace(-30, 30, 161) + 0.013
    y = np.concatenate([low + (high - low) * np.linspace(0.003, 0.997, 121), mechanism.atoms])
    worst = steepest(mechanism, x, y)
    assert 0.99 * RATE <= worst <= RATE * TOLERANCE


def test_atoms_of_the_odd_extension():
    """φ = 0 beyond 9, and 2φ(0) − 0 = 2 before −9."""
    mechanism = DebiasedLaplace(query_of("dome"), PRIVACY)
    assert mechanism.atoms == (0.0, 2.0)
    for s in (0.0, 3.0, 20.0):
        below = math.exp(-(s + 9) / 4) / 2
        above = math.exp((s - 9) / 4) / 2 if s < 9 else 1 - math.exp((9 - s) / 4) / 2
        masses = np.exp(mechanism.log_density(np.array([0.0, 2.0]), s))
        np.testing.assert_allclose(masses, [above, below], rtol=1e-8)


RANGES = [("line", -1.0, 1.0), ("tall", 1e6, 5e6), ("ripple", -2 * math.exp(-1.5), 1.0)]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("name", "low", "high"), RANGES)
def test_local_laplace_covers_the_range(name, low, high):
    """Any two points: at most ε, and nearly ε; noise of scale 1/ε would cost range·ε."""
    query = query_of(name)
    # The tail ends at the extent, where e^{−32} is left.
    assert query.profile.bounds[0] <= low + 1e-12 * high < high <= query.profile.bounds[1]
    assert query.profile.bounds[1] - query.profile.bounds[0] <= 1.005 * (high - low)
    mechanism = LocalLaplace(query, LocalPrivacy(0.7))
    assert float(mechanism.variance(0.0)) >= 2 * ((high - low) / 0.7) ** 2
    x = np.concatenate([np.linspace(-60, 60, 401), [-1e9, 1e9, 1 - 6 * math.sqrt(3)]])
    y = np.linspace(low - 2 * (high - low), high + 2 * (high - low), 301)
    log_density = mechanism.log_density(y[None, :], x[:, None])
    worst = float(np.max(log_density.max(axis=0) - log_density.min(axis=0)))
    assert 0.99 * 0.7 <= worst <= 0.7 * TOLERANCE
