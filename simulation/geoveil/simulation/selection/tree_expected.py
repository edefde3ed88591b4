"""The expected accuracy of private trees, over their own randomness and not by drawing trees.

Two levels are summed over exactly. Deeper, the attributes of the upper levels are drawn, and so is
whether to split a node that rarely is; other decisions to split, the last attribute and the labels
are still summed over. What is drawn makes a mean uncertain, and no mean wrong.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.selection import StabilityMechanism
from geoveil.selection.contrib.tree import TreePlan
from geoveil.simulation.selection.accuracy import Choice
from geoveil.simulation.selection.tree_nodes import Counts, Fold, Node

Array = NDArray[np.float64]

_NEGLIGIBLE = 1e-9
"""A branch less probable than this is left out."""
_RARE = 0.01
"""Below this a decision to split is drawn where attributes are: nine nodes in ten are too small."""


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

    def correct(self, node: Node, level: int) -> float:
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

    def _deeper(self, node: Node, level: int, probabilities: Array) -> float:
        if self.generator is not None:
            upto = probabilities.cumsum()
            drawn = int((upto / upto[-1]).searchsorted(self.generator.random(), side="right"))
            return self._below(node, level, drawn)
        return sum(
            float(probability) * self._below(node, level, place)
            for place, probability in enumerate(probabilities)
            if probability > _NEGLIGIBLE
        )

    def _below(self, node: Node, level: int, place: int) -> float:
        return sum(self.correct(child, level + 1) for child in self.fold.children(node, place))


def _right(lead: ArrayLike, judged: Counts, epsilon: float) -> Array:
    """Return how many of the judged records, counted by class, a private label gets right."""
    first = first_label(lead, epsilon)
    return np.asarray(first * judged[..., 0] + (1 - first) * judged[..., 1])
