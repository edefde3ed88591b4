"""The best noise for the rectangle frontier: core and tail are both powers [MATH §4].

ψ(u) = (ε−β)/(1−βu) up to 1/ε and (ε+β)/(1+βu) beyond makes β|uψ−1| + ψ = ε at every u.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.noise.base import Array
from geoveil.gp.noise.frontier import FrontierNoise


@dataclass(frozen=True, slots=True)
class PowerLaw(FrontierNoise):
    """h ∝ (1−β|u|)^{a−1} for |u| ≤ 1/ε, then k(1+β|u|)^{−(a+1)}, a = ε/β.

    k = (1−1/a)^{a−1} (1+1/a)^{a+1} makes h continuous.

    Args:
        epsilon: ε > 0.
        beta: β in (0, ε], the rate at which the scale may change. The mean of |Z| is finite for
            β < ε, the variance for β < ε/2.

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
        """See `Noise.logpdf`."""
        a = self._a
        u = np.abs(np.asarray(z, dtype=np.float64))
        knee = 1 / self.epsilon
        inner = _x_log1p_y(a - 1, -self.beta * np.minimum(u, knee))
        tail = (a + 1) * (np.log1p(self.beta * np.maximum(u, knee)) - math.log1p(1 / a))
        return np.asarray(inner - tail - math.log(2 * self._half_mass))

    def survival(self, u: ArrayLike) -> Array:
        """See `Noise.survival`."""
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
        """See `Noise.variance`: the two pieces integrated in the variable 1 ∓ βu."""
        a = self._a
        if a <= 2:
            return math.inf
        floor = self._knee_density * (1 - 1 / a)
        core = (2 - floor * (5 + 1 / a)) * a * a / ((a + 1) * (a + 2))
        tail = self._knee_density * (1 + 1 / a) * (5 - 1 / a) * a * a / ((a - 1) * (a - 2))
        return float((core + tail) / self.epsilon**3 / self._half_mass)

    def _absolute_moment(self, order: float) -> float:
        """See `Noise.absolute_moment`: incomplete beta functions of the variable βu."""
        from scipy import special

        a, p = self._a, order
        core = special.betainc(p + 1, a, 1 / a) * special.beta(p + 1, a)
        tail = special.betainc(a - p, p + 1, 1 / (1 + 1 / a)) * special.beta(a - p, p + 1)
        tail *= self._knee_density * (1 + 1 / a) ** (a + 1)
        return float((core + tail) / self._half_mass / self.beta ** (p + 1))

    def score(self, u: ArrayLike) -> Array:
        """See `Noise.score`."""
        u = np.asarray(u, dtype=np.float64)
        knee = 1 / self.epsilon
        flat = self.epsilon == self.beta  # h is constant up to the knee, where 1 − βu is 0
        inner = (self.epsilon - self.beta) / (1 if flat else 1 - self.beta * np.minimum(u, knee))
        return np.where(u < knee, inner, (self.epsilon + self.beta) / (1 + self.beta * u))

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Noise.isf`: a power on either side of the knee, joined there."""
        epsilon = ops.constant(self.epsilon)
        beta = ops.constant(self.beta)
        ratio = Fraction(self.epsilon) / Fraction(self.beta)
        a = ops.constant(ratio)
        flat = ratio == 1  # h is constant up to the knee, where the core's survival is 0
        knee_density = ops.constant(1) if flat else ops.exp((a - 1) * ops.log1p(-1 / a))
        mass = 2 * (1 + 2 / a * knee_density)  # in units of 1/ε, as is all below
        p_knee = knee_density * (1 + 1 / a) / mass
        # (1−βu)^a of the core, from its value (1−1/a)^a at the knee.
        core = mass * (ops.maximum(p, p_knee) - p_knee) + knee_density * (1 - 1 / a)
        # Powers as expm1 and log, which keep their accuracy for small β.
        inner = 1 - core if flat else -ops.expm1(ops.log(core) / a)
        stretch = ops.expm1(ops.log(p_knee / ops.minimum(p, p_knee)) / a)
        return inner / beta + (1 / beta + 1 / epsilon) * stretch


def _x_log1p_y(x: float, y: Array | float) -> Array | float:
    """Return x·log(1+y), and 0 for x = 0."""
    return 0.0 * y if x == 0 else x * np.log1p(y)
