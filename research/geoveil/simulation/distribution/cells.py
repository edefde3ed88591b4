"""Cells of equal width, and the probabilities with which noise moves numbers between them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.simulation.populations import Array


@dataclass(frozen=True, slots=True)
class Cells:
    """The numbers from `low` to `high`, in `count` cells of equal width."""

    low: float
    high: float
    count: int

    @property
    def width(self) -> float:
        """The width of a cell."""
        return (self.high - self.low) / self.count

    @property
    def edges(self) -> Array:
        """Their ends, (count + 1,)."""
        return np.linspace(self.low, self.high, self.count + 1)

    def counts(self, values: Array) -> NDArray[np.int64]:
        """Return the count of values in each cell; values beyond an end are in the last cell."""
        return np.histogram(
            np.clip(values, self.low, self.high), self.count, (self.low, self.high)
        )[0]


def moved(twice_integrated: Callable[[Array], Array], cells: Array, outcomes: Array) -> Array:
    """Return the probability that x + noise is in each outcome, x uniform in each cell, (m, k).

    With A'' the density of the noise, it is a double difference of A over the width of the cell. A
    column adds to less than 1 by the noise beyond the outcomes. Edges increase.
    """
    grid = twice_integrated(outcomes[:, None] - cells[None, :])
    return np.asarray(np.maximum(np.diff(-np.diff(grid, axis=1), axis=0), 0.0) / np.diff(cells))
