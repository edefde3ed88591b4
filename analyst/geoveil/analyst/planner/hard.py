"""The hard questions: the share of people inside a region, and its soft stand-ins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.question import HardQuestion
from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.queries._rings import geometry
from geoveil.gp.queries.indicator import Disc, Range, SoftIndicator, Threshold, TwoWayThreshold
from geoveil.gp.queries.polygon import Polygon

Array = NDArray[np.float64]

_MITRE = 2.0
"""How far a corner may move, in multiples of its sides' move: right angles stay, spikes are cut."""


@dataclass(frozen=True, slots=True)
class HardThreshold(HardQuestion):
    """The share of values above `at`, not at it.

    Example:
        >>> HardThreshold(100_000).truth(np.array([99_999.0, 100_000.0, 100_001.0])).tolist()
        [0.0, 0.0, 1.0]
    """

    at: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", validation.real("at", self.at))

    @property
    def dimension(self) -> int:
        """See `Question.dimension`."""
        return 1

    def truth(self, points: Array) -> Array:
        """See `Question.truth`."""
        return np.asarray(points > self.at, dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """See `HardQuestion.soft`."""
        return Threshold(self.at + inwards[0], width, profile)


@dataclass(frozen=True, slots=True)
class HardRange(HardQuestion):
    """The share of values above `low` and up to `high`: brackets that meet share nobody.

    Example:
        >>> HardRange(1.0, 2.0).truth(np.array([1.0, 1.5, 2.0])).tolist()
        [0.0, 1.0, 1.0]
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", validation.real("low", self.low))
        object.__setattr__(self, "high", validation.real("high", self.high))
        if not self.high > self.low:
            raise ParameterError("high", self.high, f"greater than low={self.low:g}")

    @property
    def dimension(self) -> int:
        """See `Question.dimension`."""
        return 1

    @property
    def boundaries(self) -> int:
        """See `HardQuestion.boundaries`: both ends."""
        return 2

    def truth(self, points: Array) -> Array:
        """See `Question.truth`."""
        return np.asarray((points > self.low) & (points <= self.high), dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """See `HardQuestion.soft`."""
        return Range(self.low + inwards[0], self.high - inwards[1], width, profile)


@dataclass(frozen=True, slots=True)
class HardTwoWayThreshold(HardQuestion):
    """The share of pairs with both values above their thresholds.

    Example:
        >>> HardTwoWayThreshold((0.0, 0.0)).truth(np.array([[1.0, 1.0], [1.0, 0.0]])).tolist()
        [1.0, 0.0]
    """

    shifts: ClassVar[bool] = False
    rounded: ClassVar[bool] = True
    at: tuple[float, float]

    def __post_init__(self) -> None:
        at = validation.numbers("at", self.at)
        if len(at) != 2:
            raise ParameterError("at", self.at, "two thresholds (T1, T2)")
        object.__setattr__(self, "at", at)

    @property
    def dimension(self) -> int:
        """See `Question.dimension`."""
        return 2

    def truth(self, points: Array) -> Array:
        """See `Question.truth`."""
        return np.asarray((points > np.array(self.at)).all(axis=-1), dtype=np.float64)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """See `HardQuestion.soft`: both thresholds are moved alike."""
        first, second = self.at
        return TwoWayThreshold((first + inwards[0], second + inwards[0]), width, profile)


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
        disc = Disc(self.center, self.radius, self.radius)  # checks what it is given
        object.__setattr__(self, "center", disc.center)
        object.__setattr__(self, "radius", disc.radius)

    @property
    def dimension(self) -> int:
        """See `Question.dimension`."""
        return len(self.center)

    def truth(self, points: Array) -> Array:
        """See `Question.truth`."""
        return np.asarray(self.signed(points, 0.0) >= 0, dtype=np.float64)

    def signed(self, points: Array, width: float) -> Array:
        """See `HardQuestion.signed`."""
        return np.asarray(self.radius - np.linalg.norm(points - np.array(self.center), axis=-1))

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """See `HardQuestion.soft`."""
        radius = validation.positive("radius", self.radius - inwards[0])
        return Disc(self.center, radius, width, profile)


@dataclass(frozen=True, slots=True)
class HardPolygon(HardQuestion):
    """The share of points inside a polygon.

    Args:
        region: what `Polygon` takes.

    Example:
        >>> square = HardPolygon([(0, 0), (4, 0), (4, 4), (0, 4)])
        >>> square.truth(np.array([[1.0, 2.0], [5.0, 2.0]])).tolist()
        [1.0, 0.0]
    """

    shifts: ClassVar[bool] = False
    region: Any
    _polygon: Polygon = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_polygon", Polygon(self.region, width=1.0))

    @property
    def dimension(self) -> int:
        """See `Question.dimension`."""
        return 2

    def truth(self, points: Array) -> Array:
        """See `Question.truth`."""
        from shapely import contains_xy

        inside = contains_xy(geometry(self._polygon.region), points[..., 0], points[..., 1])
        return np.asarray(inside, dtype=np.float64)

    def signed(self, points: Array, width: float) -> Array:
        """See `HardQuestion.signed`."""
        return np.asarray(self._polygon.signed_distance(points))

    def fits(self, width: float, profile: str, inwards: Sequence[float]) -> bool:
        """See `HardQuestion.fits`: without moving every corner."""
        return inwards[0] < _inscribed(self._polygon)

    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """See `HardQuestion.soft`: the polygon shrunk or grown, with mitred corners."""
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
