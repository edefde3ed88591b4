"""What somebody lays over a map: places and outlines of a GeoJSON file, within bounds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoveil.gp import ParameterError

_MOST_PARTS, _MOST_POINTS = 2_000, 50_000
_DEEPEST = 8
"""Collections within collections."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Part:
    """A place, or a line: longitudes and latitudes."""

    name: str
    points: Sequence[Point]
    """One of a place; of an outline all of its corners."""


def layer_in(content: Any) -> Sequence[Part]:
    """Return what a GeoJSON file draws [RFC 7946]: its points, lines and the rings of its polygons.

    Args:
        content: what JSON was read; each feature may have a property "name".

    Raises:
        ParameterError: naming the file, if it is no GeoJSON, or too large a one.

    Example:
        >>> layer_in({"type": "Point", "coordinates": [-73.97, 40.78]})
        [Part(name='', points=[(-73.97, 40.78)])]
    """
    found: list[Part] = []
    points = 0
    for part in _parts(content, "", 0):
        points += len(part.points)
        if len(found) >= _MOST_PARTS or points > _MOST_POINTS:
            expected = f"at most {_MOST_PARTS:,} places and lines of {_MOST_POINTS:,} points"
            raise ParameterError("file", "more", expected)
        found.append(part)
    if not found:
        raise ParameterError("file", "nothing", "GeoJSON with points, lines or polygons")
    return found


def _parts(content: Any, name: str, depth: int) -> Iterator[Part]:
    """Yield what a GeoJSON object draws."""
    if not isinstance(content, Mapping) or depth > _DEEPEST:
        raise _unsound()
    kind, inner = content.get("type"), content.get("coordinates")
    if kind == "Feature":
        told = content.get("properties")
        own = told.get("name") if isinstance(told, Mapping) else None
        if content.get("geometry") is not None:
            yield from _parts(content["geometry"], own if isinstance(own, str) else "", depth + 1)
    elif kind in ("FeatureCollection", "GeometryCollection"):
        for one in _listed(content.get("features" if kind[0] == "F" else "geometries")):
            yield from _parts(one, name, depth + 1)
    elif kind == "Point":
        yield Part(name, [_point(inner)])
    elif kind == "MultiPoint":
        yield from (Part(name, [_point(one)]) for one in _listed(inner))
    elif kind == "LineString":
        yield _line(name, inner)
    elif kind in ("MultiLineString", "Polygon"):
        yield from (_line(name, one) for one in _listed(inner))
    elif kind == "MultiPolygon":
        yield from (_line(name, ring) for one in _listed(inner) for ring in _listed(one))
    else:
        raise _unsound()


def _line(name: str, content: Any) -> Part:
    points = [_point(one) for one in _listed(content)]
    if len(points) < 2:
        raise _unsound()
    return Part(name, points)


def _listed(content: Any) -> Sequence[Any]:
    if not isinstance(content, list):
        raise _unsound()
    return content


def _point(content: Any) -> Point:
    numbers = _listed(content)[:2]
    if len(numbers) < 2 or any(type(one) not in (int, float) for one in numbers):
        raise _unsound()
    try:
        longitude, latitude = map(float, numbers)
    except OverflowError:
        raise _unsound() from None
    if not (math.isfinite(longitude) and abs(latitude) <= 90 and abs(longitude) <= 360):
        raise _unsound()
    return longitude, latitude


def _unsound() -> ParameterError:
    return ParameterError("file", "this one", "GeoJSON of places, lines or polygons, in degrees")
