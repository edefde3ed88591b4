"""Local differential privacy: geo-privacy in the discrete metric [MATH §1, §6]."""

from fractions import Fraction
from typing import ClassVar

from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.mechanisms.additive import AdditiveMechanism
from geoveil.gp.noise.laplace import Laplace
from geoveil.gp.privacy import LocalPrivacy
from geoveil.gp.queries.base import Query


class LocalLaplace(AdditiveMechanism):
    """f(x) + Lap(range of f/ε): ε-LDP, the baseline that ignores distance.

    Args:
        query: f, with `Profile.bounds`: [0, 1] for all but formulas of one's own.
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
        super().__init__(query, privacy, step=step)
        self.noise = Laplace()
        low, high = query.profile.bounds
        self._exact_scale = (Fraction(high) - Fraction(low)) / Fraction(privacy.epsilon)
        self._choose_step(step)

    @property
    def largest_scale(self) -> float:
        """See `AdditiveMechanism.largest_scale`: (sup f − inf f)/ε."""
        return float(self._exact_scale)

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        return ops.constant(self._exact_scale)
