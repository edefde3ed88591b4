"""Selection by utilities of known global sensitivity: exponential mechanism, permute-and-flip.

They need only a public bound on how far a utility can move [MT07; PF §2].
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from geoveil.gp import BALL, LazyUniform, RandomSource, Real, as_given, round_up, validation
from geoveil.selection.base import (
    Array,
    Guarantee,
    Scores,
    SelectionMechanism,
    SmoothUtilities,
    Utilities,
)
from geoveil.selection.draws import (
    Enclosure,
    Indices,
    Words,
    ball,
    exact_argmax,
    exponential_bounds,
    noisy_argmax,
    uniform,
    weighted_indices,
    widened,
)

_NOT_SMOOTH = (
    "{} with a smooth sensitivity is not private, whatever β: its probabilities fall exponentially"
    " in gap/scale, so a change of scale by e^β changes their logarithms without bound"
    " [SNM Theorem 7.2]; use SmoothNoisyMax or SmoothPrivateSelection, or StabilityMechanism where"
    " a margin is known"
)


class GlobalSelection(SelectionMechanism):
    """Selection by utilities whose global sensitivity is known.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.
        sensitivity: Δ > 0, in the unit of the utilities: |u_r − u'_r| ≤ Δ for neighbours and all r.
        monotone: whether all utilities move the same way between any two neighbours, like counts
            when a record is added; this halves the noise.

    Raises:
        ParameterError: if epsilon or sensitivity is not finite and > 0, or monotone not a bool.
    """

    _refused: ClassVar[Mapping[type[Scores], str]] = MappingProxyType(
        {SmoothUtilities: _NOT_SMOOTH}
    )
    _source: ClassVar[str]

    def __init__(self, epsilon: float, sensitivity: float, *, monotone: bool = False) -> None:
        super().__init__(epsilon)
        self.sensitivity = round_up(
            as_given(sensitivity, validation.positive("sensitivity", sensitivity))
        )
        validation.require_flag("monotone", monotone)
        self.monotone = monotone

    @cached_property
    def exact_rate(self) -> Fraction:
        """λ = ε/2Δ, or ε/Δ for monotone utilities: nats per unit of utility."""
        reach = Fraction(self.sensitivity) * (1 if self.monotone else 2)
        return Fraction(self.epsilon) / reach

    @property
    def guarantee(self) -> Guarantee:
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


class ExponentialMechanism(GlobalSelection):
    """P(r) ∝ e^{λ u_r}, λ = ε/2Δ: the argmax of u_r + Gumbel(1/λ).

    For monotone utilities λ = ε/Δ: e^{λ u_r} and the sum change in the same direction, each by a
    factor of at most e^{λΔ}.

    `GlobalSelection` documents the arguments.

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


_X, _W = np.polynomial.legendre.leggauss(16)
_PANEL = 4.0
"""The width of a quadrature panel times Σq: an ellipse of ρ = 8 around it bounds the error."""
_NEGLIGIBLE = 46.0
"""e^−46 is 1e-20."""
_BLOCK = 1 << 12
"""The number of outcomes processed together, with 176 nodes each."""


class PermuteAndFlip(GlobalSelection):
    """Flip coins of probability q_r = e^{−λ(max u − u_r)} in random order; the first heads wins.

    Its expected utility is at least the exponential mechanism's, and its distribution is that of
    report-noisy-max with exponential noise [PF Theorem 5].

    `GlobalSelection` documents the arguments.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> m = PermuteAndFlip(epsilon=2.0, sensitivity=1.0)
        >>> m.probabilities([0.0, np.log(2.0)]).round(6).tolist()
        [0.25, 0.75]
        >>> m.select([0.0, 9.0, 1.0], SeededSource(1))
        1
    """

    _source: ClassVar[str] = "[PF Theorem 5; MS20]"

    def _probabilities(self, scores: Utilities) -> Array:
        return first_heads(np.exp(-self._scaled_gaps(scores.values)))

    def _draw(self, scores: Utilities, size: int, source: RandomSource) -> Indices:
        # The same distribution, by [PF Theorem 5].
        return self._draw_noisy(scores, size, exponential_enclosure, exponential_noise, source)


def exponential_enclosure(words: Words) -> tuple[Array, Array]:
    """Enclose exponential noise in float64, given two words of each uniform number."""
    return widened(-np.log(uniform(words)))


def exponential_noise(drawn: LazyUniform) -> Real:
    """Enclose the same noise in balls."""
    return -ball(drawn).log()


def first_heads(q: Array) -> Array:
    """Return the probability that each coin is the first in random order to show heads.

    q in [0, 1] has shape (m,) and maximum 1. With flipping times uniform in (0, 1), P(r) =
    q_r ∫₀¹ Π_{j≠r} (1 − t q_j) dt. With S = Σq, Gauss–Legendre with 16 nodes on panels up to 4/S
    wide is within 1e-20 of it (the integrand is entire), the omitted part S t > 46 is as small, and
    P(r) is at least q_r/(S + 1). So only rounding errors remain.

    Example:
        >>> first_heads(np.array([1.0, 1.0, 0.0])).round(12).tolist()
        [0.5, 0.5, 0.0]
    """
    total = float(q.sum())
    end = min(1.0, _NEGLIGIBLE / total)
    panels = math.ceil(end * total / _PANEL)
    edges = np.linspace(0, end, panels + 1)
    half = end / panels / 2
    t = (edges[:-1, None] + half * (1 + _X)).ravel()
    weights = np.tile(half * _W, panels)
    log_all = np.zeros_like(t)
    for start in range(0, len(q), _BLOCK):
        log_all += np.log1p(-t * q[start : start + _BLOCK, None]).sum(axis=0)
    shares = np.empty_like(q)
    for start in range(0, len(q), _BLOCK):
        block = q[start : start + _BLOCK, None]
        shares[start : start + _BLOCK] = np.exp(log_all - np.log1p(-t * block)) @ weights
    return np.asarray(q * shares)
