"""The questions of analysts: shares and densities, and their softness.

A plan takes sharp questions, and finds the soft question that stands in for each; a campaign asks
soft ones; and points that were perturbed earlier can answer them later.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from geoveil.analyst.outlines import clipped
from geoveil.analyst.planner import (
    HardDisc,
    HardPolygon,
    HardQuestion,
    HardRange,
    HardThreshold,
    PopulationMean,
    SoftQuestion,
)
from geoveil.gp import (
    Area,
    AzimuthalEquidistant,
    Disc,
    GaussianKernel,
    LogScale,
    ParameterError,
    Polygon,
    Query,
    SmoothedRegion,
    validation,
)

_SOFT = 3.0
"""Default width of a band or bell, in noise scales."""
RADIUS_M = 60_000.0
"""The default radius of the area of places."""
Place = tuple[float, float]
"""Longitude and latitude, in degrees; or two numbers, if people hold pairs."""
Plane: TypeAlias = AzimuthalEquidistant | None
"""That places are projected to; None for numbers, which stay as they are."""


@dataclass(frozen=True, slots=True)
class Softness:
    """The distance over which a question varies, in the unit of the values or in metres."""

    noise_scale: float
    """PER/ε: the distance within which values are hard to tell apart."""
    width: float | None = None
    """The width of the band around a threshold or an edge; None for three noise scales, or less if
    a range or a circle has less room."""
    bandwidth: float | None = None
    """The bandwidth of the bell at a place, and of smoothed edges; None for three noise scales."""
    profile: str = "smoothstep"
    """The name of the profile of a band, in `geoveil.gp.queries.indicator.PROFILES`."""
    by_ratio: bool = False
    """Whether distances are logarithms of ratios."""

    def band(self, most: float = math.inf) -> float:
        """Return the width of a band, given the room for it."""
        return min(_SOFT * self.noise_scale, most) if self.width is None else self.width

    @property
    def bell(self) -> float:
        """The bandwidth of a bell."""
        return _SOFT * self.noise_scale if self.bandwidth is None else self.bandwidth

    @property
    def caution(self) -> str | None:
        """The warning about a band or bell narrower than the noise, if there is one.

        Removing the noise takes numbers that are large where the question varies. If hardly any
        points lie there, the reports at hand reveal little about the error of the estimate.
        """

        def said(distance: float) -> str:
            return f"a factor of {math.exp(distance):.6g}" if self.by_ratio else f"{distance:g}"

        narrow = [
            f"a {name} of {said(value)}"
            for name, value in (("width", self.width), ("bandwidth", self.bandwidth))
            if value is not None and value < self.noise_scale
        ]
        if not narrow:
            return None
        return (
            f"note: {' and '.join(narrow)} is below PER/ε = {said(self.noise_scale)}: unless very"
            " many points lie within it, the error is larger than the interval says"
        )


@dataclass(frozen=True)
class AnalystQuestion(ABC):
    """A question of an analyst about people: a share or a density."""

    label: str
    """The name of its row in tables."""

    @property
    def place(self) -> Place | None:
        """A place in the middle of the question; None if it is about numbers."""
        return None

    @property
    def dimension(self) -> int:
        """The number of coordinates of the values: 2 for places."""
        return 1 if self.place is None else 2

    def on_scale(self, scale: LogScale) -> "AnalystQuestion":
        """Return the question about logarithms, with the same label.

        Raises:
            ParameterError: if it is not about shares above or between numbers of the scale.
        """
        expected = "a share above a number or between two: nothing else is asked on a log scale"
        raise ParameterError("question", self.label, expected)

    @abstractmethod
    def sharp(self, plane: Plane, bandwidth: float) -> PopulationMean:
        """Return the question for a plan, which finds its softness.

        Args:
            bandwidth: the bandwidth of a density's bell, which is used unchanged.
        """

    def soft(self, plane: Plane, softness: Softness) -> Query:
        """Return the question for a campaign, or for points that are numbers."""
        question = self.sharp(plane, softness.bell)
        if isinstance(question, SoftQuestion):
            return question.query
        assert isinstance(question, HardQuestion)  # there are no others
        return question.soft(softness.band(question.room), softness.profile, question.still)

    def of_points(self, plane: Plane, softness: Softness) -> Query | SmoothedRegion:
        """Return the question for points perturbed before it was known."""
        return self.soft(plane, softness)


@dataclass(frozen=True, init=False)
class ShareAbove(AnalystQuestion):
    """The share of people whose value is above a threshold.

    Example:
        >>> ShareAbove(100_000).label
        'above 100,000'
    """

    threshold: float

    def __init__(self, threshold: float, label: str = "") -> None:
        object.__setattr__(self, "threshold", validation.real("threshold", threshold))
        object.__setattr__(self, "label", label or f"above {threshold:,.15g}")

    def on_scale(self, scale: LogScale) -> "ShareAbove":
        return ShareAbove(_end_on(scale, "threshold", self.threshold), self.label)

    def sharp(self, plane: Plane = None, bandwidth: float = 0.0) -> HardThreshold:
        return HardThreshold(self.threshold)


@dataclass(frozen=True, init=False)
class ShareBetween(AnalystQuestion):
    """The share of people whose value is above `low` and up to `high`.

    Example:
        >>> ShareBetween(50_000, 100_000).label
        '50,000 to 100,000'
    """

    low: float
    high: float

    def __init__(self, low: float, high: float, label: str = "") -> None:
        object.__setattr__(self, "low", validation.real("low", low))
        object.__setattr__(self, "high", validation.real("high", high))
        if not self.low < self.high:
            raise ParameterError("range", f"{low:.15g},{high:.15g}", "LOW,HIGH with LOW < HIGH")
        object.__setattr__(self, "label", label or f"{low:,.15g} to {high:,.15g}")

    def on_scale(self, scale: LogScale) -> "ShareBetween":
        low, high = (_end_on(scale, "range", end) for end in (self.low, self.high))
        return ShareBetween(low, high, self.label)

    def sharp(self, plane: Plane = None, bandwidth: float = 0.0) -> HardRange:
        return HardRange(self.low, self.high)


@dataclass(frozen=True, init=False)
class _AtPlace(AnalystQuestion):
    """A question about a place and its surroundings."""

    _word: ClassVar[str]
    """The name of the place in errors."""
    longitude: float
    latitude: float

    def __init__(self, longitude: float, latitude: float) -> None:
        object.__setattr__(self, "longitude", validation.real("longitude", longitude))
        object.__setattr__(self, "latitude", validation.real("latitude", latitude))

    @property
    def place(self) -> Place:
        return on_earth(self._word, (self.longitude, self.latitude))

    def _center(self, plane: Plane) -> Place:
        where = (self.longitude, self.latitude) if plane is None else self.place
        return projected(plane, [where])[0]


@dataclass(frozen=True, init=False)
class DensityAt(_AtPlace):
    """The density of people at a place: each counts by a bell of the distance from it.

    Example:
        >>> DensityAt(-73.9855, 40.758).label
        '-73.9855,40.758'
    """

    _word: ClassVar[str] = "place"

    def __init__(self, longitude: float, latitude: float, label: str = "") -> None:
        super().__init__(longitude, latitude)
        object.__setattr__(self, "label", label or f"{longitude:.15g},{latitude:.15g}")

    def sharp(self, plane: Plane, bandwidth: float) -> PopulationMean:
        return SoftQuestion(GaussianKernel(self._center(plane), bandwidth))


@dataclass(frozen=True, init=False)
class ShareWithin(_AtPlace):
    """The share of people within a circle, of a radius in metres.

    Example:
        >>> ShareWithin(-73.9855, 40.758, 2_000).label
        'within 2000 m of -73.9855,40.758'
    """

    _word: ClassVar[str] = "circle"
    radius: float

    def __init__(self, longitude: float, latitude: float, radius: float, label: str = "") -> None:
        super().__init__(longitude, latitude)
        object.__setattr__(self, "radius", validation.positive("radius", radius))
        said = f"within {radius:g} m of {longitude:g},{latitude:g}"
        object.__setattr__(self, "label", label or said)

    def sharp(self, plane: Plane, bandwidth: float) -> PopulationMean:
        return HardDisc(self._center(plane), self.radius)

    def of_points(self, plane: Plane, softness: Softness) -> Query | SmoothedRegion:
        return SmoothedRegion(Disc(self._center(plane), self.radius, self.radius), softness.bell)


@dataclass(frozen=True, init=False)
class ShareInside(AnalystQuestion):
    """The share of people inside polygons, given as longitudes and latitudes of their corners.

    Corners are joined by straight lines on the plane of projected places. Anything beyond the area
    of a survey is cut off.

    Raises:
        ParameterError: when asked of a survey, if it lies outside the survey's area, or in it only
            with the latitudes first.

    Example:
        >>> square = [[[(-74.0, 40.7), (-73.9, 40.7), (-73.9, 40.8), (-74.0, 40.8)]]]
        >>> ShareInside(square, "district").label
        'district'
    """

    parts: tuple[tuple[tuple[Place, ...], ...], ...]
    """Rings of each part: its exterior, then its holes."""

    def __init__(self, parts: Sequence[Sequence[Sequence[Place]]], label: str) -> None:
        read = tuple(tuple(tuple(map(_pair, ring)) for ring in part) for part in parts)
        object.__setattr__(self, "parts", read)
        object.__setattr__(self, "label", label)

    @property
    def place(self) -> Place:
        area = Area.of_polygon({"type": "MultiPolygon", "coordinates": self.parts})
        return area.longitude_deg, area.latitude_deg

    def sharp(self, plane: Plane, bandwidth: float) -> PopulationMean:
        return HardPolygon(self._projected(plane))

    def of_points(self, plane: Plane, softness: Softness) -> Query | SmoothedRegion:
        return SmoothedRegion(Polygon(self._projected(plane), width=1.0), softness.bell)

    def _projected(self, plane: Plane) -> list[list[list[Place]]]:
        if plane is None:
            return [[list(ring) for ring in part] for part in self.parts]
        return clipped(plane, self.label, self.parts).parts


@dataclass(frozen=True, init=False)
class MeanOf(AnalystQuestion):
    """The mean of a query over the people; a share if it is a soft indicator.

    Its numbers are those of the campaign's coordinates: metres east and north, for places.

    Example:
        >>> from geoveil.gp import Threshold
        >>> MeanOf(Threshold(100_000.0, 24_000.0), "soft share").label
        'soft share'
    """

    query: Query

    def __init__(self, query: Query, label: str) -> None:
        object.__setattr__(self, "query", query)
        object.__setattr__(self, "label", label)

    @property
    def dimension(self) -> int:
        return self.query.dimension

    def sharp(self, plane: Plane, bandwidth: float) -> PopulationMean:
        return SoftQuestion(self.query)


def area_of(
    asked: Sequence[AnalystQuestion], center: Place | None = None, radius: float = RADIUS_M
) -> AzimuthalEquidistant | None:
    """Return the plane of the area of places; None without places.

    Args:
        asked: questions; the first that is about a place is the centre by default.
        center: longitude and latitude, in degrees.
        radius: of the area, in metres.
    """
    places = [center, *(question.place for question in asked)]
    middle = next((place for place in places if place is not None), None)
    return None if middle is None else AzimuthalEquidistant(*middle, radius_m=radius)


def projected(plane: Plane, places: Sequence[Place]) -> list[Place]:
    """Return places in metres of a plane, or unchanged without a plane."""
    if plane is None:
        return list(places)
    return [(float(x), float(y)) for x, y in plane.project(np.asarray(places, np.float64))]


def is_inside(plane: AzimuthalEquidistant, place: Place) -> bool:
    """Return whether a place is in the area of a plane, and so not projected to its edge."""
    return np.array_equal(plane.area.contract(np.array(place)), place)


def is_swapped(plane: AzimuthalEquidistant, place: Place) -> bool:
    """Return whether a place is outside an area, but inside with its coordinates swapped."""
    x, y = place
    return abs(x) <= 90 and not is_inside(plane, place) and is_inside(plane, (y, x))


def _end_on(scale: LogScale, name: str, end: float) -> float:
    if not scale.floor < end:
        raise ParameterError(name, end, f"above {scale.floor:,.15g}, as smaller values count as it")
    return scale.coordinate(end)


def _pair(corner: Sequence[float]) -> Place:
    x, y, *_ = corner  # a third coordinate is a height
    return float(x), float(y)


def on_earth(name: str, place: Place) -> Place:
    """Return a place, if its longitude and latitude are valid; an error names the parameter."""
    longitude, latitude = place
    if abs(longitude) > 180 or abs(latitude) > 90:
        text = f"{longitude:.15g},{latitude:.15g}"
        raise ParameterError(name, text, "'longitude,latitude' in degrees, the longitude first")
    return place
