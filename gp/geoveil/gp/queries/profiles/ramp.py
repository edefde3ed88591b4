"""The linear soft step: φ(s) = clip(1/2 + s/w, 0, 1) [SGP §4.1; MATH §2.1]."""

from dataclasses import dataclass

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.queries.profiles.base import Profile
from geoveil.gp.smooth.frontier import Frontier


@dataclass(frozen=True, slots=True)
class Ramp(Profile):
    """A straight ramp from 0 at s = −w/2 to 1 at s = w/2.

    Args:
        width: w > 0, in the unit of s.
    """

    width: float

    @property
    def lipschitz(self) -> float:
        """See `Profile.lipschitz`: 1/w."""
        return 1 / self.width

    @property
    def feature(self) -> float:
        """See `Profile.feature`."""
        return self.width

    @property
    def knots(self) -> tuple[float, ...]:
        """See `Profile.knots`."""
        return (-self.width / 2, self.width / 2)

    @property
    def limits(self) -> tuple[float, float]:
        """See `Profile.limits`."""
        return (0.0, 1.0)

    def frontier(self, growth: str, reach: float) -> Frontier:
        """See `Profile.frontier`: B is constant where f varies, and f where B varies."""
        return Frontier.CROSS

    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Profile.value`."""
        t = s / ops.constant(self.width) + ops.constant(0.5)
        return ops.clip(t, ops.constant(0), ops.constant(1))

    def steepest_chord(self, z: Real, reach: float, ops: Arithmetic = FLOAT) -> Real:
        """See `Profile.steepest_chord`: within the band 1/w; beyond it 1/(d + w) at reach ∞.

        At reach 0 it is only asked for inside the band, where the anchor lies.
        """
        width = ops.constant(self.width)
        if reach == 0:
            return 1 / width
        return 1 / (width + ops.maximum(z - width / 2, ops.constant(0)))

    def anchor(
        self, z: Real, beta: Exact, ops: Arithmetic = FLOAT, *, growth: str, reach: float
    ) -> Real:
        """See `Profile.anchor`: the nearest point of the band, for either growth."""
        return ops.minimum(z, ops.constant(self.width) / 2)
