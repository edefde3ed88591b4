"""The Gaussian bell with planar Laplace noise undone, in any dimension [MATH §5.2].

The noise in R^k has the characteristic function (1 + b²|t|²)^{−(k+1)/2}, so that

    g = (1 − b²Δ)^{(k+1)/2} f   has   E[g(x + N)] = f(x).

With r in bandwidths and c = b/h, on a bell σ^{−k} e^{−q}, q = r²/2σ², the Laplacian acts as
Δⁿ = (−2/σ²)ⁿ n! L_n^{(k/2−1)}(q), L the generalised Laguerre polynomials. Hence for odd k, with
m = (k+1)/2,

    g = e^{−q} Σ_n C(m, n) n! (2c²)ⁿ L_n(q),   σ = 1.

For even k the root is left: (1 − b²Δ)^{−1/2} = (2/√π) ∫ e^{−v²} e^{v²b²Δ} dv, and e^{v²b²Δ} turns
the bell into one of σ² = 1 + 2c²v². So g is the mixture over v of the sum above with m = k/2 + 1
and (2c²/σ²)ⁿ, an integral of analytic functions to which the trapezoidal rule converges
exponentially; for k = 2 it is ∫₀^∞ κ e^{−κ²/2} (1 + c²κ²)^{3/2} J₀(κr) dκ.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.deconvolution.table import Table

Array = NDArray[np.float64]

TABLE_ERROR = 1e-12
"""Bound on the error of `debiased_bell` for even k, relative to its value at the centre."""
_STEP = 2.0**-10
_BLOCK = 4096


def debiased_bell(r: Array, c: float, dimension: int) -> Array:
    """Return g at distance r from the centre.

    Closed form for odd k. For even k interpolated in a table, made once for each (c, k): the error
    is at most `TABLE_ERROR` times g(0), at every r.

    Args:
        r: distances ≥ 0, in bandwidths, any shape.
        c: noise scale b > 0, in bandwidths.
        dimension: k ≥ 1.
    """
    if dimension % 2:
        return _mixed(np.asarray(r * r / 2), (dimension + 1) // 2, dimension, c)
    return _table(c, dimension)(r, 0.0)


def reach(c: float) -> float:
    """Return the distance, in bandwidths, beyond which g is below e^{−36} of its height.

    In the mixture, v² + r²/2σ² ≥ r/c − 1/(2c²) for rc ≥ 1 (equal at σ² = rc); for rc < 1 it is at
    least r²/2, at v = 0.
    """
    return max(12.0, 36 * c + 1 / (2 * c)) if c > 1 / 12 else 12.0


def bell_by_mixture(r: Array, c: float, dimension: int) -> Array:
    """Return g for even k without a table, to about 1e-15 of g(0)."""
    v, weight = _mixture(c)
    variance = 1 + 2 * (c * v) ** 2
    weight = weight * variance ** (-dimension / 2)
    flat = np.ravel(r)
    result = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK, None]
        q = block * block / (2 * variance)
        bells = _mixed(q, dimension // 2 + 1, dimension, c / np.sqrt(variance))
        result[start : start + _BLOCK] = bells @ weight
    return np.asarray(result.reshape(np.shape(r)))


def _mixed(q: Array, power: int, dimension: int, c: float | Array) -> Array:
    """Return e^{−q} Σ_n C(m, n) n! (2c²)ⁿ L_n^{(k/2−1)}(q), m = `power`."""
    alpha = dimension / 2 - 1
    before, laguerre = np.zeros_like(q), np.ones_like(q)
    total = np.ones_like(q)
    factor: float | Array = 1.0
    for n in range(power):
        # (n+1) L_{n+1} = (2n + 1 + α − q) L_n − (n + α) L_{n−1}
        step = ((2 * n + 1 + alpha - q) * laguerre - (n + alpha) * before) / (n + 1)
        before, laguerre = laguerre, step
        factor = factor * (2 * (power - n) * c * c)  # C(m, n) n! = m!/(m − n)!
        total = total + factor * laguerre
    return np.asarray(np.exp(-q) * total)


def _mixture(c: float) -> tuple[Array, Array]:
    """Return nodes v ≥ 0 and weights of (2/√π) ∫₀^∞ e^{−v²} F(1 + 2c²v²) dv.

    F is analytic where σ² has a positive real part. For c ≤ 1 that is a strip of half-width 0.7
    around the real line; for c > 1 the variable y with √2 cv = sinh y, σ = cosh y, has one of π/4.
    The integrand is even, so the trapezoidal rule counts v = 0 half.
    """
    step, last = 1 / 12, 6.5
    end = last if c <= 1 else math.asinh(math.sqrt(2) * c * last)
    y = step * np.arange(int(end / step) + 1, dtype=np.float64)
    v, slope = np.asarray(y), np.ones_like(y)
    if c > 1:
        v, slope = np.sinh(y) / (math.sqrt(2) * c), np.cosh(y) / (math.sqrt(2) * c)
    weight = 2 / math.sqrt(math.pi) * step * np.exp(-v * v) * slope
    weight[0] /= 2
    return np.asarray(v), weight


@lru_cache(maxsize=32)
def _table(c: float, dimension: int) -> Table:
    return Table(lambda r: bell_by_mixture(r, c, dimension), 1.0, reach(c), _STEP)
