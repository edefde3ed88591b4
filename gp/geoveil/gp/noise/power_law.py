"""The best noise for the rectangle frontier: core and tail are both powers [MATH §4].

ψ(u) = (ε−β)/(1−βu) up to 1/ε and (ε+β)/(1+βu) beyond makes β|uψ−1| + ψ = ε at every u.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.noise.base import Array
from geoveil.gp.noise.tuned import TunedNoise
from geoveil.gp.smooth.frontier import Frontier


@dataclass(frozen=True, slots=True)
class PowerLaw(TunedNoise):
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

    frontier: ClassVar[Frontier] = Frontier.RECTANGLE

    @property
    def _knee_density(self) -> float:
        """(1−1/a)^{a−1}, the unnormalised density at the knee; 1 for a = 1."""
        return math.exp(_x_log_y(self._a - 1, 1 - 1 / self._a))

    @property
    def _half_mass(self) -> float:
        """∫₀^∞ of the unnormalised density: (1 + (2/a)(1−1/a)^{a−1})/ε."""
        return (1 + 2 / self._a * self._knee_density) / self.epsilon

    def logpdf(self, z: ArrayLike) -> Array:
        """See `Noise.logpdf`."""
        a = self._a
        u = np.abs(np.asarray(z, dtype=np.float64))
        knee = 1 / self.epsilon
        inner = _x_log_y(a - 1, 1 - self.beta * np.minimum(u, knee))
        tail = (a + 1) * (np.log1p(self.beta * np.maximum(u, knee)) - math.log1p(1 / a))
        return np.asarray(inner - tail - math.log(2 * self._half_mass))

    def survival(self, u: ArrayLike) -> Array:
        """See `Noise.survival`."""
        a = self._a
        u = np.asarray(u, dtype=np.float64)
        knee = 1 / self.epsilon
        core = (1 - self.beta * np.minimum(u, knee)) ** a - (1 - 1 / a) ** a
        reach = (1 + self.beta * np.maximum(u, knee)) / (1 + 1 / a)
        tail = self._knee_density * (1 + 1 / a) * reach**-a
        return np.asarray((core + tail) / self.epsilon / (2 * self._half_mass))

    @property
    def variance(self) -> float:
        """See `Noise.variance`: the two pieces integrated in the variable 1 ∓ βu."""
        a = self._a
        if a <= 2:
            return math.inf
        floor = (1 - 1 / a) ** a
        core = (2 - floor * (5 + 1 / a)) * a * a / ((a + 1) * (a + 2))
        tail = self._knee_density * (1 + 1 / a) * (5 - 1 / a) * a * a / ((a - 1) * (a - 2))
        return float((core + tail) / self.epsilon**3 / self._half_mass)

    def score(self, u: ArrayLike) -> Array:
        """See `Noise.score`."""
        u = np.asarray(u, dtype=np.float64)
        knee = 1 / self.epsilon
        flat = self.epsilon == self.beta  # h is constant up to the knee, where 1 − βu is 0
        inner = (self.epsilon - self.beta) / (1 if flat else 1 - self.beta * np.minimum(u, knee))
        return np.where(u < knee, inner, (self.epsilon + self.beta) / (1 + self.beta * u))

    def magnitude(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Noise.magnitude`: a power on either side of the knee, joined there."""
        epsilon = ops.constant(self.epsilon)
        beta = ops.constant(self.beta)
        ratio = Fraction(self.epsilon) / Fraction(self.beta)
        a = ops.constant(ratio)
        if ratio == 1:  # the core is flat: h ∝ 1 up to 1/ε
            knee_density, core_floor = ops.constant(1), ops.constant(0)
        else:
            knee_density = ops.power(1 - 1 / a, a - 1)
            core_floor = knee_density * (1 - 1 / a)
        mass = 2 * (1 + 2 / a * knee_density)  # in units of 1/ε, as is all below
        knee_tail = knee_density * (1 + 1 / a)
        p_knee = knee_tail / mass
        core = mass * ops.maximum(p, p_knee) - knee_tail + core_floor
        inner = (1 - _root(ops, core, a, ratio)) / beta
        stretch = ops.power(p_knee / ops.minimum(p, p_knee), 1 / a)
        return inner + (1 / beta + 1 / epsilon) * (stretch - 1)


def _root(ops: Arithmetic, base: Real, a: Real, ratio: Fraction) -> Real:
    """Return base^{1/a}; base may be 0 only for a = 1, where it is base itself."""
    return base if ratio == 1 else ops.power(base, 1 / a)


def _x_log_y(x: float, y: Array | float) -> Array | float:
    """Return x·log y, and 0 for x = 0."""
    return 0.0 * y if x == 0 else x * np.log(y)
