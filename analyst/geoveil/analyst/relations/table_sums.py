"""What a cross-table needs of the reports: sums of products, and a test of independence."""

import math
from collections.abc import Sequence
from functools import cached_property, reduce
from itertools import combinations

import numpy as np

from geoveil.analyst.statistics.simultaneous import (
    correlations_of,
    critical_value,
    critical_value_of_many,
)
from geoveil.gp import Array

MOST_TESTED = 500
"""The most options of a field in a test of independence."""
_NO_SPREAD = 1e-9
"""Variance, relative to the largest, below which an option counts as constant."""


class TableSums:
    """Sums over people of products of pseudo-values, one of each field."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        d = len(shape)
        self._shape, self._n, self._w, self._ww = shape, 0, 0.0, 0.0
        self._sums: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Array] = {}
        """(power of the weight, fields, those of them that are squared) → the sum."""
        everything = tuple(range(d))
        self._wanted: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [
            (1, fields, ()) for k in range(1, d + 1) for fields in combinations(everything, k)
        ]
        self._wanted += [(2, (k,), squared) for k in everything for squared in ((), (k,))]
        self._wanted += [
            (2, everything, squared)
            for squared in dict.fromkeys([(), everything, *((k,) for k in everything)])
        ]
        self._wanted = list(dict.fromkeys(self._wanted))
        self._grams = [np.zeros((k, k)) if k <= MOST_TESTED else None for k in shape]

    def add(self, weights: Array, values: Sequence[Array]) -> None:
        """Add people.

        Args:
            weights: (n,).
            values: of each field, (n, options).
        """
        self._n += len(weights)
        self._w += float(weights.sum())
        self._ww += float(weights @ weights)
        squares = [of * of for of in values]
        for key in self._wanted:
            power, fields, squared = key
            factors = [(squares if k in squared else values)[k] for k in fields]
            last = factors[-1] * (weights**power)[:, None]
            before = reduce(
                lambda a, b: (a[:, :, None] * b[:, None]).reshape(len(a), -1), factors[:-1],
                np.ones((len(weights), 1)),
            )  # fmt: skip
            shape = tuple(self._shape[k] for k in fields)
            self._sums[key] = self._sums.get(key, 0.0) + (before.T @ last).reshape(shape)
        for gram, of in zip(self._grams, values, strict=True):
            if gram is not None:
                gram += of.T @ (of * weights[:, None])

    def _mean(self, fields: tuple[int, ...]) -> Array:
        return np.asarray(self._sums[1, fields, ()] / self._w)

    def _spread(self, products: Array, a: Array, b: Array, of_a: Array, of_b: Array) -> Array:
        """Return the covariance of two means, from sums of w²·product and w² times each factor."""
        about = products - a * of_b - b * of_a + a * b * self._ww
        return np.asarray(about / self._w**2 * (self._n / (self._n - 1)))

    @cached_property
    def _all(self) -> tuple[int, ...]:
        return tuple(range(len(self._shape)))

    @property
    def shares(self) -> Array:
        """The share of the people in each cell."""
        return self._mean(self._all)

    @property
    def margins(self) -> tuple[Array, ...]:
        """The shares of the options of each field."""
        return tuple(self._mean((k,)) for k in self._all)

    def _variances_of(self, fields: tuple[int, ...]) -> Array:
        mean, first = self._mean(fields), self._sums[2, fields, ()]
        variances = self._spread(self._sums[2, fields, fields], mean, mean, first, first)
        return np.maximum(variances, 0.0)

    @property
    def variances(self) -> Array:
        """The variance of each cell's share."""
        return self._variances_of(self._all)

    @property
    def margin_variances(self) -> tuple[Array, ...]:
        """The variances of the shares of each field's options."""
        return tuple(self._variances_of((k,)) for k in self._all)

    @property
    def with_margins(self) -> tuple[Array, ...]:
        """The covariance of each cell with the margin of each field."""
        cells, of_cells = self.shares, self._sums[2, self._all, ()]
        means = []
        for k in self._all:
            others = [axis for axis in self._all if axis != k]
            margin, of_margin = (
                np.expand_dims(of, others) for of in (self._mean((k,)), self._sums[2, (k,), ()])
            )
            means.append(
                self._spread(self._sums[2, self._all, (k,)], cells, margin, of_cells, of_margin)
            )
        return tuple(means)

    def _covariance(self, k: int) -> Array:
        """Return the covariance of pseudo-values of a field's options, over people."""
        gram, mean = self._grams[k], self._mean((k,))
        assert gram is not None
        return np.asarray(gram / self._w - np.outer(mean, mean))

    def critical(self, confidence: float) -> float:
        """Return the critical value of a joint band of all cells, in standard errors."""
        if len(self._shape) == 1 and self._grams[0] is not None:
            return critical_value(correlations_of(self._covariance(0)), confidence)
        return critical_value_of_many(math.prod(self._shape), confidence)

    def test(self) -> tuple[float, int, float]:
        """Return χ² of independence, its degrees of freedom and the p value.

        Where fields are independent, so are their pseudo-values, and the covariance of central
        products of several fields is the product of the fields' covariances. Of values in the clear
        the sum is Pearson's χ², by Lancaster's partition.
        """
        from scipy.special import chdtrc

        roots = [_root(self._covariance(k)[:-1, :-1]) for k in self._all]
        total, freedom = 0.0, 0
        for size in range(2, len(self._shape) + 1):
            for fields in combinations(self._all, size):
                central = self._central(fields)[(slice(-1),) * size]
                for k in fields:  # the first axis goes last, so that all come around
                    central = np.tensordot(central, roots[k], axes=(0, 0))
                total += float((central**2).sum())
                freedom += central.size
        square = total * self._w**2 / self._ww
        return square, freedom, float(chdtrc(freedom, square)) if freedom else math.nan

    def _central(self, fields: tuple[int, ...]) -> Array:
        """Return the mean products of deviations from the means of each field."""
        central = np.zeros([self._shape[k] for k in fields])
        for size in range(len(fields) + 1):
            for kept in combinations(fields, size):
                factor: Array = self._mean(kept) if kept else np.ones(())
                factor = np.expand_dims(factor, [i for i, k in enumerate(fields) if k not in kept])
                for i, k in enumerate(fields):
                    if k not in kept:
                        others = [j for j in range(len(fields)) if j != i]
                        factor = factor * -np.expand_dims(self._mean((k,)), others)
                central = central + factor
        return central


def _root(covariance: Array) -> Array:
    """Return R with R Rᵀ the inverse of a covariance, (m, r), without constant directions."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _NO_SPREAD * max(float(values[-1]), 0.0) if len(values) else values > 0
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))
