"""Signed distance to the boundary of a polygon: fast for many points, exact for one."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from geoveil.gp.arithmetic import TINY, Real
from geoveil.gp.queries._rings import Parts, geometry

Array: TypeAlias = NDArray[np.float64]
Dyadic: TypeAlias = tuple[int, int]
"""(m, e) for m·2^e."""

_BLOCK = 1 << 18
"""Pairs of a point and a run per step: what fits into a processor's cache."""
_RUNS = 2
"""Runs in multiples of the root of the number of edges."""
_ALIKE = 1 + 1e-9
"""Far above the rounding of a few float operations."""


def signed_distances(parts: Parts, points: Array) -> Array:
    """Return the signed distance of points of shape (..., 2), in float64.

    Edges that follow one another form runs, each in a circle about a point of the boundary. The
    nearest of these points bounds a distance from above, a circle from below that to its edges; so
    a point is compared with the edges of few runs.
    """
    from shapely import contains_xy

    flat = points.reshape(-1, 2)
    runs = _runs(parts)
    distance = np.full(len(flat), np.inf)
    block = max(_BLOCK // len(runs.start), 1)
    for first in range(0, len(flat), block):
        some, nearest = flat[first : first + block], distance[first : first + block]
        # One row per run, as rows are what is gone through below.
        dx, dy = (runs.center[:, axis, None] - some[:, axis] for axis in (0, 1))
        dx *= dx
        dy *= dy
        dx += dy
        to_center = np.sqrt(dx, out=dx)
        least = to_center.min(axis=0) * _ALIKE
        for run, away in enumerate(to_center):
            (index,) = (away <= least + runs.radius[run]).nonzero()
            if len(index):
                found = _distances(some[index], runs.start[run], runs.vector[run]).min(axis=1)
                nearest[index] = np.minimum(nearest[index], found)
    inside = contains_xy(geometry(parts), flat[:, 0], flat[:, 1])
    return np.where(inside, distance, -distance).reshape(points.shape[:-1])


def signed_distance_ball(parts: Parts, x: Real, y: Real) -> Real:
    """Return a ball that encloses the signed distance of every point of two balls.

    Their centre is dealt with exactly, up to one square root; as the distance is 1-Lipschitz, what
    is left of the balls moves it by at most the sum of their radii.
    """
    (mx, ex), (my, ey) = x.mid().man_exp(), y.mid().man_exp()
    inside, square = signed_square(parts, (int(mx), int(ex)), (int(my), int(ey)))
    distance = arb(square).sqrt()
    spread = arb(0, 1) * (x.rad() + y.rad())
    return (distance if inside else -distance) + spread


def signed_square(parts: Parts, x: Dyadic, y: Dyadic) -> tuple[bool, fmpq]:
    """Return whether a point lies inside, and its squared distance to the boundary: exactly.

    All in integers, in units of a power of two that divides every coordinate. On the boundary the
    distance is 0 and the side immaterial. Every edge is looked at, wherever the point is; how long
    the integers take still depends a little on their size, and so on the point.
    """
    unit, edges = _exact_edges(parts)
    finest = min(unit, x[1], y[1])
    px, py, shift = x[0] << (x[1] - finest), y[0] << (y[1] - finest), unit - finest
    inside = False
    nearest, over = -1, 1  # the squared distance as a fraction; at first there is none
    for ax, ay, ex, ey, length2 in edges:
        dx, dy = px - (ax << shift), py - (ay << shift)
        left = ex * dy - ey * dx
        if (dy < 0) != (dy < ey << shift) and (left > 0) == (ey > 0):
            inside = not inside  # the edge crosses the ray from the point to the right
        if 0 < ex * dx + ey * dy < length2 << shift:
            square, divisor = left * left, length2
        else:  # the nearest point of the edge is an end, and every end is the start of an edge
            square, divisor = dx * dx + dy * dy, 1
        if nearest < 0 or square * over < nearest * divisor:
            nearest, over = square, divisor
    scale = 2 * finest
    if scale < 0:
        return inside, fmpq(nearest, over << -scale)
    return inside, fmpq(nearest << scale, over)


def _distances(points: Array, start: Array, vector: Array) -> Array:
    """Return the distance of every point to every edge: shape (points, edges)."""
    dx, dy = points[:, :1] - start[:, 0], points[:, 1:] - start[:, 1]
    # An edge so short that its length squared underflows is as good as a point.
    length2 = np.maximum(np.square(vector).sum(axis=1), TINY)
    along = (dx * vector[:, 0] + dy * vector[:, 1]) / length2
    np.clip(along, 0.0, 1.0, out=along)
    dx -= along * vector[:, 0]
    dy -= along * vector[:, 1]
    return np.sqrt(dx * dx + dy * dy)


@dataclass(frozen=True, eq=False)
class _Runs:
    """Edges that follow one another: starts and vectors, and circles that hold them."""

    start: list[Array]
    vector: list[Array]
    center: Array
    """A point of the boundary per run, (runs, 2)."""
    radius: Array


@lru_cache(maxsize=64)
def _runs(parts: Parts) -> _Runs:
    """Return the edges in about 2√edges runs, so that circles and edges are few to compare with."""
    rings = [np.array(ring) for part in parts for ring in part]
    edges = sum(map(len, rings))
    length = max(math.isqrt(edges) // _RUNS, 1)
    starts: list[Array] = []
    vectors: list[Array] = []
    for ring in rings:
        cuts = range(length, len(ring), length)
        starts += np.split(ring, cuts)
        vectors += np.split(np.roll(ring, -1, axis=0) - ring, cuts)
    center = np.array([start[len(start) // 2] for start in starts])
    radius = [
        max(np.hypot(*(ends - c).T).max() for ends in (start, start + vector))
        for start, vector, c in zip(starts, vectors, center, strict=True)
    ]
    return _Runs(starts, vectors, center, np.array(radius) * _ALIKE)


@lru_cache(maxsize=64)
def _exact_edges(parts: Parts) -> tuple[int, list[tuple[int, int, int, int, int]]]:
    """Return e, and (start, vector, squared length) of all edges in units of 2^e."""
    numbers = [c.as_integer_ratio() for part in parts for ring in part for p in ring for c in p]
    bits = max(denominator.bit_length() - 1 for _, denominator in numbers)
    edges = []
    for ring in (ring for part in parts for ring in part):
        points = [tuple(_scaled(c, bits) for c in point) for point in ring]
        for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1], strict=True):
            ex, ey = bx - ax, by - ay
            edges.append((ax, ay, ex, ey, ex * ex + ey * ey))
    return -bits, edges


def _scaled(number: float, bits: int) -> int:
    numerator, denominator = number.as_integer_ratio()
    return (numerator << bits) // denominator
