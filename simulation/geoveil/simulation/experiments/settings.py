"""The settings of the threshold experiments [MATH §12; SGP §5, App. B]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from geoveil.gp import GeoPrivacy, Threshold, validation
from geoveil.simulation.comparison import Setting

ONE_WAY_PEOPLE = (400_000, 800_000, 1_600_000, 3_200_000, 6_400_000)
ONE_WAY_REPETITIONS = 100
_ONE_WAY_PERS = {
    10_000.0: (800.0, 1_200.0, 2_000.0),
    100_000.0: (8_000.0, 12_000.0, 20_000.0),
    500_000.0: (16_000.0, 24_000.0, 40_000.0),
    1_000_000.0: (32_000.0, 48_000.0, 80_000.0),
}
"""Threshold → the three 1/ε, in dollars; the middle one is where the paper's ε_L is 1."""


def band(size: float, per: float) -> float:
    """Return the paper's width of the band: a fifth of the threshold, at most 2/ε."""
    return min(0.2 * size, 2 * per)


@dataclass(frozen=True, slots=True)
class OneWayPanel:
    """One panel of the paper's figures 3 and 8: a threshold and an ε.

    Args:
        threshold: T > 0, in dollars.
        per: 1/ε, in dollars.
        footing: distance at which the paper puts ε-LDP on an equal footing, in dollars.
        people: numbers of people, one point of the panel each.
    """

    threshold: float
    per: float
    footing: float
    people: tuple[int, ...] = ONE_WAY_PEOPLE

    def __post_init__(self) -> None:
        for name in ("threshold", "per", "footing"):
            validation.positive(name, getattr(self, name))

    @property
    def label(self) -> str:
        """Names the panel."""
        return f"T={self.threshold:.15g}, 1/ε={self.per:.15g}"

    @property
    def setting(self) -> Setting:
        """The question and the privacy."""
        width = band(self.threshold, self.per)
        return Setting(
            soft=Threshold(self.threshold, width, profile="smoothstep"),
            seed=Threshold(self.threshold, width, profile="linear"),
            privacy=GeoPrivacy(1.0, per=self.per, unit="dollar"),
            footing=self.footing,
        )


ONE_WAY_PANELS = tuple(
    OneWayPanel(threshold, per, footing=pers[1])
    for threshold, pers in _ONE_WAY_PERS.items()
    for per in pers
)
"""All twelve, row by row."""

TWO_WAY_PEOPLE = (400_000, 1_600_000, 6_400_000)
TWO_WAY_PERS = (8_000.0, 12_000.0, 20_000.0)
TWO_WAY_FOOTING = 12_000.0
TWO_WAY_REPETITIONS = 50
TWO_WAY_AXIS = tuple(10_000.0 + 30_000.0 * j for j in range(34))
"""Thresholds along each axis, in dollars."""


@dataclass(frozen=True, slots=True)
class TwoWayPanel:
    """The paper's figure 4 at one ε: all pairs of thresholds of a grid.

    Args:
        per: 1/ε, in dollars.
        axis: thresholds of the first number, increasing, in dollars.
        people: numbers of people.
        other: thresholds of the second number; those of the first if None.
        footing: distance at which the paper puts ε-LDP on an equal footing, in dollars.
    """

    per: float
    axis: tuple[float, ...] = TWO_WAY_AXIS
    people: tuple[int, ...] = TWO_WAY_PEOPLE
    other: tuple[float, ...] | None = None
    footing: float = TWO_WAY_FOOTING

    def __post_init__(self) -> None:
        validation.positive("per", self.per)

    @property
    def label(self) -> str:
        """Names the panel."""
        if self.other is None:
            grid = "" if self.axis == TWO_WAY_AXIS else f", {len(self.axis)}×{len(self.axis)}"
            return f"1/ε={self.per:.0f}{grid}"
        told = ("/".join(f"{at:g}" for at in axis) for axis in self.axes)
        return f"T=({', '.join(told)}), 1/ε={self.per:g}"

    @property
    def axes(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Thresholds of the first number, and of the second."""
        return self.axis, self.axis if self.other is None else self.other

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """All pairs of thresholds, the second in the inner loop."""
        return list(product(*self.axes))

    @property
    def privacy(self) -> GeoPrivacy:
        """The guarantee for each query."""
        return GeoPrivacy(1.0, per=self.per, unit="dollar")

    def width(self, at: Sequence[float]) -> float:
        """Return the width of the band at thresholds (T₁, T₂)."""
        return band(math.hypot(*at), self.per)


TWO_WAY_PANELS = tuple(TwoWayPanel(per) for per in TWO_WAY_PERS)
