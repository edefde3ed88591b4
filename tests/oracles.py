"""Independent oracles for geoveil.gp: mpmath, quadrature, brute force; not the code under test.

Objects of the library are read for their public parameters only (a width, a bandwidth, an ε). All
mathematics here is written a second time, from the definitions.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from geoveil.gp import GaussianKernel, Laplace, Query, Threshold

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


def exact(value: float | int | Fraction) -> Any:
    """Return a number at the working precision of mpmath."""
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(value)


# ---------------------------------------------------------------------------------------------
# Noise: unnormalised log-densities, integrated numerically.


def _laplace(noise: Any, u: Any, m: Any, c: Any) -> Any:
    return -u / c(noise.scale)


def _cauchy(noise: Any, u: Any, m: Any, c: Any) -> Any:
    gamma = c(noise.gamma)
    if u <= 1:
        return -m.log(1 + u**gamma)
    return -gamma * m.log(u) - m.log(1 + u**-gamma)


def _student(noise: Any, u: Any, m: Any, c: Any) -> Any:
    nu = c(noise.nu)
    return -(nu + 1) / 2 * m.log(1 + u * u / nu)


def _laplace_pareto(noise: Any, u: Any, m: Any, c: Any) -> Any:
    epsilon, a = c(noise.epsilon), c(noise.epsilon) / c(noise.beta)
    knee = (1 + a) / epsilon
    if u <= knee:
        return -epsilon * u
    return -(1 + a) - (1 + a) * m.log(u / knee)


def _power_law(noise: Any, u: Any, m: Any, c: Any) -> Any:
    epsilon, beta = c(noise.epsilon), c(noise.beta)
    a = epsilon / beta
    if u * epsilon <= 1:
        return (a - 1) * m.log(1 - beta * u) if a > 1 else c(0)
    log_k = (a + 1) * m.log(1 + 1 / a)
    if a > 1:
        log_k += (a - 1) * m.log(1 - 1 / a)
    return log_k - (a + 1) * m.log(1 + beta * u)


_LOG_KERNELS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "Laplace": _laplace,
    "GeneralizedCauchy": _cauchy,
    "StudentT": _student,
    "LaplacePareto": _laplace_pareto,
    "PowerLaw": _power_law,
}
_BREAKS: dict[str, Callable[[Any], float]] = {
    "Laplace": lambda n: n.scale,
    "GeneralizedCauchy": lambda n: 1.0,
    "StudentT": lambda n: math.sqrt(n.nu),
    "LaplacePareto": lambda n: (1 + n.epsilon / n.beta) / n.epsilon,
    "PowerLaw": lambda n: 1 / n.epsilon,
}


def log_kernel(noise: Any, u: Any) -> Any:
    """Return the unnormalised log-density at u ≥ 0, in mpmath."""
    return _LOG_KERNELS[type(noise).__name__](noise, mp.mpf(u), mp.mp, mp.mpf)


def noise_break(noise: Any) -> float:
    """Return where the density changes its form, or its natural scale."""
    return _BREAKS[type(noise).__name__](noise)


def noise_integral(noise: Any, power: int, low: Any, high: Any = mp.inf) -> Any:
    """Return ∫ u^power h(u) du from low to high, unnormalised, by tanh-sinh quadrature.

    The tail is integrated in log u, where a power law decays exponentially.
    """

    knee, low = mp.mpf(noise_break(noise)), mp.mpf(low)
    total = mp.mpf(0)
    # mpmath stops at an absolute error: scaled to 1 where it starts, it is a relative one.
    if low < knee:
        lift = log_kernel(noise, low)

        def plain(u: Any) -> Any:
            return u**power * mp.exp(log_kernel(noise, u) - lift)

        end = min(knee, high)
        # Where h falls by far more than e^−1 before its knee, the start holds all the mass.
        fall = max(1, (lift - log_kernel(noise, end)) / 8)
        stops = [low, low + (end - low) / fall / 3, low + (end - low) / fall]
        while fall > 1:
            fall = max(1, fall / 4)
            stops.append(low + (end - low) / fall)
        total += mp.exp(lift) * mp.quad(plain, stops)
    if high > knee:
        start = mp.log(max(low, knee))
        top = (power + 1) * start + log_kernel(noise, mp.exp(start))

        def in_log(t: Any) -> Any:
            return mp.exp((power + 1) * t + log_kernel(noise, mp.exp(t)) - top)

        end = mp.log(high) if high < mp.inf else start + _length(in_log, start)
        shares = (0, mp.mpf("0.01"), mp.mpf("0.05"), mp.mpf("0.2"), 1)
        stops = [start + (end - start) * share for share in shares]
        total += mp.exp(top) * mp.quad(in_log, stops)
    return total


def _length(function: Callable[[Any], Any], start: Any) -> Any:
    """Return a length after which a decaying function no longer counts."""
    length, floor = mp.mpf(2) ** -12, function(start) * mp.eps**2
    while function(start + length) > floor:
        length *= 2
    return length


@lru_cache(maxsize=256)
def noise_half_mass(noise: Any, digits: int = 25) -> Any:
    """Return ∫₀^∞ of the unnormalised density."""
    with mp.workdps(digits):
        return noise_integral(noise, 0, 0)


def noise_logpdf(noise: Any, u: Any) -> Any:
    """Return log h(u), normalised."""
    return log_kernel(noise, abs(mp.mpf(u))) - mp.log(2 * noise_half_mass(noise))


def noise_survival(noise: Any, u: Any) -> Any:
    """Return P[Z > u], u ≥ 0, from whichever integral does not cancel."""
    u = mp.mpf(u)
    if u < noise_half_mass(noise) / 4:
        return mp.mpf(1) / 2 - noise_integral(noise, 0, 0, u) / (2 * noise_half_mass(noise))
    return noise_integral(noise, 0, u) / (2 * noise_half_mass(noise))


@lru_cache(maxsize=256)
def noise_variance(noise: Any) -> Any:
    """Return E[Z²]."""
    with mp.workdps(25):
        return noise_integral(noise, 2, 0) / noise_half_mass(noise)


_SCORES: dict[str, Callable[[Any, Array], Array]] = {
    "Laplace": lambda n, u: np.full(u.shape, 1 / n.scale),
    "GeneralizedCauchy": lambda n, u: n.gamma / (u + u * np.exp(-n.gamma * np.log(u))),
    "StudentT": lambda n, u: (n.nu + 1) / (u + n.nu / u),
    "LaplacePareto": lambda n, u: np.minimum(n.epsilon, (1 + n.epsilon / n.beta) / u),
    "PowerLaw": lambda n, u: np.where(
        u * n.epsilon < 1,
        (n.epsilon - n.beta) / np.where(u * n.epsilon < 1, 1 - n.beta * u, 1.0),
        (n.epsilon + n.beta) / (1 + n.beta * u),
    ),
}


def score(noise: Any, u: Array) -> Array:
    """Return −(log h)'(u) for u > 0."""
    return _SCORES[type(noise).__name__](noise, u)


def largest_eta(noise: Any, fraction: float) -> float:
    """Return the largest η with β|uψ−1| + ηψ ≤ 1 for all u, β = fraction [MATH §3, rectangle].

    A grid in log u, then ever finer grids around each of its local minima.
    """
    scale = noise_break(noise)

    def slack(u: Array) -> Array:
        psi = score(noise, u)
        return (1 - fraction * np.abs(u * psi - 1)) / psi

    grid = np.concatenate([np.logspace(-4, 4, 8001), [1.0, 0.5]]) * scale
    if type(noise).__name__ == "LaplacePareto":
        grid = np.append(grid, 1 / noise.epsilon)
    grid = np.sort(grid)
    values = slack(grid)
    best = float(values.min())
    padded = np.concatenate([[math.inf], values, [math.inf]])
    for i in np.flatnonzero((values <= padded[:-2]) & (values <= padded[2:])):
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, grid.size - 1)]
        for _ in range(8):
            fine = np.linspace(low, high, 41)
            at = int(np.argmin(slack(fine)))
            best = min(best, float(slack(fine)[at]))
            low, high = fine[max(at - 1, 0)], fine[min(at + 1, 40)]
    return best


def float_log_kernel(noise: Any, u: Array) -> Array:
    """Return the unnormalised log-density in float64, element by element."""
    kernel = _LOG_KERNELS[type(noise).__name__]
    flat = [kernel(noise, float(v), math, float) for v in np.ravel(u)]
    return np.asarray(flat).reshape(np.shape(u))


@lru_cache(maxsize=64)
def noise_cdf(noise: Any) -> Callable[[Array], Array]:
    """Return the CDF by Gauss-Legendre panels, good to about 1e-5, for goodness-of-fit tests."""
    nodes, weights = np.polynomial.legendre.leggauss(6)
    scale = noise_break(noise)
    edges = np.concatenate([[0.0], scale * np.logspace(-6, 12, 3001)])
    half = np.diff(edges) / 2
    u = edges[:-1, None] + half[:, None] * (1 + nodes)
    mass = np.exp(float_log_kernel(noise, u)) @ weights * half
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    cumulative = 0.5 + 0.5 * cumulative / cumulative[-1]

    def cdf(z: Array) -> Array:
        upper = np.interp(np.abs(z), edges, cumulative)
        return np.where(z > 0, upper, 1 - upper)

    return cdf


def isf(noise: Any, p: Any) -> Any:
    """Return the u with P[Z > u] = p ≤ 1/2, at the working precision of mpmath."""
    name = type(noise).__name__
    if name == "Laplace":
        return -exact(noise.scale) * mp.log(2 * p)
    epsilon, beta = exact(noise.epsilon), exact(noise.beta)
    a = epsilon / beta
    if name == "LaplacePareto":
        decay, knee = mp.exp(-1 - a), (1 + a) / epsilon
        mass = 2 * (1 + decay / a) / epsilon
        beyond = decay * knee / a
        if p * mass <= beyond:
            return knee * (p * mass / beyond) ** (-1 / a)
        return -mp.log(epsilon * (p * mass - beyond) + decay) / epsilon
    assert name == "PowerLaw"
    knee_density = (1 - 1 / a) ** (a - 1) if a > 1 else mp.mpf(1)
    k = knee_density * (1 + 1 / a) ** (a + 1)
    mass = 2 * (1 + 2 / a * knee_density) / epsilon
    beyond = knee_density * (1 + 1 / a) / epsilon
    if p * mass <= beyond:
        return ((p * mass * epsilon / k) ** (-1 / a) - 1) / beta
    floor = (1 - 1 / a) ** a if a > 1 else mp.mpf(0)
    return (1 - (epsilon * (p * mass - beyond) + floor) ** (1 / a)) / beta


def survival(noise: Any, u: Any) -> Any:
    """Return P[Z > u], u ≥ 0, for the families with a closed form: the inverse of `magnitude`."""
    name = type(noise).__name__
    if name == "Laplace":
        return mp.exp(-u / exact(noise.scale)) / 2
    assert name == "LaplacePareto" or noise.epsilon > noise.beta
    epsilon, beta = exact(noise.epsilon), exact(noise.beta)
    a = epsilon / beta
    if name == "LaplacePareto":
        decay, knee = mp.exp(-1 - a), (1 + a) / epsilon
        mass = 2 * (1 + decay / a) / epsilon
        if u >= knee:
            return decay * knee / a * (u / knee) ** -a / mass
        return ((mp.exp(-epsilon * u) - decay) / epsilon + decay * knee / a) / mass
    knee_density = (1 - 1 / a) ** (a - 1)
    k = knee_density * (1 + 1 / a) ** (a + 1)
    mass = 2 * (1 + 2 / a * knee_density) / epsilon
    if u * epsilon >= 1:
        return k * (1 + beta * u) ** -a / epsilon / mass
    core = ((1 - beta * u) ** a - (1 - 1 / a) ** a) / epsilon
    return (core + knee_density * (1 + 1 / a) / epsilon) / mass


def quantile(noise: Any, numerator: int, count: int) -> Any:
    """Return F⁻¹(U) for U = (numerator + 1/2)/2^count, without cancellation at either end."""
    twice = 2 * numerator + 1
    whole = 1 << (count + 1)
    tail = min(twice, whole - twice)
    u = isf(noise, mp.mpf(tail) / mp.mpf(whole))
    return u if 2 * twice > whole else -u


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
