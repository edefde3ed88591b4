"""Soft indicators: the share of people inside a region, softened over a band [SGP §4.1, §4.2].

All of them are a soft step of a signed distance, positive inside the region; a region supplies only
its distance [MATH §2.1].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from geoveil.gp import _validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles import Profile, Ramp, Smoothstep

STEPS: Mapping[str, Callable[[float], Profile]] = MappingProxyType(
    {"linear": Ramp, "smoothstep": Smoothstep}
)
"""Name of a soft step → its profile, given the width of the band."""


@dataclass(frozen=True, slots=True)
class Threshold(Query):
    """The share of values above `at`: 0 below the band around it, 1 above.

    Args:
        at: the threshold T, in the unit of the values.
        width: width w > 0 of the band centred at T, in the same unit.
        profile_name: given as `profile`, "linear" or "smoothstep".

    Raises:
        ParameterError: if a parameter is not finite, the width not positive, or the profile unknown.

    Example:
        >>> q = Threshold(at=100_000, width=16_000, profile="linear")
        >>> q.value([90_000, 100_000, 104_000])
        array([0.  , 0.5 , 0.75])
        >>> q.lipschitz
        6.25e-05
    """

    at: float
    width: float
    step: str

    def __init__(self, at: float, width: float, profile: str = "linear") -> None:
        object.__setattr__(self, "at", _validation.real("at", at))
        object.__setattr__(self, "width", _validation.positive("width", width))
        object.__setattr__(self, "step", _validation.choice("profile", profile, STEPS))

    @property
    def dimension(self) -> int:
        """See `Query.dimension`."""
        return 1

    @property
    def profile(self) -> Profile:
        """See `Query.profile`."""
        return STEPS[self.step](self.width)

    def scalar(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Query.scalar`: x − T."""
        return x - ops.constant(self.at)
