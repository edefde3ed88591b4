"""Cells of equal width, and the probabilities with which noise moves numbers between them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.simulation.populations import Array


@dataclass(frozen=True, slots=True)
class Cells:
    """The range from `low` to `high`, divided into `count` cells of equal width."""

    low: float
    high: float
    count: int

    @property
    def width(self) -> float:
        """The width of a cell."""
        return (self.high - self.low) / self.count

    @property
    def edges(self) -> Array:
        """The ends of the cells, (count + 1,)."""
        return np.linspace(self.low, self.high, self.count + 1)

    def counts(self, values: Array) -> NDArray[np.int64]:
        """Return the count of values in each cell; values beyond an end count in the end cell."""
        return np.histogram(
            np.clip(values, self.low, self.high), self.count, (self.low, self.high)
        )[0]


def moved(twice_integrated: Callable[[Array], Array], cells: Array, outcomes: Array) -> Array:
    """Return the probability that x + noise is in each outcome, x uniform in each cell, (m, k).

    It is a second difference of A, divided by the cell's width, where A'' is the noise's density. A
    column's sum is less than 1 by the noise beyond the outcomes. Edges increase.
    """
    grid = twice_integrated(outcomes[:, None] - cells[None, :])
    return np.asarray(np.maximum(np.diff(-np.diff(grid, axis=1), axis=0), 0.0) / np.diff(cells))
