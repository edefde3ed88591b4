"""Regions of the plane as people write them, read into plain tuples and checked."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, UnsupportedError

if TYPE_CHECKING:
    from shapely import MultiPolygon

Point: TypeAlias = tuple[float, float]
Ring: TypeAlias = tuple[Point, ...]
"""At least three distinct points; the last is joined to the first, and not repeated."""
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
    """Return a region as plain tuples; what is a polygon at all is for `geometry` to check.

    Raises:
        ParameterError: if the nesting is wrong, a coordinate is no finite number, or a ring has
            fewer than three distinct points.
    """
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
def geometry(parts: Parts) -> "MultiPolygon":
    """Return the region as a prepared shapely geometry.

    Raises:
        ParameterError: if it is no valid polygon.
        UnsupportedError: if shapely is not installed.
    """
    try:
        import shapely
    except ImportError:
        raise UnsupportedError("polygons need shapely: pip install 'geoveil[geo]'") from None
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
    """Return how many sequences are nested in one another, along their first items; at most 5."""
    depth = 0
    while depth < 5 and _is_sequence(node):
        depth += 1
        node = node[0] if len(node) else None
    return depth


def _is_sequence(node: Any) -> bool:
    if isinstance(node, np.ndarray):
        return node.ndim > 0
    return isinstance(node, Sequence) and not isinstance(node, (str, bytes))
