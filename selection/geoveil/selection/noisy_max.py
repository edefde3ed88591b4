"""Report-noisy-max: add noise to every utility, report whose is the largest [PF §2]."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, overload

import numpy as np

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import BALL, round_to_grid
from geoveil.gp.exact.bits import RandomSource, chosen_source
from geoveil.selection.base import Array, ScoresLike
from geoveil.selection.draw import decided, largest
from geoveil.selection.global_sensitivity import GlobalSelection
from geoveil.selection.many import Indices, contenders, contests, uniforms
from geoveil.selection.noisy_max_families import FAMILIES, NoiseName
from geoveil.selection.scores import Utilities

_Key = TypeVar("_Key")

_LEAD_BITS = 20
"""Rounding a lead to a grid of scale/2^20 adds less than 1e-12 of its noise to its variance."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A selected outcome, and by how much its noisy utility exceeded the next one.

    Its noise is that of two utilities; what it says of their difference is biased upwards, as the
    outcome was chosen for being large.
    """

    outcome: Any
    """The index of the outcome; of a dict of scores, its key."""
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
    any noise whose density has f(z + s) ≥ e^{−s} f(z) for all s ≥ 0, as these three do, with λ = 1.
    Let W be the largest noisy utility of the rivals of i, and h its density. That i wins by g has
    the density q(g) = ∫ f(w + g − u_i) h(w) dw, which stays as it is when all utilities move alike:
    let u_i be the same before and after. Then every rival gains at most P ≥ 0 or loses at most
    N ≥ 0, where P + N ≤ 2Δ, and P + N ≤ Δ where all utilities move one way. First raise the rivals
    that gain. W rises by at most P, whatever the noise, and f(w + s + g − u_i) ≥ e^{−s} f(w + g −
    u_i): so q falls at most to e^{−P} q. Then lower the others. Each term of
    h(w) = Σ_j f(w − u_j) Π_{k≠j} F(w − u_k) falls at most to e^{−N} of itself, as no F falls: so
    q falls at most to e^{−P−N} of what it was. The lead is released correctly rounded to a grid
    that public parameters choose.

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

    _source: ClassVar[str] = "[PF §2], with the lead by the proof in its docstring"

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
        scores: Mapping[_Key, float],
        source: RandomSource | None = None,
        *,
        gap: Literal[False] = False,
    ) -> _Key: ...

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
        self,
        scores: ScoresLike | Mapping[Any, float],
        source: RandomSource | None = None,
        *,
        gap: Literal[True],
    ) -> Lead: ...

    def select(
        self,
        scores: ScoresLike | Mapping[Any, float],
        source: RandomSource | None = None,
        *,
        gap: bool = False,
    ) -> Any:
        """Return the index of one outcome; with `gap`, and its lead. See `SelectionMechanism`.

        Raises:
            ParameterError: see `SelectionMechanism.select`; also for the lead of a sole outcome.
        """
        if not gap:
            return super().select(scores, source)
        bits = chosen_source(source)
        names, known = self._named(scores)
        if known.outcomes < 2:
            raise ParameterError("outcomes", known.outcomes, "at least 2 for a lead")
        found = self._select_with_lead(known, bits)
        return replace(found, outcome=names[found.outcome])

    def _probabilities(self, scores: Utilities) -> Array:
        return self._family.probabilities(self._scaled_gaps(scores.values))

    def _draw(self, scores: Utilities, size: int, source: RandomSource) -> Indices:
        family = self._family
        return self._draw_noisy(scores, size, family.enclosure, family.noise, source)

    def _select_with_lead(self, scores: Utilities, source: RandomSource) -> Lead:
        gaps = self._scaled_gaps(scores.values)
        ((words, low, high),) = contests(1, gaps, self._family.enclosure, source)
        # The winner and the runner-up, and rarely an outcome that is as near as doubles can tell.
        places = np.flatnonzero(contenders(low, high, places=2)[0]).tolist()
        drawn = uniforms(source, words[0], places)

        def attempt(_: list[Real]) -> Lead | None:
            rate = BALL.constant(self.exact_rate)
            values = [
                BALL.private(float(scores.values[r])) + self._family.noise(uniform) / rate
                for r, uniform in zip(places, drawn, strict=True)
            ]
            winner = largest(values)
            if winner is None:
                return None
            best = values.pop(winner)
            runner_up = values[0]
            for value in values[1:]:
                runner_up = BALL.maximum(runner_up, value)
            steps = round_to_grid(best - runner_up, self.step_exponent)
            step = math.ldexp(1, self.step_exponent)
            return None if steps is None else Lead(places[winner], steps, step)

        return decided(drawn, attempt)
