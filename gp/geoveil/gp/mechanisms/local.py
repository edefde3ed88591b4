"""Local differential privacy: geo-privacy in the discrete metric [MATH §1, §6]."""

from fractions import Fraction
from typing import ClassVar

from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.mechanisms.additive import AdditiveMechanism
from geoveil.gp.noise.laplace import Laplace
from geoveil.gp.privacy import LocalPrivacy
from geoveil.gp.queries.base import Query


class LocalLaplace(AdditiveMechanism):
    """f(x) + Lap(1/ε) for f in [0, 1]: ε-LDP, the baseline that ignores distance.

    Args:
        query: f; every query of the library has values in [0, 1].
        privacy: the guarantee between any two points.
        step: see `Mechanism`.

    Example:
        >>> from geoveil.gp import LocalPrivacy, Threshold
        >>> float(LocalLaplace(Threshold(at=0, width=1), LocalPrivacy(0.5)).variance(0.0))
        8.0
    """

    privacy: LocalPrivacy
    _privacy_kind: ClassVar[type] = LocalPrivacy

    def __init__(self, query: Query, privacy: LocalPrivacy, *, step: float | None = None) -> None:
        super().__init__(query, privacy)
        self.noise = Laplace()
        self._choose_step(step)

    @property
    def largest_scale(self) -> float:
        """See `AdditiveMechanism.largest_scale`: 1/ε."""
        return 1 / self.privacy.epsilon

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        return ops.constant(1 / Fraction(self.privacy.epsilon))
