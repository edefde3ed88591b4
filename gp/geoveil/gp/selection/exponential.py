"""The exponential mechanism: probabilities proportional to e^{λu} [McSherry and Talwar 2007]."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.bits import LazyUniform, RandomSource
from geoveil.gp.selection.base import Array
from geoveil.gp.selection.draw import weighted_index
from geoveil.gp.selection.global_sensitivity import GlobalSelection
from geoveil.gp.selection.many import Indices, weighted_indices
from geoveil.gp.selection.scores import Utilities


class ExponentialMechanism(GlobalSelection):
    """P(r) ∝ e^{λ u_r}, λ = ε/2Δ: the argmax of u_r + Gumbel(1/λ).

    For monotone utilities λ = ε/Δ: e^{λ u_r} and the sum both move by at most e^{λΔ}, the same way.

    Args:
        epsilon: see `GlobalSelection`.
        sensitivity: Δ; see `GlobalSelection`.
        monotone: see `GlobalSelection`.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> m = ExponentialMechanism(epsilon=2.0, sensitivity=1.0)
        >>> m.probabilities([0.0, 0.0, np.log(2.0)]).round(6).tolist()
        [0.25, 0.25, 0.5]
        >>> m.select([0.0, 9.0, 1.0], SeededSource(1))
        1
    """

    _source: ClassVar[str] = "[McSherry and Talwar 2007, Theorem 6]"

    def _probabilities(self, scores: Utilities) -> Array:
        weights = np.exp(-self._scaled_gaps(scores.values))
        return np.asarray(weights / weights.sum())

    def _select(self, scores: Utilities, source: RandomSource) -> int:
        return weighted_index(LazyUniform(source), self._weights(scores))

    def _select_many(self, scores: Utilities, size: int, source: RandomSource) -> Indices:
        return weighted_indices(size, self._weights(scores), source)

    def _weights(self, scores: Utilities) -> Callable[[], list[Real]]:
        return exponential_weights(self._ball_gaps(scores.values))


def exponential_weights(gaps: Callable[[], list[Real]]) -> Callable[[], list[Real]]:
    """Return a function that encloses e^−gap for the gaps that `gaps` encloses."""
    return lambda: [(-gap).exp() for gap in gaps()]
