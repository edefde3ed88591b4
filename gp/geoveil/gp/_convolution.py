"""Expectations under Laplace noise of functions that are smooth in pieces.

E[G(s + bZ)], Z standard Laplace, for many s at once. On a mesh of panels no wider than b the two
one-sided integrals obey a stable recursion (each step shrinks the past by e^{−δ/b}); each point
then adds Gauss-Legendre quadrature over the two parts of its own panel. Accurate to about 1e-13
relative to sup |G|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

from geoveil.gp.arrays import Array, ArrayLike, NDArray, np
from geoveil.gp.noise.base import Laplace

_BLOCK = 8192
_NARROW = 1e-3
"""Scale of the noise, relative to the length scale, below which it is integrated point by point."""


@lru_cache(maxsize=16)
def gauss_legendre(count: int) -> tuple[Array, Array]:
    """Return nodes in [−1, 1] and weights, of which the sum is 2; devices never ask."""
    return np.polynomial.legendre.leggauss(count)


def laplace_expectation(
    function: Callable[[Array], Array],
    s: ArrayLike,
    scale: float,
    *,
    breakpoints: Sequence[float],
    length_scale: float,
    left: float,
    right: float,
) -> Array:
    """Return E[function(s + scale·Z)] for Z ~ Laplace(1).

    Args:
        function: vectorised; smooth between the breakpoints.
        s: points, any shape.
        scale: noise scale b > 0, in the unit of s.
        breakpoints: increasing; `function` is `left` before the first and `right` after the last.
        length_scale: length over which `function` varies, in the unit of s.
        left: value of `function` before the first knot.
        right: value of `function` after the last knot.

    Returns:
        An array of the shape of s.
    """
    if scale < _NARROW * length_scale:
        points = np.asarray(s, dtype=np.float64)
        return _narrow(lambda v, _: function(v), points, scale, breakpoints, left, right)
    width = min(scale, length_scale) / 2
    edges = np.concatenate(
        [
            np.linspace(low, high, max(1, int(np.ceil((high - low) / width))) + 1)[
                : None if last else -1
            ]
            for low, high, last in zip(
                breakpoints[:-1],
                breakpoints[1:],
                [False] * (len(breakpoints) - 2) + [True],
                strict=True,
            )
        ]
    )
    below, above = _one_sided(function, edges, scale, left, right)
    points = np.asarray(s, dtype=np.float64)
    flat = points.ravel()
    result = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        before, after = block <= edges[0], block >= edges[-1]
        within = ~(before | after)
        inside = np.concatenate([block[within], edges[[0, -1]]])
        index = np.clip(np.searchsorted(edges, inside, side="right") - 1, 0, len(edges) - 2)
        low, high = edges[index], edges[index + 1]
        lower = below[index] * np.exp((low - inside) / scale) + _panel(
            function, low, inside, scale, inside
        )
        upper = above[index + 1] * np.exp((inside - high) / scale) + _panel(
            function, inside, high, scale, inside
        )
        found = result[start : start + _BLOCK]
        found[within] = (lower + upper)[:-2]
        # Outside the breakpoints the function is constant, and what is beyond fades.
        fade = np.exp((block[before] - edges[0]) / scale)
        found[before] = left * (1 - fade / 2) + upper[-2] * fade
        fade = np.exp((edges[-1] - block[after]) / scale)
        found[after] = right * (1 - fade / 2) + lower[-1] * fade
    return result.reshape(points.shape)


def laplace_variance(
    function: Callable[[Array], Array],
    mean: Array,
    s: Array,
    scale: float,
    *,
    breakpoints: Sequence[float],
    length_scale: float,
    limits: tuple[float, float],
) -> Array:
    """Return the variance of function(s + scale·Z), whose mean is known.

    Moments are taken about the nearer limit, or for narrow noise about the mean itself, where
    E[g²] − mean² would be a difference of nearly equal numbers.

    Args:
        function: what is applied to the noisy points, as `laplace_expectation` takes it.
        mean: E[function(s + scale·Z)], shape of s.
        s: points, any shape.
        scale: noise scale b > 0.
        breakpoints: where `function` or a derivative of it may jump.
        length_scale: distance over which `function` varies.
        limits: values of `function` before the first knot and after the last.
    """
    if scale < _NARROW * length_scale:

        def about_mean(v: Array, at: NDArray[np.intp]) -> Array:
            return np.asarray(np.square(function(v) - mean.reshape(-1)[at]))

        left, right = ((limit - mean.ravel()) ** 2 for limit in limits)
        return _narrow(about_mean, s, scale, breakpoints, left, right)
    result = np.empty_like(s)
    for limit, mask in zip(limits, (s <= 0, s > 0), strict=True):

        def about_limit(v: Array, limit: float = limit) -> Array:
            return np.asarray(np.square(function(v) - limit))

        second = laplace_expectation(
            about_limit,
            s[mask],
            scale,
            breakpoints=breakpoints,
            length_scale=length_scale,
            left=(limits[0] - limit) ** 2,
            right=(limits[1] - limit) ** 2,
        )
        result[mask] = second - np.square(mean[mask] - limit)
    return np.maximum(result, 0.0)


def _narrow(
    function: Callable[[Array, NDArray[np.intp]], Array],
    s: Array,
    scale: float,
    breakpoints: Sequence[float],
    left: float | Array,
    right: float | Array,
) -> Array:
    """Return the expectation for noise so narrow that a mesh of its width would be too long.

    Each point integrates outwards, both ways, between two breakpoints; there the function
    hardly changes within the noise, and what matters is where the noise ends at a knot. The second
    argument of the function is the index of the point, with a trailing axis for the nodes.
    """
    flat = s.ravel()
    index = np.arange(flat.size)[:, None]

    def around(v: Array) -> Array:
        return function(v, index)

    # What is constant: beyond the first and the last knot.
    result = left * Laplace(scale).cdf(breakpoints[0] - flat)
    result += right * Laplace(scale).cdf(flat - breakpoints[-1])
    reach = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0]) * scale
    for low, high in pairwise(breakpoints):
        for sign in (1.0, -1.0):
            near, far = np.sort([sign * (low - flat), sign * (high - flat)], axis=0)
            start, end = np.maximum(near, 0.0), np.maximum(far, 0.0)
            for inner, outer in pairwise(reach):
                begin, stop = np.minimum(start + inner, end), np.minimum(start + outer, end)
                bounds = np.sort([flat + sign * begin, flat + sign * stop], axis=0)
                result += _panel(around, bounds[0], bounds[1], scale, flat)
    return np.asarray(result).reshape(s.shape)


def _panel(
    function: Callable[[Array], Array], low: Array, high: Array, scale: float, center: Array
) -> Array:
    """Return ∫ function(v) e^{−|v−center|/scale} dv / (2 scale) over [low, high]."""
    half, (places, shares) = (high - low) / 2, gauss_legendre(20)
    nodes = (low + half)[..., None] + half[..., None] * places
    weight = np.exp(-np.abs(nodes - center[..., None]) / scale)
    return np.asarray((function(nodes) * weight) @ shares * half / (2 * scale))


def _one_sided(
    function: Callable[[Array], Array], edges: Array, scale: float, left: float, right: float
) -> tuple[Array, Array]:
    """Return the integrals over everything below, and above, each edge."""
    decay = np.exp(-np.diff(edges) / scale).tolist()
    rising = _panel(function, edges[:-1], edges[1:], scale, edges[1:]).tolist()
    falling = _panel(function, edges[:-1], edges[1:], scale, edges[:-1]).tolist()
    below = carried(left / 2, decay, rising)
    above = carried(right / 2, decay[::-1], falling[::-1])
    return np.array(below), np.array(above[::-1])


def carried(first: float, decay: list[float], added: list[float]) -> list[float]:
    """Return numbers each of which is the one before, decayed, and what is added."""
    found = [first]
    for share, more in zip(decay, added, strict=True):
        found.append(found[-1] * share + more)
    return found
