"""Bound the noise of a vector of answers, over all points and by an answer's value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from geoveil.gp.arithmetic import FLOAT, Real
from geoveil.gp.arrays import Array, NDArray, distinct, np
from geoveil.gp.boxes import enclosed_in_parts, greatest_in
from geoveil.gp.queries import Linear, Polygon, Query, TwoWayThreshold
from geoveil.gp.smooth.growth import EXPONENTIAL

if TYPE_CHECKING:
    from geoveil.gp.mechanisms.vector import VectorSmoothMechanism

_PARTS, _CELLS = 256, 384
"""Number of intervals of values, shorter at both ends, and of cells for each of a profile's."""
_LOOSE = 0.002
"""Largest relative gap between a bound and the attained value in an interval."""
_FAINT, _FAR, _AWAY = 1e-300, 700.0, 1e9
"""A negligible share, the logarithm of a practically infinite ratio, and the distance, in units of
1/β, from which on chords are flat."""


class _Search:
    """The search for the largest B, in a box that contains its maximum.

    Args:
        vector: the mechanism.
    """

    def __init__(self, vector: VectorSmoothMechanism) -> None:
        self.vector, self.beta = vector, float(vector._beta)
        growing = vector._beta, EXPONENTIAL, vector.reach
        steepest, around = [], []
        for query in vector.queries:
            turns = [turn for turn in query.profile.turns(vector.reach) if math.isfinite(turn)]
            edges = distinct(np.concatenate([query.profile.cells(0.0), turns]))
            (at,) = vector._bounds([query], [edges], FLOAT)
            steepest.append(max(at.max(), query.profile.bounds_within(edges, *growing)[1].max()))
            around.append(_around(query, float(np.abs(edges).max())))
        self.steepest = np.array(steepest)[:, None]
        self.everywhere = float(self._heaviest(self.steepest)[0])
        self.corners = None
        if all(map(len, around)):
            self.corners = np.stack([np.min(around, axis=0)[0], np.max(around, axis=0)[1]])

    def _heaviest(self, bounds: Array) -> Array:
        sets = [bounds[list(active)].sum(axis=0) for active in self.vector._active]
        return np.asarray(np.max(sets, axis=0))

    def at(self, points: Array) -> tuple[list[Real], Array, Array]:
        """Return the distances of points, (n, k), the bound of each slope, and B."""
        distances = self.vector._distances(points[:, 0] if points.shape[1] == 1 else points)
        bounds = np.stack(self.vector._bounds(self.vector.queries, distances, FLOAT))
        return distances, bounds, self._heaviest(bounds)

    def look(self, centers: Array, radius: float) -> tuple[list[Real], Array, Array, Array]:
        """Return the distances of centers, B there, and its least and greatest in their boxes."""
        distances, bounds, at = self.at(centers)
        # Logarithms of bounds have slopes of at most β.
        moved = math.exp(min(self.beta * radius, _FAR))
        shares = np.maximum(bounds / self.steepest, _FAINT) * moved
        most = self._heaviest(self.steepest * np.minimum(shares, 1.0))
        return distances, at, at / moved, most


def largest_bound(vector: VectorSmoothMechanism) -> float:
    """Return an upper bound of B(x) for all x, in 1/(unit of x).

    At most 0.2 % above what it attains, where 32,768 boxes at a time tell; as if all queries were
    steepest at one place where one is linear in the plane, or of a kind of one's own.
    """
    search = _Search(vector)
    if search.corners is None:
        return search.everywhere

    def look(centers: Array, radius: float) -> tuple[Array, Array]:
        _, at, _, most = search.look(centers, radius)
        return at, most

    return min(search.everywhere, greatest_in(search.corners, look, _LOOSE))


def bounds_by_value(vector: VectorSmoothMechanism, index: int) -> tuple[Array, Array]:
    """Enclose B, in 1/(unit of x), over the points with an answer in each of many intervals.

    As close as `largest_bound` is, relative to the greatest of each part.

    Args:
        vector: the mechanism.
        index: of the answer.

    Returns:
        The ends of the parts, shape (2, n), and the least and the greatest B, (2, n).
    """
    search, query = _Search(vector), vector.queries[index]
    profile = query.profile
    values = np.square(np.sin(np.linspace(0, math.pi / 2, _PARTS + 1)))
    values = profile.bounds[0] + values * np.ptp(profile.bounds)
    values[-1] = profile.bounds[1]
    ends = np.stack([values[:-1], values[1:]])
    if search.corners is None:
        return ends, np.repeat([[0.0], [search.everywhere]], _PARTS, axis=1)
    edges, (least, greatest) = _values_between(query)

    def part_of(s: Real) -> NDArray[np.intp]:
        return np.asarray(np.searchsorted(values[1:-1], profile.value(np.asarray(s), FLOAT)))

    def look(
        centers: Array, radius: float
    ) -> tuple[Array, Array, Array, NDArray[np.intp], NDArray[np.bool_]]:
        distances, at, low, high = search.look(centers, radius)
        s = np.asarray(distances[index])
        between = np.searchsorted(edges, np.stack([s - radius, s + radius], axis=1))
        between = (between + np.array([0, 1])).ravel()
        below = np.minimum.reduceat(np.append(least, np.inf), between)[::2]
        above = np.maximum.reduceat(np.append(greatest, -np.inf), between)[::2]
        reached = (ends[0] <= above[:, None]) & (ends[1] >= below[:, None])
        return at, low, high, part_of(s), reached

    # Out of the box B dies away, but for that of bands that go on.
    attained = np.repeat([[np.inf], [-np.inf]], _PARTS, axis=1)
    far = search.corners + np.array([[-1.0], [1.0]]) * _AWAY / search.beta
    distances, _, away = search.at(far)
    np.minimum.at(attained[0], part_of(distances[index]), away)
    if isinstance(query.unclipped, TwoWayThreshold):
        reached = (ends[0, :, None] <= greatest[1:-1]) & (ends[1, :, None] >= least[1:-1])
        for axis, place in enumerate(query.unclipped.at):
            across = np.repeat(far[1:], len(edges), axis=0)
            across[:, axis] = place + edges
            at = search.at(across)[2]
            along = np.sqrt(at[:-1] * at[1:]) * np.exp(-search.beta * np.diff(edges) / 2)
            attained[0] = np.minimum(attained[0], np.where(reached, along, np.inf).min(axis=1))
    bounds = enclosed_in_parts(search.corners, look, attained, _LOOSE)
    met = np.isfinite(bounds[1])
    return ends[:, met], np.clip(bounds[:, met], 0.0, search.everywhere)


def _values_between(query: Query) -> tuple[Array, Array]:
    """Return edges of cells, and the least and the greatest f before, between and after them."""
    profile = query.profile
    cells = profile.cells(0.0)
    inner = np.linspace(cells[:-1], cells[1:], _CELLS, endpoint=False, axis=1).ravel()
    edges = distinct(np.append(inner, cells[-1]))
    width = float(edges[-1] - edges[0])
    outside = np.array([edges[0] - width, edges[-1] + width])
    limits = np.array([float(limit) for limit in query.attained_range])
    first, last = np.asarray(profile.value(np.clip(outside, *limits), FLOAT))
    inside = profile.ranges(edges, 0.0)[0]
    return edges, np.concatenate([[[first]] * 2, inside, [[last]] * 2], axis=1)


def _around(query: Query, beyond: float) -> list[Array]:
    """Return two corners of a box into which the shortest way never lowers B; [] without one.

    Farther than `beyond` from its place f varies less and less, if at all.
    """
    plain = query.unclipped
    names = ("at", "low", "high", "center")
    places = [getattr(plain, name) for name in names if hasattr(plain, name)]
    if isinstance(plain, Polygon):
        places = [corner for part in plain.region for ring in part for corner in ring]
    elif isinstance(plain, Linear) and plain.dimension == 1:
        places = [plain.offset * np.sign(plain.direction)]
    if not places or type(plain).__module__.split(".")[0] != "geoveil":
        return []
    points = np.reshape(places, (-1, plain.dimension)).astype(np.float64)
    s = plain.signed_distance(points[:, 0] if plain.dimension == 1 else points, FLOAT)
    # Where a two-way threshold is no longer round its bands go on along the axes.
    extent = beyond + float(np.abs(s).max()) + 2 * getattr(plain, "width", 0.0)
    return [points.min(axis=0) - extent, points.max(axis=0) + extent]
