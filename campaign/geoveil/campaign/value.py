"""Value campaigns: devices perturb their points, which answer any query later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from geoveil.campaign.attribute_campaign import LIKELY_BEYOND, Attribute, AttributeCampaign
from geoveil.campaign.mechanisms import PlanarLaplaceSpec
from geoveil.gp import (
    INT64_MAX,
    INT64_MIN,
    ArrayLike,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    PrivateValueError,
    RandomSource,
    lazy,
    round_up,
    step_exponent_of,
    validation,
)

AXES = ("x", "y", "z")
"""The names of coordinates in files."""
PLACE_AXES = ("metres east", "metres north")
_ABOVE_RADIUS = 1 + Fraction(1, 10**9)
"""A factor that exceeds the rounding of projected places."""


@dataclass(frozen=True, kw_only=True)
class PointRelease:
    """The perturbation of an attribute's point, and its possible reports."""

    attribute: Attribute
    """The attribute of the point."""
    privacy: GeoPrivacy
    """The guarantee in the coordinates of queries."""
    dimension: int
    """The number of coordinates."""
    step: float | None = None
    """The step of the public grid; None for the finest that the mechanism needs."""
    clamps: bool = True
    """Whether numbers are clamped to the attribute's range, if it has both ends."""

    @lazy
    def mechanism(self) -> PlanarLaplace:
        """The mechanism that perturbs a point."""
        return PlanarLaplaceSpec(self.dimension).build(self.privacy, self.step)

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that counts in each coordinate."""
        if self.attribute.coordinates is None:
            return ((INT64_MIN, INT64_MAX),) * self.dimension  # numbers are unbounded
        # Places lie in a disc around the plane's origin; those outside are moved onto it.
        reach = Fraction(self.attribute.coordinates.radius_m) * _ABOVE_RADIUS
        reach += Fraction(self.mechanism.likely_reach(LIKELY_BEYOND))
        most = min(math.ceil(reach / Fraction(self.mechanism.step)), INT64_MAX)
        return ((-most, most),) * self.dimension

    @lazy
    def ends(self) -> tuple[float, float] | None:
        """The points between which numbers are clamped; None if they are not."""
        low, high = self.attribute.least, self.attribute.most
        if low is None or high is None or not self.clamps:
            return None
        return float(self.attribute.point(low, 1)), float(self.attribute.point(high, 1))

    @lazy
    def largest_epsilon(self) -> float:
        """ε between any two points; infinite if their distance is unbounded."""
        area = self.attribute.coordinates
        if area is not None and self.clamps:
            across = 2 * Fraction(area.radius_m) * _ABOVE_RADIUS
        elif self.ends is not None:
            across = Fraction(self.ends[1]) - Fraction(self.ends[0])
        else:
            return math.inf
        return round_up(self.mechanism.privacy.exact_rate * across)

    def release(self, point: ArrayLike, source: RandomSource) -> Sequence[int]:
        """Return a perturbed point in steps of the grid."""
        if self.ends is not None:
            given = validation.exact_array(point)
            if given is None or given.size != 1 or not math.isfinite(given.item()):
                raise PrivateValueError("one finite number")
            point = min(max(given.item(), self.ends[0]), self.ends[1])
        return self.mechanism.release(point, source)


@dataclass(frozen=True, kw_only=True)
class ValueCampaign(AttributeCampaign):
    """A request for one perturbed point from each device.

    Its `privacy` is each participant's guarantee for one report.
    """

    mechanism: PlanarLaplaceSpec
    """The mechanism that perturbs a point."""

    @lazy
    def dimension(self) -> int:
        return self.mechanism.dimension

    @lazy
    def columns(self) -> int:
        return self.dimension

    @property
    def labels(self) -> tuple[str, ...]:
        return (AXES if self.attribute.coordinates is None else PLACE_AXES)[: self.dimension]

    def words_for(self, label: str) -> str:
        """Return the text for people: the attribute and, for several numbers, the axis."""
        if self.attribute.coordinates is not None or label not in self.labels:
            return label
        if self.attribute.scale is not None:
            return f"logarithm of {self.attribute.name}"
        return self.attribute.name if self.dimension == 1 else f"{self.attribute.name}, {label}"

    @lazy
    def nests(self) -> bool:
        return True

    @lazy
    def _release(self) -> PointRelease:
        return PointRelease(
            attribute=self.attribute,
            privacy=self._plane_privacy,
            dimension=self.dimension,
            step=self._step,
            clamps=self.readings is None,  # a reading also answers campaigns with other ranges
        )

    @lazy
    def point_mechanism(self) -> PlanarLaplace:
        return self._release.mechanism

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return self._release.ranges

    @property
    def releasable(self) -> tuple[tuple[int, int], ...]:
        return ((INT64_MIN, INT64_MAX),) * self.columns

    @property
    def answer_privacy(self) -> GeoPrivacy:
        return self.privacy

    @lazy
    def report_privacy(self) -> GeoPrivacy:
        return self.privacy

    @property
    def clamped(self) -> bool:
        return self._release.ends is not None

    @lazy
    def largest_epsilon(self) -> float:
        return self._release.largest_epsilon

    def release(
        self, point: ArrayLike, columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        # A single release, whose coordinates share their randomness and are private together.
        return self._release.release(point, source)

    def answers_from(
        self, point: Sequence[int], columns: Sequence[int], source: RandomSource
    ) -> Sequence[int]:
        return [point[column] for column in columns]

    def _check_readings(self) -> None:
        super()._check_readings()
        if self.readings is not None and self.readings.extrapolated:
            raise ParameterError(
                "readings.extrapolated", True, "False: points are not extrapolated, answers are"
            )

    def _finest_exponent(self) -> int:
        return step_exponent_of(self.mechanism.build(self._plane_privacy).step)

    def _build_mechanisms(self) -> None:
        _ = self.point_mechanism

    def _check_content(self) -> None:
        validation.require_kind("mechanism", self.mechanism, PlanarLaplaceSpec)
        self._check_dimension("mechanism.dimension")
