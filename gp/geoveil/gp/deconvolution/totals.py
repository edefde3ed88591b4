"""Sums of what many estimators return for points that come block after block.

The value of an estimator is rounded to a multiple of 2⁻³⁰ and added up as an integer, so that any
order of the points and any blocks give the same bits. Where many estimators have one shape, others
do this faster than one by one: `BandTotals`, `LatticeTotals`; `ways` chooses.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import ldexp

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.estimation import Accumulator, sums_of

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Groups = Sequence[tuple[int, slice]]
"""Numbers of groups, and where their points stand in a block: one after the other, none empty."""

GRID_EXPONENT = -30
"""The power of 2 to which values are rounded: it moves an estimate by less than 10⁻⁹."""
LARGEST = ldexp(1.0, 62 + GRID_EXPONENT)
"""What the value at a point stays below."""
MOST_AT_ONCE = 1 << 17
"""The most points of a block: sums of so many stay within 64 bits."""


def rounder(bits: int) -> tuple[float, int]:
    """Return what rounds doubles in [−1, 1] to multiples of 2^−bits, and its own bits.

    Added to a double it leaves the multiple as the last bits of the sum: those of the sum, read as
    an integer, less its own.

    Example:
        >>> added, own = rounder(44)
        >>> int((np.float64(0.75) + added).view(np.int64)) - own == 3 << 42
        True
    """
    added = np.float64(1.5 * 2.0 ** (52 - bits))
    return float(added), int(added.view(np.int64))


class Totals(ABC):
    """Sums, for each group of points, of what the estimators that it was made for return.

    Args:
        labels: of the estimators.
        step: spacing of the grid of the points, in their unit.
    """

    def __init__(self, labels: Sequence[str], step: float) -> None:
        self.labels = tuple(labels)
        self._step = step

    @abstractmethod
    def add(self, points: Integers, groups: Groups) -> None:
        """Count some points.

        Args:
            points: (n, k), in steps; at most 131,072.
            groups: which of them belong to which group.

        Raises:
            UnsupportedError: if values are so large that no number of points gives an estimate.
        """

    @abstractmethod
    def of(self, group: int) -> Iterator[Accumulator]:
        """Yield the sums of a group, label after label, of values in units of 2⁻³⁰."""


class EachTotals(Totals):
    """One estimator, at every point.

    Args:
        label: of it.
        estimator: any.
        step: spacing of the grid of the points, in their unit.
    """

    def __init__(self, label: str, estimator: PointEstimator, step: float) -> None:
        super().__init__([label], step)
        self._estimator = estimator
        self._sums: dict[int, Accumulator] = {}

    def add(self, points: Integers, groups: Groups) -> None:
        coordinates = points.astype(np.float64) * self._step
        values = self._integers(coordinates[:, 0] if points.shape[1] == 1 else coordinates)
        starts = np.array([part.start for _, part in groups])
        for (group, _), sums in zip(groups, sums_of(values, starts), strict=True):
            self._sums[group] = self._sums.get(group, Accumulator()) + sums

    def of(self, group: int) -> Iterator[Accumulator]:
        yield self._sums.get(group, Accumulator())

    def _integers(self, coordinates: Array) -> Integers:
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused below
            values = self._estimator.value(coordinates)
        if not max(values.max(), -values.min()) < LARGEST:  # NaN compares false
            raise UnsupportedError(
                f"query {self.labels[0]!r}: it is so narrow for the noise that a point may count"
                f" for {LARGEST:.0e} or more, or too far away to compute: widen or move it"
            )
        return np.rint(values * ldexp(1.0, -GRID_EXPONENT)).astype(np.int64)


def sums_of_parts(n: int, total: int, total_of_squares: int) -> Accumulator:
    """Return sums that were found by other means than adding integers: a rounding may be off.

    The sum of squares is raised to what Cauchy and Schwarz permit.
    """
    least = -(-total * total // n) if n else 0
    return Accumulator(n, total, max(total_of_squares, least))
