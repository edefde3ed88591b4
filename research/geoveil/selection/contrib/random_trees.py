"""Random binary trees that depend on the domain but on no data [FI17; SNM §7.2].

Every tree has all of its 2^h leaves, since leaves only where records lie would reveal the records.
For this, each split divides the remaining categories into two random halves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError
from geoveil.selection.base import Array

Domain: TypeAlias = int | tuple[float, float]
"""The number of categories, coded from 0, or the range of a continuous attribute. Public."""


@dataclass(frozen=True, slots=True)
class RandomTrees:
    """Complete binary trees; node i has the children 2i + 1 and 2i + 2. Public.

    A record goes to the second child if its value exceeds the threshold or, for categories, if
    `second` is true for its category.
    """

    depth: int
    attribute: NDArray[np.intp]
    """Shape (trees, 2^depth − 1)."""
    threshold: Array
    """Thresholds, of the same shape; NaN for categories."""
    second: NDArray[np.bool_]
    """Shape (trees, 2^depth − 1, most categories)."""

    @property
    def trees(self) -> int:
        """The number of trees."""
        return len(self.attribute)

    @property
    def leaves(self) -> int:
        """The number of leaves per tree, 2^depth."""
        return 1 << self.depth

    def leaf(self, records: Array, tree: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the leaf in [0, leaves), (n,), of each record, (n, attributes), in its tree."""
        node = np.zeros(len(records), dtype=np.intp)
        rows = np.arange(len(records))
        most = self.second.shape[2] - 1
        for _ in range(self.depth):
            value = records[rows, self.attribute[tree, node]]
            threshold = self.threshold[tree, node]
            category = np.clip(value, 0, most).astype(np.intp)
            other = np.where(
                np.isnan(threshold), self.second[tree, node, category], value > threshold
            )
            node = 2 * node + 1 + other
        return node - (self.leaves - 1)


def random_trees(
    domains: Sequence[Domain], trees: int, depth: int, generator: np.random.Generator
) -> RandomTrees:
    """Return trees of depth h whose nodes split a random attribute at a random place in its range.

    The generator is public, and at least one domain must have more than one value.

    Raises:
        ParameterError: if no attribute can be split.

    Example:
        >>> forest = random_trees([(0.0, 1.0), 3], 4, 2, np.random.default_rng(1))
        >>> forest.attribute.shape, forest.leaves
        ((4, 3), 4)
    """
    most = max((d for d in domains if isinstance(d, int)), default=1)
    total = len(domains)
    low, high, there = np.zeros(total), np.zeros(total), np.zeros((total, most), dtype=bool)
    for number, domain in enumerate(domains):
        if isinstance(domain, int):
            there[number, :domain] = True
        else:
            low[number], high[number] = domain
    if not ((high > low) | (there.sum(axis=1) > 1)).any():
        raise ParameterError("domains", domains, "at least one attribute of more than one value")
    state = _Range(
        np.broadcast_to(low, (trees, total)),
        np.broadcast_to(high, (trees, total)),
        np.broadcast_to(there, (trees, total, most)),
    )
    attributes, thresholds, seconds = [], [], []
    for level in range(depth):
        attribute, threshold, second, state = state.split(generator)
        width = 1 << level
        attributes.append(attribute.reshape(trees, width))
        thresholds.append(threshold.reshape(trees, width))
        seconds.append(second.reshape(trees, width, most))
    return RandomTrees(
        depth,
        np.concatenate(attributes, axis=1),
        np.concatenate(thresholds, axis=1),
        np.concatenate(seconds, axis=1),
    )


@dataclass(frozen=True, slots=True)
class _Range:
    """The remaining range of every attribute at the nodes of all trees, tree by tree."""

    low: Array
    high: Array
    there: NDArray[np.bool_]

    def split(
        self, generator: np.random.Generator
    ) -> tuple[NDArray[np.intp], Array, NDArray[np.bool_], "_Range"]:
        nodes = np.arange(len(self.low))
        open_ = (self.high > self.low) | (self.there.sum(axis=2) > 1)
        # A node that cannot be split further has children with its own ranges.
        attribute = np.where(open_, generator.random(open_.shape), -1.0).argmax(axis=1)
        low, high = self.low[nodes, attribute], self.high[nodes, attribute]
        threshold = np.where(high > low, low + generator.random(len(nodes)) * (high - low), np.nan)
        there = self.there[nodes, attribute]
        second = _random_part(there, generator)
        first_high, second_low = self.high.copy(), self.low.copy()
        first_there, second_there = self.there.copy(), self.there.copy()
        continuous = ~np.isnan(threshold)
        first_high[nodes[continuous], attribute[continuous]] = threshold[continuous]
        second_low[nodes[continuous], attribute[continuous]] = threshold[continuous]
        parted = ~continuous & (there.sum(axis=1) > 1)
        first_there[nodes[parted], attribute[parted]] &= ~second[parted]
        second_there[nodes[parted], attribute[parted]] &= second[parted]
        children = _Range(
            np.stack([self.low, second_low], axis=1).reshape(-1, *self.low.shape[1:]),
            np.stack([first_high, self.high], axis=1).reshape(-1, *self.high.shape[1:]),
            np.stack([first_there, second_there], axis=1).reshape(-1, *self.there.shape[1:]),
        )
        return attribute, threshold, second, children


def _random_part(there: NDArray[np.bool_], generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return a random subset of the remaining categories, neither empty nor complete."""
    score = np.where(there, generator.random(there.shape), np.inf)
    rank = score.argsort(axis=1).argsort(axis=1)
    left = there.sum(axis=1)
    size = 1 + np.floor(generator.random(len(there)) * np.maximum(left - 1, 1))
    return np.asarray(there & (rank < size[:, None]))
