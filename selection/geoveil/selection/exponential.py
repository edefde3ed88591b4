"""The exponential mechanism: probabilities proportional to e^{λu} [MT07]."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import BALL
from geoveil.gp.exact.bits import RandomSource
from geoveil.selection.base import Array
from geoveil.selection.global_sensitivity import GlobalSelection
from geoveil.selection.many import Indices, exponential_bounds, weighted_indices
from geoveil.selection.scores import Utilities


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

    _source: ClassVar[str] = "[MT07 Theorem 6]"

    def _probabilities(self, scores: Utilities) -> Array:
        weights = np.exp(-self._scaled_gaps(scores.values))
        return np.asarray(weights / weights.sum())

    def _draw(self, scores: Utilities, size: int, source: RandomSource) -> Indices:
        gaps = self._scaled_gaps(scores.values)
        bounds = exponential_bounds(gaps * (1 - 2.0**-48), gaps * (1 + 2.0**-48))
        return weighted_indices(size, bounds, self._weights(scores), source)

    def _weights(self, scores: Utilities) -> Callable[[], list[Real]]:
        """Return a function that encloses e^{−λ (max u − u_r)}."""

        def enclose() -> list[Real]:
            rate, best = BALL.constant(self.exact_rate), BALL.private(float(scores.values.max()))
            return [(rate * (BALL.private(u) - best)).exp() for u in scores.values.tolist()]

        return enclose
