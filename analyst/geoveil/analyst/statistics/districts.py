"""Shares of the people by district, or by nearest place.

Both partition the plane: into districts and everything beyond them, or into cells of points that
are nearer to one place than to any other. A Gaussian smooths edges, so a person who lives next to
one counts partly for both sides; everybody counts for 1 in total.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geoveil.analyst.campaigns import softness_of_points
from geoveil.analyst.geojson import check_distinct, outlines_in, places_in
from geoveil.analyst.outlines import clipped
from geoveil.analyst.pictures import Axes, finish_map, new_axes
from geoveil.analyst.questions import Place, ShareInside, is_inside, is_swapped, on_earth, projected
from geoveil.analyst.results import GeoResult, feature_collection
from geoveil.analyst.statistics.joint import JointEstimates, limits_of_sum
from geoveil.analyst.statistics.partition import PartitionShares, partition_shares
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS, Statistic, Steps
from geoveil.campaign import AttributeCampaign, PointQuestion, ValueCampaign
from geoveil.gp import (
    Array,
    AzimuthalEquidistant,
    Limits,
    ParameterError,
    Polygon,
    SmoothedRegion,
    needed_for,
    validation,
)

if TYPE_CHECKING:
    import shapely


ELSEWHERE = "elsewhere"
_OVERLAP = 1e-3
"""Fraction of a district that another may cover, because corners are rounded."""
_REACH = 6.0
"""Bandwidths from an edge at which it has almost no effect."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DistrictShares(PartitionShares, GeoResult):
    """The share of the people in each of several districts, and elsewhere, which has no outline."""

    outlines: tuple[Mapping[str, Any], ...]
    """GeoJSON geometries of the districts, in the order of `labels`, in longitude and latitude."""

    def to_geojson(self) -> dict[str, Any]:
        """Return a FeatureCollection of the districts, with the row of each [RFC 7946]."""
        return feature_collection(self.outlines, self.rows()[: len(self.outlines)])

    def shapes(self) -> "list[list[shapely.Polygon]]":
        """Return the parts of each district, exteriors and holes drawn in opposite senses."""
        import shapely
        from shapely.geometry.polygon import orient

        return [
            [orient(shapely.Polygon(part[0], part[1:])) for part in outline["coordinates"]]
            for outline in self.outlines
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        with needed_for("a picture"):
            from matplotlib import colormaps
            from matplotlib.cm import ScalarMappable
            from matplotlib.colors import Normalize
            from matplotlib.patches import PathPatch
            from matplotlib.path import Path
        ax = new_axes() if ax is None else ax
        shares = self.values[: len(self.outlines)]
        color = ScalarMappable(Normalize(0.0, float(shares.max()) or 1.0), colormaps["YlGnBu"])
        for label, share, parts in zip(self.labels, shares.tolist(), self.shapes(), strict=False):
            rings = [ring for part in parts for ring in (part.exterior, *part.interiors)]
            shape = Path.make_compound_path(
                *(Path(np.asarray(ring.coords)[:, :2], closed=True) for ring in rings)
            )
            ax.add_patch(PathPatch(shape, facecolor=color.to_rgba(share), edgecolor="0.25", lw=0.8))
            middle = place_for_name(parts)
            paper = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.5}
            text = f"{label}\n{100 * share:.1f} %"
            ax.text(*middle, text, ha="center", va="center", fontsize=8, bbox=paper)
        ax.autoscale_view()
        ax.figure.colorbar(color, ax=ax, label="share of the people", shrink=0.8)
        ax.set(xlabel="longitude", ylabel="latitude")
        finish_map(ax, self.title)
        return ax


def place_for_name(parts: "Sequence[shapely.Polygon]") -> Place:
    """Return a longitude and a latitude within a district, in its largest part."""
    place = max(parts, key=lambda part: float(part.area)).representative_point()
    return float(place.x), float(place.y)


@dataclass(frozen=True)
class Districts(Statistic[DistrictShares]):
    """The share of the people in each of several districts, and elsewhere.

    Args:
        districts: GeoJSON of polygons that do not overlap, or a GeoDataFrame of them, in longitudes
            and latitudes; or the same as `ShareInside` questions. All have distinct names.
        bandwidth: the bandwidth that smooths edges, in metres; three noise scales by default.
        name_property: of features, or the column, that names them; `name` by default.

    Raises:
        ParameterError: if it is not such GeoJSON, or two districts have the same name.
    """

    districts: Any
    bandwidth: float | None = None
    name_property: str | None = None

    def __post_init__(self) -> None:
        read: Any = self.districts
        if not isinstance(read, Sequence):
            read = outlines_in(read, "this", name="districts", name_property=self.name_property)
        if not 1 <= len(read) < MOST_QUESTIONS:
            raise ParameterError("districts", len(read), f"1 to {MOST_QUESTIONS - 1}")
        if not all(isinstance(district, ShareInside) for district in read):
            raise ParameterError("districts", "other questions", "GeoJSON, or ShareInside only")
        labels = [district.label for district in read]
        check_distinct(labels, "districts", f"{len(labels)} districts")
        if ELSEWHERE in labels:
            expected = f"named otherwise: {ELSEWHERE!r} is what lies in no district"
            raise ParameterError("districts", ELSEWHERE, expected)
        object.__setattr__(self, "districts", tuple(read))
        if self.bandwidth is not None:
            validation.positive("bandwidth", self.bandwidth)

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[DistrictShares]:
        plane, bandwidth = _plane_of(campaign, self.bandwidth)
        cut = {
            district.label: clipped(plane, district.label, district.parts)
            for district in self.districts
        }
        polygons = {label: outline.parts for label, outline in cut.items()}
        _check_apart(polygons)
        answered: JointEstimates = yield _questions(polygons, bandwidth)
        about, beyond = [_softened(bandwidth)], [of for of in cut if not cut[of].whole]
        if beyond:
            about.append(
                f"Beyond the area of the survey lies a part of {', '.join(beyond)}: people there"
                " count where they are moved to, on the edge of the area."
            )
        shares = partition_shares(with_elsewhere(replace(answered, confidence=confidence)))
        outlines = ({"type": "MultiPolygon", "coordinates": of.parts} for of in self.districts)
        fields: dict[str, Any] = vars(shares) | {"about": tuple(about)}
        return DistrictShares(**fields, outlines=tuple(outlines))


@dataclass(frozen=True)
class Nearest(Statistic[PartitionShares]):
    """The share of the people to whom each of several places is nearest.

    People beyond the campaign's area count at the place on its edge that stands for them.

    Args:
        places: longitude and latitude of each, by name, at least two; or GeoJSON of points, or a
            GeoDataFrame of them.
        bandwidth: by which the edges between cells are smoothed, in metres; three noise scales by
            default.
        name_property: of features, or the column, that names them; `name` by default.

    Raises:
        ParameterError: if there are too few places, one is invalid, or two have the same name.
    """

    places: Any
    bandwidth: float | None = None
    name_property: str | None = None

    def __post_init__(self) -> None:
        by_name = isinstance(self.places, Mapping) and not isinstance(self.places.get("type"), str)
        if not by_name:
            read = places_in(self.places, "this", name_property=self.name_property)
            object.__setattr__(self, "places", read)
        if not 2 <= len(self.places) < MOST_QUESTIONS:
            raise ParameterError("places", len(self.places), f"2 to {MOST_QUESTIONS - 1}")
        for place in self.places.values():
            on_earth("places", place)
        if self.bandwidth is not None:
            validation.positive("bandwidth", self.bandwidth)

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[PartitionShares]:
        plane, bandwidth = _plane_of(campaign, self.bandwidth)
        for label, place in self.places.items():
            if not is_inside(plane, place):
                hint = "; the longitude comes first" if is_swapped(plane, place) else ""
                raise ParameterError("places", label, f"in the area of the survey{hint}")
        centers = np.array(projected(plane, list(self.places.values())))
        half = plane.radius_m + _REACH * bandwidth
        if len(np.unique(centers, axis=0)) < len(centers):
            raise ParameterError("places", list(self.places), "distinct")
        cells = cells_of(centers, half)
        polygons = {label: [[cell]] for label, cell in zip(self.places, cells, strict=True)}
        answered: JointEstimates = yield _questions(polygons, bandwidth)
        joint = replace(answered, confidence=confidence)
        return partition_shares(joint, about=(_softened(bandwidth),))


def cells_of(centers: Array, half: float) -> list[list[Place]]:
    """Return the corners of the cell nearest to each of several points in a square about 0.

    Points mirrored at the sides of the square make these sides the ends of the cells.

    Args:
        centers: (m, 2), distinct, in the square.
        half: half of the side of the square.

    Example:
        >>> first, _ = cells_of(np.array([[-1.0, 0.0], [1.0, 0.0]]), 5.0)
        >>> sorted(first)
        [(-5.0, -5.0), (-5.0, 5.0), (0.0, -5.0), (0.0, 5.0)]
    """
    from scipy.spatial import Voronoi

    mirrored = [
        np.where(turned, 2 * half * side - centers, centers)
        for turned in ((True, False), (False, True))
        for side in (-1, 1)
    ]
    diagram = Voronoi(np.concatenate([centers, *mirrored]))
    regions = (diagram.regions[at] for at in diagram.point_region[: len(centers)])
    return [[(x, y) for x, y in diagram.vertices[corners].tolist()] for corners in regions]


def _plane_of(
    campaign: AttributeCampaign, bandwidth: float | None
) -> tuple[AzimuthalEquidistant, float]:
    plane = campaign.attribute.coordinates
    if not isinstance(campaign, ValueCampaign) or plane is None:
        raise ParameterError("campaign", campaign.campaign_id, "a value campaign of places")
    return plane, softness_of_points(campaign, None, bandwidth).bell


def _questions(
    polygons: Mapping[str, Sequence[Sequence[Sequence[Place]]]], bandwidth: float
) -> list[PointQuestion]:
    return [
        PointQuestion(label, SmoothedRegion(Polygon(parts, width=1.0), bandwidth))
        for label, parts in polygons.items()
    ]


def _softened(bandwidth: float) -> str:
    return (
        f"Edges are smoothed by a Gaussian of {bandwidth:,.4g} m: somebody near one counts partly "
        "for both sides."
    )


def with_elsewhere(found: JointEstimates) -> JointEstimates:
    """Return shares of parts, followed by the share of everybody else."""
    m = len(found.labels)
    low, high = limits_of_sum(found.limits, -np.ones(m)).reports
    limits = [*found.limits, Limits((1.0 + low, 1.0 + high), (0.0, 1.0))]
    weights = np.vstack([np.eye(m), -np.ones(m)])
    return found.combined(weights, [*found.labels, ELSEWHERE], limits, np.eye(m + 1)[-1])


def _check_apart(polygons: Mapping[str, Any]) -> None:
    """Refuse overlapping districts, whose shares would add up to more than everybody."""
    import shapely

    shapes = [
        shapely.MultiPolygon([(part[0], part[1:]) for part in parts]) for parts in polygons.values()
    ]
    for label, shape in zip(polygons, shapes, strict=True):
        if not shape.is_valid:
            expected = f"valid polygons ({shapely.is_valid_reason(shape)})"
            raise ParameterError("districts", label, expected)
    names = list(polygons)
    for i, j in np.sort(shapely.STRtree(shapes).query(shapes, predicate="intersects").T, axis=1):
        common = shapes[i].intersection(shapes[j]).area if i != j else 0.0
        if common > _OVERLAP * min(shapes[i].area, shapes[j].area):
            raise ParameterError("districts", f"{names[i]} and {names[j]}", "apart: these overlap")
