"""The contract of one-sided noise, and the three constants that its privacy rests on.

Z ≥ 0 has a density f that does not rise, with survival F̄ = 1 − F and hazard f/F̄. What counts is
    L = sup f/F̄,    ν = sup t f/F̄,    c = sup t f/(F (−ln F)):
the price of a shift, of a smaller scale for the winner, and of a smaller scale for those it beats.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.noise.base import Array


class OneSidedNoise(ABC):
    """A standard noise variable Z ≥ 0; mechanisms scale it.

    Everything is vectorised: arrays of any shape in, the same shape out.
    """

    @abstractmethod
    def logpdf(self, t: ArrayLike) -> Array:
        """Return log f(t) for t ≥ 0, and −∞ below."""

    @abstractmethod
    def survival(self, t: ArrayLike) -> Array:
        """Return F̄(t) = P[Z > t], accurate in relative terms; 1 for t ≤ 0."""

    @abstractmethod
    def quantile(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return t with P[Z ≤ t] = p in the arithmetic at hand, for p in (0, 1)."""

    @property
    @abstractmethod
    def hazard(self) -> float:
        """L: no less than the supremum of the hazard, in 1/(unit of Z)."""

    @property
    @abstractmethod
    def tail_index(self) -> float:
        """ν, the supremum of t f/F̄: e^b Z exceeds t at most e^{νb} times as often as Z."""

    @property
    @abstractmethod
    def log_cdf_scale_cost(self) -> float:
        """c: no less than the supremum of t f/(F (−ln F)), and at least ν, its limit."""

    @property
    def knees(self) -> tuple[float, ...]:
        """Where the density is not smooth, apart from 0."""
        return ()

    @property
    def certified_isf(self) -> Callable[[Array], Array] | None:
        """The t with F̄(t) = T in float64, if it is known within 2^-40 (1 + t)."""
        return None

    def pdf(self, t: ArrayLike) -> Array:
        """Return f(t)."""
        return np.exp(self.logpdf(t))

    def log_cdf(self, t: ArrayLike) -> Array:
        """Return log F(t), −∞ for t ≤ 0."""
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(divide="ignore"):  # so near 0 that the survival rounds to 1
            inside = np.log1p(-self.survival(np.maximum(t, 0)))
        return np.where(t > 0, inside, -math.inf)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Array:
        """Return float64 draws. Not private on a computer: for simulation only [MATH §10]."""
        # 1 − U is never 0, and small where the survival is.
        return np.asarray(self._isf(1 - rng.random(size)))

    @abstractmethod
    def _isf(self, tail: Array) -> Array:
        """Return the t with F̄(t) = tail in float64, for tail in (0, 1]."""
