"""Spherical Mercator, the plane of [SGP §5], whose metres are shorter than true metres."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    ECCENTRICITY_SQUARED,
    EQUATORIAL_RADIUS_M,
    Area,
    ParameterError,
    Projection,
    validation,
)

SPHERE_RADIUS_M = 6_371_000.0
"""Radius R of the sphere in [SGP §5]."""
_HIGHEST_MERCATOR_DEG = 85
_STEPS = 32
"""Number of steps from the centre to the pole; they give the latitude within 0.003°."""


@dataclass(frozen=True, slots=True)
class SphericalMercator(Projection):
    """x = Rλ, y = R asinh(tan φ), R = 6,371,000 m, for (λ, φ) on WGS 84; PROJ's `+proj=merc +R`.

    It reproduces the plane of [SGP §5]. A stated ε there means 1.32 ε in New York's true metres.

    Places outside the area are first moved onto it (`Area`). Distances in the plane are at most κ
    times true ones, rounded up [MATH §11]; this does not cover the projection's own rounding.

    Args:
        area: within latitudes ±85°. If it crosses the antimeridian, longitudes continue past
            ±180°, so that the plane has no seam.

    Raises:
        ParameterError: if `area` is not an Area or comes too near a pole.

    Example:
        >>> plane = SphericalMercator(Area(-73.95, 40.7, radius_m=20_000))
        >>> plane.project([-73.97, 40.73]).round(1).tolist()
        [-8225088.7, 4967033.7]
        >>> round(plane.distortion, 3)
        1.324
    """

    area: Area

    def __post_init__(self) -> None:
        if not isinstance(self.area, Area):
            raise ParameterError("area", self.area, "an Area")
        if not _highest_latitude_deg(self.area) <= _HIGHEST_MERCATOR_DEG:
            expected = f"within latitudes ±{_HIGHEST_MERCATOR_DEG}°, its radius included"
            raise ParameterError("area", self.area, expected)

    @property
    def distortion(self) -> float:
        latitude = _highest_latitude_deg(self.area)
        scale = SPHERE_RADIUS_M / (_meridional_radius(latitude) * math.cos(math.radians(latitude)))
        # tan 85° = 11.4, so rounding of the latitude enters the scale at most 12 times enlarged.
        return scale * (1 + 1e-13)

    def project(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return metres east of longitude 0 and north of the equator."""
        longitude, latitude = np.moveaxis(self.area.contract(places), -1, 0)
        turns = np.round((self.area.longitude_deg - longitude) / 360)
        x = np.radians(longitude + 360 * turns)
        y = np.arcsinh(np.tan(np.radians(latitude)))
        return SPHERE_RADIUS_M * np.stack([x, y], axis=-1)

    def unproject(self, points: ArrayLike) -> NDArray[np.float64]:
        x, y = np.moveaxis(validation.points(points, 2) / SPHERE_RADIUS_M, -1, 0)
        longitude = np.degrees(x)
        longitude = longitude - 360 * np.round(longitude / 360)
        latitude = np.degrees(2 * np.arctan(np.tanh(y / 2)))
        return np.stack([longitude, latitude], axis=-1)


def _meridional_radius(latitude_deg: float) -> float:
    """Return M(φ) in metres: a step dφ along the meridian is M dφ long, least at the equator."""
    w = 1 - ECCENTRICITY_SQUARED * math.sin(math.radians(latitude_deg)) ** 2
    return EQUATORIAL_RADIUS_M * (1 - ECCENTRICITY_SQUARED) / (w * math.sqrt(w))


def _highest_latitude_deg(area: Area) -> float:
    """Return an upper bound of |latitude| over an area; above 90 if a pole may lie in it.

    A step toward the pole spans at most its length over M(φ) at its start.
    """
    latitude = abs(area.latitude_deg)
    step = area.radius_m / _STEPS
    for _ in range(_STEPS):
        latitude += math.degrees(step / _meridional_radius(latitude))
    return latitude
