"""Covariances of the values of many estimators at the same points.

Values are rounded to 2⁻²⁰ of the greatest, and products added up as integers: any order of points
gives the same bits. That moves a standard deviation by less than 10⁻⁶ of the greatest value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import frexp, isfinite, ldexp

from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.deconvolution.totals import Groups, Integers, Sums, Totals
from geoveil.gp.errors import UnsupportedError

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
