"""Expectations under Laplace noise of functions that are smooth in pieces.

E[G(s + bZ)], Z standard Laplace, for many s at once. On a mesh of panels no wider than b the two
one-sided integrals obey a stable recursion (each step shrinks the past by e^{−δ/b}); each point
then adds Gauss-Legendre quadrature over the two parts of its own panel. Accurate to about 1e-13
relative to sup |G|.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_BLOCK = 8192


def laplace_expectation(
    function: Callable[[Array], Array],
    s: ArrayLike,
    scale: float,
    *,
    knots: Sequence[float],
    feature: float,
    left: float,
    right: float,
) -> Array:
    """Return E[function(s + scale·Z)] for Z ~ Laplace(1).

    Args:
        function: vectorised; smooth between the knots.
        s: points, any shape.
        scale: noise scale b > 0, in the unit of s.
        knots: increasing; `function` equals `left` before the first and `right` after the last.
        feature: length over which `function` varies, in the unit of s.
        left: value of `function` before the first knot.
        right: value of `function` after the last knot.

    Returns:
        An array of the shape of s.
    """
    width = min(scale, feature) / 2
    edges = np.concatenate(
        [
            np.linspace(low, high, max(1, int(np.ceil((high - low) / width))) + 1)[
                : None if last else -1
            ]
            for low, high, last in zip(
                knots[:-1], knots[1:], [False] * (len(knots) - 2) + [True], strict=True
            )
        ]
    )
    below, above = _one_sided(function, edges, scale, left, right)
    points = np.asarray(s, dtype=np.float64)
    flat = points.ravel()
    result = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        inside = np.clip(block, edges[0], edges[-1])
        index = np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, len(edges) - 2)
        low, high = edges[index], edges[index + 1]
        lower = below[index] * np.exp((low - inside) / scale) + _panel(
            function, low, inside, scale, inside
        )
        upper = above[index + 1] * np.exp((inside - high) / scale) + _panel(
            function, inside, high, scale, inside
        )
        # Outside the knots the function is constant, and only the far side is integrated.
        fade_left = np.exp((np.minimum(block, edges[0]) - edges[0]) / scale)
        fade_right = np.exp((edges[-1] - np.maximum(block, edges[-1])) / scale)
        result[start : start + _BLOCK] = np.where(
            block < edges[0],
            left * (1 - fade_left / 2) + upper * fade_left,
            np.where(
                block > edges[-1], right * (1 - fade_right / 2) + lower * fade_right, lower + upper
            ),
        )
    return result.reshape(points.shape)


def _panel(
    function: Callable[[Array], Array], low: Array, high: Array, scale: float, center: Array
) -> Array:
    """Return ∫ function(v) e^{−|v−center|/scale} dv / (2 scale) over [low, high]."""
    half = (high - low) / 2
    nodes = (low + half)[..., None] + half[..., None] * _NODES
    weight = np.exp(-np.abs(nodes - center[..., None]) / scale)
    return np.asarray((function(nodes) * weight) @ _WEIGHTS * half / (2 * scale))


def _one_sided(
    function: Callable[[Array], Array], edges: Array, scale: float, left: float, right: float
) -> tuple[Array, Array]:
    """Return the integrals over everything below, and above, each edge."""
    decay = np.exp(-np.diff(edges) / scale)
    rising = _panel(function, edges[:-1], edges[1:], scale, edges[1:])
    falling = _panel(function, edges[:-1], edges[1:], scale, edges[:-1])
    below = np.empty_like(edges)
    above = np.empty_like(edges)
    below[0], above[-1] = left / 2, right / 2
    for i in range(len(edges) - 1):
        below[i + 1] = below[i] * decay[i] + rising[i]
    for i in range(len(edges) - 2, -1, -1):
        above[i] = above[i + 1] * decay[i] + falling[i]
    return below, above
