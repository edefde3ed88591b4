"""The nodes of the trees of an experiment, each counted once for all mechanisms and ε."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from geoveil.selection.contrib.criteria import NodeCounts
from geoveil.selection.contrib.tree import CodedRecords
from geoveil.simulation.selection.tree_utilities import utilities

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Index = NDArray[np.intp]
Path = frozenset[tuple[int, int]]
"""The attributes and values that lead to a node, in any order."""


@dataclass(frozen=True, slots=True)
class Cells:
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
class Node:
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
    cells: Cells | None = None
    children: dict[int, "Sequence[Node]"] = field(default_factory=dict)


@dataclass(slots=True)
class Fold:
    """Records to learn from, others to be judged by, and what was counted of them before.

    Args:
        train: two classes.
        test: with the same attributes.
    """

    train: CodedRecords
    test: CodedRecords
    _nodes: dict[Path, Node] = field(default_factory=dict)

    def root(self) -> Node:
        """Return the node that holds all records."""
        everything = np.arange(len(self.train.values))
        return self._node(frozenset(), everything, self.train.everyone(), self.test.everyone())

    def children(self, node: Node, place: int) -> Sequence[Node]:
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

    def cells(self, node: Node) -> Cells:
        """Return the contingency tables of a node."""
        if node.cells is None:
            counts = self.train.counts(node.train, node.unused)
            leads = counts.table[:, 0] - counts.table[:, 1]
            node.cells = Cells(counts, leads, self.test.counts(node.test, node.unused).table)
        return node.cells

    def _node(self, path: Path, unused: Index, train: Index, test: Index) -> Node:
        """Return the node at the end of a path, the same in whatever order it was gone."""
        if path not in self._nodes:
            first, second = self.train.label_counts(train).tolist()
            judged = self.test.label_counts(test)
            self._nodes[path] = Node(path, train, test, unused, first - second, judged)
        return self._nodes[path]
