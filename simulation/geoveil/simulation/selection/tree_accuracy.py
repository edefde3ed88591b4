"""The expected accuracy of private trees, over their own randomness and not by drawing trees.

Two levels are summed over exactly. Deeper, the attributes of the upper levels are drawn, and so is
whether to split a node that rarely is; other decisions to split, the last attribute and the labels
are still summed over. What is drawn makes a mean uncertain, and no mean wrong.

The nodes of the trees are counted once for all mechanisms and ε.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.selection import StabilityMechanism
from geoveil.selection.contrib.criteria import (
    CRITERIA,
    CriterionName,
    NodeCounts,
    gain_sensitivity,
    gain_sensitivity_rows,
)
from geoveil.selection.contrib.splitters import shifted_gain
from geoveil.selection.contrib.tree import CodedRecords, TreePlan
from geoveil.simulation.selection.experiment import Array, Choice

Utilities = Callable[[NodeCounts], Array]
"""Utilities of a node's attributes, shape (attributes,), in units of their sensitivity: Δ = 1."""
_FIRST_REACH = 32
"""Changes to look at first; most nodes need no more."""


def dampened_gain(node: NodeCounts, *, replace: bool = False) -> Array:
    """Return what `LocalDampening.dampened` does, Σ_t clip((|u| − b(t))/δ_t, 0, 1), in one go."""
    rows, sensitivity = gain_sensitivity_rows(node), gain_sensitivity(node.most_records)
    values = CRITERIA["information_gain"].values(node)
    far = np.abs(values)
    reach = _FIRST_REACH
    while True:
        delta = np.minimum(rows(0, reach), sensitivity)
        if replace:
            delta = np.broadcast_to(delta.max(axis=1, keepdims=True), delta.shape)
        ends = delta.cumsum(axis=0)
        if (ends[-1] >= far).all():
            steps = np.clip((far - ends + delta) / delta, 0, 1)
            return np.asarray(np.sign(values) * steps.sum(axis=0))
        reach *= 4


def shifted_dampened_gain(node: NodeCounts) -> Array:
    """Return what shifted local dampening makes of information gain."""
    sensitivity = gain_sensitivity(node.most_records)
    return shifted_gain(node, sensitivity) / sensitivity


def in_units(criterion: CriterionName) -> Utilities:
    """Return the utilities of a criterion, over its sensitivity."""
    known = CRITERIA[criterion]
    return lambda node: known.values(node) / known.sensitivity(node.most_records)


Counts = NDArray[np.int64]
Index = NDArray[np.intp]
Path = frozenset[tuple[int, int]]
"""The attributes and values that lead to a node, in any order."""


@dataclass(eq=False)
class CountedNode:
    """A node, with its records to learn from and to be judged by; what it holds is counted once."""

    fold: "Fold"
    path: Path
    unused: Index
    train: Index
    test: Index
    _utilities: dict[Utilities, Array] = field(default_factory=dict)
    _children: dict[int, "Sequence[CountedNode]"] = field(default_factory=dict)

    @cached_property
    def labels(self) -> tuple[int, Counts]:
        """How many more records it has of the first class, and its test records by class, (2,)."""
        first, second = self.fold.train.label_counts(self.train).tolist()
        return first - second, self.fold.test.label_counts(self.test)

    @cached_property
    def counts(self) -> NodeCounts:
        """Contingency tables of the unused attributes."""
        return self.fold.train.counts(self.train, self.unused)

    @cached_property
    def cells(self) -> tuple[Counts, Counts]:
        """The same as `labels` of each cell of these tables, shapes (cells,) and (cells, 2)."""
        first, second = self.counts.table.T
        return first - second, self.fold.test.counts(self.test, self.unused).table

    def utilities(self, of: Utilities) -> Array:
        """Return utilities of its attributes."""
        if of not in self._utilities:
            self._utilities[of] = of(self.counts)
        return self._utilities[of]

    def children(self, place: int) -> "Sequence[CountedNode]":
        """Return the children by one of the unused attributes that have test records."""
        if place not in self._children:
            attribute = int(self.unused[place])
            rest = np.delete(self.unused, place)
            parts = zip(
                self.fold.train.parts(self.train, attribute),
                self.fold.test.parts(self.test, attribute),
                strict=True,
            )
            self._children[place] = [
                self.fold.node(self.path | {(attribute, value)}, rest, train, test)
                for value, (train, test) in enumerate(parts)
                if len(test)
            ]
        return self._children[place]


@dataclass(slots=True)
class Fold:
    """Records of two classes to learn from, others to be judged by, and their nodes so far."""

    train: CodedRecords
    test: CodedRecords
    _nodes: dict[Path, CountedNode] = field(default_factory=dict)

    def root(self) -> CountedNode:
        """Return the node that holds all records."""
        everything = np.arange(len(self.train.values))
        return self.node(frozenset(), everything, self.train.everyone(), self.test.everyone())

    def node(self, path: Path, unused: Index, train: Index, test: Index) -> CountedNode:
        """Return the node at the end of a path, the same in whatever order it was gone."""
        if path not in self._nodes:
            self._nodes[path] = CountedNode(self, path, unused, train, test)
        return self._nodes[path]


_NEGLIGIBLE = 1e-9
"""A branch less probable than this is left out."""
_RARE = 0.01
"""The probability of a split below which it is drawn, as attributes are, and not summed over."""


def expected_accuracy(
    fold: Fold,
    plan: TreePlan,
    choice: Choice,
    generator: np.random.Generator | None = None,
) -> float:
    """Return the expected share of the test records that a tree gets right.

    Args:
        fold: records of two classes.
        plan: what nodes spend.
        choice: probabilities of the attributes of a `CountedNode`.
        generator: draws the attributes of all levels but the last, and rare decisions to split;
            None to sum over them all.
    """

    def right(node: CountedNode, level: int) -> float:
        """Return how many test records of a node are expected to be right."""
        stop = float(_right(*node.labels, plan.left(level)))
        split = _split_probability(plan, len(node.train))
        if generator is not None and split < _RARE:
            split = float(generator.random() < split)
        if split < _NEGLIGIBLE:
            return stop
        probabilities = choice(node)
        if level == plan.depth - 1:
            cells = _right(*node.cells, plan.left(plan.depth))
            below = float(probabilities @ np.add.reduceat(cells, node.counts.starts))
        elif generator is None:
            below = sum(
                float(probability) * right_below(node, level, place)
                for place, probability in enumerate(probabilities)
                if probability > _NEGLIGIBLE
            )
        else:
            upto = probabilities.cumsum()
            drawn = (upto / upto[-1]).searchsorted(generator.random(), side="right")
            below = right_below(node, level, int(drawn))
        return (1 - split) * stop + split * below

    def right_below(node: CountedNode, level: int, place: int) -> float:
        return sum(right(child, level + 1) for child in node.children(place))

    root = fold.root()
    return right(root, 0) / len(root.test)


def first_label(lead: ArrayLike, epsilon: float) -> Array:
    """Return permute-and-flip's probability of the first of two labels, by its lead in records.

    Example:
        >>> first_label([2, 0, -2], 0.5).round(4).tolist()
        [0.8161, 0.5, 0.1839]
    """
    return np.asarray((1 - np.sign(lead) * np.expm1(-epsilon * np.abs(lead))) / 2)


@lru_cache(maxsize=1 << 16)
def _split_probability(plan: TreePlan, records: int) -> float:
    return float(StabilityMechanism(plan.part).probabilities(plan.split(records))[1])


def _right(lead: ArrayLike, judged: Counts, epsilon: float) -> Array:
    """Return how many of the judged records, counted by class, a private label gets right."""
    first = first_label(lead, epsilon)
    return np.asarray(first * judged[..., 0] + (1 - first) * judged[..., 1])
