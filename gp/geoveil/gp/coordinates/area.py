"""The area in which a projection is accurate: a disc, onto which all other places are moved."""

from __future__ import annotations

import math
from dataclasses import dataclass

from geoveil.gp import validation
from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.coordinates import earth, outline


@dataclass(frozen=True, slots=True)
class Area:
    """The places within a geodesic distance of a centre (WGS 84).

    A place outside is moved onto the disc: from distance r to distance min(ρ, max(πb − r, 0)) at
    the same azimuth, with ρ = radius and b the polar radius. The move brings no two places farther
    apart, so a projection that is κ-Lipschitz on the disc becomes κ-Lipschitz on the whole Earth
    [MATH §11]. The disc need not be convex.

    Args:
        longitude_deg: of the centre, in [−180, 180].
        latitude_deg: of the centre, in [−90, 90].
        radius_m: ρ, in (0, 5,000,000] metres.

    Example:
        >>> fiji = Area(longitude_deg=179.0, latitude_deg=-17.5, radius_m=300_000)
        >>> fiji.contract([[-179.5, -17.0], [170.0, -17.0]]).round(2).tolist()
        [[-179.5, -17.0], [176.18, -17.39]]
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

    @classmethod
    def of_polygon(cls, polygon: object) -> Area:
        """Return a disc that contains a polygon or multipolygon of longitudes and latitudes.

        Its edges are straight in longitude and latitude [RFC 7946 §3.1.1].

        Args:
            polygon: an object with a `__geo_interface__` (shapely's), or a GeoJSON mapping; across
                the antimeridian it is cut there, or has longitudes beyond ±180.

        Raises:
            ParameterError: if it is not a polygon, is 180° wide or more, has a vertex that is not
                a longitude and latitude, or is in no disc of 5,000 km around its centre.

        Example:
            >>> triangle = [(178.0, -19.0), (182.0, -19.0), (180.0, -16.0), (178.0, -19.0)]
            >>> Area.of_polygon({"type": "Polygon", "coordinates": [triangle]})
            Area(longitude_deg=180.0, latitude_deg=-17.5, radius_m=269153.0)
        """
        return cls(*outline.disc_around(outline.rings(polygon)))

    def contains(self, other: Area) -> bool:
        """Return whether every place of another area is in this one.

        Example:
            >>> city = Area(longitude_deg=-73.95, latitude_deg=40.72, radius_m=60_000)
            >>> city.contains(Area(longitude_deg=-73.95, latitude_deg=40.9, radius_m=50_000))
            False
        """
        _, apart = self._seen_from_centre(np.array([other.longitude_deg, other.latitude_deg]))
        return float(apart) + other.radius_m <= self.radius_m

    def holds(self, place: ArrayLike) -> bool:
        """Return whether a place, (longitude, latitude) in degrees, is in it."""
        _, distance = self._seen_from_centre(earth.places_array(place))
        return bool(distance <= self.radius_m)

    def polar(self, places: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return azimuth (degrees clockwise from north) and distance (m) of contracted places."""
        azimuth, distance = self._seen_from_centre(earth.places_array(places))
        return azimuth, self._drawn_in(distance)

    def contract(self, places: ArrayLike) -> NDArray[np.float64]:
        """Move places outside, (..., 2) in degrees, into the area; others stay where they are.

        Raises:
            PrivateValueError: if a place is not a longitude and a latitude.
        """
        array = earth.places_array(places)
        azimuth, distance = self._seen_from_centre(array)
        moved = self.place(azimuth, self._drawn_in(distance))
        return np.where((distance <= self.radius_m)[..., None], array, moved)

    def _drawn_in(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        folded = np.maximum(math.pi * earth.POLAR_RADIUS_M - distance, 0.0)
        return np.minimum(np.minimum(distance, self.radius_m), folded)

    def _seen_from_centre(
        self, places: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        flat = places.reshape(-1, 2)
        azimuth, _, distance = earth.geodesics().inv(
            np.full(len(flat), self.longitude_deg),
            np.full(len(flat), self.latitude_deg),
            np.ascontiguousarray(flat[:, 0]),
            np.ascontiguousarray(flat[:, 1]),
        )
        shape = places.shape[:-1]
        return np.asarray(azimuth).reshape(shape), np.asarray(distance).reshape(shape)

    def place(
        self, azimuth_deg: NDArray[np.float64], distance: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return places, (..., 2) in degrees, at an azimuth and distance (m) from the centre."""
        longitude, latitude, _ = earth.geodesics().fwd(
            np.full(distance.size, self.longitude_deg),
            np.full(distance.size, self.latitude_deg),
            azimuth_deg.ravel(),
            distance.ravel(),
        )
        return np.stack([longitude, latitude], axis=-1).reshape(*distance.shape, 2)
