"""Expectations over planar Laplace noise of functions of the distance to a centre.

In polar coordinates around the true point, at distance r from the centre, the noise has radius
s ~ Gamma(k, c) and an angle θ to the centre with density ∝ sin^{k−2}θ, and ends at the distance
ρ² = (r − s)² + 4rs sin²(θ/2). Everything is smooth there. All integrands are positive, so that the
result is accurate relative to itself, far away too.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_RADIUS_NODES, _RADIUS_WEIGHTS = np.polynomial.legendre.leggauss(8)
_ANGLES, _ANGLE_WEIGHTS = np.polynomial.legendre.leggauss(40)
_FADE = 40.0
"""Parts of the integrand below e^{−40} of its largest are left out."""
_CELLS = 200_000


def planar_expectation(
    function: Callable[[Array, Array], Array], r: Array, c: float, dimension: int
) -> Array:
    """Return E[function(|x + N|, r)] for |x| = r, in units of the length the function varies over.

    Args:
        function: of the distance ρ and of r, broadcast together; analytic in ρ², and far from the
            centre of the order of e^{−ρ²/2} or e^{−ρ/c}; for c < 1 a constant may be added.
        r: distances ≥ 0, shape (n,).
        c: noise scale.
        dimension: k ≥ 2.

    Returns:
        An array of shape (n,), accurate to about 1e-7 of itself if the function is positive.
    """
    phi = math.pi / 2 * (1 + _ANGLES)
    tangent = np.tan(phi / 2)
    norm = math.gamma(dimension / 2) / (math.sqrt(math.pi) * math.gamma((dimension - 1) / 2))
    result = np.empty_like(r)
    radii = _edges(r[:1], c).shape[1] * _RADIUS_NODES.size if r.size else 1
    block = max(1, _CELLS // (radii * phi.size))
    for start in range(0, r.size, block):
        at = r[start : start + block, None]
        edges = _edges(at[:, 0], c)
        half = np.diff(edges, axis=1)[..., None] / 2
        s = (edges[:, :-1, None] + half * (1 + _RADIUS_NODES)).reshape(at.size, -1)
        density = (s / c) ** (dimension - 1) * np.exp(-s / c) / (math.gamma(dimension) * c)
        weight = density * (half * _RADIUS_WEIGHTS).reshape(s.shape)
        # tan(θ/2) = λ tan(φ/2) spreads the arc near the centre over all φ.
        product = at * s
        narrow = 1 / np.sqrt(np.maximum(1.0, product))[..., None]
        square = (narrow * tangent) ** 2
        sine2 = square / (1 + square)  # sin²(θ/2)
        rho = np.sqrt((at - s)[..., None] ** 2 + 4 * product[..., None] * sine2)
        jacobian = narrow * (1 + tangent**2) / (1 + square)
        sine = 2 * np.sqrt(sine2 * (1 - sine2)) if dimension > 2 else np.ones_like(sine2)
        around = norm * math.pi / 2 * jacobian * sine ** (dimension - 2) * _ANGLE_WEIGHTS
        inner = np.sum(function(rho, at[..., None]) * around, axis=-1)
        result[start : start + block] = np.sum(inner * weight, axis=1)
    return result


def _edges(r: Array, c: float) -> Array:
    """Return increasing edges of panels in s, graded around s = 0, s = r and s = r − 1/(2c).

    The noise density falls as e^{−s/c}, the function lives near s = r, and a bell e^{−(r−s)²} times
    an exponential has its bulk around the last of the three. Beyond the last edge, either the noise
    or that product is below e^{−40} of its largest.
    """
    steps, width = [0.0], 0.4
    while steps[-1] < _FADE * c + 16:
        steps.append(steps[-1] + width)
        width = max(width, 0.4 * steps[-1])
    around = np.asarray(steps)
    noise = c * np.array([0.0, 0.25, 0.5, 1, 2, 3, 4.5, 6, 8, 11, 14, 18, 23, 30, _FADE])
    bulk = np.maximum(r - 1 / (2 * c), 0)[:, None]
    edges = np.concatenate(
        [
            r[:, None] - around,
            r[:, None] + around,
            bulk + 0.8 * np.arange(-8.0, 9.0),
            np.broadcast_to(noise, (r.size, noise.size)),
        ],
        axis=1,
    )
    last = np.maximum(_FADE * c, bulk + 9 + _FADE / 2.5 * c)
    return np.asarray(np.sort(np.clip(edges, 0.0, last), axis=1))
