"""From places on the Earth to a plane in which mechanisms work [MATH §11].

A projection distorts distance. With κ = sup of projected over true length on the area, a mechanism
that is ε-GP in projected metres is κε-GP in true metres, so it is calibrated with ε/κ.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import validation
from geoveil.gp.errors import PrivateValueError, UnsupportedError

if TYPE_CHECKING:
    from pyproj import Geod

POLAR_RADIUS_M = 6_356_752.3
"""Semi-minor axis of WGS 84, rounded down. Its Gaussian curvature is at most 1/b²."""


@dataclass(frozen=True, slots=True)
class AzimuthalEquidistant:
    """Metres east and north of a centre: the length and azimuth of the geodesic from it (WGS 84).

    The area is the disc of `radius_m` around the centre. A place outside takes part all the same,
    moved onto the disc by a contraction: a refusal would tell the server where somebody is not.

    Distances in the plane are at most κ = t/sin t times true ones, t = radius/b with b the polar
    radius. Proof: along the geodesic from the centre lengths are kept; across it a circle of radius
    ρ has circumference 2π m(ρ), where m'' + Km = 0 for the Gaussian curvature K ≤ 1/b², so by
    Sturm's comparison m(ρ) ≥ b sin(ρ/b), and ρ/m(ρ) ≤ t/sin t. A place at distance r > ρ is
    moved to distance min(ρ, max(πb − r, 0)) at the same azimuth: along the geodesic this stretches
    nothing, across it the same comparison bounds the stretch by κ; and all cut points of the centre
    lie at r ≥ πb, where the map is constant. It is therefore κ-Lipschitz on the whole Earth.

    Not covered: the projection is computed in doubles, so distances below about 10⁻⁸ m are not
    resolved; they are far below what a longitude in doubles, or any device, resolves.

    Args:
        longitude_deg: of the centre, in [−180, 180].
        latitude_deg: of the centre, in [−90, 90].
        radius_m: of the area, in (0, 5,000,000] metres.

    Example:
        >>> plane = AzimuthalEquidistant(longitude_deg=-73.98, latitude_deg=40.72, radius_m=60_000)
        >>> plane.project([-73.97, 40.73]).round(1).tolist()
        [844.8, 1110.5]
        >>> round(plane.distortion, 6)
        1.000015
    """

    longitude_deg: float
    latitude_deg: float
    radius_m: float

    def __post_init__(self) -> None:
        checked = {
            "longitude_deg": validation.between("longitude_deg", self.longitude_deg, -180, 180),
            "latitude_deg": validation.between("latitude_deg", self.latitude_deg, -90, 90),
            "radius_m": validation.between("radius_m", self.radius_m, 0, 5_000_000, low_open=True),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def dimension(self) -> int:
        """Coordinates in the plane: 2."""
        return 2

    @property
    def distortion(self) -> float:
        """κ: an upper bound of plane over true distance, for all pairs of places."""
        t = self.radius_m / POLAR_RADIUS_M
        # Rounded up: t/sin t is computed to a few units in the last place.
        return max(1.0, t / math.sin(t)) * (1 + 1e-15)

    def project(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return metres east and north of the centre.

        Args:
            places: (longitude, latitude) in degrees, shape (n, 2) or (2,).

        Returns:
            An array of the same shape, within `radius_m` of the origin.

        Raises:
            PrivateValueError: if a place is no longitude and latitude.
            UnsupportedError: if pyproj is not installed.
        """
        expected = "a longitude in [-180, 180] and a latitude in [-90, 90], in degrees"
        array = validation.float_array(places)
        if array is None or array.shape[-1:] != (2,) or not np.isfinite(array).all():
            raise PrivateValueError(expected)
        longitude, latitude = array[..., 0], array[..., 1]
        if (np.abs(longitude) > 180).any() or (np.abs(latitude) > 90).any():
            raise PrivateValueError(expected)
        azimuth, _, distance = _geodesics().inv(
            np.full(longitude.shape, self.longitude_deg),
            np.full(latitude.shape, self.latitude_deg),
            np.ascontiguousarray(longitude),
            np.ascontiguousarray(latitude),
        )
        folded = np.maximum(math.pi * POLAR_RADIUS_M - np.asarray(distance), 0.0)
        radius = np.minimum(np.minimum(distance, self.radius_m), folded)
        angle = np.radians(np.asarray(azimuth))
        plane = np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=-1)
        return plane.reshape(array.shape)  # pyproj makes one place an array of one

    def unproject(self, points: ArrayLike) -> NDArray[np.float64]:
        """Return (longitude, latitude) in degrees of points of the plane, shape (n, 2) or (2,)."""
        array = validation.points(points, 2)
        shape = array.shape[:-1]
        longitude, latitude, _ = _geodesics().fwd(
            np.full(shape, self.longitude_deg),
            np.full(shape, self.latitude_deg),
            np.degrees(np.arctan2(array[..., 0], array[..., 1])),
            np.hypot(array[..., 0], array[..., 1]),
        )
        return np.stack([np.asarray(longitude), np.asarray(latitude)], axis=-1).reshape(array.shape)


@lru_cache(maxsize=1)
def _geodesics() -> "Geod":
    try:
        from pyproj import Geod
    except ImportError:
        raise UnsupportedError(
            "places on the Earth need pyproj: pip install 'geoveil[geo]'"
        ) from None
    return Geod(ellps="WGS84")
