"""Outlines on the plane of a survey, within its area."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import AzimuthalEquidistant, ParameterError, UnsupportedError

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
        UnsupportedError: if it lies across the edge, and shapely is not installed.

    Example:
        >>> plane = AzimuthalEquidistant(2.35, 48.86, radius_m=15_000)
        >>> clipped(plane, "park", [[[(48.83, 2.43), (48.84, 2.43), (48.84, 2.44)]]])
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: region must be with the longitude before the latitude,\
 within 15,000 metre of 2.35,48.86: its corners are in the area the other way round, got\
 region='park'
    """
    rings = [[np.asarray(ring, np.float64)[:, :2] for ring in part] for part in parts]
    exteriors = np.concatenate([part[0] for part in rings])
    area = f"within {plane.radius_m:,.0f} metre of {plane.longitude_deg:.7g},"
    area += f"{plane.latitude_deg:.7g}"
    swapped = _on_earth(exteriors[:, ::-1]) and _inside(plane, exteriors[:, ::-1]).any()
    order = f"with the longitude before the latitude, {area}: its corners are in the area the"
    order += " other way round"
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
    try:
        import shapely
    except ImportError:
        raise UnsupportedError("polygons need shapely: pip install 'geoveil[geo]'") from None
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
