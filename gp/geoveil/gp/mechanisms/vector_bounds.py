"""Bound the noise of a vector of answers, over all points and by the distance to a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoveil.gp.arithmetic import FLOAT
from geoveil.gp.arrays import Array, NDArray, distinct, np
from geoveil.gp.boxes import Indices, enclosed_in_parts, greatest_in
from geoveil.gp.mechanisms.smooth import turns_of
from geoveil.gp.queries import Linear, Polygon, Query, TwoWayThreshold
from geoveil.gp.smooth.growth import EXPONENTIAL

if TYPE_CHECKING:
    from geoveil.gp.mechanisms.vector import VectorSmoothMechanism

_LOOSE = 0.002
"""Largest relative gap between a bound and the attained value in a part."""
_FAR, _AWAY = 700.0, 1e9
"""The logarithm of a practically infinite ratio, and the distance, in units of 1/β, from which on
chords are flat."""


class VectorSearch:
    """The search for bounds of B, in a box that contains its maximum.

    Args:
        vector: the mechanism.
    """

    def __init__(self, vector: VectorSmoothMechanism) -> None:
        self.vector, self.beta = vector, float(vector._beta)
        growing = vector._beta, EXPONENTIAL, vector.reach
        steepest, around = [], []
        for query in vector.queries:
            edges = distinct(np.append(query.profile.cells(0.0), turns_of(query, vector.reach)))
            (at,) = vector._bounds([query], [edges], FLOAT)
            steepest.append(max(at.max(), query.profile.bounds_within(edges, *growing)[1].max()))
            limits = np.array(query.attained_range)
            ends = np.append(edges, limits[np.isfinite(limits)])  # a cap may be farther
            around.append(_around(query, float(np.abs(ends).max())))
        self.steepest = np.array(steepest)[:, None]
        self.limits = np.array([query.attained_range for query in vector.queries]).T[..., None]
        self.everywhere = float(self._heaviest(self.steepest)[0])
        self.corners = None
        if all(map(len, around)):
            self.corners = np.stack([np.min(around, axis=0)[0], np.max(around, axis=0)[1]])
            self.boxes = self.corners[None]
            self.far = self.corners + np.array([[-1.0], [1.0]]) * _AWAY / self.beta
            if any(isinstance(query.unclipped, TwoWayThreshold) for query in vector.queries):
                # The sides that their bands cross, far outside.
                self.boxes = np.tile(self.corners, (3, 1, 1))
                self.boxes[[0, 1], :, [0, 1]] = self.far[1][:, None]

    def largest(self) -> float:
        """Return an upper bound of B(x) for all x, in 1/(unit of x).

        At most 0.2 % above what it attains, where 32,768 boxes at a time tell; as if all queries
        were steepest at one place where one is linear in the plane, or of a kind of one's own.
        """
        if self.corners is None:
            return self.everywhere

        def look(centers: Array, radius: float) -> tuple[Array, Array]:
            _, past, bounds = self._at(centers)
            return self._heaviest(bounds), self._heaviest(self._moved(bounds, radius, past))

        return min(self.everywhere, greatest_in(self.corners, look, _LOOSE))

    def between(self, index: int, edges: Array, beyond: NDArray[np.bool_] | None = None) -> Array:
        """Return bounds of the least and of the greatest B in each of many parts.

        The query's own share of B is that of its profile in the part. The shares of the others are
        as close as `largest` is, relative to the greatest B of the part, or to within 1 % of how
        far apart the least and the greatest B of all are, where 131,072 pairs of a box and a part
        tell; in the plane next to a linear query, as wide as they can be.

        Args:
            index: of the query.
            edges: distances to it, (n + 1,), increasing, between which the parts are.
            beyond: instead before the first and after the last of them, on these sides, (2,).

        Returns:
            (2, 2, n), in 1/(unit of x).
        """
        query = self.vector.queries[index]
        plain = query.unclipped
        own = self.vector._bound_range(query, edges, beyond, EXPONENTIAL, self.vector.reach)
        ends = np.stack([edges[:-1], edges[1:]])
        if beyond is not None:
            ends = np.array([[-np.inf, edges[-1]], [edges[0], np.inf]])[:, beyond]
        # Those beyond a cap are where it is.
        limits = np.reshape([query.attained_range, plain.attained_range], (2, 2, 1))
        ends = np.where(ends == limits[0], limits[1], ends)
        endless = np.isinf(ends[0]) | np.isinf(ends[1])

        def together(others: Array, part: Indices, greatest: int) -> Array:
            bounds = np.broadcast_to(others, (len(others), len(part))).copy()
            here = np.clip(bounds[index], *own[:, part])
            bounds[index] = np.where(endless[part], here, own[greatest, part])
            return self._heaviest(bounds)

        def look(
            centers: Array, radius: float, box: Indices, part: Indices
        ) -> tuple[Indices, Array, Array]:
            distances, past, others = self._at(centers)
            s = distances[index][box]
            nearest = np.clip(s, *ends[:, part])
            away = np.abs(s - nearest)
            met = np.flatnonzero(away <= radius)
            s, nearest, away, part = s[met], nearest[met], away[met], part[met]
            others, past = others[:, box[met]], past[:, box[met]]
            least = together(self._moved(others, -radius, past), part, 0)
            most = together(self._moved(others, radius, past), part, 1)
            if isinstance(plain, Polygon):
                # The shortest way to its sides passes all distances between; one in or out may end.
                farther = (np.abs(nearest) > np.abs(s)) | (s * nearest < 0)
                away = np.where(farther, np.inf, away)
            somebody = together(self._moved(others, away, past), part, 0)
            people = np.stack([somebody, together(self._moved(others, -away, past), part, 1)])
            people[:, np.isinf(away)] = [[np.inf], [-np.inf]]
            return met, people, np.stack([least, most])

        parts = np.arange(ends.shape[1])
        if self.corners is None:
            alone = together(0 * self.steepest, parts, 0)
            most = together(self.steepest, parts, 1)
            return np.stack([[alone, alone], [most, most]])
        # Out of the box the others die away, down to where a cap is, but for the bands of two-way
        # thresholds: the least is far away.
        met, people, _ = look(self.far, 0.0, np.repeat([0, 1], len(parts)), np.tile(parts, 2))
        bounds = np.repeat([[np.inf], [-np.inf]], len(parts), axis=1)
        np.minimum.at(bounds[0], met % len(parts), people[0])
        np.maximum.at(bounds[1], met % len(parts), people[1])
        for box in self.boxes:
            bounds = enclosed_in_parts(box, look, bounds, _LOOSE)
        # Where nobody is, as where people are nearest.
        nearest = np.maximum.accumulate(np.where(np.isfinite(bounds[1]), parts, 0))
        bounds = np.clip(bounds[:, nearest], 0.0, self.everywhere)
        # Who has the least or the greatest may be at either end of a part.
        width = np.where(endless, 0.0, own[1] - own[0])
        if beyond is None:
            steps = np.pad(np.abs(np.diff(bounds)), ((0, 0), (1, 1)))
            width = np.maximum(np.maximum(steps[:, 1:], steps[:, :-1]), width)
        (low, high), (least, greatest) = np.broadcast_to(width, bounds.shape), bounds
        return np.stack([[least, least + low], [greatest - high, greatest]])

    def _heaviest(self, bounds: Array) -> Array:
        sets = [bounds[list(active)].sum(axis=0) for active in self.vector._active]
        return np.asarray(np.max(sets, axis=0))

    def _at(self, points: Array) -> tuple[Array, Array, Array]:
        """Return distances as without caps, how far past a cap they are, and the bounds of slopes.

        Each has the shape (n, k), for k points.
        """
        queries, points = self.vector.queries, _points(points)
        s = np.stack([query.unclipped.signed_distance(points) for query in queries])
        clipped = np.clip(s, *self.limits)
        bounds = self.vector._bounds(queries, list(clipped), FLOAT)
        return s, np.abs(s - clipped), np.stack(bounds)

    def _moved(self, bounds: Array, far: Array | float, past: Array) -> Array:
        """Return the most that bounds are so far away; the least where `far` is negative.

        Their logarithms have slopes of at most β, and of 0 `past` a cap.
        """
        away = np.copysign(np.maximum(np.abs(far) - past, 0.0), far)
        moved = bounds * np.exp(np.clip(self.beta * away, -_FAR, _FAR))
        return np.asarray(np.minimum(moved, self.steepest))


def _points(centers: Array) -> Array:
    return centers[:, 0] if centers.shape[1] == 1 else centers


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
    s = plain.signed_distance(_points(points), FLOAT)
    # Where a two-way threshold is no longer round its bands go on along the axes.
    extent = beyond + float(np.abs(s).max()) + 2 * getattr(plain, "width", 0.0)
    return [points.min(axis=0) - extent, points.max(axis=0) + extent]
