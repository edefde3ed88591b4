"""The deconvolved Gaussian: g = (1 − b²Δ)^{(k+1)/2} e^{−|x|²/2} in R^k, lengths in bandwidths.

Laplace noise of density ∝ e^{−|N|/b} has the characteristic function (1 + b²|t|²)^{−(k+1)/2}, so
E[g(x + N)] = e^{−|x|²/2} [MATH §5.2]. With L the Laguerre polynomials,

    (−Δ)^j e^{−u²/2} = 2^j j! L_j^{(k/2−1)}(u²/2) e^{−u²/2},

which closes the case of odd k. For even k one half power remains, and

    (1 − b²Δ)^{−1/2} = (2/√π) ∫_0^∞ e^{−τ²} e^{τ²b²Δ} dτ

turns it into a mixture of Gaussians of variance σ² = 1 + 2b²τ², to each of which the integer powers
apply. The integrand is even and analytic in τ = sinh(y)/(√2 b), so that the trapezoidal rule in y
converges geometrically.

The Fourier transform of g is positive, so |g| ≤ g(0). It is analytic for |Im κ| < 1/b and no
farther (a branch point for even k), so g decays like e^{−r/b}, times a power of r, once that is
slower than the bell: shifting the integral by ia/b, where |1 + b²κ²| grows by at most √1.5,

    |g(u)| ≤ 1.5^{(k+1)/4} e^{a²/(2c²) − au/c} g(0),   0 ≤ a ≤ 1,   c = b/h.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.deconvolution.table import Table

Array = NDArray[np.float64]

TABLE_ERROR = 1e-11
"""Largest deviation of the tabulated g, relative to sup |g|; what is beyond its end is less."""
_FAR = 60.0
"""In standard deviations: there e^{−u²/2} is 0 in float64, and no power of u has overflowed."""


def deconvolved(u: Array, dimension: int, c: float) -> Array:
    """Return g(u), u = r/h ≥ 0, for the noise scale c = b/h, summed directly."""
    if dimension % 2 == 1:
        return _powers(u, dimension, (dimension + 1) // 2, c)
    top = math.asinh(6.2 * math.sqrt(2) * c)
    y = np.linspace(0, top, max(64, math.ceil(top / 0.06)) + 1)
    tau = np.sinh(y) / (math.sqrt(2) * c)
    weight = np.exp(-(tau**2)) * np.cosh(y) * y[1] * math.sqrt(2 / math.pi) / c
    weight[0] /= 2
    result = np.zeros_like(u)
    for w, deviation in zip(weight, np.cosh(y), strict=True):  # σ = √(1 + sinh²y)
        mixed = _powers(u / deviation, dimension, dimension // 2 + 1, c / deviation)
        result += w * deviation**-dimension * mixed
    return result


def _powers(u: Array, dimension: int, power: int, c: float) -> Array:
    """Return (1 − c²Δ)^power e^{−u²/2} for an integer power."""
    u = np.minimum(u, _FAR)
    t, alpha = u * u / 2, dimension / 2 - 1
    before, now = np.zeros_like(t), np.ones_like(t)
    total, factor = np.ones_like(t), 1.0
    for j in range(1, power + 1):
        before, now = now, ((2 * j - 1 + alpha - t) * now - (j - 1 + alpha) * before) / j
        factor *= (power - j + 1) * 2 * c * c  # C(m, j) j! (2c²)^j
        total += factor * now
    return np.asarray(total * np.exp(-t))


def peak(dimension: int, c: float) -> float:
    """Return g(0) = sup |g|."""
    return float(deconvolved(np.zeros(1), dimension, c)[0])


def log_tail_bound(u: float, dimension: int, c: float) -> float:
    """Return the logarithm of a bound of |g|/sup |g| at u and beyond."""
    a = min(1.0, c * u)
    return (dimension + 1) / 4 * math.log(1.5) + (a / c) ** 2 / 2 - a * u / c


def end(dimension: int, c: float, relative: float) -> float:
    """Return a u beyond which |g| stays below `relative`·sup |g|."""
    low, high = 0.0, 1.0
    while log_tail_bound(high, dimension, c) > math.log(relative):
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        if log_tail_bound(middle, dimension, c) > math.log(relative):
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=64)
def deconvolved_table(dimension: int, c: float) -> Table:
    """Return g/sup |g| as a table up to where it is below the table's error."""
    last = end(dimension, c, TABLE_ERROR / 10)
    scale = peak(dimension, c)
    first = np.arange(0.0, min(last, 8.0), 0.5)
    later = 8.0 * 1.5 ** np.arange(math.ceil(math.log(max(last / 8.0, 1.0), 1.5)))
    edges = [*first.tolist(), *later[later < last].tolist(), last]
    return Table(lambda u: deconvolved(u, dimension, c) / scale, edges, TABLE_ERROR)
