"""Selection with noise in proportion to a smooth sensitivity.

`SmoothNoisyMax` adds one-sided noise, for which a change of scale costs ln m instead of m;
`SmoothPrivateSelection` adds two-sided noise to every utility [SPS Definition 12].
"""

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np

from geoveil.gp import (
    BALL,
    LazyUniform,
    Noise,
    NotPrivateWarning,
    ParameterError,
    RandomSource,
    Real,
    validation,
)
from geoveil.selection.argmax_probability import argmax_probabilities
from geoveil.selection.base import Array, Guarantee, Scores, SelectionMechanism, SmoothUtilities
from geoveil.selection.draws import Indices, exact_argmax, noisy_argmax
from geoveil.selection.noise_law import Law, one_sided_law, two_sided_law
from geoveil.selection.one_sided import ExponentialPareto, OneSidedNoise
from geoveil.selection.smooth_privacy import (
    Split,
    best_share,
    published_split,
    scale_cost_of,
    scale_price,
    split_budget,
    split_two_sided,
)
from geoveil.selection.two_sided import HeavyGeneralizedCauchy, HeavyStudentT


class SmoothSelection(SelectionMechanism):
    """argmax u_r + (2S/α) Z_r, for a β-smooth upper bound S of the local sensitivity.

    Between neighbours every utility moves by at most S, so gaps between outcomes change by at most
    2S, or by S if the utilities are monotone, which halves the noise.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.
        outcomes: m, the largest number of outcomes. Public; it determines β.
        monotone: whether all utilities move the same way between any two neighbours.

    Raises:
        ParameterError: if an argument is out of range.
    """

    _kind: ClassVar[type[Scores]] = SmoothUtilities
    _law: Law
    _split: Split
    _source: str
    _caveat = ""
    delta: float

    def __init__(self, epsilon: float, outcomes: int, *, monotone: bool) -> None:
        super().__init__(epsilon)
        validation.require_count("outcomes", outcomes)
        validation.require_flag("monotone", monotone)
        self.outcomes = outcomes
        self.monotone = monotone

    @property
    def beta(self) -> float:
        """β: between neighbours S may change by a factor of at most e^β."""
        return self._split.beta

    @property
    def exact_rate(self) -> Fraction:
        """The noise is multiplied by S divided by this rate."""
        return Fraction(self._split.alpha) / (1 if self.monotone else 2)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self._split.epsilon,
            delta=self.delta,
            statement=f"up to {self.outcomes} outcomes and a {self.beta:.6g}-smooth upper bound of"
            " the local sensitivity"
            + (", utilities moving in one direction" if self.monotone else "")
            + self._caveat,
            source=self._source,
        )

    def scale(self, smooth_sensitivity: float) -> float:
        """Return the factor on the noise for a database with sensitivity S, in S's unit."""
        return smooth_sensitivity / float(self.exact_rate)

    def probabilities_with_errors(self, scores: SmoothUtilities) -> tuple[Array, Array]:
        """Return `probabilities` and a conservative error of each, shapes (m,).

        Raises:
            ParameterError: if the scores are of another kind, or have no outcome.
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


class PublishedCalibrationWarning(NotPrivateWarning):
    """A mechanism with a paper's printed calibration does not keep its ε."""


class SmoothNoisyMax(SmoothSelection):
    """argmax u_r + (2S/α) Z_r with one-sided noise: ε = αL + β max(ν, c R_m).

    docs/selection.md has the proof. With `calibration="published"` it is [SNM Algorithm 1] with
    two-sided noise, for reproduction. [SNM Theorem 4.2] is false: it counts a change of scale for
    one noise variable, but all m change. The guarantee is then (1 + m)/2 times the given ε.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.
        outcomes: m, the largest number of outcomes.
        noise: one-sided, by default exponential with a Pareto tail; for the published calibration
            two-sided, by default Student's t with ν = 3.
        share: the part of ε in (0, 1) that pays for β; 1/2 by default, and always if published.
        monotone: whether all utilities move the same way between any two neighbours.
        delta: δ in (0, 0.5] for published Laplace or Laplace log-normal noise; otherwise 0.

    Raises:
        ParameterError: if an argument is out of range.
        UnsupportedError: if nothing is proved of the noise.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> from geoveil.selection.base import SmoothUtilities
        >>> m = SmoothNoisyMax(epsilon=1.0, outcomes=10)
        >>> round(m.beta, 4), round(m.alpha, 4)  # c R_10 = 1.826
        (0.2739, 0.5)
        >>> scores = SmoothUtilities([30.0, 0.0, 2.0], 0.5, beta=m.beta)
        >>> m.probabilities(scores).round(4).tolist()
        [0.9542, 0.0222, 0.0237]
        >>> m.select(scores, SeededSource(1))
        0
    """

    def __init__(
        self,
        epsilon: float,
        outcomes: int,
        noise: OneSidedNoise | Noise | None = None,
        *,
        share: float | None = None,
        monotone: bool = False,
        calibration: Literal["proved", "published"] = "proved",
        delta: float = 0.0,
    ) -> None:
        super().__init__(epsilon, outcomes, monotone=monotone)
        self.calibration = validation.choice("calibration", calibration, ("proved", "published"))
        self.delta, self.share = self._delta(delta), share
        if self.calibration == "published":
            self._set_up_published(noise, share)
        else:
            self._set_up_proved(noise, share)

    @classmethod
    def planned(
        cls,
        epsilon: float,
        outcomes: int,
        smooth_sensitivity: Callable[[float], float],
        noise: OneSidedNoise | None = None,
        *,
        monotone: bool = False,
    ) -> Self:
        """Return the mechanism with the least noise for an expected database.

        Args:
            epsilon: see the class, as for `outcomes`, `noise` and `monotone`.
            smooth_sensitivity: β ↦ S(β) > 0 of that database; public, since it sets the split.

        Raises:
            ParameterError: if an argument is out of range.

        Example:
            >>> m = SmoothNoisyMax.planned(1.0, 2, lambda beta: 2.718281828 ** (-9 * beta))
            >>> round(m.beta, 4)  # 1 − 1/9
            0.8889
        """
        chosen = ExponentialPareto() if noise is None else noise
        share = best_share(epsilon, scale_price(chosen, outcomes), smooth_sensitivity)
        return cls(epsilon, outcomes, chosen, share=share, monotone=monotone)

    @property
    def alpha(self) -> float:
        """α: the noise is multiplied by 2S/α, or S/α for monotone utilities."""
        return self._split.alpha

    def _set_up_proved(self, noise: OneSidedNoise | Noise | None, share: float | None) -> None:
        if self.delta != 0:
            raise ParameterError("delta", self.delta, "0: one-sided noise needs none")
        self.noise = ExponentialPareto() if noise is None else noise
        if not isinstance(self.noise, OneSidedNoise):
            raise ParameterError("noise", noise, "one-sided noise, such as ExponentialPareto()")
        self._source = "[proof: docs/selection.md]"
        price = scale_price(self.noise, self.outcomes)
        self._split = split_budget(
            self.epsilon, self.noise.hazard, price, 0.5 if share is None else share
        )
        self._law = one_sided_law(self.noise)

    def _set_up_published(self, noise: OneSidedNoise | Noise | None, share: float | None) -> None:
        if share is not None:
            raise ParameterError("share", share, 'None for calibration="published"')
        self.noise = HeavyStudentT(3.0) if noise is None else noise
        if not isinstance(self.noise, Noise):
            raise ParameterError("noise", noise, "two-sided noise, such as StudentT(3)")
        scale_cost = scale_cost_of(self.noise)
        self.delta, self._source = scale_cost.checked(self.delta), scale_cost.source
        self._caveat = f"; not the {self.epsilon:g} of [SNM Theorem 4.2]"
        self._split = published_split(self.noise, self.epsilon, self.outcomes, self.delta)
        self._law = two_sided_law(self.noise)
        warnings.warn(
            f"SmoothNoisyMax as published is not proved to keep ε = {self.epsilon:g} for"
            f" {self.outcomes} outcomes, but ε = {self._split.epsilon:g}",
            PublishedCalibrationWarning,
            stacklevel=3,
        )


class SmoothPrivateSelection(SmoothSelection):
    """argmax u_r + (S/α') Z_r with α' = α(kε), β' = β(lε), k + m l/2 = 1.

    All m noise variables change their scale, so β shrinks like 1/m: for many outcomes use
    `SmoothNoisyMax`.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.
        outcomes: m, the largest number of outcomes.
        noise: two-sided, from `geoveil.gp.noise` or with heavier tails.
        share: m l/2 in (0, 1), the part of ε that pays for β.
        delta: δ in (0, 0.5] for Laplace and Laplace log-normal noise, otherwise 0.
        monotone: whether all utilities move the same way between any two neighbours.

    Raises:
        ParameterError: if an argument is out of range.
        UnsupportedError: if nothing is proved of the noise.

    Example:
        >>> from geoveil.selection.base import SmoothUtilities
        >>> m = SmoothPrivateSelection(epsilon=1.0, outcomes=2)
        >>> round(m.beta, 6), round(m.alpha, 6)
        (0.083333, 0.109673)
        >>> m.probabilities(SmoothUtilities([9.0, 0.0], 0.5, beta=m.beta)).round(4).tolist()
        [0.9424, 0.0576]
    """

    def __init__(
        self,
        epsilon: float,
        outcomes: int,
        noise: Noise | None = None,
        *,
        share: float = 0.5,
        delta: float = 0.0,
        monotone: bool = False,
    ) -> None:
        super().__init__(epsilon, outcomes, monotone=monotone)
        self.noise = HeavyGeneralizedCauchy(4.0) if noise is None else noise
        if not isinstance(self.noise, Noise):
            raise ParameterError("noise", noise, "two-sided noise of geoveil.gp.noise")
        self.share = share
        scale_cost = scale_cost_of(self.noise)
        self.delta, self._source = scale_cost.checked(self._delta(delta)), scale_cost.source
        self._split = split_two_sided(self.noise, self.epsilon, outcomes, share, self.delta)
        self._law = two_sided_law(self.noise)

    @property
    def alpha(self) -> float:
        """α': the noise is multiplied by S/α', or S/2α' for monotone utilities."""
        return self._split.alpha / 2
