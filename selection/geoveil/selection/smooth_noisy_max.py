"""Smooth noisy max: one-sided noise, for which a change of scale costs ln m and not m."""

import warnings
from collections.abc import Callable
from typing import Literal, Self

from geoveil.gp import validation
from geoveil.gp.errors import NotPrivateWarning, ParameterError
from geoveil.gp.noise.base import Noise
from geoveil.selection.base import Guarantee
from geoveil.selection.one_sided import OneSidedNoise
from geoveil.selection.one_sided_pareto import ExponentialPareto
from geoveil.selection.one_sided_theorem import best_share, scale_price, split_budget
from geoveil.selection.smooth_law import one_sided_law, two_sided_law
from geoveil.selection.smooth_noise import HeavyStudentT
from geoveil.selection.smooth_scale_cost import scale_cost_of
from geoveil.selection.smooth_selection import SmoothSelection
from geoveil.selection.smooth_two_sided import published_split


class PublishedCalibrationWarning(NotPrivateWarning):
    """A mechanism was set up as a paper prints it, and keeps less than the ε that it was given."""


class SmoothNoisyMax(SmoothSelection):
    """argmax u_r + (2S/α) Z_r with one-sided noise: ε = αL + β max(ν, c R_m).

    The proof is in `geoveil.selection.one_sided_theorem`. With `calibration="published"` it is
    [SNM Algorithm 1] with its two-sided noise, for reproduction. [SNM Theorem 4.2] is false: it
    changes the scale of one noise variable where all m change. The guarantee then is what is
    proved of it, (1 + m)/2 times the ε that was given.

    Args:
        epsilon: see `SelectionMechanism`.
        outcomes: m, the most outcomes there are to select from.
        noise: one-sided, exponential with a Pareto tail by default; for the published calibration
            two-sided, Student's t with ν = 3 by default.
        share: the part of ε in (0, 1) that pays for β, 1/2 by default. The published calibration
            knows no other.
        monotone: whether all utilities move the same way between any two neighbours.
        calibration: "proved" or "published".
        delta: δ in (0, 0.5] for the published calibration with Laplace or Laplace log-normal
            noise, else 0.

    Raises:
        ParameterError: if an argument is out of range.
        UnsupportedError: if nothing is proved of the noise.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> from geoveil.selection.scores import SmoothUtilities
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
        """Return the mechanism whose noise is least at a database that one plans for.

        Args:
            epsilon: see the class.
            outcomes: see the class.
            smooth_sensitivity: β ↦ S(β) > 0 of that database; public, for it sets the split.
            noise: see the class.
            monotone: see the class.

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

    @property
    def guarantee(self) -> Guarantee:
        """See `SelectionMechanism.guarantee`: what is proved, of either calibration."""
        published = self.calibration == "published"
        return Guarantee(
            epsilon=self._split.epsilon,
            delta=self.delta,
            statement=f"up to {self.outcomes} outcomes and a {self.beta:.6g}-smooth upper bound of"
            " the local sensitivity"
            + (", utilities moving in one direction" if self.monotone else "")
            + (f"; not the {self.epsilon:g} of [SNM Theorem 4.2]" if published else ""),
            source=self._source,
        )

    def _set_up_proved(self, noise: OneSidedNoise | Noise | None, share: float | None) -> None:
        if self.delta != 0:
            raise ParameterError("delta", self.delta, "0: one-sided noise needs none")
        self.noise = ExponentialPareto() if noise is None else noise
        if not isinstance(self.noise, OneSidedNoise):
            raise ParameterError("noise", noise, "one-sided noise, such as ExponentialPareto()")
        self._source = "[geoveil.selection.one_sided_theorem]"
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
        self._split = published_split(self.noise, self.epsilon, self.outcomes, self.delta)
        self._law = two_sided_law(self.noise)
        warnings.warn(
            f"SmoothNoisyMax as published is not proved to keep ε = {self.epsilon:g} for"
            f" {self.outcomes} outcomes, but ε = {self._split.epsilon:g}",
            PublishedCalibrationWarning,
            stacklevel=3,
        )
