"""What mechanisms share that need no more than a public bound on how far a utility can move."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import BALL
from geoveil.gp.exact.bits import LazyUniform, RandomSource
from geoveil.gp.privacy.rounding import at_least
from geoveil.selection.base import Array, Guarantee, SelectionMechanism
from geoveil.selection.many import Enclosure, Indices, noisy_argmax
from geoveil.selection.scores import Scores, SmoothUtilities, Utilities
from geoveil.selection.smooth_argmax import exact_argmax

_NOT_SMOOTH = (
    "{} with a smooth sensitivity is not private, whatever β: its probabilities fall exponentially"
    " in gap/scale, so a change of scale by e^β changes their logarithms without bound"
    " [SNM Theorem 7.2]; use SmoothNoisyMax or SmoothPrivateSelection, or StabilityMechanism where"
    " a margin is known"
)


class GlobalSelection(SelectionMechanism):
    """Selection by utilities whose global sensitivity is known.

    Args:
        epsilon: see `SelectionMechanism`.
        sensitivity: Δ > 0, in the unit of the utilities: |u_r − u'_r| ≤ Δ for neighbours and all r.
        monotone: whether all utilities move the same way between any two neighbours, as counts do
            when a record is added. Half the noise then is enough.

    Raises:
        ParameterError: if epsilon or sensitivity is not a finite number > 0, or monotone no bool.
    """

    _refused: ClassVar[Mapping[type[Scores], str]] = MappingProxyType(
        {SmoothUtilities: _NOT_SMOOTH}
    )
    _source: ClassVar[str]

    def __init__(self, epsilon: float, sensitivity: float, *, monotone: bool = False) -> None:
        super().__init__(epsilon)
        self.sensitivity = at_least(sensitivity, validation.positive("sensitivity", sensitivity))
        if not isinstance(monotone, bool):
            raise ParameterError("monotone", monotone, "True or False")
        self.monotone = monotone

    @cached_property
    def exact_rate(self) -> Fraction:
        """λ = ε/2Δ, or ε/Δ for monotone utilities: nats per unit of utility."""
        reach = Fraction(self.sensitivity) * (1 if self.monotone else 2)
        return Fraction(self.epsilon) / reach

    @property
    def guarantee(self) -> Guarantee:
        """See `SelectionMechanism.guarantee`."""
        return Guarantee(
            epsilon=self.epsilon,
            statement=f"neighbours whose utilities differ by at most {self.sensitivity:g} each"
            + (", all in one direction" if self.monotone else ""),
            source=self._source,
        )

    def _scaled_gaps(self, values: Array) -> Array:
        """Return λ (max u − u_r) ≥ 0 in float64."""
        return np.asarray(float(self.exact_rate) * (values.max() - values))

    def _draw_noisy(
        self,
        scores: Utilities,
        size: int,
        enclosure: Enclosure,
        noise: Callable[[LazyUniform], Real],
        source: RandomSource,
    ) -> Indices:
        """Return draws of argmax u_r + Z_r/λ, for Z in float64 and in balls."""

        def decide(places: Sequence[int], uniforms: Sequence[LazyUniform]) -> int:
            values = [float(scores.values[r]) for r in places]
            return exact_argmax(values, lambda: 1 / BALL.constant(self.exact_rate), noise, uniforms)

        return noisy_argmax(size, self._scaled_gaps(scores.values), enclosure, decide, source)
