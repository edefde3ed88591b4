"""The contract of a noise family, a symmetric density h that decreases away from 0, and Laplace's.

A family writes a closed-form quantile once, as its inverse survival function against `Arithmetic`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, ArrayLike, np
from geoveil.gp.exact import round_up


class Noise(ABC):
    """A standard noise variable Z; mechanisms scale it. Arrays keep their shape."""

    @abstractmethod
    def logpdf(self, z: ArrayLike) -> Array:
        """Return log h(z)."""

    @abstractmethod
    def survival(self, u: ArrayLike) -> Array:
        """Return P[Z > u] for u ≥ 0, accurate in relative terms."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """E[Z²]; infinite if the tail is too heavy."""

    @property
    def tail_exponent(self) -> float:
        """The order at and beyond which E|Z|^order is infinite."""
        return math.inf

    @property
    def has_mean(self) -> bool:
        """Whether E|Z| is finite; the mean then is 0."""
        return self.tail_exponent > 1

    # What calibration needs: ψ(u) = −(log h)'(u) for u > 0, in 1/(unit of Z) [MATH §3].

    @property
    @abstractmethod
    def exact_scale_cost(self) -> Fraction | None:
        """Supremum of |uψ(u) − 1| ≥ 1: the cost of a change of scale; None if unbounded."""

    @property
    def scale_cost(self) -> float:
        """The exact scale cost, rounded up; infinite if unbounded."""
        exact = self.exact_scale_cost
        return math.inf if exact is None else round_up(exact)

    @property
    @abstractmethod
    def max_score(self) -> float:
        """Supremum of ψ(u), rounded up, the cost of a shift, in 1/(unit of Z)."""

    def least_quotient(self, constant: Fraction, factor: Fraction) -> Fraction:
        """Return the infimum over u > 0 of (constant + factor·uψ(u))/ψ(u), rounded down.

        The constant is ≥ 0 and the numerator never negative. The default is a bound from the two
        suprema.
        """
        swing = self.exact_scale_cost
        worst = constant if swing is None else constant + min(factor, Fraction(0)) * (1 + swing)
        return worst / Fraction(self.max_score)

    @property
    def coarse_bits(self) -> int | None:
        """Precision of a first attempt at a release; None if an attempt would not be faster."""
        return None

    in_the_paper: ClassVar[bool] = False
    """Whether the seed paper calibrates the family, by two separate suprema."""

    @abstractmethod
    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return the u ≥ 0 with P[Z > u] = p, for p in (0, 1/2]."""

    def quantile(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return z with P[Z ≤ z] = p in the arithmetic at hand, for p in (0, 1)."""
        half = ops.constant(0.5)
        tail = ops.minimum(p, 1 - p)
        return ops.sign(p - half) * self.isf(tail, ops)

    def pdf(self, z: ArrayLike) -> Array:
        """Return h(z)."""
        return np.exp(self.logpdf(z))

    def cdf(self, z: ArrayLike) -> Array:
        """Return P[Z ≤ z]."""
        z = np.asarray(z, dtype=np.float64)
        tail = self.survival(np.abs(z))
        return np.where(z > 0, 1 - tail, tail)

    def ppf(self, p: ArrayLike) -> Array:
        """Return the quantile at p; NaN outside [0, 1], ±∞ at its ends."""
        p = np.asarray(p, dtype=np.float64)
        inside = (p > 0) & (p < 1)
        z = self._ppf(np.where(inside, p, 0.5))
        edge = np.where(p == 0, -math.inf, np.where(p == 1, math.inf, math.nan))
        return np.where(inside, z, edge)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Array:
        """Return float64 draws. Not private on a computer: for simulation only [MATH §10]."""
        return np.asarray(self._ppf(1 - rng.random(size)))

    def _ppf(self, p: Array) -> Array:
        return np.asarray(self.quantile(p, FLOAT))


@dataclass(frozen=True, slots=True)
class Laplace(Noise):
    """Double exponential noise; `scale` is the mean of |Z|.

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

    @property
    def exact_scale_cost(self) -> None:
        """The cost of a change of scale: uψ grows without bound."""

    @property
    def max_score(self) -> float:
        return round_up(1 / Fraction(self.scale))

    def isf(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return the u with P[Z > u] = p: −b log 2p."""
        return -ops.log(2 * p) * ops.constant(self.scale)
