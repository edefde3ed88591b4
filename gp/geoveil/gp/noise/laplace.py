"""Laplace noise: h ∝ e^{−|z|/b}."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.noise.base import Array, Noise
from geoveil.gp.privacy.rounding import round_up


@dataclass(frozen=True, slots=True)
class Laplace(Noise):
    """Double exponential noise.

    Args:
        scale: b > 0, the mean of |Z|.

    Example:
        >>> Laplace(2.0).variance
        8.0
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", validation.positive("scale", self.scale))

    def logpdf(self, z: ArrayLike) -> Array:
        return np.asarray(-np.abs(np.asarray(z)) / self.scale - math.log(2 * self.scale))

    def survival(self, u: ArrayLike) -> Array:
        return np.asarray(np.exp(-np.asarray(u) / self.scale) / 2)

    @property
    def variance(self) -> float:
        return 2 * self.scale**2

    def _absolute_moment(self, order: float) -> float:
        """Return E|Z|^p: b^p Γ(p+1)."""
        return math.exp(order * math.log(self.scale) + math.lgamma(order + 1))

    def score(self, u: ArrayLike) -> Array:
        """Return the score ψ(u): constant."""
        return np.full(np.shape(u), 1 / self.scale)

    @property
    def exact_scale_cost(self) -> None:
        """The cost of a change of scale: uψ grows without bound."""

    @property
    def max_score(self) -> float:
        return round_up(1 / Fraction(self.scale))

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return the u with P[Z > u] = p: −b log 2p."""
        return -ops.log(2 * p) * ops.constant(self.scale)
