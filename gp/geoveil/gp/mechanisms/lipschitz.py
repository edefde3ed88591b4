"""Laplace noise scaled to the steepest slope: f(x) + Lap(L/ε) [SGP Lemma 2.3; MATH §6]."""

from fractions import Fraction

from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.mechanisms.additive import ROUND_UP, AdditiveMechanism
from geoveil.gp.noise.laplace import Laplace
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query


class LipschitzMechanism(AdditiveMechanism):
    """The same noise for everyone: ε-GP and unbiased, whatever the query.

    Args:
        query: f, with its Lipschitz constant L.
        privacy: the guarantee, in the unit of x.
        step: see `Mechanism`.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=16_000), GeoPrivacy(1.0, per=8000.0))
        >>> m.variance(0.0).round(6)
        np.float64(0.5)
    """

    privacy: GeoPrivacy

    def __init__(self, query: Query, privacy: GeoPrivacy, *, step: float | None = None) -> None:
        super().__init__(query, privacy, step=step)
        self.noise = Laplace()
        # The double L may be rounded down; the noise must not be.
        self._exact_scale = Fraction(query.lipschitz) * ROUND_UP / privacy.exact_rate
        self._choose_step(step)

    @property
    def largest_scale(self) -> float:
        """See `AdditiveMechanism.largest_scale`: L/ε."""
        return float(self._exact_scale)

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        return ops.constant(self._exact_scale)
