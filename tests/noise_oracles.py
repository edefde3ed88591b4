"""Oracles of noise: unnormalised log-densities, integrated numerically; and quantiles in mpmath."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def exact(value: float | int | Fraction) -> Any:
    """Return a number at the working precision of mpmath."""
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    return mp.mpf(value)


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
