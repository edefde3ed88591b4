"""The azimuthal equidistant projection, almost without distortion over a city."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.coordinates import earth
from geoveil.gp.coordinates.area import Area
from geoveil.gp.exact import BALL, BITS, round_up, upper, working_precision
from geoveil.gp.privacy import GeoPrivacy


class Projection(ABC):
    """A κ-Lipschitz map from places on the Earth to a plane, in metres.

    Places outside the area have an image, too: a refusal would tell that somebody is not inside.
    """

    @property
    def dimension(self) -> int:
        """Coordinates in the plane: 2."""
        return 2

    @property
    @abstractmethod
    def distortion(self) -> float:
        """κ: an upper bound of plane over true distance, for all pairs of places."""

    @abstractmethod
    def project(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return metres east and north, for (longitude, latitude) in degrees, shape (n, 2) or (2,).

        Raises:
            PrivateValueError: if a place is not a longitude and a latitude.
        """

    @abstractmethod
    def unproject(self, points: ArrayLike) -> NDArray[np.float64]:
        """Return (longitude, latitude) of metres east and north; inverts `project` inside the area.

        Raises:
            PrivateValueError: if a point is not finite, or no place lies there.
        """

    def privacy(self, true: GeoPrivacy) -> GeoPrivacy:
        """Return the guarantee in the plane for which `true` holds on the Earth.

        Places d apart have points at most κd apart: the rate is ε/κ and the reach κΛ, rounded in
        the safe direction.

        Example:
            >>> from geoveil.gp.coordinates import AzimuthalEquidistant
            >>> plane = AzimuthalEquidistant(-73.95, 40.7, radius_m=500_000)
            >>> print(plane.privacy(GeoPrivacy(epsilon=1.0, per=500.0, unit="metre")))
            ε = 0.99897 per 500 metre
        """
        kappa = Fraction(self.distortion)
        reach = true.reach
        if reach < math.inf:
            reach = round_up(Fraction(reach) * kappa)
        return replace(true.scaled(1 / kappa), reach=reach)


@dataclass(frozen=True, slots=True)
class AzimuthalEquidistant(Projection):
    """Metres east and north of a centre: the length and azimuth of the geodesic from it (WGS 84).

    `Area` moves places outside the disc of `radius_m` onto it: a refusal would tell that somebody
    is not inside. Distances in the plane are at most κ = t/sin t times true ones, on the whole
    Earth, t = radius/b with b the polar radius [MATH §11]. Doubles resolve distances from about
    10⁻⁸ m.

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
        area = Area(self.longitude_deg, self.latitude_deg, self.radius_m)
        for name in Area.__slots__:
            object.__setattr__(self, name, getattr(area, name))

    @property
    def area(self) -> Area:
        """The disc of `radius_m` around the centre."""
        return Area(self.longitude_deg, self.latitude_deg, self.radius_m)

    @property
    def distortion(self) -> float:
        # The least double that is not below, so that every device finds the same.
        t = Fraction(self.radius_m) / Fraction(earth.POLAR_RADIUS_M)
        with working_precision(BITS):
            angle = BALL.constant(t)
            return round_up(upper(angle / angle.sin()))

    def project(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return metres east and north: within `radius_m` of the origin, which is the centre."""
        azimuth, radius = self.area.polar(places)
        angle = np.radians(azimuth)
        return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=-1)

    def unproject(self, points: ArrayLike) -> NDArray[np.float64]:
        east, north = np.moveaxis(validation.points(points, 2), -1, 0)
        return self.area.place(np.degrees(np.arctan2(east, north)), np.hypot(east, north))
