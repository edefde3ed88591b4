"""Projections: azimuthal equidistant, spherical Mercator, universal transverse Mercator.

The first is the one of choice, all but free of distortion over a city; the second is the plane of
[SGP §5], in which a metre is shorter than a metre; the third is the grid of topographic maps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from geoveil.gp import validation
from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.coordinates import earth
from geoveil.gp.coordinates.area import Area
from geoveil.gp.coordinates.base import Projection
from geoveil.gp.errors import ParameterError, PrivateValueError
from geoveil.gp.exact import BALL, BITS, round_up, upper, working_precision

if TYPE_CHECKING:
    from pyproj import Transformer


@dataclass(frozen=True, slots=True)
class AzimuthalEquidistant(Projection):
    """Metres east and north of a centre: the length and azimuth of the geodesic from it (WGS 84).

    The area is the disc of `radius_m` around the centre. A place outside takes part all the same,
    moved onto the disc by a contraction: a refusal would tell the server where somebody is not.

    Distances in the plane are at most κ = t/sin t times true ones, t = radius/b with b the polar
    radius. Proof: the contraction brings no two places farther apart (`Area`). On the disc, along
    the geodesic from the centre lengths are kept; across it a circle of radius ρ has circumference
    2π m(ρ), where m'' + Km = 0 for the Gaussian curvature K ≤ 1/b², so by Sturm's comparison
    m(ρ) ≥ b sin(ρ/b), and ρ/m(ρ) ≤ t/sin t. The map is therefore κ-Lipschitz on the whole Earth.

    Not covered: the projection is computed in doubles, so distances below about 10⁻⁸ m are not
    resolved; they are far below what a longitude in doubles, or any device, resolves.

    Args:
        longitude_deg: longitude of the centre, in [−180, 180].
        latitude_deg: latitude of the centre, in [−90, 90].
        radius_m: radius of the area, in (0, 5,000,000] metres.

    Raises:
        ParameterError: if a parameter is not finite or out of range.

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
        """Return the projection about the centre of an area.

        Example:
            >>> AzimuthalEquidistant.of_area(Area(2.35, 48.86, radius_m=15_000))
            AzimuthalEquidistant(longitude_deg=2.35, latitude_deg=48.86, radius_m=15000.0)
        """
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
        """Return longitudes and latitudes: a point off the Earth's far side goes on around it."""
        array = validation.points(points, 2)
        flat = array.reshape(-1, 2)
        longitude, latitude, _ = earth.geodesics().fwd(
            np.full(len(flat), self.longitude_deg),
            np.full(len(flat), self.latitude_deg),
            np.degrees(np.arctan2(flat[:, 0], flat[:, 1])),
            np.hypot(flat[:, 0], flat[:, 1]),
        )
        return np.stack([longitude, latitude], axis=-1).reshape(array.shape)


SPHERE_RADIUS_M = 6_371_000.0
"""Radius R of the sphere that [SGP §5] projects from."""
_HIGHEST_MERCATOR_DEG = 85


@dataclass(frozen=True, slots=True)
class SphericalMercator(Projection):
    """x = Rλ, y = R asinh(tan φ), R = 6,371,000 m, for (λ, φ) on WGS 84; PROJ's `+proj=merc +R`.

    It reproduces the plane of [SGP §5]. A stated ε there means 1.32 ε in New York's true metres.

    Places outside the area are first moved onto it (`Area`). Distances in the plane are at most
    κ = h(φ₁) times true ones, with φ₁ a latitude as high as any in the area and h(φ) = R/(M cos φ)
    the scale along the meridian, where M is its radius of curvature. Proof: the scale along the
    parallel is R/(N cos φ) ≤ h(φ), as N ≥ M, and the two directions stay perpendicular. h grows
    with |φ|:

        d log h/dφ = tan φ (1 − 3e² cos² φ/(1 − e² sin² φ)) and 3e² < 1.

    So its least upper bound over the area is found without a grid. κ is rounded up.

    Not covered: rounding of the projection in doubles, as `AzimuthalEquidistant`.

    Args:
        area: no place of it beyond latitudes ±85°. If it crosses the antimeridian, longitudes
            beyond it are counted on, so that the plane has no seam.

    Raises:
        ParameterError: if `area` is no area or comes too near to a pole.

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
        if not self.area.highest_latitude_deg <= _HIGHEST_MERCATOR_DEG:
            expected = f"within latitudes ±{_HIGHEST_MERCATOR_DEG}°, its radius included"
            raise ParameterError("area", self.area, expected)

    @property
    def distortion(self) -> float:
        latitude = self.area.highest_latitude_deg
        scale = SPHERE_RADIUS_M / (
            earth.meridional_radius(latitude) * math.cos(math.radians(latitude))
        )
        # tan 85° = 11.4: rounding of the latitude enters the scale 12 times enlarged, and no more.
        return scale * (1 + 1e-13)

    def project(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return metres east and north: from longitude 0 and the equator."""
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


_HIGHEST_UTM_DEG = 84
_FARTHEST_M = 1_300_000
"""Largest distance from the central meridian, 12° on the equator; the scale there is 1.02."""
_PROJ_ERROR = 1e-8
"""Relative error of PROJ's factors, which are differences of coordinates: 10⁻¹⁰ was measured."""


@dataclass(frozen=True, slots=True, init=False)
class UniversalTransverseMercator(Projection):
    """Eastings and northings of a UTM zone, in metres (WGS 84); PROJ's `+proj=utm`.

    Places outside the area are first moved onto it (`Area`). Distances in the plane are at most
    κ times true ones, with κ an upper bound of the local scale over the area: the largest of PROJ's
    factors at places around its edge, times exp(G s/2) for their spacing s along the edge, where G
    bounds the slope of the logarithm of the scale (`scale_slope`).

    The edge suffices: the projection is conformal, and the plane is flat while the Earth is curved,
    so Δ log(scale) = K > 0 for the Earth's Gaussian curvature K. Such a function has no maximum
    inside. κ may be below 1, as the scale on the central meridian is 0.9996.

    Not covered: rounding of the projection in doubles, as `AzimuthalEquidistant`.

    Args:
        area: within latitudes ±84° and 1,300 km of the central meridian of the zone.
        zone: 1 to 60; by default the one that the centre's longitude lies in. The widened zones of
            Norway and Svalbard are had by giving them.

    Raises:
        ParameterError: if `area` is no area, or too far from the zone or too near to a pole.

    Example:
        >>> plane = UniversalTransverseMercator(Area(-73.95, 40.72, radius_m=60_000))
        >>> plane.zone, plane.project([-73.98, 40.72]).round(1).tolist()
        (18, [586146.2, 4508175.4])
        >>> round(plane.distortion, 4)
        0.9999
    """

    area: Area
    zone: int

    def __init__(self, area: Area, zone: int | None = None) -> None:
        if not isinstance(area, Area):
            raise ParameterError("area", area, "an Area")
        if not area.highest_latitude_deg <= _HIGHEST_UTM_DEG:
            expected = f"within latitudes ±{_HIGHEST_UTM_DEG}°, its radius included"
            raise ParameterError("area", area, expected)
        number = _zone_of(area.longitude_deg) if zone is None else _checked_zone(zone)
        if not _off_meridian(area, number) <= _FARTHEST_M:
            expected = (
                f"within {_FARTHEST_M:,} m of longitude {_meridian(number)}, the central meridian "
                f"of zone {number}, its radius included"
            )
            raise ParameterError("area", area, expected)
        object.__setattr__(self, "area", area)
        object.__setattr__(self, "zone", number)

    @property
    def south(self) -> bool:
        """Whether northings count from 10,000 km south of the equator: if the centre is south."""
        return self.area.latitude_deg < 0

    @property
    def distortion(self) -> float:
        return largest_scale(self.area, self.zone)

    def project(self, places: ArrayLike) -> NDArray[np.float64]:
        """Return metres east and north: easting and northing."""
        array = self.area.contract(places)
        flat = array.reshape(-1, 2)
        east, north = _transformer(self.zone, self.south).transform(flat[:, 0], flat[:, 1])
        return np.stack([east, north], axis=-1).reshape(array.shape)

    def unproject(self, points: ArrayLike) -> NDArray[np.float64]:
        array = validation.points(points, 2)
        flat = array.reshape(-1, 2)
        longitude, latitude = _transformer(self.zone, self.south).transform(
            flat[:, 0], flat[:, 1], direction="INVERSE"
        )
        places = np.stack([longitude, latitude], axis=-1).reshape(array.shape)
        if not np.isfinite(places).all():
            raise PrivateValueError("an easting and northing, in metres, at which a place lies")
        return places


def scale_slope(off_meridian_m: float) -> float:
    """Return G ≥ |∇ log(scale)| in 1/m, up to so far from the central meridian.

    PROJ multiplies conformal maps [Karney, J. Geodesy 85 (2011), after Krüger]: by the conformal
    latitude χ onto a sphere, its transverse Mercator ζ' = ξ' + iη', and ζ = ζ' + Σ α_j sin 2jζ'.
    So log(scale) is a constant plus

        log c + log cosh η' + log |1 + Σ 2j α_j cos 2jζ'|,   c = cos χ/(N cos φ).

    * With the isometric latitude ψ, of slope 1/(N cos φ), d log c/dψ = sin φ − sin χ, which has the
      sign of φ and at most the size 1.02 e² sin φ cos² φ. So log c has slope below 0.0035/a, and
      c ≤ 1.0034/a, more than its value at the poles.
    * tanh η' = sin δ for the distance δ ≤ 1.0034 d/a from the central meridian on the sphere, and
      η' has slope c cosh η'. So log cosh η' has slope c sinh η' = c tan δ.
    * The last term has slope c cosh η' Σ 4j² α_j cosh 2jη' / (1 − Σ 2j α_j cosh 2jη'): less than
      0.0038 c for d ≤ 1,300 km, as α₁ < 0.00084 and the others add little.

    In sum, less than (1.0034/a)(tan δ + 0.0075).

    Args:
        off_meridian_m: d, in [0, 1,300,000] metres.
    """
    unit = 1.0034 / earth.EQUATORIAL_RADIUS_M
    return unit * (math.tan(unit * off_meridian_m) + 0.0075)


@lru_cache(maxsize=128)
def largest_scale(area: Area, zone: int, nodes: int = 2048) -> float:
    """Return an upper bound of the local scale over the area.

    Args:
        area: within 1,300 km of the central meridian.
        zone: 1 to 60.
        nodes: how many places around the edge are looked at; fewer make the bound looser.
    """
    longitude, latitude = area.edge(nodes).T
    import pyproj

    proj = pyproj.Proj(_definition(zone, south=False))
    factors = proj.get_factors(longitude, latitude, errcheck=True)
    # Both equal the scale, but for the error of PROJ's differences.
    at_nodes = float(np.maximum(factors.meridional_scale, factors.parallel_scale).max())
    # An arc of the edge between two nodes is no longer than one of a circle in a plane, as K > 0.
    spacing = 2 * math.pi * area.radius_m / nodes
    slope = scale_slope(_off_meridian(area, zone))
    return at_nodes * math.exp(slope * spacing / 2) * (1 + _PROJ_ERROR)


def _checked_zone(zone: int) -> int:
    number = validation.between("zone", zone, 1, 60)
    if number != int(number):
        raise ParameterError("zone", zone, "a whole number in [1, 60]")
    return int(number)


def _zone_of(longitude_deg: float) -> int:
    return min(int((longitude_deg + 180) // 6), 59) + 1


def _meridian(zone: int) -> int:
    return 6 * zone - 183


def _off_meridian(area: Area, zone: int) -> float:
    """Return a distance from the central meridian that no place of the area exceeds.

    The way from the centre along its parallel is no shorter than the shortest.
    """
    angle = math.radians(abs(earth.wrapped(area.longitude_deg - _meridian(zone))))
    return earth.parallel_radius(area.latitude_deg) * angle + area.radius_m


def _definition(zone: int, south: bool) -> str:
    # The algorithm is named, as PROJ's configuration may choose one that is not quite conformal.
    return f"+proj=utm +zone={zone} {'+south ' if south else ''}+ellps=WGS84 +algo=poder_engsager"


@lru_cache(maxsize=120)
def _transformer(zone: int, south: bool) -> Transformer:
    """Return PROJ's transformation; unlike its `Proj`, it may be shared between threads."""
    import pyproj

    found: Transformer = pyproj.Transformer.from_pipeline(_definition(zone, south))
    return found
