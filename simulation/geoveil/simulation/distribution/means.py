"""Means under ε-LDP: one bounded number for each person, unbiased [DJW18; WXYZHSSY19].

For experiments: drawn in floating point, which is NOT private on a computer [MATH §10].
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import LocalPrivacy

Array = NDArray[np.float64]


def capped_epsilon(privacy: LocalPrivacy) -> float:
    """Return ε, at most 300: more is answered as that, for which e^{2ε} is a double still."""
    return min(privacy.epsilon, 300.0)


@dataclass(frozen=True, slots=True)
class LocalMean(ABC):
    """A mechanism for numbers in [−1, 1] whose reports have the number as their mean."""

    privacy: LocalPrivacy

    @property
    def _epsilon(self) -> float:
        return capped_epsilon(self.privacy)

    @abstractmethod
    def simulate(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report for each number in [−1, 1], of the same shape."""

    @abstractmethod
    def variance(self, values: ArrayLike) -> Array:
        """Return the variance of a report for each number in [−1, 1]."""


class TwoPointMechanism(LocalMean):
    """One bit, −C or C with C = (e^ε + 1)/(e^ε − 1): randomised response for numbers [DJW18].

    Example:
        >>> m = TwoPointMechanism(LocalPrivacy(math.log(3)))
        >>> m.variance([0.0, 1.0]).round(9).tolist()
        [4.0, 3.0]
    """

    def simulate(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        t, most = np.asarray(values, dtype=np.float64), self._most
        return np.where(rng.random(t.shape) < (1 + t / most) / 2, most, -most)

    def variance(self, values: ArrayLike) -> Array:
        return self._most**2 - np.square(np.asarray(values, dtype=np.float64))

    @property
    def _most(self) -> float:
        return 1 / math.tanh(self._epsilon / 2)


class PiecewiseMechanism(LocalMean):
    """A number in [−C, C], likelier near the true one [WXYZHSSY19].

    With C = (e^{ε/2} + 1)/(e^{ε/2} − 1), it is uniform on [l, l + C − 1], l = (C+1)t/2 − (C−1)/2,
    with probability e^{ε/2}/(e^{ε/2} + 1), and uniform on the rest of [−C, C] otherwise. The
    variance is t²/(e^{ε/2} − 1) + (e^{ε/2} + 3)/(3(e^{ε/2} − 1)²).

    Example:
        >>> m = PiecewiseMechanism(LocalPrivacy(2 * math.log(2)))
        >>> m.variance([0.0, 1.0]).round(6).tolist()
        [1.666667, 2.666667]
    """

    def simulate(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        t = np.asarray(values, dtype=np.float64)
        most = 1 / math.tanh(self._epsilon / 4)
        near = 1 / (1 + math.exp(-self._epsilon / 2))
        low = ((most + 1) * t - (most - 1)) / 2
        inside = low + (most - 1) * rng.random(t.shape)
        # The rest is [−C, l) and [l + C − 1, C], C + 1 long together.
        outside = -most + (most + 1) * rng.random(t.shape)
        outside = np.where(outside < low, outside, outside + (most - 1))
        return np.where(rng.random(t.shape) < near, inside, outside)

    def variance(self, values: ArrayLike) -> Array:
        t, less = np.asarray(values, dtype=np.float64), math.expm1(self._epsilon / 2)
        return np.square(t) / less + (less + 4) / (3 * less**2)


class HybridMechanism(LocalMean):
    """`PiecewiseMechanism` with probability 1 − e^{−ε/2}, else `TwoPointMechanism`.

    For ε up to 0.61 it is always the latter, which is better there. Above, the variance is the same
    for every number: (e^{ε/2} + 3)/(3e^{ε/2}(e^{ε/2} − 1)) + (e^ε + 1)²/(e^{ε/2}(e^ε − 1)²)
    [WXYZHSSY19].

    Example:
        >>> m = HybridMechanism(LocalPrivacy(2 * math.log(2)))
        >>> m.variance([0.0, 1.0]).round(6).tolist()
        [2.222222, 2.222222]
    """

    def simulate(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        share, one, other = self._parts
        piecewise = rng.random(np.shape(values)) < share
        return np.where(piecewise, one.simulate(values, rng), other.simulate(values, rng))

    def variance(self, values: ArrayLike) -> Array:
        share, one, other = self._parts
        return share * one.variance(values) + (1 - share) * other.variance(values)

    @property
    def _parts(self) -> tuple[float, LocalMean, LocalMean]:
        share = -math.expm1(-self._epsilon / 2) if self._epsilon > _HYBRID_FROM else 0.0
        return share, PiecewiseMechanism(self.privacy), TwoPointMechanism(self.privacy)


_ROOTS = ((6353 + sign * 405 * math.sqrt(241)) ** (1 / 3) for sign in (-1, 1))
_HYBRID_FROM = math.log((2 * sum(_ROOTS) - 5) / 27)
"""ε* ≈ 0.61 [WXYZHSSY19]."""
