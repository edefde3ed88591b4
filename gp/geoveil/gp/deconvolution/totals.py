"""Sums of the values of many estimators over blocks of points.

Values are added up as integers of 2⁻³⁰, so that any order and blocks of points give the same bits.
`BandTotals` and `LatticeTotals` are faster for many estimators of one shape; `ways` chooses.

Products, for covariances, are of values rounded to 2⁻²⁰ of the greatest, and added up as integers,
too. That moves a standard deviation by less than 10⁻⁶ of the greatest value.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from math import frexp, isfinite, ldexp
from typing import NamedTuple, TypeAlias

from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.estimation import Accumulator, sums_of

Integers: TypeAlias = "NDArray[np.int64]"
Groups = Sequence[tuple[int, slice]]
"""Group numbers with the slices of their points in a block, consecutive and not empty."""

GRID_EXPONENT = -30
"""The power of 2 to which values are rounded: it moves an estimate by less than 10⁻⁹."""
LARGEST = ldexp(1.0, 62 + GRID_EXPONENT)
"""An upper bound of a value at a point."""
MOST_AT_ONCE = 1 << 17
"""The most points of a block: sums of this many stay within 64 bits."""


_IN_CACHE = 1 << 16
"""Points processed together, few enough for the processor's cache."""
_ENOUGH = 1 << 13
"""The fewest points for a precise mean of estimated variances."""
_VARIANCE_BITS = 42
"""Estimated variances are rounded to 2⁻⁴² of the greatest: the sums of 2¹⁷ stay below 2⁶⁰."""


def rounder(bits: int) -> tuple[float, int]:
    """Return a number whose addition rounds doubles in [−1, 1] to 2^−bits, and its bits.

    The bits of a double plus this number, less its own bits, are the multiple.

    Example:
        >>> added, own = rounder(44)
        >>> int((np.float64(0.75) + added).view(np.int64)) - own == 3 << 42
        True
    """
    added = 1.5 * 2.0 ** (52 - bits)
    return added, struct.unpack("<q", struct.pack("<d", added))[0]


class VarianceSum(NamedTuple):
    """The sum of estimated variances over points."""

    n: int
    """The number of points, all or a sample."""
    total: float


class Sums(NamedTuple):
    """Sums over the points of a group."""

    values: Accumulator
    """In units of 2⁻³⁰."""
    variance: VarianceSum | None
    """None if the estimator has no estimated variance."""


class Totals(ABC):
    """Sums, for each group of points, of the values of labelled estimators.

    `step` is the spacing of the grid of the points, in their unit.
    """

    def __init__(self, labels: Sequence[str], step: float) -> None:
        self.labels = tuple(labels)
        self._step = step

    @abstractmethod
    def add(self, points: Integers, groups: Groups) -> None:
        """Count points.

        Args:
            points: (n, k), in steps; at most 131,072.
            groups: the points of each group.

        Raises:
            UnsupportedError: if values are so large that no number of points gives an estimate.
        """

    @abstractmethod
    def of(self, group: int) -> Iterator[Sums]:
        """Yield the sums of a group, label after label."""


class EachTotals(Totals):
    """One estimator, at every point.

    Of very many points (`points`: about how many a group has) variances are estimated at those
    whose integer is a multiple of a power of two: noise makes them a random sample, in any order.
    """

    def __init__(self, label: str, estimator: PointEstimator, step: float, points: int = 0) -> None:
        super().__init__([label], step)
        self._estimator = estimator
        self._sums: dict[int, Accumulator] = {}
        self._others = (1 << max(0, (points // _ENOUGH).bit_length() - 1)) - 1
        """Mask of the bits that are 0 in the points of the sample for variances."""
        self._variances: dict[int, tuple[int, int]] = {}
        """Points, and the sum in units of `_unit`."""
        self._waiting: list[tuple[int, Array]] = []
        """Groups, with points that wait for a joint estimate of their variances."""
        limits = estimator.variance_limits
        greatest = 0.0 if limits is None else max(limits[1], -limits[0])
        self._estimates_variance = limits is not None
        self._unit = ldexp(1.0, frexp(greatest)[1] - _VARIANCE_BITS)

    def add(self, points: Integers, groups: Groups) -> None:
        starts = np.array([part.start for _, part in groups])
        for first in range(0, len(points), _IN_CACHE):
            part = points[first : first + _IN_CACHE]
            began = int(np.searchsorted(starts, first, side="right")) - 1
            met = groups[began : int(np.searchsorted(starts, first + len(part)))]
            self._add(part, [group for group, _ in met], starts[began:][: len(met)] - first)
        if sum(len(points) for _, points in self._waiting) >= _ENOUGH:
            self._add_variances()

    def _add(self, points: Integers, groups: Sequence[int], starts: NDArray[np.intp]) -> None:
        coordinates = self._coordinates(points)
        integers = self._integers(coordinates)
        starts[0] = 0
        for group, sums in zip(groups, sums_of(integers, starts), strict=True):
            self._sums[group] = self._sums.get(group, Accumulator()) + sums
        if self._estimates_variance:
            chosen = np.flatnonzero(points[:, 0] & self._others == 0)
            ends = np.searchsorted(chosen, np.append(starts[1:], len(points)))
            parts = zip(groups, np.split(coordinates[chosen], ends[:-1]), strict=True)
            self._waiting += [(group, part) for group, part in parts if len(part)]

    def of(self, group: int) -> Iterator[Sums]:
        variance = None
        if self._estimates_variance:
            self._add_variances()
            n, total = self._variances.get(group, (0, 0))
            variance = VarianceSum(n, total * self._unit)
        yield Sums(self._sums.get(group, Accumulator()), variance)

    def _add_variances(self) -> None:
        if not self._waiting:
            return
        coordinates = np.concatenate([part for _, part in self._waiting])
        variances = self._estimator.estimated_variance(coordinates)
        integers = np.rint(variances / self._unit).astype(np.int64)
        last = 0
        for group, part in self._waiting:
            first, last = last, last + len(part)
            n, total = self._variances.get(group, (0, 0))
            self._variances[group] = n + len(part), total + int(integers[first:last].sum())
        self._waiting = []

    def _coordinates(self, points: Integers) -> Array:
        coordinates = points.astype(np.float64) * self._step
        return coordinates[:, 0] if points.shape[1] == 1 else coordinates

    def _integers(self, coordinates: Array) -> Integers:
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused below
            values = self._estimator._value(coordinates)  # they are of integers: no need to check
        if not max(values.max(), -values.min()) < LARGEST:  # NaN compares false
            raise UnsupportedError(
                f"query {self.labels[0]!r}: it is so narrow for the noise that a point may count"
                f" for {LARGEST:.0e} or more, or too far away to compute: widen or move it"
            )
        multiples = values * ldexp(1.0, -GRID_EXPONENT)
        return np.rint(multiples, out=multiples).astype(np.int64)


def sums_of_parts(n: int, total: int, total_of_squares: int) -> Accumulator:
    """Return rounded sums, whose squares satisfy the Cauchy-Schwarz inequality."""
    least = -(-total * total // n) if n else 0
    return Accumulator(n, total, max(total_of_squares, least))


_BITS = 20
_BLOCK = 1 << 12
"""Points multiplied at once: 2¹² products of two values of 20 bits stay within 53 bits."""
_CARRIED_BITS = 30
_CARRY_AFTER = 1 << 10
"""Blocks after which sums of 64 bits are carried."""


class Products(Totals):
    """Sums of pairwise products of several estimators over points."""

    def __init__(self, estimators: Mapping[str, PointEstimator], step: float) -> None:
        super().__init__((), step)  # sums of single estimators are found by others
        self._estimators = tuple(estimators.values())
        self._exponents = np.array([_exponent(name, e) for name, e in estimators.items()])
        self._sums: dict[int, _Sums] = {}

    def add(self, points: Integers, groups: Groups) -> None:
        for group, part in groups:
            sums = self._sums.setdefault(group, _Sums(len(self._estimators)))
            for start in range(part.start, part.stop, _BLOCK):
                block = points[start : min(start + _BLOCK, part.stop)]
                sums.add(self._integers(block.astype(np.float64) * self._step))

    def of(self, group: int) -> Iterator[Sums]:
        return iter(())

    def covariance(self, group: int) -> Array:
        """Return the mean products of deviations from the means, (m, m); 0 without points."""
        sums = self._sums.get(group)
        if sums is None:
            return np.zeros((len(self._estimators),) * 2)
        units = np.ldexp(1.0, self._exponents - _BITS)
        in_units = covariance_of(sums.n, sums.totals.astype(np.float64), sums.products)
        return np.asarray(in_units * np.outer(units, units))

    def _integers(self, coordinates: Array) -> Array:
        """Return the values of each estimator as whole numbers up to 2²⁰ in size, (m, n)."""
        if coordinates.shape[1] == 1:
            coordinates = coordinates[:, 0]
        values = np.empty((len(self._estimators), len(coordinates)))
        for row, estimator in zip(values, self._estimators, strict=True):
            row[:] = estimator.value(coordinates)
        np.multiply(values, np.ldexp(1.0, _BITS - self._exponents)[:, None], out=values)
        np.rint(values, out=values)
        return values


class _Sums:
    """Sums of whole numbers, and of their products, in two parts of 64 bits."""

    def __init__(self, size: int) -> None:
        self.n = 0
        self.totals: NDArray[np.int64] = np.zeros(size, np.int64)
        self._carried = np.zeros((size, size), np.int64)
        self._rest = np.zeros((size, size), np.int64)
        self._since_carry = 0

    def add(self, values: Array) -> None:
        self.n += values.shape[1]
        self.totals += values.sum(axis=1).astype(np.int64)
        self._rest += (values @ values.T).astype(np.int64)
        self._since_carry += 1
        if self._since_carry == _CARRY_AFTER:
            self._carried += self._rest >> _CARRIED_BITS
            self._rest &= (1 << _CARRIED_BITS) - 1
            self._since_carry = 0

    @property
    def products(self) -> Array:
        carried = self._carried + (self._rest >> _CARRIED_BITS)
        rest = self._rest & ((1 << _CARRIED_BITS) - 1)
        whole = carried.astype(np.float64) * ldexp(1.0, _CARRIED_BITS)
        return np.asarray(whole + rest.astype(np.float64))


def covariance_of(n: int, totals: Array, products: Array) -> Array:
    """Return the mean products of deviations, from sums (m,) and sums of products (m, m)."""
    means = totals / n
    return np.asarray(products / n - np.outer(means, means))


def _exponent(label: str, estimator: PointEstimator) -> int:
    """Return the least e with all values below 2^e, with a spare bit for rounding."""
    most = max(map(abs, estimator.limits.reports))
    if not isfinite(most):
        raise UnsupportedError(
            f"query {label!r}: what a point counts for has no bound, so that it has no covariances"
            " here; ask about it alone"
        )
    return frexp(most * (1 + ldexp(1.0, -_BITS)))[1]
