"""A private decision tree by ID3: the DiffPID3 template of [LD Algorithm 2, SNM Algorithm 2]."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, PrivateValueError
from geoveil.gp.exact.bits import RandomSource, chosen_source
from geoveil.gp.privacy.rounding import require_count
from geoveil.selection.base import Guarantee
from geoveil.selection.contrib.estimator import Codes, NotFittedError, PrivateClassifier
from geoveil.selection.contrib.gain import CriterionName, checked_most_records
from geoveil.selection.contrib.tree_counts import CodedRecords, Index
from geoveil.selection.contrib.tree_plan import TreePlan
from geoveil.selection.contrib.tree_selection import SplitName, Splitter, splitter
from geoveil.selection.permute_and_flip import PermuteAndFlip
from geoveil.selection.stability import StabilityMechanism


@dataclass(frozen=True, slots=True)
class Node:
    """A leaf, with a label, or a split by an attribute, with a child per value. Released."""

    label: int | None = None
    attribute: int | None = None
    children: tuple["Node", ...] = ()


class PrivateDecisionTree(PrivateClassifier):
    """ID3 with every decision about the data made by private selection.

    At each node: whether to split, by `StabilityMechanism` (the same as comparing a count plus
    geometric noise); by which attribute, by `mechanism`; at a leaf the label, by permute-and-flip
    on the counts. `TreePlan` says what each spends; `guarantee` holds for `fit` as a whole.

    Args:
        epsilon: see `PrivateClassifier`.
        values: how many values each attribute has; records hold codes from 0. Public.
        classes: see `PrivateClassifier`.
        depth: the most splits on a path, ≥ 1.
        mechanism: chooses attributes; one of `SPLITTERS`.
        criterion: "information_gain", "gini" or "max_operator"; None for the mechanism's default.
        most_records: a public bound on the number of records, which information gain alone needs;
            one that is too low costs accuracy, not privacy.

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
            require_count(f"values[{number}]", count)
        require_count("depth", depth)
        self.values = values
        self.depth = depth
        self.mechanism: SplitName = mechanism
        self.criterion = criterion
        self.most_records = checked_most_records(most_records)
        self._plan = TreePlan(self.epsilon, depth, max(values), len(self.classes_))
        self._splitter: Splitter = splitter(
            mechanism,
            criterion,
            self._plan.part,
            attributes=len(values),
            most_records=most_records,
        )
        self.tree_: Node | None = None

    @property
    def guarantee(self) -> Guarantee:
        """See `PrivateClassifier.guarantee`."""
        return Guarantee(
            epsilon=self.epsilon,
            statement="one record added or removed; every path of the tree",
            source="[DiffPID3: LD Algorithm 2]",
        )

    def fit(self, X: ArrayLike, y: ArrayLike, source: RandomSource | None = None) -> Self:  # noqa: N803
        """Grow the tree. It is private on a real computer: every decision is an exact `select`.

        Args:
            X: codes of shape (n, attributes), attribute A in [0, values[A]).
            y: labels of shape (n,), among the classes.
            source: random bits; the operating system's by default.

        Raises:
            PrivateValueError: if a code or label is out of range.
            ParameterError: if the source is none.
        """
        bits = chosen_source(source)
        codes = self._codes(X)
        labels = self._label_codes(y, len(codes))
        records = CodedRecords(codes, labels, self.values, len(self.classes_), self.most_records)
        unused = np.arange(len(self.values))
        self.tree_ = self._grown(records, records.everyone(), unused, 0, bits)
        return self

    def _grown(
        self, records: CodedRecords, rows: Index, unused: Index, level: int, bits: RandomSource
    ) -> Node:
        if level < self.depth and len(unused):
            decision = StabilityMechanism(self._plan.part)
            if decision.select(self._plan.split(len(rows)), bits):
                place = self._splitter.select(records.counts(rows, unused), bits)
                rest, chosen = np.delete(unused, place), int(unused[place])
                children = tuple(
                    self._grown(records, part, rest, level + 1, bits)
                    for part in records.parts(rows, chosen)
                )
                return Node(attribute=chosen, children=children)
            labels = PermuteAndFlip(self._plan.left(level), 1.0, monotone=True)
        else:
            labels = PermuteAndFlip(self._plan.left(self.depth), 1.0, monotone=True)
        return Node(label=labels.select(records.label_counts(rows), bits))

    def _predicted(self, X: ArrayLike) -> Codes:  # noqa: N803
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

    def _codes(self, X: ArrayLike) -> Codes:  # noqa: N803
        codes = validation.float_array(X)
        expected = "codes of shape (n, attributes), each from 0 to below the attribute's values"
        if codes is None or codes.ndim != 2 or codes.shape[1] != len(self.values):
            raise PrivateValueError(expected)
        whole = codes == np.floor(codes)
        if not (whole & (codes >= 0) & (codes < np.asarray(self.values))).all():
            raise PrivateValueError(expected)
        return codes.astype(np.int64)
