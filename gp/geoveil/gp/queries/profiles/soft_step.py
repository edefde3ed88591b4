"""What the soft steps share: a band of width w, 0 before it and 1 after it [MATH §2.1]."""

import math
from dataclasses import dataclass
from typing import ClassVar

from geoveil.gp import validation
from geoveil.gp.queries.profiles.closed_form import ClosedFormProfile


@dataclass(frozen=True, slots=True)
class SoftStep(ClosedFormProfile):
    """A step from 0 at s = −w/2 to 1 at s = w/2.

    Args:
        width: w > 0, in the unit of s.
    """

    width: float

    name: ClassVar[str]
    """What it is called where the profile of a band is chosen."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", validation.positive("width", self.width))

    @property
    def length_scale(self) -> float:
        """See `Profile.length_scale`."""
        return self.width

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """See `Profile.breakpoints`."""
        return (-self.width / 2, self.width / 2)

    @property
    def limits(self) -> tuple[float, float]:
        """See `Profile.limits`."""
        return (0.0, 1.0)

    @property
    def plateaus(self) -> tuple[tuple[float, float, float], ...]:
        """See `Profile.plateaus`."""
        return ((-math.inf, -self.width / 2, 0.0), (self.width / 2, math.inf, 1.0))

    def slope_breakpoints(self, reach: float) -> tuple[float, ...]:
        """Centre and edge, and where chords reach across."""
        edge = self.width / 2
        if reach == math.inf:
            return (0.0, edge)
        return (0.0, edge, edge + reach, edge + max(reach - self.width, 0.0))
