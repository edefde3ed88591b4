"""The expected accuracy of private trees, over their own randomness and not by drawing trees.

Two levels are summed over exactly. Deeper, the attributes of the upper levels are drawn, and the
decisions to split, the last attribute and the labels are still summed over.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.selection import StabilityMechanism
from geoveil.gp.selection.applications.gain import NodeCounts
from geoveil.gp.selection.applications.tree import TreePlan
from geoveil.gp.selection.applications.tree_counts import CodedRecords
from geoveil.simulation.selection.tree_contestants import Choice, utilities

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Path = frozenset[tuple[int, int]]
"""The attributes and values that lead to a node, in any order."""

_NEGLIGIBLE = 1e-9
"""A branch less probable than this is left out."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A node: its records, their contingency tables, and utilities by kind once asked for."""

    train: Index
    test: Index
    unused: Index
    counts: NodeCounts
    test_counts: NodeCounts
    utilities: dict[str, Array] = field(default_factory=dict)


@dataclass(slots=True)
class Fold:
    """Records to learn from, others to be judged by, and what was counted of them before.

    Args:
        train: two classes.
        test: with the same attributes.
    """

    train: CodedRecords
    test: CodedRecords
    _nodes: dict[Path, _Known] = field(default_factory=dict)

    def accuracy(
        self,
        plan: TreePlan,
        kind: str,
        choice: Choice,
        generator: np.random.Generator | None = None,
    ) -> float:
        """Return the expected share of the test records that a tree gets right.

        Args:
            plan: what nodes spend.
            kind: of utilities.
            choice: probabilities of the attributes by these utilities.
            generator: draws the attributes of all levels but the last; None to sum over them all.
        """
        everything = np.arange(len(self.train.values))
        root = self.node(frozenset(), everything, self.train.everyone(), self.test.everyone())
        walk = _Walk(self, plan, kind, choice, generator)
        return walk.correct(frozenset(), root, 0) / len(root.test)

    def node(self, path: Path, unused: Index, train: Index, test: Index) -> _Known:
        """Return the node at the end of a path, counted once."""
        if path not in self._nodes:
            self._nodes[path] = _Known(
                train,
                test,
                unused,
                self.train.counts(train, unused),
                self.test.counts(test, unused),
            )
        return self._nodes[path]


def label_probabilities(table: NDArray[np.int64], epsilon: float) -> Array:
    """Return permute-and-flip's probability of each of two labels, shape (cells, 2).

    Args:
        table: counts, shape (cells, 2).
        epsilon: ε of a label, for counts.

    Example:
        >>> label_probabilities(np.array([[3, 1]]), 0.5).round(4).tolist()
        [[0.8161, 0.1839]]
    """
    gap = np.exp(-epsilon * np.abs(table[:, :1] - table[:, 1:])) / 2
    first = table[:, :1] >= table[:, 1:]
    return np.concatenate([np.where(first, 1 - gap, gap), np.where(first, gap, 1 - gap)], axis=1)


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

    def correct(self, path: Path, node: _Known, level: int) -> float:
        """Return how many test records of a node are expected to be right."""
        stop = self._leaf(node, level)
        split = _split_probability(self.plan, len(node.train))
        if split < _NEGLIGIBLE:
            return stop
        if self.kind not in node.utilities:
            node.utilities[self.kind] = utilities(self.kind, node.counts)
        probabilities = self.choice(node.utilities[self.kind])
        below = self._last if level == self.plan.depth - 1 else self._deeper
        return (1 - split) * stop + split * below(path, node, level, probabilities)

    def _leaf(self, node: _Known, level: int) -> float:
        train = self.fold.train.label_counts(node.train)[None]
        test = self.fold.test.label_counts(node.test)
        return float((label_probabilities(train, self.plan.left(level))[0] * test).sum())

    def _last(self, path: Path, node: _Known, level: int, probabilities: Array) -> float:
        labels = label_probabilities(node.counts.table, self.plan.left(self.plan.depth))
        right = (labels * node.test_counts.table).sum(axis=1)
        return float(probabilities @ np.add.reduceat(right, node.counts.starts))

    def _deeper(self, path: Path, node: _Known, level: int, probabilities: Array) -> float:
        if self.generator is not None:
            drawn = int(self.generator.choice(len(probabilities), p=_normalised(probabilities)))
            return self._children(path, node, level, drawn)
        return sum(
            float(probability) * self._children(path, node, level, place)
            for place, probability in enumerate(probabilities)
            if probability > _NEGLIGIBLE
        )

    def _children(self, path: Path, node: _Known, level: int, place: int) -> float:
        attribute = int(node.unused[place])
        train = self.fold.train.parts(node.train, attribute)
        test = self.fold.test.parts(node.test, attribute)
        rest = np.delete(node.unused, place)
        total = 0.0
        for value, (learnt, judged) in enumerate(zip(train, test, strict=True)):
            if len(judged):
                below = path | {(attribute, value)}
                known = self.fold.node(below, rest, learnt, judged)
                total += self.correct(below, known, level + 1)
        return total


def _normalised(probabilities: Array) -> Array:
    return np.asarray(probabilities / probabilities.sum())
