"""The expected accuracy of private trees, over their own randomness and not by drawing trees.

Two levels are summed over exactly. Deeper, the attributes of the upper levels are drawn, and so is
whether to split a node that rarely is; other decisions to split, the last attribute and the labels
are still summed over. What is drawn makes a mean uncertain, and no mean wrong.

The nodes of the trees are counted once for all mechanisms and ε.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.selection import StabilityMechanism
from geoveil.selection.contrib.criteria import (
    CRITERIA,
    NodeCounts,
    gain_sensitivity,
    gain_sensitivity_rows,
)
from geoveil.selection.contrib.splitters import shifted_gain
from geoveil.selection.contrib.tree import CodedRecords, TreePlan
from geoveil.simulation.selection.experiment import Choice

Array = NDArray[np.float64]
_FIRST_REACH = 32
"""Changes to look at first; most nodes need no more."""


def utilities(kind: str, node: NodeCounts) -> Array:
    """Return one of `KINDS` at a node, shape (attributes,)."""
    return KINDS[kind](node)


def _dampened(node: NodeCounts, *, replace: bool = False) -> Array:
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


def _shifted(node: NodeCounts) -> Array:
    sensitivity = gain_sensitivity(node.most_records)
    return shifted_gain(node, sensitivity) / sensitivity


def _gain_in_units(node: NodeCounts) -> Array:
    return CRITERIA["information_gain"].values(node) / gain_sensitivity(node.most_records)


def _gini_in_units(node: NodeCounts) -> Array:
    return CRITERIA["gini"].values(node) / 2


KINDS: dict[str, Callable[[NodeCounts], Array]] = {
    "dampened information gain": _dampened,
    "dampened information gain, largest": partial(_dampened, replace=True),
    "gini": _gini_in_units,
    "information gain": _gain_in_units,
    "max operator": CRITERIA["max_operator"].values,
    "shifted dampened information gain": _shifted,
}
"""Utilities in units of their sensitivity, so that Δ = 1 for all of them."""


Counts = NDArray[np.int64]
Index = NDArray[np.intp]
Path = frozenset[tuple[int, int]]
"""The attributes and values that lead to a node, in any order."""


@dataclass(frozen=True, slots=True)
class CountedCells:
    """What a node that may be split was counted to hold.

    Attributes:
        counts: contingency tables of the unused attributes.
        leads: how many more records each of their cells has of the first class.
        judged: their test records by class, shape (cells, 2).
        utilities: of the attributes by kind, once asked for.
    """

    counts: NodeCounts
    leads: Counts
    judged: Counts
    utilities: dict[str, Array] = field(default_factory=dict)

    def of_kind(self, kind: str) -> Array:
        """Return the utilities of a kind, shape (attributes,)."""
        if kind not in self.utilities:
            self.utilities[kind] = utilities(kind, self.counts)
        return self.utilities[kind]


@dataclass(slots=True, eq=False)
class CountedNode:
    """A node, and what was computed of it once asked for.

    Attributes:
        train, test: its records, to learn from and to be judged by.
        unused: attributes.
        lead: how many more records it has of the first class.
        judged: its test records by class, shape (2,).
        children: by the place of an attribute, those that have test records.
    """

    path: Path
    train: Index
    test: Index
    unused: Index
    lead: int
    judged: Counts
    cells: CountedCells | None = None
    children: dict[int, "Sequence[CountedNode]"] = field(default_factory=dict)


@dataclass(slots=True)
class Fold:
    """Records to learn from, others to be judged by, and what was counted of them before.

    Args:
        train: two classes.
        test: with the same attributes.
    """

    train: CodedRecords
    test: CodedRecords
    _nodes: dict[Path, CountedNode] = field(default_factory=dict)

    def root(self) -> CountedNode:
        """Return the node that holds all records."""
        everything = np.arange(len(self.train.values))
        return self._node(frozenset(), everything, self.train.everyone(), self.test.everyone())

    def children(self, node: CountedNode, place: int) -> Sequence[CountedNode]:
        """Return the children by one of the unused attributes that have test records."""
        if place not in node.children:
            attribute = int(node.unused[place])
            rest = np.delete(node.unused, place)
            parts = zip(
                self.train.parts(node.train, attribute),
                self.test.parts(node.test, attribute),
                strict=True,
            )
            node.children[place] = [
                self._node(node.path | {(attribute, value)}, rest, learnt, judged)
                for value, (learnt, judged) in enumerate(parts)
                if len(judged)
            ]
        return node.children[place]

    def cells(self, node: CountedNode) -> CountedCells:
        """Return the contingency tables of a node."""
        if node.cells is None:
            counts = self.train.counts(node.train, node.unused)
            leads = counts.table[:, 0] - counts.table[:, 1]
            node.cells = CountedCells(counts, leads, self.test.counts(node.test, node.unused).table)
        return node.cells

    def _node(self, path: Path, unused: Index, train: Index, test: Index) -> CountedNode:
        """Return the node at the end of a path, the same in whatever order it was gone."""
        if path not in self._nodes:
            first, second = self.train.label_counts(train).tolist()
            judged = self.test.label_counts(test)
            self._nodes[path] = CountedNode(path, train, test, unused, first - second, judged)
        return self._nodes[path]


_NEGLIGIBLE = 1e-9
"""A branch less probable than this is left out."""
_RARE = 0.01
"""The probability of a split below which it is drawn, as attributes are, and not summed over."""


def expected_accuracy(
    fold: Fold,
    plan: TreePlan,
    kind: str,
    choice: Choice,
    generator: np.random.Generator | None = None,
) -> float:
    """Return the expected share of the test records that a tree gets right.

    Args:
        fold: of records, with two classes.
        plan: what nodes spend.
        kind: of utilities; one of `KINDS`.
        choice: probabilities of the attributes by these utilities.
        generator: draws the attributes of all levels but the last, and rare decisions to split;
            None to sum over them all.
    """
    root = fold.root()
    return _Walk(fold, plan, kind, choice, generator).correct(root, 0) / len(root.test)


def first_label(lead: ArrayLike, epsilon: float) -> Array:
    """Return permute-and-flip's probability of the first of two labels, in the shape of `lead`.

    Args:
        lead: how many more records there are of it than of the second.
        epsilon: ε of a label, for counts.

    Example:
        >>> first_label([2, 0, -2], 0.5).round(4).tolist()
        [0.8161, 0.5, 0.1839]
    """
    return np.asarray((1 - np.sign(lead) * np.expm1(-epsilon * np.abs(lead))) / 2)


@lru_cache(maxsize=1 << 16)
def _split_probability(plan: TreePlan, records: int) -> float:
    return float(StabilityMechanism(plan.part).probabilities(plan.split(records))[1])


@dataclass(frozen=True, slots=True)
class _Walk:
    fold: Fold
    plan: TreePlan
    kind: str
    choice: Choice
    generator: np.random.Generator | None

    def correct(self, node: CountedNode, level: int) -> float:
        """Return how many test records of a node are expected to be right."""
        stop = float(_right(node.lead, node.judged, self.plan.left(level)))
        split = _split_probability(self.plan, len(node.train))
        if self.generator is not None and split < _RARE:
            split = float(self.generator.random() < split)
        if split < _NEGLIGIBLE:
            return stop
        cells = self.fold.cells(node)
        probabilities = self.choice(cells.of_kind(self.kind))
        if level == self.plan.depth - 1:
            right = _right(cells.leads, cells.judged, self.plan.left(self.plan.depth))
            below = float(probabilities @ np.add.reduceat(right, cells.counts.starts))
        else:
            below = self._deeper(node, level, probabilities)
        return (1 - split) * stop + split * below

    def _deeper(self, node: CountedNode, level: int, probabilities: Array) -> float:
        if self.generator is not None:
            upto = probabilities.cumsum()
            drawn = int((upto / upto[-1]).searchsorted(self.generator.random(), side="right"))
            return self._below(node, level, drawn)
        return sum(
            float(probability) * self._below(node, level, place)
            for place, probability in enumerate(probabilities)
            if probability > _NEGLIGIBLE
        )

    def _below(self, node: CountedNode, level: int, place: int) -> float:
        return sum(self.correct(child, level + 1) for child in self.fold.children(node, place))


def _right(lead: ArrayLike, judged: Counts, epsilon: float) -> Array:
    """Return how many of the judged records, counted by class, a private label gets right."""
    first = first_label(lead, epsilon)
    return np.asarray(first * judged[..., 0] + (1 - first) * judged[..., 1])
