"""A prior of places: counts of people in the cells of a raster."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.planner.priors import Array, Prior, checked_counts
from geoveil.gp import ParameterError, validation


@dataclass(frozen=True, eq=False)
class RasterPrior(Prior):
    """Numbers of people in the cells of a raster of the plane, spread evenly over each cell.

    Each cell is integrated at 2 × 2 Gauss points, which is exact for functions that are cubic in
    either coordinate; cells should be no larger than what a query or the noise resolves.

    Args:
        bounds: (x₀, y₀, x₁, y₁), in the unit of the points.
        counts: people in each cell, (rows, columns), rows from y₀ up, columns from x₀ right.

    Raises:
        ParameterError: if the bounds are out of order, or the counts are no numbers ≥ 0.

    Example:
        >>> raster = RasterPrior((0.0, 0.0, 200.0, 100.0), [[3, 1]])
        >>> raster.expectation(lambda p: p[:, 0] < 100.0)
        0.75
    """

    bounds: tuple[float, float, float, float]
    counts: Array

    def __init__(self, bounds: Sequence[float], counts: ArrayLike) -> None:
        ends = validation.numbers("bounds", bounds)
        if len(ends) != 4 or not (ends[0] < ends[2] and ends[1] < ends[3]):
            raise ParameterError("bounds", bounds, "(x0, y0, x1, y1), x0 < x1 and y0 < y1")
        shape = np.shape(counts)
        if len(shape) != 2:
            raise ParameterError("counts", f"shape {shape}", "of shape (rows, columns)")
        object.__setattr__(self, "bounds", ends)
        object.__setattr__(self, "counts", checked_counts("counts", counts, shape))

    @property
    def dimension(self) -> int:
        return 2

    @property
    def size(self) -> float:
        return float(self.counts.sum())

    @property
    def continuous(self) -> bool:
        """False: the cells are given."""
        return False

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """Return four points per cell that has people."""
        x0, y0, x1, y1 = self.bounds
        rows, columns = self.counts.shape
        width, height = (x1 - x0) / columns, (y1 - y0) / rows
        row, column = np.nonzero(self.counts)
        offsets = 0.5 + np.array([-1.0, 1.0]) / (2 * np.sqrt(3))
        parts = [
            np.stack([x0 + (column + a) * width, y0 + (row + b) * height], axis=1)
            for a in offsets
            for b in offsets
        ]
        share = self.counts[row, column] / (4 * self.size)
        return np.concatenate(parts), np.tile(share, 4)

    def __repr__(self) -> str:
        return f"RasterPrior({self.bounds}, {self.counts.shape}, size={self.size:.6g})"
