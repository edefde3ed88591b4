"""Outlines shipped for maps: the boroughs of New York, and the coasts of the world."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

Bounds = tuple[float, float, float, float]
"""West, south, east and north, in degrees."""

_NEW_YORK: Bounds = (-74.26, 40.5, -73.7, 40.92)
_CENSUS = "Outlines: US Census Bureau, counties of 2017"
_NATURAL_EARTH = "Coast: Natural Earth, to about 5 km"
_MARGIN_DEG = 1.0
"""Degrees around the bounds within which lines are kept; few of their pieces are longer."""
_LEAST_DEG, _MOST_DEG = 0.5, 1.5
"""The height of a map below which the coast is too crude, and above which boroughs are too small.
"""


def outlines_of(bounds: Bounds) -> tuple[dict[str, Any] | None, str]:
    """Return the default outlines within bounds, and their source.

    If none is in view, return None and an empty text.
    """
    height = bounds[3] - bounds[1]
    if height < _MOST_DEG and _meet(bounds, _NEW_YORK):
        return new_york_boroughs(), _CENSUS
    if height < _LEAST_DEG:
        return None, ""
    coasts = coastline(bounds)
    return (coasts, _NATURAL_EARTH) if lines_of(coasts) else (None, "")


def coastline(bounds: Bounds = (-180.0, -90.0, 180.0, 90.0)) -> dict[str, Any]:
    """Return the coasts of the world as GeoJSON lines, to about 5 km.

    From Natural Earth, land at 1:50 million, simplified to 2 km: in the public domain.

    Args:
        bounds: west, south, east and north, in degrees: lines further away than a degree are left
            out.

    Example:
        >>> (feature,) = coastline((-124.0, 36.0, -121.0, 39.0))["features"]
        >>> feature["geometry"]["type"]
        'MultiLineString'
    """
    held = _data("coastline.json")
    steps = [np.reshape(line, (-1, 2)) for line in held["lines"]]
    sizes = [len(line) for line in steps]
    places = np.concatenate([np.cumsum(line, axis=0) for line in steps]) / held["per_degree"]
    low, high = np.array(bounds[:2]) - _MARGIN_DEG, np.array(bounds[2:]) + _MARGIN_DEG
    near = np.all((places >= low) & (places <= high), axis=1)
    line = np.repeat(np.arange(len(sizes)), sizes)
    goes_on = near[1:] & near[:-1] & (line[1:] == line[:-1])
    parts = np.split(places, np.flatnonzero(~goes_on) + 1)
    lines = [part.tolist() for part in parts if len(part) > 1]
    geometry = {"type": "MultiLineString", "coordinates": lines}
    feature = {"type": "Feature", "properties": {"name": "coast"}, "geometry": geometry}
    return {"type": "FeatureCollection", "features": [feature]}


def new_york_boroughs() -> dict[str, Any]:
    """Return the five boroughs of New York as GeoJSON, to about 300 m.

    From the cartographic county boundaries of the US Census Bureau, 2017: in the public domain.

    Example:
        >>> [feature["properties"]["name"] for feature in new_york_boroughs()["features"]]
        ['Bronx', 'Brooklyn', 'Manhattan', 'Queens', 'Staten Island']
    """
    return _data("new_york_boroughs.json")


def _data(name: str) -> dict[str, Any]:
    # They are in the campaign's package, as the participants' page also draws them.
    text = files("geoveil.campaign").joinpath("data", name).read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def lines_of(collection: Mapping[str, Any] | None) -> list[Any]:
    """Return all lines, and all rings of polygons, of a collection."""
    lines: list[Any] = []
    for feature in () if collection is None else collection["features"]:
        geometry = feature["geometry"]
        kind, parts = geometry["type"], geometry["coordinates"]
        if kind == "LineString":
            lines.append(parts)
        elif kind in {"Polygon", "MultiLineString"}:
            lines.extend(parts)
        else:
            lines.extend(ring for part in parts for ring in part)
    return lines


def _meet(a: Bounds, b: Bounds) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
