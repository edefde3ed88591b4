"""Independent oracles for geoveil.gp: mpmath, quadrature, brute force; not the code under test.

Objects of the library are read for their public parameters only (a width, a bandwidth, an ε). All
mathematics here is written a second time, from the definitions.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from geoveil.gp import GaussianKernel, Laplace, Query, Threshold
from tests.noise_oracles import (  # noqa: F401 - oracles as well
    exact,
    isf,
    largest_eta,
    log_kernel,
    noise_break,
    noise_cdf,
    noise_half_mass,
    noise_integral,
    noise_logpdf,
    noise_survival,
    noise_variance,
    quantile,
    score,
    survival,
)

Array = NDArray[np.float64]
ALPHA = 1e-6
"""Failure probability of every statistical test."""
STANDARD_LAPLACE = Laplace(1.0)
"""Names a law whose quantile is wanted; its mathematics is not used."""
MAKERS: dict[str, Callable[[float], Query]] = {
    "linear": lambda size: Threshold(at=0.0, width=size, profile="linear"),
    "smoothstep": lambda size: Threshold(at=0.0, width=size, profile="smoothstep"),
    "kernel": lambda size: GaussianKernel(center=0.0, bandwidth=size),
}
"""Name → a query centred at 0, from its width or bandwidth."""


# ---------------------------------------------------------------------------------------------
# Queries: f, its slope and curvature, its smooth bound, of the signed distance s.


def kind(query: Any) -> str:
    """Return "linear", "smoothstep" or "kernel"."""
    return str(getattr(query.profile, "name", "kernel"))


def length_scale(query: Any) -> float:
    """Return the width or the bandwidth."""
    return float(query.width if hasattr(query, "width") else query.bandwidth)


def signed_distance(query: Any, x: Any) -> Any:
    """Return s(x) in mpmath: the signed distance of a region, or the distance to a centre."""
    point = [exact(p) for p in (x if isinstance(x, (tuple, list)) else (x,))]
    return _SCALARS[type(query).__name__](query, point)


def _from_centre(query: Any, point: list[Any]) -> Any:
    squares = [(p - exact(c)) ** 2 for p, c in zip(point, query.center, strict=True)]
    return mp.sqrt(mp.fsum(squares))


def _quadrant(query: Any, point: list[Any]) -> Any:
    u, v = (p - exact(t) for p, t in zip(point, query.at, strict=True))
    r = exact(query.width) * (1 / mp.sqrt(2) + mp.mpf(1) / 2)
    if u <= r and v <= r:
        return r - mp.hypot(r - u, r - v)
    return min(u, v)


_SCALARS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "Threshold": lambda q, point: point[0] - exact(q.at),
    "Range": lambda q, point: min(point[0] - exact(q.low), exact(q.high) - point[0]),
    "TwoWayThreshold": _quadrant,
    "Disc": lambda q, point: exact(q.radius) - _from_centre(q, point),
    "GaussianKernel": _from_centre,
}


def value(query: Any, s: Any) -> Any:
    """Return φ(s)."""
    size = exact(length_scale(query))
    if kind(query) == "kernel":
        return mp.exp(-((s / size) ** 2) / 2)
    t = min(max(s / size + mp.mpf(1) / 2, mp.mpf(0)), mp.mpf(1))
    return t if kind(query) == "linear" else 3 * t**2 - 2 * t**3


def slope(query: Any, s: Any) -> Any:
    """Return |φ'(s)|; at a corner, the larger side."""
    size = exact(length_scale(query))
    if kind(query) == "kernel":
        return abs(s) / size**2 * mp.exp(-((s / size) ** 2) / 2)
    if abs(s) > size / 2:
        return mp.mpf(0)
    if kind(query) == "linear":
        return 1 / size
    t = s / size + mp.mpf(1) / 2
    return 6 * t * (1 - t) / size


def curvature(query: Any, s: Any) -> Any:
    """Return φ''(s)."""
    size = exact(length_scale(query))
    if kind(query) == "kernel":
        u2 = (s / size) ** 2
        return (u2 - 1) * mp.exp(-u2 / 2) / size**2
    assert kind(query) == "smoothstep"
    if abs(s) > size / 2:
        return mp.mpf(0)
    return (6 - 12 * (s / size + mp.mpf(1) / 2)) / size**2


def debiased(query: Any, v: Any, b: Any) -> Any:
    """Return g(v) = φ(v) − b²φ''(v)."""
    return value(query, v) - b**2 * curvature(query, v)


def lipschitz(query: Any) -> Any:
    """Return sup |φ'|."""
    size = exact(length_scale(query))
    return {
        "linear": lambda: 1 / size,
        "smoothstep": lambda: mp.mpf(3) / 2 / size,
        "kernel": lambda: mp.exp(-mp.mpf(1) / 2) / size,
    }[kind(query)]()


def bound(query: Any, s: Any, beta: Any, reach: float = 0.0) -> Any:
    """Return B for exponential growth, in closed form [MATH §2], in mpmath."""
    size, z, name = exact(length_scale(query)), abs(s), kind(query)
    d = max(z - size / 2, mp.mpf(0))
    if name == "linear":
        local = mp.exp(-beta * d) / size
        return local if reach == 0 else max(local, 1 / (d + size))
    if name == "kernel":
        assert reach == 0
        q = mp.sqrt((beta * size**2) ** 2 + 4 * size**2)
        low, high = (q - beta * size**2) / 2, (q + beta * size**2) / 2
        at = min(max(z, low), high)
        return slope(query, at) * mp.exp(-beta * abs(z - at))
    if reach == 0:
        peak = (mp.sqrt(1 + beta**2 * size**2 / 4) - 1) / beta
        return slope(query, z) if z <= peak else slope(query, peak) * mp.exp(-beta * (z - peak))
    peak = (mp.sqrt(1 + beta**2 * size**2) - 1) / beta
    local = smoothstep_chord(size, z)
    if peak > size / 2 or z <= peak:
        return local
    return max(local, smoothstep_chord(size, peak) * mp.exp(-beta * (z - peak)))


def smoothstep_chord(width: Any, z: Any) -> Any:
    """Return the steepest chord of the smoothstep from z ≥ 0, maximised over where it ends."""
    if z <= width / 2:
        return (1 - (z / width) ** 2) * 3 / (2 * width)
    delta = z / width - mp.mpf(1) / 2
    # p'(t)(t + δ) = p(t): −4t² + (3 − 6δ)t + 6δ = 0.
    b = 3 - 6 * delta
    root = mp.sqrt(b * b + 96 * delta)
    t = (b + root) / 8 if b >= 0 else 12 * delta / (root - b)
    return (3 * t**2 - 2 * t**3) / ((t + delta) * width)


# The same functions in float64, vectorised, for brute force over grids.


def float_value(query: Any, s: Array) -> Array:
    """Return φ(s) over an array."""
    size = length_scale(query)
    if kind(query) == "kernel":
        with np.errstate(over="ignore"):
            return np.exp(-((s / size) ** 2) / 2)
    t = np.clip(s / size + 0.5, 0, 1)
    return t if kind(query) == "linear" else t * t * (3 - 2 * t)


def float_slope(query: Any, s: Array) -> Array:
    """Return |φ'(s)| over an array; at a corner, the larger side."""
    size = length_scale(query)
    if kind(query) == "kernel":
        return np.abs(s) / size**2 * np.exp(-((s / size) ** 2) / 2)
    t = np.clip(s / size + 0.5, 0, 1)
    inside = np.abs(s) <= size / 2
    if kind(query) == "linear":
        return np.where(inside, 1 / size, 0.0)
    return 6 * t * (1 - t) / size


def brute_force_bound(
    query: Any, s: Sequence[float], beta: float, growth: str, reach: float
) -> Array:
    """Return sup_y L_Λ(y)/g(β|s−y|) over fine grids of y, and of the far ends y' of chords.

    A lower bound of B; every s is among the y, so that what happens at s itself is not missed.
    """
    size = length_scale(query)
    points = np.asarray(s, dtype=np.float64)
    if reach == 0:
        span = max(8.0, 2 + 1.2 * beta * size)
        near = np.logspace(-3, math.log10(span), 6001)
        y = np.concatenate([np.linspace(-span, span, 6001), near, -near, [-0.5, 0.5]]) * size
        y = np.concatenate([y, points])
        steepest = float_slope(query, y)
    else:
        y, steepest = _chords(query, tuple(points.tolist()), reach)
    t = beta * np.abs(points[:, None] - y[None, :])
    decay = np.exp(-t) if growth == "exponential" else 1 / (1 + t)
    return np.asarray(np.max(steepest * decay, axis=1))


@lru_cache(maxsize=64)
def _chords(query: Any, points: tuple[float, ...], reach: float) -> tuple[Array, Array]:
    """Return points y and the steepest chord from each to a point of a fine grid within reach."""
    size = length_scale(query)
    span = 8.0 if kind(query) == "kernel" else 2.0
    grid = np.concatenate([np.linspace(-span, span, 3001), [-0.5, 0.5]]) * size
    y = np.concatenate([grid, points])
    if reach < math.inf:  # from as far as chords reach back
        y = np.concatenate([y, np.linspace(-1, 1, 3001) * (span * size + reach)])
    steepest, rise, f_y = float_slope(query, y), float_value(query, grid), float_value(query, y)
    for start in range(0, y.size, 512):
        part = slice(start, start + 512)
        gap = np.abs(y[part, None] - grid[None, :])
        chord = np.abs(f_y[part, None] - rise[None, :])
        # Chords shorter than the grid are the slope, up to rounding.
        quotient = np.where(gap <= reach, chord / np.maximum(gap, 1e-3 * size), 0.0)
        steepest[part] = np.maximum(steepest[part], quotient.max(axis=1))
    if reach < math.inf:  # the chords that are exactly as long as is permitted
        for sign in (1.0, -1.0):
            rise_there = np.abs(float_value(query, y + sign * reach) - f_y)
            steepest = np.maximum(steepest, rise_there / reach)
    return y, steepest


def kernel_bound_everywhere(beta_h: Any, r: Any) -> Any:
    """Return B(r)·h of the Gaussian kernel at reach ∞, r in units of h, by nested searches.

    The steepest chord from z is a root of e^{−z²/2} = (1 + w(w−z)) e^{−w²/2} [MATH §2.2]; the
    supremum over z is searched in brackets around every local maximum of a grid.
    """

    def steepest(z: Any) -> Any:
        z = abs(z)
        if z == 1:
            return mp.exp(-mp.mpf(1) / 2)

        def touch(w: Any) -> Any:
            # Divided by the double root at z, which is not the one wanted.
            return (1 + w * (w - z) - mp.exp((w * w - z * z) / 2)) / (w - z) ** 2

        bracket = (1, 2) if z < 1 else (mp.mpf(0), 1)
        w = mp.findroot(touch, bracket, solver="anderson", tol=mp.mpf(10) ** -40)
        return w * mp.exp(-w * w / 2)

    def log_candidate(z: Any) -> Any:
        return mp.log(steepest(z)) - beta_h * abs(r - z)

    grid = [mp.mpf(i) / 7 for i in range(0, 36)] + [r]
    grid.sort()
    values = [log_candidate(z) for z in grid]
    best = max(values)
    for i in range(len(grid)):
        left, right = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
        if values[i] < best - mp.mpf("0.05") or values[i] < max(
            values[max(i - 1, 0)], values[min(i + 1, len(grid) - 1)]
        ):
            continue
        for low, high in ((left, grid[i]), (grid[i], right)):
            best = max(best, _golden(log_candidate, low, high))
    return mp.exp(best)


def _golden(function: Callable[[Any], Any], low: Any, high: Any) -> Any:
    ratio = (mp.sqrt(5) - 1) / 2
    best = max(function(low), function(high))
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    f_a, f_b = function(a), function(b)
    for _ in range(36):
        if f_a > f_b:
            high, b, f_b = b, a, f_a
            a = high - ratio * (high - low)
            f_a = function(a)
        else:
            low, a, f_a = a, b, f_b
            b = low + ratio * (high - low)
            f_b = function(b)
    return max(best, f_a, f_b)


# ---------------------------------------------------------------------------------------------
# Release: the correctly rounded integer.


def round_to_grid(y: Any, step: float) -> int:
    """Return the integer nearest to y/step, ties upwards, saturated at the ends of int64."""
    k = int(mp.floor(y / exact(step) + mp.mpf(1) / 2))
    return min(max(k, -(2**63)), 2**63 - 1)


# ---------------------------------------------------------------------------------------------
# Statistics.


def ks_distance(sample: Array, cdf: Callable[[Array], Array]) -> float:
    """Return the Kolmogorov-Smirnov distance between a sample and a continuous CDF."""
    ordered = np.sort(np.ravel(sample))
    p = cdf(ordered)
    n = ordered.size
    steps = np.arange(n + 1) / n
    return float(max(np.max(steps[1:] - p), np.max(p - steps[:-1])))


def ks_limit(count: int) -> float:
    """Return the distance exceeded with probability at most ALPHA (Dvoretzky-Kiefer-Wolfowitz)."""
    return math.sqrt(math.log(2 / ALPHA) / (2 * count))


def standard_errors(sample: Array, expected: float) -> float:
    """Return how many standard errors a sample's mean is from what is expected."""
    return float(abs(sample.mean() - expected) / (sample.std() / math.sqrt(sample.size)))


def gauss(function: Callable[[Array], Array], marks: Sequence[float], panels: int = 24) -> float:
    """Return the integral from the first mark to the last; the function is smooth between marks."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    stops = sorted(set(marks))
    edges = np.concatenate([np.linspace(a, b, panels + 1) for a, b in pairwise(stops)])
    half = np.diff(edges) / 2
    u = edges[:-1, None] + half[:, None] * (1 + nodes)
    keep = half > 0
    return float(np.sum(function(u[keep]) @ weights * half[keep]))


# ---------------------------------------------------------------------------------------------
# DebiasedLaplace: moments of g(s + bZ) by quadrature of the definition.


def debiased_moment(query: Any, s: Any, b: Any, power: int, centre: Any = 0) -> Any:
    """Return E[(g(s + bZ) − centre)^power], Z standard Laplace.

    `centre` keeps what is small from being a difference of what is large: far above the band g is
    nearly always 1, the centre to take.
    """
    size = exact(length_scale(query))
    s, b = mp.mpf(s), mp.mpf(b)
    edge = size / 2 if kind(query) == "smoothstep" else 14 * size + 3 * abs(s)
    # The noise has to come back to the band: e^{−shift} is common to the whole integral.
    shift = max(abs(s) - edge, mp.mpf(0)) / b

    def weighted(v: Any) -> Any:
        tilt = mp.exp(shift - abs(v - s) / b) / (2 * b)
        return (debiased(query, v, b) - centre) ** power * tilt

    marks = [s + sign * b * k for k in (0, 3, 30) for sign in (1, -1)]
    marks += [sign * size * 3 for sign in (1, -1)]
    marks += [sign * (edge - b * k) for k in (3, 30) for sign in (1, -1)]
    stops = sorted({-edge, edge, *(m for m in marks if -edge < m < edge)})
    total = mp.exp(-shift) * mp.quad(weighted, stops)
    if kind(query) == "smoothstep":
        for limit, distance in ((1, s - edge), (0, -edge - s)):
            if limit != centre:
                beyond = mp.exp(-abs(distance) / b) / 2
                mass = beyond if distance < 0 else 1 - beyond
                total += (limit - mp.mpf(centre)) ** power * mass
    return total


def debiased_variance(query: Any, s: Any, b: Any) -> Any:
    """Return the variance of g(s + bZ)."""
    centre = 1 if kind(query) == "smoothstep" and s > 0 else 0
    f = value(query, mp.mpf(s)) - centre
    return debiased_moment(query, s, b, 2, centre) - f**2
