"""Counting records by attribute, value and class: all attributes of a node in one pass."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from geoveil.selection.contrib.gain import NodeCounts

Index = NDArray[np.intp]


class CodedRecords:
    """Records of small integers, ready to be counted: private.

    Args:
        codes: shape (n, attributes), attribute A in [0, values[A]).
        labels: shape (n,), in [0, classes).
        values: how many values each attribute has.
        classes: how many classes there are.
        most_records: see `NodeCounts`.
    """

    def __init__(
        self,
        codes: NDArray[np.int64],
        labels: NDArray[np.int64],
        values: Sequence[int],
        classes: int,
        most_records: int,
    ) -> None:
        self.codes, self.labels = codes, labels
        self.values, self.classes = np.asarray(values, dtype=np.intp), classes
        self.most_records = most_records
        offsets = np.concatenate([[0], np.cumsum(self.values)[:-1]])
        self._cells = (codes + offsets) * classes + labels[:, None]
        self._attribute = np.repeat(np.arange(len(self.values)), self.values)

    def everyone(self) -> Index:
        """Return the indices of all records."""
        return np.arange(len(self.labels))

    def label_counts(self, rows: Index) -> NDArray[np.int64]:
        """Return how many of some records have each label, shape (classes,)."""
        return np.bincount(self.labels[rows], minlength=self.classes)

    def counts(self, rows: Index, attributes: Index) -> NodeCounts:
        """Return the contingency tables of some records, for some attributes.

        Args:
            rows: indices of records.
            attributes: their numbers, in rising order.
        """
        cells = np.bincount(
            self._cells[rows].ravel(), minlength=len(self._attribute) * self.classes
        )
        wanted = np.zeros(len(self.values), dtype=bool)
        wanted[attributes] = True
        sizes = self.values[attributes]
        return NodeCounts(
            table=cells.reshape(-1, self.classes)[wanted[self._attribute]],
            starts=np.cumsum(sizes) - sizes,
            most_records=self.most_records,
        )

    def parts(self, rows: Index, attribute: int) -> list[Index]:
        """Return some records apart by the value of an attribute, one array per value."""
        values = self.codes[rows, attribute]
        order = np.argsort(values, kind="stable")
        ends = np.searchsorted(values[order], np.arange(self.values[attribute] + 1))
        ordered = rows[order]
        return [ordered[a:b] for a, b in pairwise(ends)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.values)} attributes, records not shown)"
