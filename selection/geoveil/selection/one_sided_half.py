"""The positive halves of heavy-tailed symmetric noise, |Z|: half Student-t, half Cauchy."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.exact.ball import BALL
from geoveil.gp.noise.base import Array
from geoveil.gp.privacy.rounding import round_up
from geoveil.selection.one_sided import OneSidedNoise
from geoveil.selection.one_sided_constants import hazard_bound, scale_cost_bound
from geoveil.selection.smooth_noise import HeavyGeneralizedCauchy, HeavyStudentT

Whole: TypeAlias = HeavyStudentT | HeavyGeneralizedCauchy


class HalfNoise(OneSidedNoise):
    """|Z| for a symmetric Z whose score ψ = −(ln f)' has t ψ ≤ 1 + ν.

    Then f(s) ≥ f(t) (t/s)^{1+ν} for s > t, and integrated F̄(t) ≥ t f(t)/ν: the tail index is ν.
    """

    @property
    @abstractmethod
    def whole(self) -> Whole:
        """Z."""

    @abstractmethod
    def score_ball(self, low: arb, high: arb) -> arb:
        """Enclose ψ over the interval from `low` ≥ 0 to `high`."""

    def logpdf(self, t: ArrayLike) -> Array:
        """See `OneSidedNoise.logpdf`."""
        t = np.asarray(t, dtype=np.float64)
        return np.where(t < 0, -math.inf, self.whole.logpdf(t) + math.log(2))

    def survival(self, t: ArrayLike) -> Array:
        """See `OneSidedNoise.survival`."""
        t = np.maximum(np.asarray(t, dtype=np.float64), 0)
        return np.asarray(2 * self.whole.survival(t))

    def quantile(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `OneSidedNoise.quantile`: |Z| > t half as often on either side."""
        return self.whole.isf((1 - p) / 2, ops)

    @property
    def tail_index(self) -> float:
        """See `OneSidedNoise.tail_index`."""
        return self.whole.tail_exponent

    @property
    def hazard(self) -> float:
        """See `OneSidedNoise.hazard`: certified, and within 1e-5 of it."""
        return _hazard(self)

    @property
    def log_cdf_scale_cost(self) -> float:
        """See `OneSidedNoise.log_cdf_scale_cost`: certified, and within 1e-5 of it."""
        return _log_cdf_scale_cost(self)

    def _isf(self, tail: Array) -> Array:
        return np.abs(self.whole.ppf(tail / 2))


@dataclass(frozen=True)
class HalfStudentT(HalfNoise):
    """|Z| for Student's t: f ∝ (1+t²/ν)^{−(ν+1)/2}.

    Args:
        nu: ν in [0.5, 20].

    Raises:
        ParameterError: if nu is out of range.

    Example:
        >>> round(HalfStudentT(1.0).log_cdf_scale_cost, 3)
        1.048
    """

    nu: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", validation.between("nu", self.nu, 0.5, 20))

    @property
    def whole(self) -> HeavyStudentT:
        """See `HalfNoise.whole`."""
        return HeavyStudentT(self.nu)

    def score_ball(self, low: arb, high: arb) -> arb:
        """See `HalfNoise.score_ball`."""
        nu, t = BALL.constant(self.nu), low.union(high)
        return (nu + 1) * t / (nu + t * t)


@dataclass(frozen=True)
class HalfGeneralizedCauchy(HalfNoise):
    """|Z| for the generalized Cauchy: f ∝ 1/(1+t^γ).

    Args:
        gamma: γ in [1.5, 21]; the tail index is γ − 1.

    Raises:
        ParameterError: if gamma is out of range.

    Example:
        >>> round(HalfGeneralizedCauchy(3.0).log_cdf_scale_cost / 2, 3)
        1.004
    """

    gamma: float = 4.0

    def __post_init__(self) -> None:
        gamma = validation.between("gamma", self.gamma, 1.5, 21)
        object.__setattr__(self, "gamma", gamma)

    @property
    def whole(self) -> HeavyGeneralizedCauchy:
        """See `HalfNoise.whole`."""
        return HeavyGeneralizedCauchy(self.gamma)

    def score_ball(self, low: arb, high: arb) -> arb:
        """See `HalfNoise.score_ball`."""
        gamma = BALL.constant(self.gamma)
        power = (low ** (gamma - 1)).union(high ** (gamma - 1))
        return gamma * power / (1 + (low**gamma).union(high**gamma))


@lru_cache(maxsize=256)
def _hazard(noise: HalfNoise) -> float:
    return round_up(hazard_bound(noise.whole, noise.score_ball))


@lru_cache(maxsize=256)
def _log_cdf_scale_cost(noise: HalfNoise) -> float:
    return round_up(scale_cost_bound(noise.whole, noise.score_ball))
