"""An analyst's question: a hard share, or the mean of a soft query.

An analyst who asks for the share above a threshold does not want a soft step, but needs one, since
ε does not permit the hard share itself. So a hard question leaves open which soft query stands in
for it: the width and place of its band. Softening is bias, which the planner weighs [MATH §8].
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from geoveil.gp import (
    Array,
    Disc,
    ParameterError,
    Polygon,
    Query,
    Range,
    SoftIndicator,
    Threshold,
    geometry,
    validation,
)

_MITRE = 2.0
"""How far a corner may move, in multiples of its sides' move: right angles stay, spikes are cut."""


class PopulationMean(ABC):
    """A question: the mean of `truth` over the people."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point."""

    @abstractmethod
    def truth(self, points: Array) -> Array:
        """Return the contribution of each point to the truth, (n,)."""

    def clearance(self, points: Array) -> Array:
        """Return a lower bound of each point's distance to where the truth varies, (n,), ≥ 0.

        By default 0: it may vary anywhere.
        """
        return np.zeros(len(points))

    @property
    def length_scale(self) -> float:
        """Length over which the truth varies; ∞ for a jump, which has only a place."""
        return math.inf

    @property
    def ends(self) -> tuple[float, ...]:
        """The values at which the truth jumps, increasing, in one dimension; by default none."""
        return ()


@dataclass(frozen=True, slots=True)
class SoftQuestion(PopulationMean):
    """The mean of a soft query.

    Args:
        query: f.
    """

    query: Query

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise ParameterError("query", self.query, "a Query, for example GaussianKernel(...)")

    @property
    def dimension(self) -> int:
        return self.query.dimension

    def truth(self, points: Array) -> Array:
        return self.query.value(points)

    def clearance(self, points: Array) -> Array:
        return self.query.clearance(points)

    @property
    def length_scale(self) -> float:
        return self.query.profile.length_scale


class HardQuestion(PopulationMean):
    """The share of people inside a region."""

    shifts: ClassVar[bool] = True
    """Whether moving the boundary inwards by d lowers every signed distance by d."""

    @abstractmethod
    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a stand-in.

        Args:
            width: of the band.
            profile: "linear" or "smoothstep".
            inwards: how far each boundary moves into the region, `boundaries` numbers.

        Raises:
            ParameterError: if the region is too small for the band.
        """

    def fits(self, width: float, profile: str, inwards: Sequence[float]) -> bool:
        """Return whether there is a stand-in: see `soft`."""
        try:
            self.soft(width, profile, inwards)
        except ParameterError:
            return False
        return True

    @property
    def boundaries(self) -> int:
        """How many boundaries can be moved independently."""
        return 1

    def signed(self, points: Array) -> Array:
        """Return the signed distances to the boundary, > 0 inside, (n,)."""
        width, still = 1.0, (0.0,) * self.boundaries
        while not self.fits(width, "linear", still):
            width /= 2  # any band has the same boundary
        return np.asarray(self.soft(width, "linear", still).signed_distance(points))

    def clearance(self, points: Array) -> Array:
        """Return the distance of each point to the boundary, (n,)."""
        return np.abs(self.signed(points))


@dataclass(frozen=True, slots=True)
class HardThreshold(HardQuestion):
    """The share of values above `at`, not at it.

    Example:
        >>> HardThreshold(100_000).truth(np.array([99_999.0, 100_000.0, 100_001.0])).tolist()
        [0.0, 0.0, 1.0]
    """

    dimension = 1
    at: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", validation.real("at", self.at))

    @property
    def ends(self) -> tuple[float, ...]:
        return (self.at,)

    def truth(self, points: Array) -> Array:
        return np.asarray(points > self.at, dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft threshold."""
        return Threshold(self.at + inwards[0], width, profile)


@dataclass(frozen=True, slots=True)
class HardRange(HardQuestion):
    """The share of values above `low` and up to `high`: adjacent brackets share nobody.

    Example:
        >>> HardRange(1.0, 2.0).truth(np.array([1.0, 1.5, 2.0])).tolist()
        [0.0, 1.0, 1.0]
    """

    dimension = 1
    boundaries = 2
    """Both ends can be moved."""
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", validation.real("low", self.low))
        object.__setattr__(self, "high", validation.real("high", self.high))
        if not self.high > self.low:
            raise ParameterError("high", self.high, f"greater than low={self.low:g}")

    @property
    def ends(self) -> tuple[float, ...]:
        return self.low, self.high

    def truth(self, points: Array) -> Array:
        return np.asarray((points > self.low) & (points <= self.high), dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft range, each end moved separately."""
        return Range(self.low + inwards[0], self.high - inwards[1], width, profile)


@dataclass(frozen=True, slots=True)
class HardDisc(HardQuestion):
    """The share of points within `radius` of a centre, in k ≥ 2 dimensions.

    Example:
        >>> HardDisc((0.0, 0.0), 5.0).truth(np.array([[3.0, 4.0], [4.0, 4.0]])).tolist()
        [1.0, 0.0]
    """

    center: tuple[float, ...]
    radius: float

    def __post_init__(self) -> None:
        disc = Disc(self.center, self.radius, self.radius)  # checks its arguments
        object.__setattr__(self, "center", disc.center)
        object.__setattr__(self, "radius", disc.radius)

    @property
    def dimension(self) -> int:
        return len(self.center)

    def truth(self, points: Array) -> Array:
        return np.asarray(self.signed(points) >= 0, dtype=np.float64)

    def signed(self, points: Array) -> Array:
        return np.asarray(self.radius - np.linalg.norm(points - np.array(self.center), axis=-1))

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft disc."""
        radius = validation.positive("radius", self.radius - inwards[0])
        return Disc(self.center, radius, width, profile)


@dataclass(frozen=True, slots=True)
class HardPolygon(HardQuestion):
    """The share of points inside a polygon.

    Args:
        region: any argument that `Polygon` takes.

    Example:
        >>> square = HardPolygon([(0, 0), (4, 0), (4, 4), (0, 4)])
        >>> square.truth(np.array([[1.0, 2.0], [5.0, 2.0]])).tolist()
        [1.0, 0.0]
    """

    shifts: ClassVar[bool] = False
    dimension = 2
    region: Any
    _polygon: Polygon = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_polygon", Polygon(self.region, width=1.0))

    def truth(self, points: Array) -> Array:
        """Return 1 for each point inside, else 0, (n,)."""
        from shapely import contains_xy

        inside = contains_xy(geometry(self._polygon.region), points[..., 0], points[..., 1])
        return np.asarray(inside, dtype=np.float64)

    def signed(self, points: Array) -> Array:
        return np.asarray(self._polygon.signed_distance(points))

    def fits(self, width: float, profile: str, inwards: Sequence[float]) -> bool:
        """Return whether there is room, without moving every corner."""
        return inwards[0] < _inscribed(self._polygon)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a soft polygon, shrunk or grown with mitred corners."""
        if inwards[0] == 0:
            return Polygon(self._polygon.region, width, profile)
        moved = geometry(self._polygon.region).buffer(
            -inwards[0], join_style="mitre", mitre_limit=_MITRE
        )
        if moved.is_empty:
            raise ParameterError("width", width, "less than what the polygon has room for")
        return Polygon(moved, width, profile)


@lru_cache(maxsize=64)
def _inscribed(polygon: Polygon) -> float:
    """Return the radius of the largest circle inside: shrunk by more, nothing is left."""
    from shapely import maximum_inscribed_circle

    return float(maximum_inscribed_circle(geometry(polygon.region)).length)


def as_question(question: PopulationMean | Query) -> PopulationMean:
    """Return a question; a query stands for its own mean.

    Raises:
        ParameterError: if it is neither.
    """
    if isinstance(question, Query):
        return SoftQuestion(question)
    if not isinstance(question, PopulationMean):
        raise ParameterError("question", question, "a PopulationMean or a Query")
    return question
