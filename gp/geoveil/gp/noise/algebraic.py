"""Noises with the score ψ = c·t^p·(1−t)^q, p + q = 1, and uψ = kt, for some t(u) in (0, 1).

For n > 0 and n + km > 0, (n + m·uψ)/ψ grows without bound at both ends. Its slope is 0 at one t,
pn/(pn + q(n + km)), as the squares of t cancel in mk/(n + mkt) = (p − t)/(t(1−t)). The infimum
there is n^q (n + km)^p/(c·p^p·q^q). With n = 1 and m = 0 it is 1/sup ψ.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

from flint import arb

from geoveil.gp import validation
from geoveil.gp.arithmetic import TINY
from geoveil.gp.arrays import Array, ArrayLike, np
from geoveil.gp.exact import BALL, BITS, round_up, settled_down, upper, working_precision
from geoveil.gp.noise.inversion import InvertedNoise

_NORMAL = NormalDist()
_FAR_TAIL = 1e-12
"""Tail probability below which quantiles are refined from their first order, as SciPy fails."""
_NEAR = 1e-3
"""Largest probability between median and quantile for which the quantile is nearly that over
h(0)."""
_LEVEL = 1e-20
"""The u^γ below which float64 can't tell the density from h(0)."""


class AlgebraicNoise(InvertedNoise):
    """A family with such a score, released by inverting its distribution function."""

    in_the_paper: ClassVar[bool] = True

    @property
    @abstractmethod
    def _steepness(self) -> Fraction:
        """The limit k > 1 of uψ in the tail."""

    @property
    @abstractmethod
    def _share(self) -> Fraction:
        """The exponent q of 1 − t in the score."""

    @abstractmethod
    def _ball_max_score(self) -> arb:
        """Enclose sup ψ = c·p^p·q^q."""

    @property
    def exact_scale_cost(self) -> Fraction:
        """The cost of a change of scale: k − 1 in the tail, 1 at the centre."""
        return max(self._steepness - 1, Fraction(1))

    @property
    def max_score(self) -> float:
        with working_precision(BITS):
            return round_up(upper(self._ball_max_score()))

    def least_quotient(self, constant: Fraction, factor: Fraction) -> Fraction:
        """Return the infimum of (constant + factor·uψ)/ψ: in closed form, as a double below it."""
        return _least_quotient(self, constant, factor)

    @property
    @abstractmethod
    def _log_height(self) -> float:
        """Logarithm of lim u^a·survival(u), a the tail exponent."""

    def _far_survival(self, u: Array) -> Array:
        """Return the first order of survival, to which it tends."""
        return np.asarray(np.exp(self._log_height - self.tail_exponent * np.log(u)))

    def _tail_isf(self, tail: Array) -> Array:
        """Return the u whose first order of survival is `tail`."""
        return np.asarray(np.exp((self._log_height - np.log(tail)) / self.tail_exponent))

    def _with_far_tail(self, p: Array, middle: Array) -> Array:
        """Return the quantile: sign·middle, or in the far tails a refined first-order value."""
        tail = np.minimum(p, 1 - p)
        far = tail < _FAR_TAIL
        if far.any():
            log_tail = np.log(tail[far])
            log_u = np.log(self._tail_isf(tail[far]))
            for _ in range(4):  # Newton on log survival as a function of log u
                u = np.exp(log_u)
                log_survival = np.log(self.survival(u))
                hazard = np.exp(log_u + self.logpdf(u) - log_survival)
                log_u += (log_survival - log_tail) / hazard
            middle = np.array(middle)
            middle[far] = np.exp(log_u)
        return np.asarray(np.sign(p - 0.5) * middle)


@lru_cache(maxsize=64)
def _least_quotient(noise: AlgebraicNoise, constant: Fraction, factor: Fraction) -> Fraction:
    end = constant + noise._steepness * factor
    if min(constant, end) <= 0:
        return Fraction(0)
    with working_precision(BITS):
        q = BALL.constant(noise._share)
        mean = BALL.constant(constant) ** q * BALL.constant(end) ** (1 - q)
        return Fraction(settled_down(mean / noise._ball_max_score()))


@lru_cache(maxsize=64)
def _guessing(noise: AlgebraicNoise) -> tuple[float, float]:
    """Return h(0), and the first-order tail extrapolated to the median."""
    return float(noise.pdf(0.0)), float(noise._tail_isf(np.array(0.5)))


@dataclass(frozen=True, slots=True)
class StudentT(AlgebraicNoise):
    """The noise of the seed paper's experiments, with ν = 3 [SGP Lemma 3.5].

    With w = u²/(ν+u²) the score is (ν+1)·√(w(1−w)/ν), and uψ = (ν+1)w.

    Args:
        nu: degrees of freedom ν in (2, 100]; above 2 the variance is finite.

    Example:
        >>> StudentT(3).variance
        3.0
    """

    nu: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", validation.between("nu", self.nu, 2, 100, low_open=True))

    def logpdf(self, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=np.float64)
        nu = self.nu
        norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2
        # hypot instead of a square, which would overflow.
        return np.asarray(norm - (nu + 1) * np.log(np.hypot(1, z / math.sqrt(nu))))

    def survival(self, u: ArrayLike) -> Array:
        from scipy import special

        u = np.asarray(u, dtype=np.float64)
        # Beyond, the first order is exact to double precision, and SciPy underflows.
        limit = 1e9 * self.nu
        middle = special.stdtr(self.nu, -np.minimum(u, limit))
        return np.where(u > limit, self._far_survival(np.maximum(u, limit)), middle)

    @property
    def _log_height(self) -> float:
        """Return log(h(0)·ν^{(ν−1)/2})."""
        return float(self.logpdf(0.0)) + (self.nu - 1) / 2 * math.log(self.nu)

    def _ppf(self, p: Array) -> Array:
        from scipy import special

        middle = special.stdtrit(self.nu, np.clip(p, _FAR_TAIL, 1 - _FAR_TAIL))
        return self._with_far_tail(p, np.abs(middle))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Array:
        return np.asarray(rng.standard_t(self.nu, size))

    @property
    def variance(self) -> float:
        return self.nu / (self.nu - 2)

    @property
    def tail_exponent(self) -> float:
        return self.nu

    @property
    def _steepness(self) -> Fraction:
        return Fraction(self.nu) + 1

    @property
    def _share(self) -> Fraction:
        return Fraction(1, 2)

    def _ball_max_score(self) -> arb:
        nu = BALL.constant(self.nu)
        return (nu + 1) / (2 * nu.sqrt())

    def ball_tail(self, u: arb) -> arb:
        """Enclose P[Z > u]: ½ I(ν/2, ½) at ν/(ν+u²)."""
        nu = BALL.constant(self.nu)
        return (nu / (nu + u * u)).beta_lower(nu / 2, BALL.constant(0.5), True) / 2

    def ball_center(self, u: arb) -> arb:
        """Enclose P[0 < Z < u]: ½ I(½, ν/2) at u²/(ν+u²)."""
        nu = BALL.constant(self.nu)
        return (u * u / (nu + u * u)).beta_lower(BALL.constant(0.5), nu / 2, True) / 2

    def _swing(self, u: float) -> tuple[float, float]:
        share = 1 / (1 + self.nu / u / u)
        return (self.nu + 1) * share, 2 * (self.nu + 1) * share * (1 - share)

    def _guess(self, tail: float, center: float) -> float:
        """Two terms of the tail; next to the centre one of a normal quantile, within 3 %.

        [Gaver and Kafadar, The American Statistician 38 (1984) 308]
        """
        nu, (density, at_half) = self.nu, _guessing(self)
        if center < _NEAR:
            return center / density
        square = at_half * at_half * (2 * tail) ** (-2 / nu)
        offset = nu * (nu + 1) / (nu + 2)
        if offset < 0.2 * square or nu < 1:  # where the other one is none
            return math.sqrt(max(square - offset, square / 4))
        normal = _NORMAL.inv_cdf(tail)
        share = (nu - 5 / 6) / (nu - 2 / 3 + 0.1 / nu) ** 2
        return math.sqrt(nu * math.expm1(share * normal * normal))

    def ball_density(self, u: arb) -> arb:
        nu = BALL.constant(self.nu)
        norm, exponent = _density_of_student(self.nu, BALL.precision)
        return norm * (1 + u * u / nu) ** exponent


@lru_cache(maxsize=64)
def _density_of_student(nu: float, precision: int) -> tuple[arb, arb]:
    """Return h(0) and −(ν + 1)/2 at the working precision, `precision`, which keys the cache."""
    ball = BALL.constant(nu)
    norm = ((ball + 1) / 2).gamma() / ((ball / 2).gamma() * (ball * arb.pi()).sqrt())
    return norm, -(ball + 1) / 2


@dataclass(frozen=True, slots=True)
class GeneralizedCauchy(AlgebraicNoise):
    """The noise of smooth sensitivity as first published [SGP Lemma 3.3, App. C.1].

    With w = u^γ/(1+u^γ) the score is γ·w^{1−1/γ}·(1−w)^{1/γ}, and uψ = γw.

    Args:
        gamma: γ in (3, 101]; above 3 the variance is finite.

    Example:
        >>> round(GeneralizedCauchy(4).variance, 12)
        1.0
    """

    gamma: float = 4.0

    def __post_init__(self) -> None:
        gamma = validation.between("gamma", self.gamma, 3, 101, low_open=True)
        object.__setattr__(self, "gamma", gamma)

    def logpdf(self, z: ArrayLike) -> Array:
        """Return log h(z): the half-mass is (π/γ)/sin(π/γ)."""
        u = np.abs(np.asarray(z, dtype=np.float64))
        # log(1 + u^γ) without overflow.
        log_power = self.gamma * np.log(np.maximum(u, TINY))
        return np.asarray(-np.logaddexp(0, log_power) - math.log(self._mass))

    def _shares(self, u: Array) -> tuple[Array, Array]:
        """Return w = u^γ/(1+u^γ) and 1 − w, each accurate in relative terms."""
        log_power = self.gamma * np.log(np.maximum(u, TINY))
        return np.exp(-np.logaddexp(0, -log_power)), np.exp(-np.logaddexp(0, log_power))

    def survival(self, u: ArrayLike) -> Array:
        """Return P[Z > u]: ½ I_{1−w}(1 − 1/γ, 1/γ) = ½ − ½ I_w(1/γ, 1 − 1/γ)."""
        from scipy import special

        u = np.asarray(u, dtype=np.float64)
        k = 1 / self.gamma
        near, far = self._shares(u)
        # Where h is level u^γ may underflow.
        center = np.where(near < _LEVEL, u / self._mass, special.betainc(k, 1 - k, near) / 2)
        outer = special.betainc(1 - k, k, np.maximum(far, 1e-30)) / 2
        # Beyond, the first order is exact to double precision, and SciPy underflows.
        beyond = np.where(far < 1e-30, self._far_survival(np.maximum(u, 1.0)), outer)
        return np.where(u < 1, 0.5 - center, beyond)

    @property
    def _mass(self) -> float:
        angle = math.pi / self.gamma
        return 2 * angle / math.sin(angle)

    @property
    def _log_height(self) -> float:
        return -math.log((self.gamma - 1) * self._mass)

    def _ppf(self, p: Array) -> Array:
        """Return the quantile: the inverse of the incomplete beta function, from the nearer end."""
        from scipy import special

        k, apart = 1 / self.gamma, np.abs(2 * p - 1)
        inner = apart < special.betainc(k, 1 - k, 0.5)
        near, far = (np.full(np.shape(p), 0.5) for _ in range(2))
        special.betaincinv(k, 1 - k, apart, where=inner, out=near)
        tail = np.clip(2 * np.minimum(p, 1 - p), _FAR_TAIL, 1)
        special.betaincinv(1 - k, k, tail, where=~inner, out=far)
        ratio = np.where(inner, near / (1 - near), (1 - far) / far)
        middle = np.where(near < _LEVEL, np.abs(p - 0.5) * self._mass, ratio**k)
        return self._with_far_tail(p, middle)

    @property
    def variance(self) -> float:
        angle = math.pi / self.gamma
        return math.sin(angle) / math.sin(min(3.0, self.gamma - 3) * angle)

    @property
    def tail_exponent(self) -> float:
        return self.gamma - 1

    @property
    def _steepness(self) -> Fraction:
        return Fraction(self.gamma)

    @property
    def _share(self) -> Fraction:
        return 1 / Fraction(self.gamma)

    def _ball_max_score(self) -> arb:
        gamma = BALL.constant(self.gamma)
        return (gamma - 1) ** (1 - 1 / gamma)

    def ball_tail(self, u: arb) -> arb:
        if u < 1:  # 1/(1 + u^γ) is next to 1, and would lose what u^γ has
            return BALL.constant(0.5) - self.ball_center(u)
        k = 1 / BALL.constant(self.gamma)
        far = 1 / (1 + u ** BALL.constant(self.gamma))
        return far.beta_lower(1 - k, k, True) / 2

    def ball_center(self, u: arb) -> arb:
        """Enclose P[0 < Z < u]: ½ I(1/γ, 1 − 1/γ) at u^γ/(1+u^γ)."""
        k = 1 / BALL.constant(self.gamma)
        power = u ** BALL.constant(self.gamma)
        return (power / (1 + power)).beta_lower(k, 1 - k, True) / 2

    def _swing(self, u: float) -> tuple[float, float]:
        share = 1 / (1 + math.exp(min(-self.gamma * math.log(u), 700.0)))
        return self.gamma * share, self.gamma**2 * share * (1 - share)

    def _guess(self, tail: float, center: float) -> float:
        """c·q^{−a} + c₁q + c₂q² + c₃q³, q = 2·tail, with the c and a of the tail, within 2 %.

        At q = 1 value, slope and second derivative are those of u(q).
        """
        density, height = _guessing(self)
        if center < _NEAR:
            return center / density
        a, q = 1 / self.tail_exponent, 2 * tail
        # c₁ + c₂ + c₃ = −c, c₁ + 2c₂ + 3c₃ = ac − 1/(2h(0)), 2c₂ + 6c₃ = −a(a + 1)c
        rest = a * height - 0.5 / density + height
        third = -a * (a + 1) * height / 2 - rest
        second = rest - 2 * third
        first = -height - second - third
        return float(height * q**-a + q * (first + q * (second + q * third)))

    def ball_density(self, u: arb) -> arb:
        k = 1 / BALL.constant(self.gamma)
        return k.sin_pi() / (2 * k * arb.pi()) / (1 + u ** BALL.constant(self.gamma))
