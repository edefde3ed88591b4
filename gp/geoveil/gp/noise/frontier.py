"""The common part of noises made for a privacy frontier [MATH §4].

1/ψ is piecewise linear in u: level or falling up to the knee, where ψ = ε, then rising with the
slope 1/(1+a), a = ε/β.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, ArrayLike, np
from geoveil.gp.noise.base import Noise


@dataclass(frozen=True, slots=True)
class FrontierNoise(Noise):
    """A noise that exhausts, at every u, the frontier at ε and β."""

    epsilon: float
    beta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.positive("epsilon", self.epsilon))
        beta = validation.between("beta", self.beta, validation.LEAST, self.epsilon)
        object.__setattr__(self, "beta", beta)

    @property
    def _a(self) -> float:
        return self.epsilon / self.beta

    @property
    @abstractmethod
    def _exact_knee(self) -> Fraction:
        """The knee v, in the unit of Z."""

    @property
    def tail_exponent(self) -> float:
        return self._a

    @property
    def exact_scale_cost(self) -> Fraction:
        """The cost of a change of scale, ε/β, reached in the tail."""
        return Fraction(self.epsilon) / Fraction(self.beta)

    @property
    def max_score(self) -> float:
        return self.epsilon

    def least_quotient(self, constant: Fraction, factor: Fraction) -> Fraction:
        """Return the infimum of (constant + factor·uψ)/ψ: exact.

        constant/ψ + factor·u is piecewise linear, and does not fall beyond the knee.
        """
        start = constant / self._score_at_zero if self._score_at_zero else None
        knee = constant / Fraction(self.epsilon) + factor * self._exact_knee
        return knee if start is None else min(start, knee)

    @property
    @abstractmethod
    def _score_at_zero(self) -> Fraction:
        """ψ(0), at most ε."""


@dataclass(frozen=True, slots=True)
class LaplacePareto(FrontierNoise):
    """h ∝ e^{−ε|u|} for |u| ≤ u₁ = (1+a)/ε, then e^{−(1+a)} (|u|/u₁)^{−(1+a)}.

    Args:
        epsilon: ε > 0, the decay of the core.
        beta: β in (0, ε], the rate at which the scale may change. The mean of |Z| is finite for
            β < ε, the variance for β < ε/2.

    Example:
        >>> round(LaplacePareto(epsilon=1.0, beta=0.2).variance, 4)
        2.0535
    """

    epsilon: float = 1.0
    beta: float = 0.3

    @property
    def knee(self) -> float:
        """The point u₁ where the core ends."""
        return (1 + self._a) / self.epsilon

    @property
    def _exact_knee(self) -> Fraction:
        return (1 + self.exact_scale_cost) / Fraction(self.epsilon)

    @property
    def _score_at_zero(self) -> Fraction:
        return Fraction(self.epsilon)

    @property
    def _half_mass(self) -> float:
        """∫₀^∞ of the unnormalised density: (1 + e^{−t}/a)/ε, t = 1 + a."""
        return (1 + math.exp(-(1 + self._a)) / self._a) / self.epsilon

    def logpdf(self, z: ArrayLike) -> Array:
        u = np.abs(np.asarray(z, dtype=np.float64))
        t = 1 + self._a
        core = -self.epsilon * np.minimum(u, self.knee)
        tail = -t * np.log(np.maximum(u / self.knee, 1))
        return np.asarray(core + tail - math.log(2 * self._half_mass))

    def survival(self, u: ArrayLike) -> Array:
        u = np.asarray(u, dtype=np.float64)
        a, t = self._a, 1 + self._a
        tail = math.exp(-t) * self.knee / a * np.maximum(u / self.knee, 1) ** -a
        # Not cut off by a minimum: what rounding leaves of it at the knee outweighs a far tail.
        core = np.where(u < self.knee, np.exp(-self.epsilon * u) - math.exp(-t), 0.0) / self.epsilon
        return np.asarray((core + tail) / (2 * self._half_mass))

    @property
    def variance(self) -> float:
        a = self._a
        if a <= 2:
            return math.inf
        t = 1 + a
        decay = math.exp(-t)
        moment = 2 - decay * (2 + 2 * t + t * t) + decay * t**3 / (a - 2)
        return moment / (1 + decay / a) / self.epsilon**2

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        epsilon, a, decay, mass, knee_tail, p_knee = _pareto(self, ops, ops.precision)
        core = -ops.log(mass * ops.maximum(p, p_knee) - knee_tail + decay) / epsilon
        return core * ops.power(p_knee / ops.minimum(p, p_knee), 1 / a)


@lru_cache(maxsize=256)
def _pareto(noise: LaplacePareto, ops: Arithmetic, precision: int) -> tuple[Real, ...]:
    """Return the constants of a quantile: ε, a, and e^{−(1+a)}, mass and tail in units of 1/ε."""
    a = ops.constant(Fraction(noise.epsilon) / Fraction(noise.beta))
    decay = ops.exp(-(1 + a))
    mass = 2 * (1 + decay / a)
    knee_tail = decay * (1 + a) / a
    p_knee = ops.positive(knee_tail / mass)
    return ops.constant(noise.epsilon), a, decay, mass, knee_tail, p_knee


@dataclass(frozen=True, slots=True)
class PowerLaw(FrontierNoise):
    """h ∝ (1−β|u|)^{a−1} for |u| ≤ 1/ε, then k(1+β|u|)^{−(a+1)}, a = ε/β.

    k = (1−1/a)^{a−1} (1+1/a)^{a+1} makes h continuous. Moments and arguments as `LaplacePareto`.

    Example:
        >>> round(PowerLaw(epsilon=1.0, beta=0.1).variance, 4)
        2.8476
    """

    epsilon: float = 1.0
    beta: float = 0.15

    @property
    def _exact_knee(self) -> Fraction:
        return 1 / Fraction(self.epsilon)

    @property
    def _score_at_zero(self) -> Fraction:
        return Fraction(self.epsilon) - Fraction(self.beta)

    @property
    def _knee_density(self) -> float:
        """(1−1/a)^{a−1}, the unnormalised density at the knee; 1 for a = 1."""
        return math.exp(_x_log1p_y(self._a - 1, -1 / self._a))

    @property
    def _half_mass(self) -> float:
        """∫₀^∞ of the unnormalised density: (1 + (2/a)(1−1/a)^{a−1})/ε."""
        return (1 + 2 / self._a * self._knee_density) / self.epsilon

    def logpdf(self, z: ArrayLike) -> Array:
        a = self._a
        u = np.abs(np.asarray(z, dtype=np.float64))
        knee = 1 / self.epsilon
        inner = _x_log1p_y(a - 1, -self.beta * np.minimum(u, knee))
        tail = (a + 1) * (np.log1p(self.beta * np.maximum(u, knee)) - math.log1p(1 / a))
        return np.asarray(inner - tail - math.log(2 * self._half_mass))

    def survival(self, u: ArrayLike) -> Array:
        a = self._a
        u = np.asarray(u, dtype=np.float64)
        knee = 1 / self.epsilon
        with np.errstate(divide="ignore"):  # log 0 where the core is flat
            core = np.exp(a * np.log1p(-self.beta * np.minimum(u, knee)))
        core = np.where(u < knee, core - self._knee_density * (1 - 1 / a), 0.0)
        reach = np.log1p(self.beta * np.maximum(u, knee)) - math.log1p(1 / a)
        tail = self._knee_density * (1 + 1 / a) * np.exp(-a * reach)
        return np.asarray((core + tail) / self.epsilon / (2 * self._half_mass))

    @property
    def variance(self) -> float:
        a = self._a
        if a <= 2:
            return math.inf
        floor = self._knee_density * (1 - 1 / a)
        core = (2 - floor * (5 + 1 / a)) * a * a / ((a + 1) * (a + 2))
        tail = self._knee_density * (1 + 1 / a) * (5 - 1 / a) * a * a / ((a - 1) * (a - 2))
        return float((core + tail) / self.epsilon**3 / self._half_mass)

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        a, p_knee, knee, inner, outer, growth = _power(self, ops, ops.precision)
        above = p - p_knee
        within = ops.maximum(above, ops.constant(0))
        ratio = ops.maximum(p_knee / p, ops.constant(1))
        if self.epsilon == self.beta:  # h is constant up to the knee, and a = 1
            return knee - growth * within + outer * (ratio - 1)
        # A power as expm1 and log, which keep their accuracy for small β.
        stretch = ops.expm1(ops.log((1 + growth * within) * ratio) / a)
        beyond = -ops.sign(above)
        return knee + ops.maximum(beyond * inner, beyond * outer) * stretch


@lru_cache(maxsize=256)
def _power(noise: PowerLaw, ops: Arithmetic, precision: int) -> tuple[Real, ...]:
    """Return the constants of a quantile u of p: a, P[Z > 1/ε], and those of u.

    With s = (1 + growth·(p − p_knee))^{1/a} − 1 up to the knee, and (p_knee/p)^{1/a} − 1 beyond, u
    is knee − inner·s and knee + outer·s; for a = 1 knee − growth·(p − p_knee) up to the knee.
    """
    epsilon, beta = Fraction(noise.epsilon), Fraction(noise.beta)
    a, share = ops.constant(epsilon / beta), ops.constant(1 - beta / epsilon)
    flat = epsilon == beta
    knee_density = ops.constant(1) if flat else ops.exp((a - 1) * ops.log1p(-1 / a))
    mass = 2 * (1 + 2 / a * knee_density)
    p_knee = knee_density * (1 + 1 / a) / mass
    growth = mass / ops.constant(epsilon) if flat else mass / (knee_density * share)
    lengths = (1 / epsilon, 1 / beta - 1 / epsilon, 1 / beta + 1 / epsilon)
    return a, p_knee, *map(ops.constant, lengths), growth


def _x_log1p_y(x: float, y: Array | float) -> Array | float:
    """Return x·log(1+y), and 0 for x = 0."""
    return 0.0 * y if x == 0 else x * np.log1p(y)
