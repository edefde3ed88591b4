"""The azimuthal equidistant projection, almost without distortion over a city."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.coordinates import earth
from geoveil.gp.coordinates.area import Area
from geoveil.gp.coordinates.base import Projection
from geoveil.gp.exact import BALL, BITS, round_up, upper, working_precision


@dataclass(frozen=True, slots=True)
class AzimuthalEquidistant(Projection):
    """Metres east and north of a centre: the length and azimuth of the geodesic from it (WGS 84).

    The area is the disc of `radius_m` around the centre; `Area` moves places outside onto it: a
    refusal would tell that somebody is not inside. Distances in the plane are at most κ = t/sin t
    times true ones, on the whole Earth, t = radius/b with b the polar radius [MATH §11].

    Not covered: the projection is computed in doubles, so it does not resolve distances below about
    10⁻⁸ m. A longitude in doubles does not either.

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

    @classmethod
    def of_area(cls, area: Area) -> AzimuthalEquidistant:
        """Return the projection about the centre of an area."""
        return cls(area.longitude_deg, area.latitude_deg, area.radius_m)

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
        array = validation.points(points, 2)
        flat = array.reshape(-1, 2)
        longitude, latitude, _ = earth.geodesics().fwd(
            np.full(len(flat), self.longitude_deg),
            np.full(len(flat), self.latitude_deg),
            np.degrees(np.arctan2(flat[:, 0], flat[:, 1])),
            np.hypot(flat[:, 0], flat[:, 1]),
        )
        return np.stack([longitude, latitude], axis=-1).reshape(array.shape)
