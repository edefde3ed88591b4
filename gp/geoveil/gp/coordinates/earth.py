"""The ellipsoid WGS 84: its radii, its geodesics, and checks of places on it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from geoveil.gp import validation
from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.errors import PrivateValueError

if TYPE_CHECKING:
    from pyproj import Geod

EQUATORIAL_RADIUS_M = 6_378_137.0
"""Semi-major axis a: exact by definition."""
POLAR_RADIUS_M = 6_356_752.3
"""Semi-minor axis b, rounded down. The Gaussian curvature is at most 1/b², as on the equator."""
LARGEST_RADIUS_M = 6_399_593.7
"""a²/b, rounded up, the radius of curvature at the poles, which is the largest."""
ECCENTRICITY_SQUARED = (2 - 1 / 298.257223563) / 298.257223563
"""e² = f(2 − f) with the flattening f of WGS 84."""


def places_array(places: ArrayLike) -> NDArray[np.float64]:
    """Return private (longitude, latitude) pairs in degrees as float64, shape (..., 2).

    Anything else raises `PrivateValueError`.
    """
    array = validation.float_array(places)
    if (
        array is None
        or array.shape[-1:] != (2,)
        or not (np.abs(array) <= (180.0, 90.0)).all()  # nor is NaN
    ):
        raise PrivateValueError(
            "a longitude in [-180, 180] and a latitude in [-90, 90], in degrees"
        )
    return array


def wrapped(longitude_deg: float) -> float:
    """Return the same meridian as a longitude in [−180, 180]."""
    return math.remainder(longitude_deg, 360.0)


@lru_cache(maxsize=1)
def geodesics() -> Geod:
    """Return the solver of geodesics on WGS 84."""
    import pyproj

    return pyproj.Geod(ellps="WGS84")
