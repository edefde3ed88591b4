"""Generalized Cauchy noise: h ∝ 1/(1+|z|^γ) [NRS07; SGP Lemma 3.3; SPS Theorem 6 for γ ≥ 2]."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from geoveil.gp import validation
from geoveil.gp.arithmetic import TINY
from geoveil.gp.exact.ball import BALL
from geoveil.gp.noise.algebraic import AlgebraicNoise
from geoveil.gp.noise.base import FAR_TAIL, Array

_LEVEL = 1e-20
"""Where u^γ is less, float64 can't tell the density from h(0)."""


@dataclass(frozen=True, slots=True)
class GeneralizedCauchy(AlgebraicNoise):
    """The noise of smooth sensitivity as first published.

    With w = u^γ/(1+u^γ) the score is γ·w^{1−1/γ}·(1−w)^{1/γ}, and uψ = γw.

    Args:
        gamma: γ in (3, 101]; above 3 the variance is finite.

    Raises:
        ParameterError: if gamma is out of range.

    Example:
        >>> round(GeneralizedCauchy(4).variance, 12)
        1.0
    """

    gamma: float = 4.0

    def __post_init__(self) -> None:
        gamma = validation.between("gamma", self.gamma, 3, 101, low_open=True)
        object.__setattr__(self, "gamma", gamma)

    def logpdf(self, z: ArrayLike) -> Array:
        """See `Noise.logpdf`: the half-mass is (π/γ)/sin(π/γ)."""
        u = np.abs(np.asarray(z, dtype=np.float64))
        # log(1 + u^γ) without overflow.
        log_power = self.gamma * np.log(np.maximum(u, TINY))
        return np.asarray(-np.logaddexp(0, log_power) - math.log(self._mass))

    def _shares(self, u: Array) -> tuple[Array, Array]:
        """Return w = u^γ/(1+u^γ) and 1 − w, each accurate in relative terms."""
        log_power = self.gamma * np.log(np.maximum(u, TINY))
        return np.exp(-np.logaddexp(0, -log_power)), np.exp(-np.logaddexp(0, log_power))

    def survival(self, u: ArrayLike) -> Array:
        """See `Noise.survival`: ½ I_{1−w}(1 − 1/γ, 1/γ) = ½ − ½ I_w(1/γ, 1 − 1/γ)."""
        from scipy import special

        u = np.asarray(u, dtype=np.float64)
        k = 1 / self.gamma
        near, far = self._shares(u)
        # Where h is level u^γ may underflow.
        center = np.where(near < _LEVEL, u / self._mass, special.betainc(k, 1 - k, near) / 2)
        outer = special.betainc(1 - k, k, np.maximum(far, 1e-30)) / 2
        # Beyond, the first order is exact to double precision, and SciPy underflows.
        return np.where(u < 1, 0.5 - center, np.where(far < 1e-30, self._far_survival(u), outer))

    @property
    def _mass(self) -> float:
        angle = math.pi / self.gamma
        return 2 * angle / math.sin(angle)

    def _far_survival(self, u: Array) -> Array:
        """Return u^{1−γ}/((γ−1)·mass), to which survival tends."""
        log_power = (1 - self.gamma) * np.log(np.maximum(u, 1.0))
        return np.asarray(np.exp(log_power) / ((self.gamma - 1) * self._mass))

    def _tail_isf(self, tail: Array) -> Array:
        """See `Noise._tail_isf`."""
        return np.asarray((tail * self._mass * (self.gamma - 1)) ** (-1 / (self.gamma - 1)))

    def _ppf(self, p: Array) -> Array:
        """See `Noise._ppf`: the inverse of the incomplete beta function, from the nearer end."""
        from scipy import special

        k = 1 / self.gamma
        near = special.betaincinv(k, 1 - k, np.abs(2 * p - 1))
        far = special.betaincinv(1 - k, k, np.clip(2 * np.minimum(p, 1 - p), FAR_TAIL, 1))
        with np.errstate(divide="ignore"):  # each end is computed where the other one is taken
            ratio = np.where(near < 0.5, near / (1 - near), (1 - far) / far)
        middle = np.where(near < _LEVEL, np.abs(p - 0.5) * self._mass, ratio**k)
        return self._with_far_tail(p, middle)

    @property
    def variance(self) -> float:
        """See `Noise.variance`."""
        return self.absolute_moment(2)

    @property
    def tail_exponent(self) -> float:
        """See `Noise.tail_exponent`: γ − 1."""
        return self.gamma - 1

    def _absolute_moment(self, order: float) -> float:
        """See `Noise.absolute_moment`: sin(π/γ)/sin((p+1)π/γ), the latter the sine of the rest."""
        angle = math.pi / self.gamma
        rest = self.tail_exponent - order  # exact where it is small
        return math.sin(angle) / math.sin(min(order + 1, rest) * angle)

    def score(self, u: ArrayLike) -> Array:
        """See `Noise.score`: γw/u with w = u^γ/(1+u^γ)."""
        u = np.asarray(u, dtype=np.float64)
        return np.asarray(self.gamma * self._shares(u)[0] / u)

    @property
    def _steepness(self) -> Fraction:
        return Fraction(self.gamma)

    @property
    def _share(self) -> Fraction:
        return 1 / Fraction(self.gamma)

    def _ball_max_score(self) -> arb:
        """See `AlgebraicNoise`: (γ−1)^{1−1/γ}."""
        gamma = BALL.constant(self.gamma)
        return (gamma - 1) ** (1 - 1 / gamma)

    def ball_tail(self, u: arb) -> arb:
        """See `InvertedNoise.ball_tail`: as `survival`."""
        if u < 1:  # 1/(1 + u^γ) is next to 1, and would lose what u^γ has
            return BALL.constant(0.5) - self.ball_center(u)
        k = 1 / BALL.constant(self.gamma)
        far = 1 / (1 + u ** BALL.constant(self.gamma))
        return far.beta_lower(1 - k, k, True) / 2

    def ball_center(self, u: arb) -> arb:
        """See `InvertedNoise.ball_center`: ½ I(1/γ, 1 − 1/γ) at u^γ/(1+u^γ)."""
        k = 1 / BALL.constant(self.gamma)
        power = u ** BALL.constant(self.gamma)
        return (power / (1 + power)).beta_lower(k, 1 - k, True) / 2

    def ball_density(self, u: arb) -> arb:
        """See `InvertedNoise.ball_density`."""
        k = 1 / BALL.constant(self.gamma)
        return k.sin_pi() / (2 * k * arb.pi()) / (1 + u ** BALL.constant(self.gamma))
