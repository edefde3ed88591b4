"""Map the density of people on a grid, and where it is surely above or below a level.

The density at every node of the grid is that under a bell around it: the mean of a Gaussian kernel
of bandwidth h, over 2πh². All kernels are translates of one, so a server sums them together
[MATH §8].
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.campaigns import softness_of_points
from geoveil.analyst.outlines import lines_of, outlines_of
from geoveil.analyst.pictures import Axes, finish_map, new_axes
from geoveil.analyst.results import (
    SMOOTH,
    Estimates,
    GeoResult,
    Series,
    feature_collection,
    rows_of,
)
from geoveil.analyst.simultaneous import critical_value_of_field, critical_value_of_many
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.statistic import Separately, Statistic, Steps, noise_scale
from geoveil.campaign import AttributeCampaign, PointQuestion, ValueCampaign
from geoveil.gp import (
    Array,
    AzimuthalEquidistant,
    GaussianKernel,
    ParameterError,
    needed_for,
    validation,
)

Bounds = tuple[float, float, float, float]

_MOST_NODES = 4_096
"""The most nodes that a server answers in one call."""
_KM2 = 1e6
"""Square metres in a square kilometre."""


@dataclass(frozen=True)
class Map(Statistic["DensityMap"]):
    """The density of people on a grid of longitudes and latitudes, from a value campaign.

    Args:
        bounds: west, south, east and north, in degrees, within the campaign's area; by default
            nearly all of it.
        size: nodes from west to east, and from south to north; 4,096 in all at most.
        bandwidth: h of the bells, in metres; by default three noise scales, or the distance
            between nodes if that is more.
        level: the density that each place is compared with, in shares of the people per square
            kilometre; by default that of people spread evenly within the bounds.

    Raises:
        ParameterError: if an argument is out of range.
    """

    bounds: Bounds | None = None
    size: tuple[int, int] = (61, 61)
    bandwidth: float | None = None
    level: float | None = None

    def __post_init__(self) -> None:
        columns, rows = self.size
        if min(columns, rows) < 2 or columns * rows > _MOST_NODES:
            expected = f"two numbers >= 2, with a product of at most {_MOST_NODES:,}"
            raise ParameterError("size", self.size, expected)
        if self.bounds is not None:
            west, south, east, north = validation.numbers("bounds", self.bounds)
            if not (west < east <= west + 180 and -90 <= south < north <= 90):
                raise ParameterError("bounds", self.bounds, "(west, south, east, north) in degrees")
        if self.bandwidth is not None:
            validation.positive("bandwidth", self.bandwidth)
        if self.level is not None:
            validation.non_negative("level", self.level)

    def nodes(self, campaign: AttributeCampaign) -> tuple[Bounds, Array, Array, Array, float]:
        """Return the bounds, the nodes' longitudes and latitudes, the nodes, and the bandwidth.

        Nodes are in metres of the plane, (rows, columns, 2).

        Raises:
            ParameterError: if the campaign is not of places, or bounds are beyond its area.
        """
        plane = campaign.attribute.coordinates
        if not isinstance(campaign, ValueCampaign) or not isinstance(plane, AzimuthalEquidistant):
            raise ParameterError("campaign", campaign.campaign_id, "a value campaign of places")
        bounds = _within(plane) if self.bounds is None else self.bounds
        _check_inside(plane, bounds)
        longitudes, latitudes = (
            _middles(bounds[axis], bounds[axis + 2], count) for axis, count in enumerate(self.size)
        )
        centers = plane.project(np.stack(np.meshgrid(longitudes, latitudes), axis=-1))
        bandwidth = self.bandwidth
        if bandwidth is None:
            apart = np.linalg.norm(centers[1, 1] - centers[0, 0]) / math.sqrt(2)
            bandwidth = max(softness_of_points(campaign).bell, float(apart))
        return bounds, longitudes, latitudes, centers, bandwidth

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps["DensityMap"]:
        bounds, longitudes, latitudes, centers, bandwidth = self.nodes(campaign)
        plane: Any = campaign.attribute.coordinates
        places = np.stack(np.meshgrid(longitudes, latitudes), axis=-1)
        densities: JointEstimates = yield Separately(
            [
                PointQuestion(str(node), GaussianKernel((x, y), bandwidth))
                for node, (x, y) in enumerate(centers.reshape(-1, 2).tolist())
            ]
        )
        level = np.full(len(densities.labels), self.level)
        if self.level is None:
            level = _spread_evenly(plane, bounds, places.reshape(-1, 2), bandwidth)
        per_km2 = _KM2 / (2 * math.pi * bandwidth**2)
        shape = (len(latitudes), len(longitudes))
        low, high = densities.band(
            critical=_critical(densities, centers, bandwidth, noise_scale(campaign, 2))
        )
        return DensityMap(
            longitudes=longitudes,
            latitudes=latitudes,
            values=(densities.values * per_km2).reshape(shape),
            standard_errors=(densities.standard_errors * per_km2).reshape(shape),
            low=(low * per_km2).reshape(shape),
            high=(high * per_km2).reshape(shape),
            level=level.reshape(shape),
            compared_with="people spread evenly"
            if self.level is None
            else f"{self.level:g} per km²",
            bandwidth=bandwidth,
            **densities.common,
            about=densities.about,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid(Estimates, GeoResult):
    """Estimates at the nodes of a grid of places."""

    longitudes: Array
    """(columns,), of the nodes, in degrees, increasing."""
    latitudes: Array
    """(rows,), likewise."""
    bandwidth: float
    """The standard deviation of the bell around each node, in metres."""

    @property
    def nodes(self) -> dict[str, Array]:
        """The columns of the nodes' coordinates, from west to east, then north."""
        axes = np.meshgrid(self.longitudes, self.latitudes)
        return {"longitude": axes[0].ravel(), "latitude": axes[1].ravel()}

    def to_geojson(self) -> dict[str, Any]:
        """Return a FeatureCollection of the cells around nodes, with the row of each [RFC 7946]."""
        x, y = (_edges(axis).tolist() for axis in (self.longitudes, self.latitudes))
        around = (0, 0), (1, 0), (1, 1), (0, 1), (0, 0)
        cells = [
            {"type": "Polygon", "coordinates": [[(x[j + a], y[i + b]) for a, b in around]]}
            for i in range(len(self.latitudes))
            for j in range(len(self.longitudes))
        ]
        return feature_collection(cells, self.to_dict()["rows"])


@dataclass(frozen=True, kw_only=True, eq=False)
class DensityMap(Grid, Series):
    """The density of people on a grid, in shares of all of them per square kilometre.

    Intervals cover all densities simultaneously, so with their confidence, every statement that
    a place surely has more, or less, is true.
    """

    level: Array
    """(rows, columns), the level that each is compared with, in the same unit."""
    compared_with: str
    """The level, in words or as a density."""

    @property
    def significance(self) -> NDArray[np.int8]:
        """1 where the density is surely above the level, −1 where it is below, else 0."""
        more, less = self.low > self.level, self.high < self.level
        return more.astype(np.int8) - less.astype(np.int8)

    @property
    def bounds(self) -> Bounds:
        """West, south, east and north of the cells around the nodes, in degrees."""
        (west, east), (south, north) = (
            _edges(a)[[0, -1]] for a in (self.longitudes, self.latitudes)
        )
        return float(west), float(south), float(east), float(north)

    @property
    def title(self) -> str:
        rows, columns = self.values.shape
        return f"Density of people at {columns} × {rows} places, from {self.n:,} reports"

    @property
    def notes(self) -> Sequence[str]:
        often = f"{100 * self.confidence:g} %"
        count = {sign: int((self.significance == sign).sum()) for sign in (1, -1)}
        return (
            self.population,
            "Densities are shares of the people per square kilometre, seen through bells of"
            f" {self.bandwidth:,.4g} m.",
            f"All intervals hold at once with {often} confidence, by the law of the largest error "
            "of so smooth a map.",
            f"Against {self.compared_with}: surely denser in {count[1]:,} places, surely less dense"
            f" in {count[-1]:,}.",
            *self.about,
        )

    def rows(self) -> list[dict[str, Any]]:
        columns = {
            "per_km2": np.clip(self.values, self.low, self.high),
            "standard_error": self.standard_errors,
            "ci_low": self.low,
            "ci_high": self.high,
            "compared_with": self.level,
            "surely": np.array([None, "more", "less"])[self.significance],
            "holds": np.full(self.values.shape, SMOOTH),
        }
        return rows_of(self.nodes | {name: column.ravel() for name, column in columns.items()})

    def contours(self, levels: Sequence[float]) -> dict[str, Any]:
        """Return lines of equal density, a FeatureCollection with one feature for each level.

        Args:
            levels: levels in shares of the people per square kilometre.

        Raises:
            UnsupportedError: if contourpy, which comes with matplotlib, is not installed.
        """
        with needed_for("a contour"):
            import contourpy
        generator = contourpy.contour_generator(self.longitudes, self.latitudes, self.values)
        densities, lines = validation.numbers("levels", levels), []
        for level in densities:
            parts = [np.asarray(line).tolist() for line in generator.lines(level)]
            lines.append({"type": "MultiLineString", "coordinates": parts})
        return feature_collection(lines, [{"per_km2": level} for level in densities])

    def plot(self, ax: Axes | None = None, outlines: Mapping[str, Any] | None = None) -> Axes:
        """Draw the density, lines around surely denser areas, and outlines.

        Args:
            outlines: a GeoJSON FeatureCollection of polygons or lines; by default the boroughs of
                New York on maps of that city, and elsewhere coasts, on maps of more than about
                50 km.

        Raises:
            UnsupportedError: if matplotlib is not installed.
        """
        ax = new_axes() if ax is None else ax
        x, y = _edges(self.longitudes), _edges(self.latitudes)
        shown = np.maximum(self.values, 0.0)
        image = ax.pcolormesh(x, y, shown, cmap="YlGnBu", vmin=0.0, rasterized=True)
        ax.figure.colorbar(image, ax=ax, label="share of the people per km²", shrink=0.8)
        surely = self.significance
        if (surely > 0).any() and not (surely > 0).all():
            ax.contour(
                self.longitudes, self.latitudes, surely, levels=[0.5], colors="crimson",
                linewidths=1.2,
            )  # fmt: skip
        drawn, source = outlines_of(self.bounds) if outlines is None else (outlines, "")
        for line in lines_of(drawn):
            ax.plot(*np.asarray(line)[:, :2].T, color="0.25", linewidth=0.8)
        west, south, east, north = self.bounds
        legend = (
            f"Red: surely denser than {self.compared_with}, {100 * self.confidence:g} % for all."
        )
        credit = f"\n{source}." if source else ""
        ax.set(xlim=(west, east), ylim=(south, north), ylabel="latitude")
        ax.set_xlabel(f"longitude\n{legend}{credit}", fontsize=8)
        finish_map(ax, self.title)
        return ax


def _critical(found: JointEstimates, centers: Array, bandwidth: float, noise: float) -> float:
    """Return the joint critical value of all densities, in standard errors [MATH §8].

    Args:
        centers: of the bells, (rows, columns, 2), in metres.
        bandwidth: of the bells, in metres.
        noise: its scale, in metres.
    """
    rows, columns = (np.linalg.norm(np.diff(centers, axis=k), axis=-1) for k in (0, 1))
    lengths = float(rows.sum(axis=0).max()), float(columns.sum(axis=1).max())
    return min(
        critical_value_of_many(len(found.labels), found.confidence),
        critical_value_of_field(lengths, bending(bandwidth, noise), found.confidence),
    )


def bending(bandwidth: float, noise: float) -> float:
    """Return λ, for bells and noise in metres: errors d apart have the correlation 1 − λd²/2."""
    # Terms of (1 + b²t²)³, the square of the factor that undoes the noise.
    terms = [math.comb(3, k) * math.factorial(k) * (noise / bandwidth) ** (2 * k) for k in range(4)]
    more = sum(k * term for k, term in enumerate(terms)) / sum(terms)
    return (1 + more) / (2 * bandwidth**2)


def _middles(low: float, high: float, count: int) -> Array:
    """Return the middles of equal parts of an interval."""
    return low + (high - low) * (np.arange(count) + 0.5) / count


def _edges(middles: Array) -> Array:
    """Return the ends of the parts that have these middles."""
    half = (middles[1] - middles[0]) / 2
    return np.append(middles - half, middles[-1] + half)


def _within(plane: AzimuthalEquidistant) -> Bounds:
    """Return the bounds of nearly the largest box within the area of a plane."""
    half = plane.radius_m / math.sqrt(2) * 0.99
    corners = plane.unproject([(x, y) for x in (-half, half) for y in (-half, half)])
    turned = corners[:, 0] - plane.longitude_deg
    longitudes = plane.longitude_deg + (turned + 180) % 360 - 180
    west, east = longitudes[:2].max(), longitudes[2:].min()
    south, north = corners[::2, 1].max(), corners[1::2, 1].min()
    return float(west), float(south), float(east), float(north)


def _check_inside(plane: AzimuthalEquidistant, bounds: Bounds) -> None:
    """Refuse bounds beyond the area, because people there count at its edge."""
    corners = [(x, y) for x in bounds[::2] for y in bounds[1::2]]
    moved = plane.area.contract(corners) != np.asarray(corners)
    if moved.any():
        least = f"within {plane.radius_m:,.0f} m of {plane.longitude_deg:g},{plane.latitude_deg:g}"
        raise ParameterError("bounds", bounds, f"{least}, the campaign's area")


def _spread_evenly(
    plane: AzimuthalEquidistant, bounds: Bounds, places: Array, bandwidth: float
) -> Array:
    """Return the smoothed density, per km², of people spread evenly within bounds.

    Near the ends a bell reaches beyond them, where nobody is.
    """
    from scipy.special import ndtr

    west, south, east, north = bounds
    seen = np.ones(len(places))
    lengths = []
    for axis, ends in ((0, (west, east)), (1, (south, north))):
        low, high = (np.where(np.arange(2) == axis, end, places) for end in ends)
        from_low, to_high = (
            np.linalg.norm(plane.project(places) - plane.project(at), axis=-1) for at in (low, high)
        )
        seen *= ndtr(from_low / bandwidth) - ndtr(-to_high / bandwidth)
        lengths.append(from_low + to_high)
    area = float(np.mean(lengths[0] * lengths[1]))
    return np.asarray(seen * _KM2 / area)
