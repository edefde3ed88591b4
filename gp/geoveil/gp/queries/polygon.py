"""Soft indicator of a polygon: a district, a catchment area, a coverage zone [MATH §2.1].

Regions are parsed into plain tuples and checked. The signed distance to their boundary is fast for
many points, and exact for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from geoveil.gp import validation
from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.errors import ParameterError

if TYPE_CHECKING:
    from shapely import MultiPolygon
import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from geoveil.gp.arithmetic import FLOAT, TINY, Arithmetic, Real
from geoveil.gp.queries.indicator import SoftIndicator, _band, _set
from geoveil.gp.queries.profiles.soft_step import SoftStep

Point: TypeAlias = tuple[float, float]
Ring: TypeAlias = tuple[Point, ...]
"""A closed line of three or more distinct points; the last is joined to the first, not repeated."""
Parts: TypeAlias = tuple[tuple[Ring, ...], ...]
"""One tuple of rings per part: its exterior, then its holes."""

_EXPECTED = (
    "a Polygon or MultiPolygon (of shapely or GeoJSON), one ring ((x, y), ...), one part"
    " (exterior, hole, ...), or a sequence of parts"
)
_VALID = (
    "a valid polygon: rings that neither cross themselves nor each other, holes inside their"
    " exterior, parts that share no area and no side (shapely.make_valid mends many)"
)


def read_parts(region: object) -> Parts:
    """Return a region as plain tuples; `geometry` checks that it is a polygon."""
    shape = getattr(region, "__geo_interface__", region)
    if isinstance(shape, Mapping):
        if shape.get("type") not in ("Polygon", "MultiPolygon"):
            raise ParameterError("region", region, _EXPECTED)
        shape = shape.get("coordinates")
    depth = _depth(shape)
    if not 2 <= depth <= 4:
        raise ParameterError("region", region, _EXPECTED)
    if depth < 4:
        return (_part("region", shape),)
    return tuple(_part(f"region[{i}]", part) for i, part in enumerate(_items("region", shape)))


@lru_cache(maxsize=64)
def geometry(parts: Parts) -> MultiPolygon:
    """Return the region as a prepared shapely geometry; refuse what is no valid polygon."""
    import shapely

    region = shapely.MultiPolygon([(part[0], part[1:]) for part in parts])
    if not region.is_valid:
        raise ParameterError("region", shapely.is_valid_reason(region), _VALID)
    shapely.prepare(region)
    # GEOS builds its index at the first question, and two threads must not both be the first.
    shapely.contains_xy(region, *parts[0][0][0])
    return region


def _part(name: str, node: Any) -> tuple[Ring, ...]:
    """Read (exterior, hole, ...), (exterior, [hole, ...]), or an exterior alone."""
    if _depth(node) == 2:
        return (_ring(name, node),)
    exterior, *others = _items(name, node) or [()]
    rings = [_ring(f"{name}[0]", exterior)]
    for i, other in enumerate(others, start=1):
        if _depth(other) == 2:
            rings.append(_ring(f"{name}[{i}]", other))
        else:
            holes = enumerate(_items(f"{name}[{i}]", other))
            rings += [_ring(f"{name}[{i}][{j}]", hole) for j, hole in holes]
    return tuple(rings)


def _ring(name: str, node: Any) -> Ring:
    """Read a ring, without repeated points; in GeoJSON the last point repeats the first."""
    points = [_point(f"{name}[{i}]", point) for i, point in enumerate(_items(name, node))]
    following = points[1:] + points[:1]
    ring = tuple(p for p, after in zip(points, following, strict=True) if p != after)
    if len(set(ring)) < 3:
        raise ParameterError(name, points, "a ring of at least three distinct points")
    return ring


def _point(name: str, node: Any) -> Point:
    pair = _items(name, node)
    if len(pair) != 2:
        raise ParameterError(name, node, "a pair (x, y)")
    x, y = (
        validation.between(f"{name}[{axis}]", number, -validation.MOST, validation.MOST)
        for axis, number in enumerate(pair)
    )
    return (x, y)


def _items(name: str, node: Any) -> list[Any]:
    if not _is_sequence(node):
        raise ParameterError(name, node, "a sequence")
    return list(node)


def _depth(node: Any) -> int:
    """Return the depth of nested sequences, along their first items, at most 5."""
    depth = 0
    while depth < 5 and _is_sequence(node):
        depth += 1
        node = node[0] if len(node) else None
    return depth


def _is_sequence(node: Any) -> bool:
    sequence = isinstance(node, Sequence) and not isinstance(node, (str, bytes))
    return node.ndim > 0 if isinstance(node, np.ndarray) else sequence


Dyadic: TypeAlias = tuple[int, int]
"""(m, e) for m·2^e."""

_BLOCK = 1 << 16
"""Pairs of a point and an edge at once, few enough for a processor's cache."""
_MANY, _STEP = 1 << 13, 1 << 14
"""The fewest points for a raster, which costs as much as 10,000; the most points at once."""
_MOST_EDGES, _SIDE = 512, 64
"""The most edges of a region with a raster, and the raster's cells in a row."""
_SLACK = 1e-3
"""Largest move of a point by rounding, as a fraction of a cell."""
_ALONG, _MOVED, _MOST_POINTS = 0.22, 1e-3, 1 << 16
"""The spacing of points on the boundary and how far each is moved, both relative to the depth of a
region; the most points."""
_STEPS = 0.7548776662, 0.5698402910
"""Steps after which numbers from 0 to 1 are spread evenly in the plane."""


def signed_distances(parts: Parts, points: Array) -> Array:
    """Return the signed distance of points of shape (..., 2), in float64.

    A distance is the least to any edge, and which edges are compared changes no bit of it: for many
    points those that a raster names, else all.
    """
    flat = points.reshape(-1, 2)
    raster = _raster(parts) if len(flat) >= _MANY else None
    if raster is None:
        return _by_edges(parts, flat).reshape(points.shape[:-1])
    signed = np.empty(len(flat))
    for first in range(0, len(flat), _STEP):
        block = slice(first, first + _STEP)
        signed[block] = _by_raster(parts, raster, flat[block])
    return signed.reshape(points.shape[:-1])


def _by_edges(parts: Parts, flat: Array) -> Array:
    """Return the signed distance of points (n, 2), wherever they are, by all edges."""
    from shapely import contains_xy

    edges = edges_of(parts)
    square = np.empty(len(flat))
    block = max(_BLOCK // edges.shape[1], 1)
    for first in range(0, len(flat), block):
        part = slice(first, first + block)
        edge_squares(flat[part, :1], flat[part, 1:], edges).min(axis=1, out=square[part])
    inside, distance = contains_xy(geometry(parts), flat[:, 0], flat[:, 1]), np.sqrt(square)
    return np.where(inside, distance, -distance)


def _by_raster(parts: Parts, raster: _Raster, flat: Array) -> Array:
    """Return the signed distance of points (n, 2); those beyond the raster by edges."""
    from shapely import contains_xy

    signed = np.empty(len(flat))
    with np.errstate(over="ignore"):  # of points far beyond
        column, row = (flat.T - raster.origin[:, None]) / raster.step[:, None]
    within = (column >= 0) & (column < _SIDE) & (row >= 0) & (row < _SIDE)
    (beyond,) = (~within).nonzero()
    if len(beyond):
        signed[beyond] = _by_edges(parts, flat[beyond])
    (index,) = within.nonzero()
    cell = column[index].astype(np.intp) * _SIDE + row[index].astype(np.intp)
    # Points with as many candidates are looked at together: a row of pairs for each candidate.
    count = raster.count[cell]
    order = np.argsort(count, kind="stable")
    index, cell = index[order], cell[order]
    x, y = flat[index].T
    first, square = raster.first[cell], np.empty(len(cell))
    end = 0
    for candidates, points in enumerate(np.bincount(count).tolist()):
        start, end = end, end + points
        for at in range(start, end, max(_BLOCK // max(candidates, 1), 1)):
            part = slice(at, min(at + max(_BLOCK // candidates, 1), end))
            pairs = first[part] + np.arange(candidates)[:, None]
            squares = edge_squares(x[part], y[part], [row[pairs] for row in raster.edges])
            squares.min(axis=0, out=square[part])
    inside, unclear = raster.inside[cell], raster.unclear[cell].nonzero()[0]
    inside[unclear] = contains_xy(geometry(parts), x[unclear], y[unclear])
    distance = np.sqrt(square)
    signed[index] = np.where(inside, distance, -distance)
    return signed


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


def edge_squares(x: Array, y: Array, edges: Iterable[Array]) -> Array:
    """Return the squared distances of points to edges, whose shapes are broadcast together.

    Edges are given by five arrays, as those of `edges_of`.
    """
    start_x, start_y, along_x, along_y, length2 = edges
    dx, dy = x - start_x, y - start_y
    along = dx * along_x
    along += dy * along_y
    along /= length2
    np.clip(along, 0.0, 1.0, out=along)
    dx -= along * along_x
    dy -= along * along_y
    dx *= dx
    dy *= dy
    return np.asarray(np.add(dx, dy, out=dx))


@lru_cache(maxsize=64)
def edges_of(parts: Parts) -> Array:
    """Return the start, the vector and its squared length of each edge, (5, edges)."""
    rings = [np.array(ring) for part in parts for ring in part]
    start = np.concatenate(rings)
    vector = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings]) - start
    # An edge so short that its length squared underflows is as good as a point.
    return np.stack([*start.T, *vector.T, np.maximum(np.square(vector).sum(axis=1), TINY)])


@dataclass(frozen=True, eq=False)
class _Raster:
    """Cells around a polygon, each with the possibly nearest edges of its points."""

    origin: Array
    step: Array
    """Size of a cell, (2,)."""
    first: NDArray[np.intp]
    """The first column in `edges` of each cell's candidates."""
    count: NDArray[np.uint16]
    edges: Array
    """All cells' candidates, (5, pairs)."""
    inside: NDArray[np.bool_]
    """Whether the middle of each cell is inside, and with it any cell clear of the boundary."""
    unclear: NDArray[np.bool_]


@lru_cache(maxsize=16)
def _raster(parts: Parts) -> _Raster | None:
    """Return a raster of three times the width and height of a polygon.

    Within a cell the distance to an edge is at most the largest at its four corners, as the
    distance to a convex set is convex; and at least that at its middle less half a diagonal. An
    edge with a least one above the largest of another is none of its candidates.

    Returns:
        None if there are so many edges that it takes too long, or if the polygon is so small beside
        its coordinates that their rounding may move a point to another cell.
    """
    from shapely import contains_xy

    edges = edges_of(parts)
    if edges.shape[1] > _MOST_EDGES:
        return None
    start = edges[:2].T
    low, high = start.min(axis=0), start.max(axis=0)
    origin, step = 2 * low - high, 3 * (high - low) / _SIDE
    if (np.spacing(np.abs(start).max()) > _SLACK / 8 * step).any():
        return None
    half = float(np.hypot(*step)) / 2 * (1 + _SLACK)
    lines = origin + step * np.arange(_SIDE + 1)[:, None]
    x, y = _grid(lines)
    corner = np.sqrt(edge_squares(x, y, edges)).reshape(_SIDE + 1, _SIDE + 1, -1)
    corner = np.maximum(corner[:-1], corner[1:])
    most = np.maximum(corner[:, :-1], corner[:, 1:]).min(axis=2).reshape(-1, 1)
    x, y = _grid(lines[:-1] + step / 2)
    middle = np.sqrt(edge_squares(x, y, edges))
    cell, edge = (middle <= most + half).nonzero()
    count = np.bincount(cell, minlength=len(middle))
    return _Raster(
        origin,
        step,
        np.cumsum(count) - count,
        count.astype(np.uint16),
        edges[:, edge],
        np.asarray(contains_xy(geometry(parts), x[:, 0], y[:, 0])),
        middle.min(axis=1) <= half,
    )


def _grid(lines: Array) -> list[Array]:
    """Return the coordinates of the grid points on both axes' lines, (n, 1) each."""
    return [axis.reshape(-1, 1) for axis in np.meshgrid(*lines.T, indexing="ij")]


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


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Polygon(SoftIndicator):
    """The share of points inside a polygon, which may have holes and several parts.

    f is a soft step of the distance to the boundary, 1/2 on it. A width larger than the polygon is
    permitted: f then stays below 1, and L and B remain bounds. Corners are joined by straight lines
    of the plane that the points live in: project longitudes and latitudes first, the polygon's as
    the points' (`AzimuthalEquidistant`).

    Args:
        region: anything with a `__geo_interface__` (shapely's), a GeoJSON geometry, or coordinates:
            one ring ((x, y), ...), one part (exterior, hole, ...) or (exterior, [hole, ...]), or a
            sequence of parts. A ring may repeat its first point. In the unit of the points.
        width: width w > 0 of the band around the boundary, in the same unit.
        profile: a name in `PROFILES`: "linear" or "smoothstep".

    Raises:
        ParameterError: as `Threshold`; and if the region is empty or no valid polygon: a ring of
            fewer than three points or without area, rings that cross, parts that overlap.

    Example:
        >>> outer, hole = [(0, 0), (900, 0), (900, 600), (0, 600)], [(300, 200), (600, 200),
        ...     (600, 400), (300, 400)]
        >>> q = Polygon((outer, hole), width=100.0)
        >>> q.value([[150.0, 300.0], [0.0, 300.0], [-25.0, 300.0], [450.0, 300.0]])
        array([1.  , 0.5 , 0.25, 0.  ])
        >>> Polygon({"type": "Polygon", "coordinates": [outer, hole]}, width=100.0) == q
        True
    """

    region: Parts
    """One tuple of rings per part, its exterior and its holes, for any form of input."""
    width: float
    profile: SoftStep

    def __init__(self, region: object, width: float, profile: str | SoftStep = "linear") -> None:
        parts = read_parts(region)
        band = _band(width, profile)
        geometry(parts)  # refuses an invalid polygon
        _set(self, region=parts, **band)

    @property
    def dimension(self) -> int:
        return 2

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return s(x): the distance to the boundary, negative outside.

        It is 1-Lipschitz: the distance to a set is, and where the way from x to x' meets the
        boundary, at z say, |s(x) − s(x')| ≤ |x − z| + |z − x'| = |x − x'|.
        """
        if ops.rounded:
            return signed_distances(self.region, x)
        return signed_distance_ball(self.region, ops.coordinate(x, 0), ops.coordinate(x, 1))

    @property
    def signed_range(self) -> tuple[float, Fraction]:
        # A circle within a part fits into its bounding box.
        axes = (zip(*part[0], strict=True) for part in self.region)
        sides = (min(Fraction(max(at)) - Fraction(min(at)) for at in part) for part in axes)
        return -math.inf, max(sides) / 2

    @property
    def attained_range(self) -> tuple[float, float]:
        return -math.inf, _deepest(self.region)


@lru_cache(maxsize=64)
def _deepest(parts: Parts) -> float:
    """Return an upper bound of the largest distance inside, from points of the boundary.

    It is at most 1 % too large. The largest circle around a place inside that holds no point is at
    a vertex of their Voronoi diagram. In regions thousands of times as long as wide the points are
    too far apart, so that the region is eroded instead.
    """
    from scipy.spatial import KDTree, Voronoi
    from shapely import contains_xy, get_coordinates, segmentize

    shape = geometry(parts)
    # At least the area over the perimeter, unless there are many holes.
    depth: float = max(part.area / part.length for part in shape.geoms)
    step = max(_ALONG * depth, shape.length / _MOST_POINTS)
    points = get_coordinates(segmentize(shape, step))
    # Of many points on a line the diagram is slow, so each is moved a little.
    points += (np.arange(len(points))[:, None] * _STEPS % 1 - 0.5) * 2 * _MOVED * depth
    middle = points.mean(axis=0)
    unit = np.ptp(points, axis=0).max()
    places = Voronoi((points - middle) / unit).vertices * unit + middle
    inside = places[contains_xy(shape, places)]
    away = KDTree(points).query(inside)[0]
    bound = float(away.max(initial=step / 2)) + 2 * _MOVED * depth
    return bound if step <= _ALONG * bound else _eroded(shape, bound)


def _eroded(shape: MultiPolygon, bound: float) -> float:
    """Return an upper bound of the largest distance inside, from one that may be far too large.

    Around corners that point inwards GEOS erodes up to chords of circles, hence never too much.
    """
    least = 0.0
    while bound - least > _MOVED * bound:
        middle = (least + bound) / 2
        if shape.buffer(-middle).is_empty:
            bound = middle
        else:
            least = middle
    return bound * (1 + 2 * _MOVED)
