"""A private decision tree by ID3: the DiffPID3 template of [LD Algorithm 2, SNM Algorithm 2].

`TreePlan` allots ε to decisions; `CodedRecords` counts records by attribute, value and class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil, log, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    ParameterError,
    PrivateValueError,
    RandomSource,
    chosen_source,
    round_down,
    share,
    validation,
)
from geoveil.selection.base import Margin
from geoveil.selection.contrib.classifier import Codes, NotFittedError, PrivateClassifier
from geoveil.selection.contrib.criteria import CriterionName, NodeCounts, checked_most_records
from geoveil.selection.contrib.splitters import SplitName, Splitter, splitter
from geoveil.selection.global_sensitivity import PermuteAndFlip
from geoveil.selection.stability import StabilityMechanism


@dataclass(frozen=True, slots=True)
class TreePlan:
    """The public budget of each node of a tree, and its condition for a split.

    A node above the greatest depth d spends one part ε' = ε/2(d + 1) on whether to split and one on
    the attribute; a leaf spends the rest of its path's budget on its label. Nodes of equal depth
    hold different records, so only one path counts towards ε. The tree has |C| classes and
    attributes of at most t values.

    Example:
        >>> plan = TreePlan(epsilon=1.2, depth=2, values=10, classes=2)
        >>> round(plan.part, 6), plan.fewest
        (0.2, 35)
        >>> [round(plan.left(level), 6) for level in range(3)]
        [1.0, 0.6, 0.4]
    """

    epsilon: float
    depth: int
    values: int
    classes: int

    @property
    def part(self) -> float:
        """ε' of one decision, rounded down."""
        return _part(self)

    @property
    def fewest(self) -> int:
        """The fewest records with which a node should be split.

        At least the template's t|C|√2/2; an empty node is split with probability ≤ 1/100t.
        """
        least = max(sqrt(0.5) * self.values * self.classes, log(100 * self.values) / self.part)
        return ceil(min(least, 2.0**52))

    def left(self, level: int) -> float:
        """Return the budget for the label of a leaf at a level in [0, depth]."""
        return _left(self, level)

    def split(self, records: int) -> Margin:
        """Return the scores for splitting (1) or not (0) a node with this many records."""
        enough = records >= self.fewest
        missing = abs(records - self.fewest) + enough
        return Margin(int(enough), missing, 2)


@lru_cache(maxsize=64)
def _part(plan: TreePlan) -> float:
    return share("depth", plan.epsilon, 2 * (plan.depth + 1))


@lru_cache(maxsize=256)
def _left(plan: TreePlan, level: int) -> float:
    spent = 2 * level + (level < plan.depth)
    return round_down(Fraction(plan.epsilon) - spent * Fraction(plan.part))


Index = NDArray[np.intp]


class CodedRecords:
    """Records of small integers, ready to be counted: private.

    Args:
        codes: shape (n, attributes), attribute A in [0, values[A]).
        labels: shape (n,), in [0, classes).
        values: each attribute's number of values.
        classes: the number of classes.
        most_records: the public bound on the number of records.
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
        """Return the counts of labels among some records, shape (classes,)."""
        return np.bincount(self.labels[rows], minlength=self.classes)

    def counts(self, rows: Index, attributes: Index) -> NodeCounts:
        """Return the contingency tables of the records `rows` for increasing attributes."""
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
        """Return some records grouped by the value of an attribute, one array per value."""
        values = self.codes[rows, attribute]
        order = np.argsort(values, kind="stable")
        ends = np.searchsorted(values[order], np.arange(self.values[attribute] + 1))
        ordered = rows[order]
        return [ordered[a:b] for a, b in pairwise(ends)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.values)} attributes, records not shown)"


@dataclass(frozen=True, slots=True)
class Node:
    """A leaf with a label, or a split with one child per value of its attribute. Released."""

    label: int | None = None
    attribute: int | None = None
    children: tuple["Node", ...] = ()


class PrivateDecisionTree(PrivateClassifier):
    """ID3 in which private selection makes every decision about the data.

    `StabilityMechanism` decides whether to split a node (which equals comparing a count plus
    geometric noise with a threshold), `mechanism` chooses the attribute, and permute-and-flip on
    the counts chooses a leaf's label. `TreePlan` has their budgets; `guarantee` covers all of it.

    Args:
        epsilon: ε > 0 of the whole `fit`, in nats per record added or removed.
        values: each attribute's number of values; records hold codes from 0. Public.
        classes: the possible labels, at least two and all different. Public.
        depth: the most splits on a path, ≥ 1.
        mechanism: chooses attributes; one of `SPLITTERS`.
        criterion: "information_gain", "gini" or "max_operator"; None for the mechanism's default.
        most_records: a public bound on the number of records, needed only for information gain;
            too low a bound costs accuracy, not privacy.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> X = np.array([[0, 1], [0, 0], [1, 1], [1, 0]] * 500)
        >>> tree = PrivateDecisionTree(epsilon=1.0, values=[2, 2], classes=["no", "yes"], depth=1)
        >>> tree.fit(X, np.where(X[:, 0] == 1, "yes", "no"), SeededSource(1)).predict([[1, 0]])
        array(['yes'], dtype='<U3')
        >>> print(tree.guarantee)
        ε = 1: one record added or removed; every path of the tree [DiffPID3: LD Algorithm 2]
    """

    _statement = "one record added or removed; every path of the tree"
    _source = "[DiffPID3: LD Algorithm 2]"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        values: Sequence[int],
        classes: Sequence[Any],
        depth: int = 5,
        mechanism: SplitName = "permute_and_flip",
        criterion: CriterionName | None = None,
        most_records: int = 100_000,
    ) -> None:
        super().__init__(epsilon, classes)
        if not len(values):
            raise ParameterError("values", values, "at least one attribute")
        for number, count in enumerate(values):
            validation.require_count(f"values[{number}]", count)
        validation.require_count("depth", depth)
        self.values = values
        self.depth = depth
        self.mechanism: SplitName = mechanism
        self.criterion: CriterionName | None = criterion
        self.most_records = checked_most_records(most_records)
        self._plan = TreePlan(self.epsilon, depth, max(values), len(self.classes_))
        self._splitter()  # not kept: it can't be pickled
        self.tree_: Node | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, source: RandomSource | None = None) -> Self:  # noqa: N803 - as scikit-learn
        """Grow the tree; every decision is an exact `select`.

        Args:
            X: codes, shape (n, attributes), attribute A in [0, values[A]).
            y: labels among the classes, shape (n,).

        Raises:
            PrivateValueError: if a code or label is out of range.
            ParameterError: if `source` is not a RandomSource.
        """
        bits = chosen_source(source)
        codes = self._codes(X)
        labels = self._label_codes(y, len(codes))
        records = CodedRecords(codes, labels, self.values, len(self.classes_), self.most_records)
        unused = np.arange(len(self.values))
        splits = self._splitter()
        self.tree_ = self._grown(records, splits, records.everyone(), unused, 0, bits)
        return self

    def _splitter(self) -> Splitter:
        return splitter(
            self.mechanism,
            self.criterion,
            self._plan.part,
            attributes=len(self.values),
            most_records=self.most_records,
        )

    def _grown(
        self,
        records: CodedRecords,
        splits: Splitter,
        rows: Index,
        unused: Index,
        level: int,
        bits: RandomSource,
    ) -> Node:
        if level < self.depth and len(unused):
            decision = StabilityMechanism(self._plan.part)
            if decision.select(self._plan.split(len(rows)), bits):
                place = splits.select(records.counts(rows, unused), bits)
                rest, chosen = np.delete(unused, place), int(unused[place])
                children = tuple(
                    self._grown(records, splits, part, rest, level + 1, bits)
                    for part in records.parts(rows, chosen)
                )
                return Node(attribute=chosen, children=children)
            labels = PermuteAndFlip(self._plan.left(level), 1.0, monotone=True)
        else:
            labels = PermuteAndFlip(self._plan.left(self.depth), 1.0, monotone=True)
        return Node(label=labels.select(records.label_counts(rows), bits))

    def _predicted(self, X: ArrayLike) -> Codes:  # noqa: N803 - as scikit-learn
        if self.tree_ is None:
            raise NotFittedError("fit the tree first")
        codes = self._codes(X)
        result = np.zeros(len(codes), dtype=np.int64)
        pending = [(self.tree_, np.arange(len(codes)))]
        while pending:
            node, rows = pending.pop()
            if node.label is not None:
                result[rows] = node.label
                continue
            values = codes[rows, node.attribute]
            pending.extend(
                (child, rows[values == value])
                for value, child in enumerate(node.children)
                if (values == value).any()
            )
        return result

    def _codes(self, X: ArrayLike) -> Codes:  # noqa: N803 - as scikit-learn
        codes = validation.float_array(X)
        expected = "codes of shape (n, attributes), each from 0 to below the attribute's values"
        if codes is None or codes.ndim != 2 or codes.shape[1] != len(self.values):
            raise PrivateValueError(expected)
        whole = codes == np.floor(codes)
        if not (whole & (codes >= 0) & (codes < np.asarray(self.values))).all():
            raise PrivateValueError(expected)
        return codes.astype(np.int64)
