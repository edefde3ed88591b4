"""Map layers: the places and outlines of a GeoJSON file of bounded size."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from geoveil.analyst import features_in
from geoveil.gp import ParameterError

_MOST_PARTS, _MOST_POINTS = 2_000, 50_000
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class MapFeature:
    """A place or a line, in longitudes and latitudes."""

    name: str
    points: Sequence[Point]
    """A place has one point; an outline has all its corners."""


def layer_in(content: Any) -> Sequence[MapFeature]:
    """Return the points, lines and polygon rings of a GeoJSON file [RFC 7946].

    Args:
        content: parsed JSON; each feature may have a property "name".

    Raises:
        ParameterError: if it is not GeoJSON, or too large.

    Example:
        >>> layer_in({"type": "Point", "coordinates": [-73.97, 40.78]})
        [MapFeature(name='', points=((-73.97, 40.78),))]
    """
    parts: list[MapFeature] = []
    points = 0
    for feature in features_in(content, "file", "this one"):
        name = feature.properties.get("name")
        for line in (line for shape in feature.shapes for line in shape.lines):
            if not all(abs(x) <= 360 and abs(y) <= 90 for x, y in line):
                raise ParameterError("file", "this one", "GeoJSON in degrees, longitudes first")
            points += len(line)
            if len(parts) >= _MOST_PARTS or points > _MOST_POINTS:
                expected = f"at most {_MOST_PARTS:,} places and lines of {_MOST_POINTS:,} points"
                raise ParameterError("file", "more", expected)
            parts.append(MapFeature(name if isinstance(name, str) else "", line))
    return parts
