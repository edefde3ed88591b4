"""What the mechanisms share that add noise in proportion to a smooth sensitivity."""

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import BALL
from geoveil.gp.exact.bits import LazyUniform, RandomSource
from geoveil.gp.privacy.rounding import require_count
from geoveil.selection.base import Array, SelectionMechanism
from geoveil.selection.many import Indices, noisy_argmax
from geoveil.selection.one_sided_theorem import Split
from geoveil.selection.scores import Scores, SmoothUtilities
from geoveil.selection.smooth_argmax import exact_argmax
from geoveil.selection.smooth_law import Law
from geoveil.selection.smooth_probability import argmax_probabilities


class SmoothSelection(SelectionMechanism):
    """argmax u_r + (2S/α) Z_r, for a β-smooth upper bound S of the local sensitivity.

    Between neighbours every utility moves by at most S, so the outcomes come closer by at most 2S;
    by at most S if the utilities are monotone, and the noise then is half.

    Args:
        epsilon: see `SelectionMechanism`.
        outcomes: m, the most outcomes there are to select from. Public, and it sets β.
        monotone: whether all utilities move the same way between any two neighbours.

    Raises:
        ParameterError: if an argument is out of range.
    """

    _kind: ClassVar[type[Scores]] = SmoothUtilities
    _law: Law
    _split: Split

    def __init__(self, epsilon: float, outcomes: int, *, monotone: bool) -> None:
        super().__init__(epsilon)
        require_count("outcomes", outcomes)
        if not isinstance(monotone, bool):
            raise ParameterError("monotone", monotone, "True or False")
        self.outcomes = outcomes
        self.monotone = monotone

    @property
    def beta(self) -> float:
        """β: S may differ by a factor of at most e^β between neighbours."""
        return self._split.beta

    @property
    def exact_rate(self) -> Fraction:
        """Units of noise per S: the noise is multiplied by S over this."""
        return Fraction(self._split.alpha) / (1 if self.monotone else 2)

    def scale(self, smooth_sensitivity: float) -> float:
        """Return what the noise is multiplied by at a database of sensitivity S: in its unit."""
        return smooth_sensitivity / float(self.exact_rate)

    def probabilities_with_errors(self, scores: SmoothUtilities) -> tuple[Array, Array]:
        """Return `probabilities` and a conservative error of each, shapes (m,).

        See `smooth_probability.argmax_probabilities`.

        Raises:
            ParameterError: see `probabilities`.
        """
        checked = self._checked(scores)
        return argmax_probabilities(
            self._law, checked.values, self.scale(checked.smooth_sensitivity)
        )

    def _probabilities(self, scores: SmoothUtilities) -> Array:
        return self.probabilities_with_errors(scores)[0]

    def _draw(self, scores: SmoothUtilities, size: int, source: RandomSource) -> Indices:
        with np.errstate(over="ignore"):
            gaps = scores.values.max() - scores.values
            gaps = gaps / self.scale(scores.smooth_sensitivity)
        law = self._law

        def scale() -> Real:
            return BALL.private(scores.smooth_sensitivity) / BALL.constant(self.exact_rate)

        def decide(places: Sequence[int], uniforms: Sequence[LazyUniform]) -> int:
            values = [float(scores.values[r]) for r in places]
            return exact_argmax(values, scale, law.ball_noise, uniforms)

        return noisy_argmax(size, gaps, law.enclosure, decide, source, least=law.close)

    def _checked(self, scores: object) -> SmoothUtilities:
        if not isinstance(scores, SmoothUtilities):
            expected = "SmoothUtilities(values, smooth_sensitivity, beta=...)"
            raise ParameterError("scores", type(scores), expected)
        if scores.outcomes > self.outcomes:
            raise ParameterError("outcomes", scores.outcomes, f"at most {self.outcomes}, as set up")
        if scores.beta > self.beta:
            raise ParameterError("beta", scores.beta, f"at most {self.beta!r}, the mechanism's own")
        return scores

    def _delta(self, delta: float) -> float:
        return validation.between("delta", delta, 0, 1, high_open=True)
