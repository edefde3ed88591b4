"""Report-noisy-max: add noise to every utility, report whose is the largest [PF §2]."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, overload

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import BALL, round_to_grid
from geoveil.gp.exact.bits import LazyUniform, RandomSource, chosen_source
from geoveil.gp.selection.base import Array, ScoresLike
from geoveil.gp.selection.draw import decided, largest
from geoveil.gp.selection.global_sensitivity import GlobalSelection
from geoveil.gp.selection.many import Indices
from geoveil.gp.selection.noisy_max_families import FAMILIES, NoiseName
from geoveil.gp.selection.scores import Utilities

_LEAD_BITS = 20
"""Rounding a lead to a grid of scale/2^20 adds less than 1e-12 of its noise to its variance."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A selected outcome, and by how much its noisy utility exceeded the next one.

    Its noise is that of two utilities; what it says of their difference is biased upwards, as the
    outcome was chosen for being large.
    """

    outcome: int
    """The index of the outcome."""
    steps: int
    """The lead, in whole steps: ≥ 0."""
    step: float
    """The grid of the lead, in the unit of the utilities."""

    @property
    def lead(self) -> float:
        """The lead, in the unit of the utilities."""
        return self.steps * self.step


class ReportNoisyMax(GlobalSelection):
    """argmax u_r + Z_r/λ for i.i.d. noise Z, λ = ε/2Δ, or ε/Δ for monotone utilities.

    `exponential` noise has the distribution of permute-and-flip [PF Theorem 5], `gumbel` that of
    the exponential mechanism; `laplace` is the classical one.

    With `gap=True` the winner's lead over the runner-up comes free of charge [PF §4]. Proof, for
    any noise whose density has f(z + s) ≥ e^{−s} f(z) for all s ≥ 0, as these three do. Let i win
    by g for utilities u. If with u' in place of u it wins by less, or loses, add to Z_i what is
    missing; if it wins by more, add to the runner-up under u' what is too much. Either is at most
    2Δ, and Δ where all utilities move one way. This map of the noise keeps the winner and its lead,
    keeps volumes, and is one to one: the runner-up under u' tells which case it was. The lead is
    released correctly rounded to a grid that public parameters choose.

    Args:
        epsilon: see `GlobalSelection`.
        sensitivity: Δ; see `GlobalSelection`.
        noise: "exponential", "laplace" or "gumbel".
        monotone: see `GlobalSelection`.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> import numpy as np
        >>> from geoveil.gp import SeededSource
        >>> m = ReportNoisyMax(epsilon=2.0, sensitivity=1.0)
        >>> m.probabilities([0.0, np.log(2.0)]).round(6).tolist()
        [0.25, 0.75]
        >>> found = m.select([0.0, 9.0, 1.0], SeededSource(1), gap=True)
        >>> found.outcome, round(found.lead, 3)
        (1, 7.229)
    """

    _source: ClassVar[str] = "[PF §2; with the lead, proof: docstring of ReportNoisyMax]"

    def __init__(
        self,
        epsilon: float,
        sensitivity: float,
        noise: NoiseName = "exponential",
        *,
        monotone: bool = False,
    ) -> None:
        super().__init__(epsilon, sensitivity, monotone=monotone)
        self.noise = validation.choice("noise", noise, FAMILIES)
        self._family = FAMILIES[noise]

    @property
    def step_exponent(self) -> int:
        """Leads are released as multiples of 2 to this power."""
        return -math.frexp(float(self.exact_rate))[1] - _LEAD_BITS

    @overload
    def select(
        self,
        scores: ScoresLike,
        source: RandomSource | None = None,
        *,
        gap: Literal[False] = False,
    ) -> int: ...

    @overload
    def select(
        self, scores: ScoresLike, source: RandomSource | None = None, *, gap: Literal[True]
    ) -> Lead: ...

    def select(
        self, scores: ScoresLike, source: RandomSource | None = None, *, gap: bool = False
    ) -> int | Lead:
        """Return the index of one outcome; with `gap`, and its lead. See `SelectionMechanism`.

        Raises:
            ParameterError: see `SelectionMechanism.select`; also for the lead of a sole outcome.
        """
        if not gap:
            return super().select(scores, source)
        bits = chosen_source(source)
        checked = self._checked(scores)
        if checked.outcomes < 2:
            raise ParameterError("outcomes", checked.outcomes, "at least 2 for a lead")
        return self._select_with_lead(checked, bits)

    def _probabilities(self, scores: Utilities) -> Array:
        return self._family.probabilities(self._scaled_gaps(scores.values))

    def _select(self, scores: Utilities, source: RandomSource) -> int:
        noisy = self._noisy(scores)
        uniforms = [LazyUniform(source) for _ in range(scores.outcomes)]
        return decided(uniforms, lambda balls: largest(noisy(balls)))

    def _select_many(self, scores: Utilities, size: int, source: RandomSource) -> Indices:
        if self._family.many is None:
            return super()._select_many(scores, size, source)
        gaps = self._scaled_gaps(scores.values)
        return self._family.many(size, gaps, self._ball_gaps(scores.values), source)

    def _select_with_lead(self, scores: Utilities, source: RandomSource) -> Lead:
        noisy = self._noisy(scores)

        def attempt(balls: list[Real]) -> Lead | None:
            values = noisy(balls)
            winner = largest(values)
            if winner is None:
                return None
            best = values.pop(winner)
            runner_up = values[0]
            for value in values[1:]:
                runner_up = BALL.maximum(runner_up, value)
            lead = (best - runner_up) / BALL.constant(self.exact_rate)
            steps = round_to_grid(lead, self.step_exponent)
            return None if steps is None else Lead(winner, steps, math.ldexp(1, self.step_exponent))

        return decided([LazyUniform(source) for _ in range(scores.outcomes)], attempt)

    def _noisy(self, scores: Utilities) -> Callable[[list[Real]], list[Real]]:
        """Return what encloses λ(u_r − max u) + Z_r, given balls around uniform numbers."""
        gaps = self._ball_gaps(scores.values)

        def values(balls: list[Real]) -> list[Real]:
            return [self._family.quantile(u) - gap for u, gap in zip(balls, gaps(), strict=True)]

        return values

    def __repr__(self) -> str:
        monotone = ", monotone=True" if self.monotone else ""
        return (
            f"ReportNoisyMax(epsilon={self.epsilon!r}, sensitivity={self.sensitivity!r},"
            f" noise={self.noise!r}{monotone})"
        )
