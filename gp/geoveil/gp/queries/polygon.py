"""Soft indicator of a polygon: a district, a catchment area, a coverage zone [MATH §2.1]."""

from dataclasses import dataclass

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.queries._boundary import signed_distance_ball, signed_distances
from geoveil.gp.queries._rings import Parts, geometry, read_parts
from geoveil.gp.queries.indicator import SoftIndicator, _band, _set
from geoveil.gp.queries.profiles.soft_step import SoftStep


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Polygon(SoftIndicator):
    """The share of points inside a polygon, which may have holes and several parts.

    f is a soft step of the distance to the boundary, 1/2 on it. A width larger than the polygon is
    permitted: f then stays below 1, and L and B remain bounds.

    Corners are joined by straight lines of the plane that the points live in. Longitudes and
    latitudes must be projected first, the polygon's as the points' (`AzimuthalEquidistant`).

    Args:
        region: a shapely Polygon or MultiPolygon, or anything else with a `__geo_interface__`; a
            GeoJSON geometry; or its coordinates: one ring ((x, y), ...), one part
            (exterior, hole, ...) or (exterior, [hole, ...]), or a sequence of parts. A ring may
            repeat its first point at the end. In the unit of the points.
        width: width w > 0 of the band around the boundary, in the same unit.
        profile: "linear" or "smoothstep".

    Raises:
        ParameterError: as `Threshold`; and if the region is empty or no valid polygon: a ring of
            fewer than three points or without area, rings that cross, parts that overlap.
        UnsupportedError: if shapely is not installed.

    Example:
        >>> outer, hole = [(0, 0), (900, 0), (900, 600), (0, 600)], [(300, 200), (600, 200),
        ...     (600, 400), (300, 400)]
        >>> q = Polygon((outer, hole), width=100.0)
        >>> q.value([[150.0, 300.0], [0.0, 300.0], [-25.0, 300.0], [450.0, 300.0]])
        array([1.  , 0.5 , 0.25, 0.  ])
        >>> Polygon({"type": "Polygon", "coordinates": [outer, hole]}, width=100.0) == q
        True
    """

    region: Parts
    """One tuple of rings per part, its exterior and its holes, whatever was given."""
    width: float
    profile: SoftStep

    def __init__(self, region: object, width: float, profile: str | SoftStep = "linear") -> None:
        parts = read_parts(region)
        band = _band(width, profile)
        geometry(parts)  # refuses what is no valid polygon
        _set(self, region=parts, **band)

    @property
    def dimension(self) -> int:
        """See `Query.dimension`."""
        return 2

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Query.signed_distance`: the distance to the boundary, negative outside.

        It is 1-Lipschitz: the distance to a set is, and where the way from x to x' meets the
        boundary, at z say, |s(x) − s(x')| ≤ |x − z| + |z − x'| = |x − x'|.
        """
        if ops is FLOAT:
            return signed_distances(self.region, x)
        return signed_distance_ball(self.region, ops.coordinate(x, 0), ops.coordinate(x, 1))
