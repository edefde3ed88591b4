"""Read GeoJSON files: named outlines, named places, and lines to draw [RFC 7946]."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from geoveil.analyst.questions import Place, ShareInside, on_earth
from geoveil.gp import ParameterError

NAME = "name"
"""The property that names features unless another is given."""
_DEEPEST = 8
"""The greatest depth of nested collections."""
_WGS_84 = ("CRS84", "CRS84H", "4326", "4979", "WGS84", "WGS 84")
"""The ends of names of longitude and latitude on WGS 84, in capitals."""
_FEWEST = {"Point": 1, "LineString": 2, "Polygon": 3}
"""Simple geometry → the fewest positions of a line of it."""
_EXPECTED = {
    "Polygon": "a GeoJSON file of a Polygon or MultiPolygon, or of such features",
    "Point": "GeoJSON of features that are each a Point",
    "": "GeoJSON of places, lines or polygons, in degrees",
}
_SHOWN = 12
"""Properties that an error lists."""
Line: TypeAlias = tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A point, a line, or a polygon: its exterior, then its holes."""

    kind: str
    """"Point", "LineString" or "Polygon"."""
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    """Shapes with their properties."""

    properties: Mapping[str, Any]
    shapes: tuple[Shape, ...]


def read_file(name: str, path: Path, kind: str = "Polygon") -> Any:
    """Return the JSON of a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        expected = f"{_EXPECTED[kind]}, in UTF-8"
        raise ParameterError(name, str(path), expected) from error


def outlines_in(
    content: Any,
    source: str,
    *,
    name: str = "region",
    name_property: str | None = None,
    stem: str = "district",
) -> list[ShareInside]:
    """Return the share inside each feature, by its name.

    Args:
        content: GeoJSON of polygons, or what has a `__geo_interface__`: a GeoDataFrame, a geometry.
        source: what errors show, for example the file.
        name_property: of each feature; `name` by default. A feature that is alone needs none.
        stem: the name of a feature without one.

    Raises:
        ParameterError: if it is anything else, is not in WGS 84, or two features have one name.

    Example:
        >>> corners = [[-74.0, 40.7], [-73.9, 40.7], [-73.9, 40.8]]
        >>> triangle = {"type": "Polygon", "coordinates": [corners]}
        >>> [one.label for one in outlines_in(triangle, "a triangle", stem="park")]
        ['park']
    """
    features = features_in(content, name, source, "Polygon")
    labels = _names(features, name, source, name_property, stem)
    return [
        ShareInside([shape.lines for shape in feature.shapes], label)
        for feature, label in zip(features, labels, strict=True)
    ]


def places_in(
    content: Any, source: str, *, name: str = "places", name_property: str | None = None
) -> dict[str, Place]:
    """Return the place of each feature, by its name.

    Args:
        content: GeoJSON of points, or what has a `__geo_interface__`.
        source: what errors show, for example the file.
        name_property: of each feature; `name` by default.

    Raises:
        ParameterError: if it is anything else, is not in WGS 84, or two features have one name.
    """
    features = features_in(content, name, source, "Point")
    for feature in features:
        if len(feature.shapes) != 1:
            raise ParameterError(name, source, _EXPECTED["Point"])
    labels = _names(features, name, source, name_property, "place")
    return {
        label: on_earth(name, feature.shapes[0].lines[0][0])
        for label, feature in zip(labels, features, strict=True)
    }


def features_in(content: Any, name: str, source: str, kind: str = "") -> list[Feature]:
    """Return the features of GeoJSON, each with one shape or more.

    Args:
        content: a collection of features, one, or a geometry, or what has a `__geo_interface__`.
        kind: of all shapes: "Point" or "Polygon"; without one, all kinds are read, and features
            without a shape are left out.

    Raises:
        ParameterError: if it is no GeoJSON, holds nothing or other kinds, or is not in WGS 84.
    """
    _check_reference_system(getattr(content, "crs", None), name)
    top = getattr(content, "__geo_interface__", content)
    refusal = ParameterError(name, source, _EXPECTED[kind])
    if not isinstance(top, Mapping):
        raise refusal
    _check_reference_system(_declared(top), name)
    features, is_one = [], top.get("type") != "FeatureCollection"
    for feature in [top] if is_one else _listed(top.get("features"), refusal):
        if not isinstance(feature, Mapping):
            raise refusal
        of_feature = feature.get("type") == "Feature"
        geometry = feature.get("geometry") if of_feature else feature
        properties = feature.get("properties") if of_feature else None
        if geometry is None and not kind:
            continue  # a feature that is nowhere
        shapes = tuple(_shapes(geometry, refusal, 0))
        if not shapes or (kind and any(shape.kind != kind for shape in shapes)):
            raise refusal
        features.append(Feature(properties if isinstance(properties, Mapping) else {}, shapes))
    if not features:
        raise refusal
    return features


def _names(
    features: Sequence[Feature], name: str, source: str, name_property: str | None, stem: str
) -> list[str]:
    """Return the names of features: distinct, and none empty."""
    key = name_property or NAME
    labels = [_text(feature.properties.get(key)) for feature in features]
    has = list(dict.fromkeys(key for feature in features for key in feature.properties))
    if name_property is None and len(features) == 1:
        return [labels[0] or stem]
    if name_property is None and (any(labels) or not has):
        labels = [label or f"{stem} {number}" for number, label in enumerate(labels, 1)]
    if not all(labels):
        there = f", one of {', '.join(map(str, has[:_SHOWN]))}" if has else ""
        expected = (
            f"of features that each have a property {key!r}, which feature {labels.index('') + 1} "
            f"lacks: give the property that names them{there}"
        )
        raise ParameterError(name, source, f"{expected} (--name-property, name_property)")
    check_distinct(labels, name, source)
    return labels


def check_distinct(labels: Sequence[str], name: str, source: str) -> None:
    """Refuse two outlines or places of one name."""
    (label, count), *_ = Counter(labels).most_common(1)
    if count > 1:
        expected = (
            f"of distinct names: {count} are named {label!r}. Give another property that names"
            " them (--name-property, name_property), or join what belongs together"
        )
        raise ParameterError(name, source, expected)


def _text(value: object) -> str:
    """Return a name as a label; nothing for none."""
    if value is None or isinstance(value, Mapping | list | tuple) or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value).split())


def _shapes(geometry: Any, refusal: ParameterError, depth: int) -> Iterator[Shape]:
    if not isinstance(geometry, Mapping) or depth > _DEEPEST:
        raise refusal
    kind, inner = str(geometry.get("type")), geometry.get("coordinates")
    if kind == "GeometryCollection":
        for part in _listed(geometry.get("geometries"), refusal):
            yield from _shapes(part, refusal, depth + 1)
        return
    simple = kind.removeprefix("Multi")
    if simple not in _FEWEST:
        raise refusal
    for part in [inner] if simple == kind else _listed(inner, refusal):
        lines = part if simple == "Polygon" else [part] if simple == "LineString" else [[part]]
        read = tuple(
            tuple(_position(corner, refusal) for corner in _listed(line, refusal))
            for line in _listed(lines, refusal)
        )
        if not read or any(len(line) < _FEWEST[simple] for line in read):
            raise refusal
        yield Shape(simple, read)


def _position(corner: Any, refusal: ParameterError) -> Place:
    numbers = _listed(corner, refusal)[:2]  # a third is a height
    if len(numbers) < 2 or any(type(number) not in (int, float) for number in numbers):
        raise refusal
    try:
        x, y = map(float, numbers)
    except OverflowError:
        raise refusal from None
    if not (math.isfinite(x) and math.isfinite(y)):
        raise refusal
    return x, y


def _listed(content: Any, refusal: ParameterError) -> Sequence[Any]:
    if not isinstance(content, list | tuple):
        raise refusal
    return content


def _declared(top: Mapping[str, Any]) -> object:
    """Return the name of the reference system that old GeoJSON, before RFC 7946, may declare."""
    declared = top.get("crs")
    if not isinstance(declared, Mapping):
        return declared
    properties = declared.get("properties")
    said = properties.get("name") if isinstance(properties, Mapping) else None
    return said or str(declared.get("type"))


def _check_reference_system(system: object, name: str) -> None:
    """Refuse a named reference system other than longitude and latitude on WGS 84."""
    if system is None:
        return
    authority = getattr(system, "to_authority", lambda: None)()
    said = ":".join(authority) if authority else str(system)
    if not said.upper().rstrip("/").endswith(_WGS_84):
        expected = (
            "longitudes and latitudes on WGS 84 (EPSG:4326): convert it first, for example with"
            " GeoPandas' to_crs(4326)"
        )
        raise ParameterError(name, said[:80], expected)
