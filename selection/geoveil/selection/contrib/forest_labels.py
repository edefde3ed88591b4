"""The mechanisms by which a leaf chooses its label."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.exact.bits import RandomSource
from geoveil.selection.base import Array, ScoresLike, SelectionMechanism
from geoveil.selection.contrib.gain_margin import (
    count_margin,
    distance_utilities,
    indicator_utilities,
)
from geoveil.selection.exponential import ExponentialMechanism
from geoveil.selection.permute_and_flip import PermuteAndFlip
from geoveil.selection.smooth_noisy_max import SmoothNoisyMax
from geoveil.selection.stability import StabilityMechanism

Counts = NDArray[np.int64]

LabelName: TypeAlias = Literal[
    "distance_exponential",
    "distance_permute_and_flip",
    "exponential",
    "permute_and_flip",
    "smooth_noisy_max",
    "stability",
]


@dataclass(frozen=True, slots=True)
class Labeller:
    """A mechanism, and the scores that it is to be given for a leaf's counts.

    Args:
        mechanism: selects among the labels.
        scores: of counts of shape (labels,).
    """

    mechanism: SelectionMechanism
    scores: Callable[[Counts], ScoresLike]

    def probabilities(self, counts: Counts) -> Array:
        """Return the probability of each label, shape (leaves, labels): private.

        Args:
            counts: of the labels in each leaf, shape (leaves, labels).
        """
        distinct, back = np.unique(counts, axis=0, return_inverse=True)
        rows = [self.mechanism.probabilities(self.scores(row)) for row in distinct]
        return np.asarray(rows)[np.asarray(back).ravel()]

    def select(self, counts: Counts, source: RandomSource) -> NDArray[np.int64]:
        """Return a label for each leaf, shape (leaves,), each drawn exactly.

        Leaves of the same counts are drawn together; most have none.
        """
        result = np.empty(len(counts), dtype=np.int64)
        for leaves in _alike(counts):
            scores = self.scores(counts[leaves[0]])
            result[leaves] = self.mechanism.select_many(scores, len(leaves), source)
        return result


def _alike(counts: Counts) -> Iterator[NDArray[np.intp]]:
    """Yield the numbers of the leaves that have the same counts: first those without a record."""
    held = counts.any(axis=1)
    empty, rest = np.flatnonzero(~held), np.flatnonzero(held)
    if len(empty):
        yield empty
    if len(rest):
        _, kind, sizes = np.unique(counts[rest], axis=0, return_inverse=True, return_counts=True)
        order = np.argsort(np.asarray(kind).ravel(), kind="stable")
        yield from np.split(rest[order], np.cumsum(sizes)[:-1])


def labeller(mechanism: LabelName, epsilon: float, classes: int) -> Labeller:
    """Return how to choose the label of one leaf.

    Args:
        mechanism: one of `LABELLERS`.
        epsilon: ε > 0, nats.
        classes: how many labels there are, ≥ 2.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> labeller("stability", 1.0, 2).probabilities(np.array([[7, 2], [0, 0]])).round(4)
        array([[0.9982, 0.0018],
               [0.7311, 0.2689]])
    """
    name = validation.choice("mechanism", mechanism, LABELLERS)
    return LABELLERS[name](epsilon, classes)


def _counted(make: Callable[..., SelectionMechanism]) -> Callable[[float, int], Labeller]:
    """Return a labeller by the counts: one record moves one of them by 1, all in one direction."""

    def build(epsilon: float, classes: int) -> Labeller:
        return Labeller(make(epsilon, 1.0, monotone=True), lambda counts: counts)

    return build


def _distant(make: Callable[..., SelectionMechanism]) -> Callable[[float, int], Labeller]:
    """Return a labeller by the number of changes that the winner is ahead."""

    def build(epsilon: float, classes: int) -> Labeller:
        return Labeller(make(epsilon, 1.0), lambda counts: distance_utilities(count_margin(counts)))

    return build


def _stability(epsilon: float, classes: int) -> Labeller:
    return Labeller(StabilityMechanism(epsilon), count_margin)


def _smooth(epsilon: float, classes: int) -> Labeller:
    mechanism = SmoothNoisyMax(epsilon, classes)
    return Labeller(
        mechanism, lambda counts: indicator_utilities(count_margin(counts), mechanism.beta)
    )


LABELLERS: Mapping[str, Callable[[float, int], Labeller]] = MappingProxyType(
    {
        "distance_exponential": _distant(ExponentialMechanism),
        "distance_permute_and_flip": _distant(PermuteAndFlip),
        "exponential": _counted(ExponentialMechanism),
        "permute_and_flip": _counted(PermuteAndFlip),
        "smooth_noisy_max": _smooth,
        "stability": _stability,
    }
)
"""How each mechanism is set up, by ε and the number of classes."""
