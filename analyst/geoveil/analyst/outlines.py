"""Outlines: those shipped for maps, and the part of others that lies within an area."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import AzimuthalEquidistant, ParameterError

Bounds = tuple[float, float, float, float]
"""West, south, east and north, in degrees."""

_NEW_YORK: Bounds = (-74.26, 40.5, -73.7, 40.92)
_CENSUS = "Outlines: US Census Bureau, counties of 2017"
_NATURAL_EARTH = "Coast: Natural Earth, to about 5 km"
_MARGIN_DEG = 1.0
"""Degrees around the bounds within which lines are kept; few of their pieces are longer."""
_LEAST_DEG, _MOST_DEG = 0.5, 1.5
"""Heights of maps below which the coast is too crude, and above which boroughs are too small."""


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


_SIDES = 256
"""Sides of the polygon that approximates the circle around an area."""
_FARTHEST_M = 5_000_000.0
"""Largest distance of a plane's places from its centre."""
_METRES = 720.0
"""A number of degrees beyond every longitude; a larger one is probably in metres."""
Corners: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Clipped:
    """The part of a region that lies in an area, in metres east and north of its centre."""

    parts: list[list[list[tuple[float, float]]]]
    """Rings of each part: its exterior, then its holes."""
    whole: bool
    """Whether all corners of the region lie in the area."""


def clipped(plane: AzimuthalEquidistant, label: str, parts: Sequence[Sequence[Corners]]) -> Clipped:
    """Return the part of a region in the area of a plane.

    Corners are joined by straight lines in the plane. Anything beyond the area is cut off.

    Args:
        parts: rings of each part, as longitudes and latitudes.

    Raises:
        ParameterError: if it lies outside the area, or its numbers are not valid degrees.
    """
    rings = [[np.asarray(ring, np.float64)[:, :2] for ring in part] for part in parts]
    exteriors = np.concatenate([part[0] for part in rings])
    center = f"{plane.longitude_deg:.7g},{plane.latitude_deg:.7g}"
    area = f"within {plane.radius_m:,.0f} metre of {center}"
    swapped = _on_earth(exteriors[:, ::-1]) and _inside(plane, exteriors[:, ::-1]).any()
    order = (
        f"with the longitude before the latitude, {area}: its corners are in the area the other way"
        " round"
    )
    if not _on_earth(exteriors):
        if swapped:
            raise ParameterError("region", label, order)
        system = " (these look like metres of another reference system)"
        hint = system if np.abs(exteriors).max() > _METRES else ""
        raise ParameterError("region", label, f"longitudes and latitudes in degrees{hint}")
    if _inside(plane, exteriors).all():
        return Clipped([[_pairs(plane, ring) for ring in part] for part in rings], whole=True)
    kept = _cut(plane, rings)
    if not kept:
        raise ParameterError(
            "region", label, order if swapped else f"in the area of the survey, {area}"
        )
    return Clipped(kept, whole=False)


def _cut(
    plane: AzimuthalEquidistant, rings: Sequence[Sequence[NDArray[np.float64]]]
) -> list[list[list[tuple[float, float]]]]:
    """Return the parts of a region within the area; people on its edge are inside."""
    import shapely

    wide = AzimuthalEquidistant(plane.longitude_deg, plane.latitude_deg, _FARTHEST_M)
    angles = np.linspace(0.0, 2 * math.pi, _SIDES, endpoint=False)
    around = plane.radius_m / math.cos(math.pi / _SIDES)
    disc = shapely.Polygon(around * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    kept = []
    for part in rings:
        exterior, *holes = (_pairs(wide, ring) for ring in part)
        shape = shapely.Polygon(exterior, holes)
        if not shape.is_valid:
            shape = shapely.make_valid(shape)
        for piece in shapely.get_parts(shape.intersection(disc)):
            if isinstance(piece, shapely.Polygon) and not piece.is_empty:
                every = [piece.exterior, *piece.interiors]
                kept.append([list(map(tuple, ring.coords)) for ring in every])
    return kept


def _pairs(plane: AzimuthalEquidistant, ring: NDArray[np.float64]) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in plane.project(_wrapped(ring))]


def _inside(plane: AzimuthalEquidistant, places: NDArray[np.float64]) -> NDArray[np.bool_]:
    wrapped = _wrapped(places)
    return np.asarray((plane.area.contract(wrapped) == wrapped).all(axis=1))


def _wrapped(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places with longitudes in [−180, 180]; outlines across ±180° may go beyond."""
    beyond = np.abs(places[:, 0]) > 180.0
    return np.where(
        np.stack([beyond, np.zeros_like(beyond)], axis=1), (places + 180.0) % 360.0 - 180.0, places
    )


def _on_earth(places: NDArray[np.float64]) -> bool:
    return bool((np.abs(places) <= (360.0, 90.0)).all())
