"""The linear soft step: φ(s) = clip(1/2 + s/w, 0, 1) [SGP §4.1; MATH §2.1]."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.queries.profiles.base import Array
from geoveil.gp.queries.profiles.soft_step import SoftStep
from geoveil.gp.smooth.frontier import Frontier


@dataclass(frozen=True, slots=True)
class Ramp(SoftStep):
    """A straight ramp from 0 at s = −w/2 to 1 at s = w/2.

    Args:
        width: w > 0, in the unit of s.
    """

    name: ClassVar[str] = "linear"

    @property
    def lipschitz(self) -> float:
        """See `Profile.lipschitz`: 1/w."""
        return 1 / self.width

    def frontier(self, growth: str, reach: float) -> Frontier:
        """See `Profile.frontier`: B is constant where f varies, and f where B varies."""
        return Frontier.CROSS

    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Profile.value`."""
        t = s / ops.constant(self.width) + ops.constant(0.5)
        return ops.clip(t, ops.constant(0), ops.constant(1))

    def local_lipschitz(self, z: Real, reach: float, ops: Arithmetic = FLOAT) -> Real:
        """See `ClosedFormProfile.local_lipschitz`: 1/w inside the band.

        From a distance d beyond it the best chord ends at u = min(Λ, d + w) and has the slope
        (u − d)/(wu). At reach 0 it is only asked for inside the band, where the maximizer lies.
        """
        width = ops.constant(self.width)
        if reach == 0:
            return 1 / width
        zero = ops.constant(0)
        d = ops.maximum(z - width / 2, zero)
        if reach == math.inf:
            return 1 / (width + d)
        u = ops.minimum(ops.constant(reach), d + width)
        return ops.maximum(u - d, zero) / (width * u)

    def has_maximizer(self, growth: str, reach: float) -> bool:
        """See `ClosedFormProfile.has_maximizer`."""
        return not 0 < reach < math.inf

    def maximizer(
        self, z: Real, beta: Exact, ops: Arithmetic = FLOAT, *, growth: str, reach: float
    ) -> Real | None:
        """See `ClosedFormProfile.maximizer`: the nearest point of the band, for either growth."""
        if not self.has_maximizer(growth, reach):
            return None
        return ops.minimum(z, ops.constant(self.width) / 2)

    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        """See `Profile.debiased_preimages`: there is no g but φ itself."""
        if b != 0:
            raise self._not_debiasable()
        y = np.asarray(y, dtype=np.float64)
        v = np.where((y > 0) & (y < 1), (y - 0.5) * self.width, np.nan)
        return v[None], np.full((1, *y.shape), 1 / self.width)
