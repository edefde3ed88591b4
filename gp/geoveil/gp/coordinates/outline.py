"""A disc around a polygon or several, in longitudes and latitudes.

A disc that contains the outlines contains all that they enclose: they are less than 180° wide, so
the antipode of the centre is outside, and no enclosed place beyond the disc can be joined to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from geoveil.gp.arrays import NDArray, np
from geoveil.gp.coordinates import earth
from geoveil.gp.errors import ParameterError

Ring: TypeAlias = "NDArray[np.float64]"
"""Vertices (longitude, latitude) in degrees, shape (n, 2); the last is joined to the first."""

_TOO_WIDE = "less than 180° of longitude wide (around a pole, give a centre and a radius instead)"
_FINENESS = 1e-3
"""Spacing of the tested places on an outline, as a fraction of the diagonal."""


def rings(polygon: object) -> list[Ring]:
    """Return the outer outlines of a polygon or multipolygon; `Area.of_polygon` documents it."""
    import shapely

    geometry: Any = getattr(polygon, "__geo_interface__", polygon)
    expected = (
        "a Polygon or MultiPolygon of longitudes in [-360, 360] and latitudes in [-90, 90], not"
        " empty, each part with three vertices or more and an inside"
    )
    kind = geometry.get("type") if isinstance(geometry, Mapping) else None
    if kind not in ("Polygon", "MultiPolygon"):
        raise ParameterError("polygon", polygon, expected)
    try:
        with np.errstate(invalid="ignore"):  # NaN is refused below
            shape: Any = shapely.geometry.shape(dict(geometry))
    except (TypeError, ValueError, LookupError, shapely.errors.ShapelyError):
        raise ParameterError("polygon", polygon, expected) from None
    parts = [shape] if kind == "Polygon" else shape.geoms
    outlines = [shapely.get_coordinates(part.exterior) for part in parts if not part.is_empty]
    sizes = [np.ptp(outline, axis=0) for outline in outlines]
    within = [(np.abs(outline) <= (360.0, 90.0)).all() for outline in outlines]
    if not outlines or not all(within) or not np.all(np.array(sizes) > 0):
        raise ParameterError("polygon", polygon, expected)
    if not all(width < 180 for width, _ in sizes):
        raise ParameterError(
            "polygon",
            polygon,
            f"{_TOO_WIDE}; across the antimeridian, cut in two or with longitudes beyond 180",
        )
    return outlines


def disc_around(outlines: Sequence[Ring]) -> tuple[float, float, float]:
    """Return longitude, latitude and radius of a disc around the middle of the bounding box.

    The farthest place is at most half a spacing farther than the farthest place tried. A step of
    Δλ, Δφ radians is at most R √(Δφ² + (Δλ cos φ₀)²) long, with R the largest radius of curvature
    and φ₀ the latitude nearest to the equator.

    Raises:
        ParameterError: if the outlines together are 180° wide or more.
    """
    outlines = _side_by_side(outlines)
    everything = np.concatenate(outlines)
    low, high = everything.min(axis=0), everything.max(axis=0)
    middle = (low + high) / 2
    nearest_to_equator = max(low[1], -high[1], 0.0)
    weights = np.radians([math.cos(math.radians(nearest_to_equator)), 1.0])
    spacing = _FINENESS * float(np.hypot(*((high - low) * weights)))
    tried = np.concatenate([_walk(outline, weights, spacing) for outline in outlines])
    centre = earth.wrapped(float(middle[0])), float(middle[1])
    _, _, distance = earth.geodesics().inv(
        np.full(len(tried), centre[0]),
        np.full(len(tried), centre[1]),
        np.ascontiguousarray(tried[:, 0]),
        np.ascontiguousarray(tried[:, 1]),
    )
    farthest = float(np.max(distance)) + earth.LARGEST_RADIUS_M * spacing / 2
    return *centre, float(math.ceil(farthest + 1e-6))


def _side_by_side(outlines: Sequence[Ring]) -> list[Ring]:
    """Return the outlines, shifted by whole turns to less than half a turn from the first."""
    west = np.array([outline[:, 0].min() for outline in outlines])
    turns = 360 * np.round((west[0] - west) / 360)
    beside = [
        outline + np.array([turn, 0.0]) for outline, turn in zip(outlines, turns, strict=True)
    ]
    # If less than half a turn holds them all, this is how.
    width = np.ptp(np.concatenate(beside)[:, 0])
    if not width < 180:
        raise ParameterError("polygon", f"{width:g}° wide", _TOO_WIDE)
    return beside


def _walk(outline: Ring, weights: NDArray[np.float64], spacing: float) -> NDArray[np.float64]:
    """Return the vertices and points between them, at most `spacing` apart."""
    step = np.roll(outline, -1, axis=0) - outline
    count = np.maximum(np.ceil(np.linalg.norm(step * weights, axis=1) / spacing), 1).astype(int)
    edge = np.repeat(np.arange(len(outline)), count)
    before = np.repeat(np.cumsum(count) - count, count)
    share = (np.arange(len(edge)) - before) / count[edge]
    return np.asarray(outline[edge] + share[:, None] * step[edge])
