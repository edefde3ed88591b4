"""Weighted draws in constant time, however many rows there are: Walker's alias method."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class AliasTable(NamedTuple):
    """Two outcomes per cell: the cell's own number with probability `keep`, otherwise `other`."""

    keep: NDArray[np.float64]
    other: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> "AliasTable":
        """Return the table of positive weights, shape (n,), which need not add up to 1.

        Example:
            >>> AliasTable.of(np.array([1.0, 3.0])).keep.tolist()
            [0.5, 1.0]
        """
        n = len(weights)
        keep = (weights * (n / weights.sum())).tolist()
        other = list(range(n))
        small = [i for i, share in enumerate(keep) if share < 1]
        large = [i for i, share in enumerate(keep) if share >= 1]
        while small and large:
            poor, rich = small.pop(), large[-1]
            other[poor] = rich
            keep[rich] -= 1 - keep[poor]
            if keep[rich] < 1:
                small.append(large.pop())
        for i in small + large:  # 1 but for rounding
            keep[i] = 1.0
        return cls(np.array(keep), np.array(other))

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return n indices. One uniform number each: its integer part is the cell.

        The fractional part, which decides within the cell, has 53 bits less those of the number of
        cells: 35 for 200,000 rows.
        """
        place = rng.random(n)
        place *= len(self.keep)
        cell = place.astype(np.int64)
        # A product can be rounded up to the number of cells.
        np.minimum(cell, len(self.keep) - 1, out=cell)
        place -= cell
        return np.where(place < self.keep[cell], cell, self.other[cell])
