"""The best noise for the cross frontier: a Laplace core with a Pareto tail [MATH §4].

ψ(u) = min(ε, (1+a)/u), a = ε/β, meets the constraint of the frontier with equality at every u, so h
decays as fast as is allowed and every moment is least among symmetric unimodal noises.
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
        """u₁, where the core ends."""
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
        """See `Noise.logpdf`."""
        u = np.abs(np.asarray(z, dtype=np.float64))
        t = 1 + self._a
        core = -self.epsilon * np.minimum(u, self.knee)
        tail = -t * np.log(np.maximum(u / self.knee, 1))
        return np.asarray(core + tail - math.log(2 * self._half_mass))

    def survival(self, u: ArrayLike) -> Array:
        """See `Noise.survival`."""
        u = np.asarray(u, dtype=np.float64)
        a, t = self._a, 1 + self._a
        tail = math.exp(-t) * self.knee / a * np.maximum(u / self.knee, 1) ** -a
        core = (np.exp(-self.epsilon * np.minimum(u, self.knee)) - math.exp(-t)) / self.epsilon
        return np.asarray((core + tail) / (2 * self._half_mass))

    @property
    def variance(self) -> float:
        """See `Noise.variance`."""
        a = self._a
        if a <= 2:
            return math.inf
        t = 1 + a
        decay = math.exp(-t)
        moment = 2 - decay * (2 + 2 * t + t * t) + decay * t**3 / (a - 2)
        return moment / (1 + decay / a) / self.epsilon**2

    def _absolute_moment(self, order: float) -> float:
        """See `Noise.absolute_moment`: an incomplete gamma function and a power."""
        from scipy import special

        a, t = self._a, 1 + self._a
        core = special.gammainc(order + 1, t) * math.exp(math.lgamma(order + 1))
        tail = math.exp(-t + (order + 1) * math.log(t)) / (a - order)
        mass = self._half_mass * self.epsilon
        return float((core + tail) / mass / self.epsilon**order)

    def score(self, u: ArrayLike) -> Array:
        """See `Noise.score`."""
        return np.minimum(self.epsilon, (1 + self._a) / np.asarray(u, dtype=np.float64))

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Noise.isf`: a logarithm in the core, a power in the tail."""
        epsilon = ops.constant(self.epsilon)
        a = ops.constant(Fraction(self.epsilon) / Fraction(self.beta))
        decay = ops.exp(-(1 + a))
        mass = 2 * (1 + decay / a)  # in units of 1/ε, as is all below
        knee_tail = decay * (1 + a) / a
        p_knee = ops.positive(knee_tail / mass)
        core = -ops.log(mass * ops.maximum(p, p_knee) - knee_tail + decay) / epsilon
        return core * ops.power(p_knee / ops.minimum(p, p_knee), 1 / a)
