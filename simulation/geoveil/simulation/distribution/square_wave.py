"""Square wave: a distribution under ε-LDP, from one noisy number of each person [LWLSS20].

For experiments: drawn in floating point, which is NOT private on a computer [MATH §10].
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import LocalPrivacy
from geoveil.gp.expectation_maximisation import expectation_maximisation
from geoveil.simulation.distribution.cells import Cells, moved
from geoveil.simulation.distribution.means import capped_epsilon

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SquareWave:
    """A number of [−b, 1 + b], with density p within b of the true one and q = p/e^ε elsewhere.

    b is the width that maximises the mutual information of number and report, as far as an upper
    bound says [LWLSS20].

    Example:
        >>> wave = SquareWave(LocalPrivacy(1.0))
        >>> round(wave.reach, 4)
        0.2561
        >>> round(wave.near / wave.far, 4)
        2.7183
    """

    privacy: LocalPrivacy

    @property
    def _epsilon(self) -> float:
        return capped_epsilon(self.privacy)

    @property
    def reach(self) -> float:
        """The width b of the wave on either side."""
        e, less = self._epsilon, math.exp(-self._epsilon)
        if e < _TAYLOR:  # numerator and denominator cancel
            return 0.5 - e / 3
        return (e - 1 + less) / (2 * (math.exp(e) - 1 - e))

    @property
    def far(self) -> float:
        """The density q outside of the wave."""
        return self.near * math.exp(-self._epsilon)

    @property
    def near(self) -> float:
        """The density p within the wave."""
        return 1 / (2 * self.reach + math.exp(-self._epsilon))

    def simulate(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report for each number of [0, 1], of the same shape."""
        v, b = np.asarray(values, dtype=np.float64), self.reach
        inside = v + b * (2 * rng.random(v.shape) - 1)
        # The rest is [−b, v − b) and [v + b, 1 + b], 1 long together.
        outside = rng.random(v.shape)
        outside = np.where(outside < v, outside - b, outside + b)
        return np.where(rng.random(v.shape) < 2 * b * self.near, inside, outside)

    def distribution(self, reports: Array, cells: int) -> Array:
        """Return the share of people in each of so many cells of [0, 1], by EMS [LWLSS20]."""
        outcomes = Cells(-self.reach, 1 + self.reach, cells)
        return expectation_maximisation(self.transition(cells), outcomes.counts(reports))

    def transition(self, cells: int) -> Array:
        """Return the probability of each of as many equal parts of [−b, 1 + b], for each cell."""
        b = self.reach
        outcomes = Cells(-b, 1 + b, cells).edges

        def twice_integrated(z: Array) -> Array:
            return np.where(np.abs(z) <= b, (z + b) ** 2 / (4 * b), np.maximum(z, 0.0))

        near = moved(twice_integrated, Cells(0.0, 1.0, cells).edges, outcomes)
        wave = 2 * b * (self.near - self.far)
        return np.asarray(wave * near / near.sum(axis=0) + (1 - wave) / cells)


_TAYLOR = 1e-4
"""Below this ε the width is taken from the first terms of its expansion."""
