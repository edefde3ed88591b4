"""Report-noisy-max: add noise to every utility and report the index of the largest [PF §2].

Or the k largest, one after another.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import (
    BALL,
    Laplace,
    LazyUniform,
    ParameterError,
    RandomSource,
    Real,
    chosen_source,
    round_to_grid,
    share,
    validation,
)
from geoveil.selection.base import Array, Guarantee, ScoresLike, Utilities
from geoveil.selection.draws import (
    Enclosure,
    Indices,
    Words,
    ball,
    contenders,
    contests,
    decided,
    largest,
    uniform,
    uniforms,
    widened,
)
from geoveil.selection.global_sensitivity import (
    GlobalSelection,
    PermuteAndFlip,
    exponential_enclosure,
    exponential_noise,
    first_heads,
)

_X, _W = np.polynomial.legendre.leggauss(16)
_PANEL = 1.0
_NEGLIGIBLE = 60.0
"""e^−60 is 1e-26."""
_FARTHEST = 760.0
"""e^−760 is 0 in float64."""
_BLOCK = 1 << 20
"""The number of values processed together."""


def laplace_maximum(gaps: Array) -> Array:
    """Return the probability that each −gap + Z is the largest, Z i.i.d. Laplace of scale 1.

    P(r) = ∫ f(v + g_r) Π_{j≠r} F(v + g_j) dv by Gauss–Legendre with 16 nodes on panels up to 1 wide
    that end at each centre −g_j, between which the integrand is analytic. Panels start where the
    product of the factors of all centres above except the top one is 1e-26/m. Tests compare the
    result with rigorous ball integration, to a relative 1e-13. g ≥ 0 has shape (m,) and minimum 0.

    Example:
        >>> laplace_maximum(np.zeros(4)).round(12).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    if len(gaps) == 1:
        return np.ones(1)
    edges = _edges(gaps)
    half = np.diff(edges)[:, None] / 2
    v = (edges[:-1, None] + half * (1 + _X)).ravel()
    weights = (half * _W).ravel()
    result = np.zeros_like(gaps)
    step = max(1, _BLOCK // len(gaps))
    for start in range(0, len(v), step):
        above = v[start : start + step, None] + gaps
        tail = np.exp(-np.abs(above)) / 2
        log_cdf = np.where(above >= 0, np.log1p(-tail), above - math.log(2))
        hazard = np.where(above >= 0, tail / (1 - tail), 1.0)  # f/F
        result += (weights[start : start + step] * np.exp(log_cdf.sum(axis=1))) @ hazard
    return result


def _edges(gaps: Array) -> Array:
    centers = -np.sort(gaps)[1:]
    count = np.arange(1, len(gaps))
    # The factors of the `count` centres above v, each e^{v − centre}/2, are negligible below this.
    low = (np.cumsum(centers) + count * math.log(2) - _NEGLIGIBLE - math.log(len(gaps))) / count
    first = int(np.argmax(low >= np.append(centers[1:], -math.inf)))
    start = max(-_FARTHEST, min(low[first], centers[first]))
    end = _NEGLIGIBLE + math.log(len(gaps))
    corners = np.unique(np.concatenate([[start], centers[centers > start], [0.0, end]]))
    parts = [
        np.linspace(a, b, math.ceil((b - a) / _PANEL), endpoint=False) for a, b in pairwise(corners)
    ]
    return np.concatenate([*parts, [end]])


NoiseName: TypeAlias = Literal["exponential", "laplace", "gumbel"]


@dataclass(frozen=True, slots=True)
class NoiseFamily:
    """A noise with f(z + s) ≥ e^{−s} f(z) for s ≥ 0."""

    noise: Callable[[LazyUniform], Real]
    """Noise as a function of a uniform number, in balls."""
    enclosure: Enclosure
    """Noise as a function of a uniform number, in float64."""
    probabilities: Callable[[Array], Array]
    """The probability that each −gap + Z is the largest, for gaps ≥ 0 in units of the scale."""


def _softmax(gaps: Array) -> Array:
    weights = np.exp(-gaps)
    return np.asarray(weights / weights.sum())


def _laplace_enclosure(words: Words) -> tuple[Array, Array]:
    u, t = uniform(words), uniform(~words)
    return widened(np.where(u < t, 1.0, -1.0) * np.log(2 * np.minimum(u, t)))


def _gumbel_enclosure(words: Words) -> tuple[Array, Array]:
    u, t = uniform(words), uniform(~words)
    # The smaller of U and 1 − U has more exact digits.
    half = np.minimum(t, 0.5)
    return widened(-np.log(np.where(u < t, -np.log(u), -np.log1p(-half))))


FAMILIES: Mapping[str, NoiseFamily] = MappingProxyType(
    {
        "exponential": NoiseFamily(
            exponential_noise, exponential_enclosure, lambda gaps: first_heads(np.exp(-gaps))
        ),
        "laplace": NoiseFamily(
            lambda drawn: Laplace().quantile(ball(drawn), BALL),
            _laplace_enclosure,
            laplace_maximum,
        ),
        "gumbel": NoiseFamily(
            lambda drawn: -BALL.log(-BALL.log(ball(drawn))), _gumbel_enclosure, _softmax
        ),
    }
)


_Key = TypeVar("_Key")

_LEAD_BITS = 20
"""Rounding to a grid of scale/2^20 increases a lead's variance by less than 1e-12 of itself."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A selected outcome, and the lead of its noisy utility over the runner-up's.

    The lead has the noise of two utilities and is biased upwards, since the winner is the largest.
    """

    outcome: Any
    """The index of the outcome, or its key in a dict of scores."""
    steps: int
    """The lead in whole steps, ≥ 0."""
    step: float
    """The size of a step, in the unit of the utilities."""

    @property
    def lead(self) -> float:
        """The lead, in the unit of the utilities."""
        return self.steps * self.step


class ReportNoisyMax(GlobalSelection):
    """argmax u_r + Z_r/λ for i.i.d. noise Z, λ = ε/2Δ, or ε/Δ for monotone utilities.

    `exponential` noise gives the distribution of permute-and-flip [PF Theorem 5], `gumbel` that of
    the exponential mechanism; `laplace` is the classical choice.

    With `gap=True` the winner's lead over the runner-up costs no additional ε [PF §4];
    docs/selection.md has the proof. The lead is correctly rounded to a grid that depends on public
    parameters.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.
        sensitivity: Δ > 0, how far any utility may differ between neighbours, in its unit.
        noise: "exponential", "laplace" or "gumbel".
        monotone: whether all utilities move the same way between any two neighbours.

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

    _source: ClassVar[str] = "[PF §2], with the lead by the proof in docs/selection.md"

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
        """Return the index of one outcome or, with `gap`, its `Lead`: exact and private.

        Raises the base's errors, and ParameterError for the lead of a sole outcome.
        """
        if not gap:
            return super().select(scores, source)
        bits = chosen_source(source)
        names, utilities = self._named(scores)
        if utilities.outcomes < 2:
            raise ParameterError("outcomes", utilities.outcomes, "at least 2 for a lead")
        selected = self._select_with_lead(utilities, bits)
        return replace(selected, outcome=names[selected.outcome])

    def _probabilities(self, scores: Utilities) -> Array:
        return self._family.probabilities(self._scaled_gaps(scores.values))

    def _draw(self, scores: Utilities, size: int, source: RandomSource) -> Indices:
        family = self._family
        return self._draw_noisy(scores, size, family.enclosure, family.noise, source)

    def _select_with_lead(self, scores: Utilities, source: RandomSource) -> Lead:
        gaps = self._scaled_gaps(scores.values)
        ((words, low, high),) = contests(1, gaps, self._family.enclosure, source)
        # The winner, the runner-up and, rarely, outcomes too close to distinguish with doubles.
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


@dataclass(frozen=True, slots=True)
class TopOutcomes:
    """Privately chosen outcomes, in the order of choice.

    Attributes:
        outcomes: the outcomes' indices, or keys in a dict of scores.
        leads: each outcome's noisy lead over the best remaining one; empty without `gap`.
        guarantee: covers all choices and leads together.
    """

    outcomes: tuple[Any, ...]
    leads: tuple[Lead, ...]
    guarantee: Guarantee


def top_k(
    scores: Utilities | ArrayLike | Mapping[Any, float],
    k: int,
    *,
    epsilon: float,
    sensitivity: float,
    monotone: bool = False,
    gap: bool = False,
    source: RandomSource | None = None,
) -> TopOutcomes:
    """Return k outcomes that are likely to have the largest utilities: exact and private.

    Each choice takes one of the remaining outcomes with ε/k: by permute-and-flip or, with `gap`, by
    report-noisy-max with exponential noise, which has the same law and adds its lead free of charge
    [PF Theorem 5, §4].

    Args:
        scores: utilities, shape (m,), or a dict of them, whose keys are public.
        k: the number of outcomes, from 1 to m, or to m − 1 with `gap`, since the last has no rival.
        epsilon: ε > 0, nats per changed record, for all choices together.
        sensitivity: Δ > 0, how far any utility may differ between neighbours, in its unit.
        monotone: whether all utilities move the same way between any two neighbours.
        gap: whether to return the leads.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if the utilities are not finite doubles.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> votes = {"bus": 310, "tram": 540, "bicycle": 420}
        >>> found = top_k(votes, 2, epsilon=1.0, sensitivity=1.0, gap=True, source=SeededSource(1))
        >>> found.outcomes, [round(lead.lead) for lead in found.leads]
        (('tram', 'bicycle'), [117, 109])
    """
    if isinstance(scores, Mapping):
        names, utilities = list(scores), Utilities(list(scores.values()))
    else:
        utilities = scores if isinstance(scores, Utilities) else Utilities(scores)
        names = list(range(utilities.outcomes))
    validation.require_count("k", k)
    most = utilities.outcomes - 1 if gap else utilities.outcomes
    if k > most:
        raise ParameterError("k", k, f"an integer from 1 to {most}" + " with gap" * gap)
    part = share("k", validation.positive("epsilon", epsilon), k)
    bits = chosen_source(source)
    leading = ReportNoisyMax(part, sensitivity, monotone=monotone)
    flipping = PermuteAndFlip(part, sensitivity, monotone=monotone)
    among = np.arange(utilities.outcomes)
    outcomes, leads = [], []
    for _ in range(k):
        left = Utilities(utilities.values[among])
        lead = leading.select(left, bits, gap=True) if gap else None
        place = flipping.select(left, bits) if lead is None else int(lead.outcome)
        outcomes.append(names[among[place]])
        if lead is not None:
            leads.append(replace(lead, outcome=outcomes[-1]))
        among = np.delete(among, place)
    kept = (leading if gap else flipping).guarantee
    return TopOutcomes(tuple(outcomes), tuple(leads), kept.of_choices(k, epsilon))
