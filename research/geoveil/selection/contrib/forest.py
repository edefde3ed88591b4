"""A private random forest: random trees on disjoint parts of the data [SNM Algorithms 3 and 4].

`LABEL_RECIPES` has the mechanisms that choose a leaf's label.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError, PrivateValueError, RandomSource, chosen_source, validation
from geoveil.selection.base import Array, ScoresLike, SelectionMechanism
from geoveil.selection.contrib.classifier import Codes, NotFittedError, PrivateClassifier
from geoveil.selection.contrib.random_trees import Domain, RandomTrees, random_trees
from geoveil.selection.contrib.recipe import SelectionRecipe, by_beta, plain, recipe_named
from geoveil.selection.draws import random_words
from geoveil.selection.global_sensitivity import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.smooth import SmoothNoisyMax
from geoveil.selection.stability import (
    StabilityMechanism,
    count_margin,
    distance_utilities,
    indicator_utilities,
)

Counts = NDArray[np.int64]
LabelRecipe: TypeAlias = SelectionRecipe[int, Counts]
"""A recipe whose public fact is the number of classes; it scores a leaf's counts of labels."""

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
    """A recipe with its mechanism for one leaf; it scores the counts of labels, (labels,)."""

    mechanism: SelectionMechanism
    recipe: LabelRecipe

    def probabilities(self, counts: Counts) -> Array:
        """Return the probability of each label, shape (leaves, labels) like the counts: private."""
        distinct, back = np.unique(counts, axis=0, return_inverse=True)
        rows = [self.mechanism.probabilities(self._scores(row)) for row in distinct]
        return np.asarray(rows)[np.asarray(back).ravel()]

    def select(self, counts: Counts, source: RandomSource) -> NDArray[np.int64]:
        """Return an exactly drawn label for each leaf, shape (leaves,); equal leaves share work."""
        result = np.empty(len(counts), dtype=np.int64)
        for leaves in _alike(counts):
            scores = self._scores(counts[leaves[0]])
            result[leaves] = self.mechanism.select_many(scores, len(leaves), source)
        return result

    def _scores(self, counts: Counts) -> ScoresLike:
        return self.recipe.score(counts, self.mechanism)


def _alike(counts: Counts) -> Iterator[NDArray[np.intp]]:
    """Yield the indices of leaves with equal counts, starting with the empty leaves."""
    held = counts.any(axis=1)
    empty, rest = np.flatnonzero(~held), np.flatnonzero(held)
    if len(empty):
        yield empty
    if len(rest):
        _, kind, sizes = np.unique(counts[rest], axis=0, return_inverse=True, return_counts=True)
        order = np.argsort(np.asarray(kind).ravel(), kind="stable")
        yield from np.split(rest[order], np.cumsum(sizes)[:-1])


def labeller(mechanism: LabelName, epsilon: float, classes: int) -> Labeller:
    """Return the labeller of one leaf by one of `LABEL_RECIPES`.

    Raises:
        ParameterError: if the mechanism is unknown, ε ≤ 0, or there are fewer than 2 classes.

    Example:
        >>> labeller("stability", 1.0, 2).probabilities(np.array([[7, 2], [0, 0]])).round(4)
        array([[0.9982, 0.0018],
               [0.7311, 0.2689]])
    """
    recipe = recipe_named(LABEL_RECIPES, mechanism)
    return Labeller(recipe.build(epsilon, classes), recipe)


def _by_counts(make: Callable[..., SelectionMechanism]) -> LabelRecipe:
    """Return a recipe by the counts; one record changes one count by 1, all in one direction."""
    return plain(make, lambda counts: counts, sensitivity=1.0, monotone=True)


def _by_distance(make: Callable[..., SelectionMechanism]) -> LabelRecipe:
    """Return a recipe that scores labels by the winner's lead in changes."""
    return plain(make, lambda counts: distance_utilities(count_margin(counts)), sensitivity=1.0)


LABEL_RECIPES: Mapping[str, LabelRecipe] = MappingProxyType(
    {
        "distance_exponential": _by_distance(ExponentialMechanism),
        "distance_permute_and_flip": _by_distance(PermuteAndFlip),
        "exponential": _by_counts(ExponentialMechanism),
        "permute_and_flip": _by_counts(PermuteAndFlip),
        "smooth_noisy_max": SelectionRecipe(
            SmoothNoisyMax,
            by_beta(lambda counts, beta: indicator_utilities(count_margin(counts), beta)),
        ),
        "stability": plain(StabilityMechanism, count_margin),
    }
)
"""Name → recipe."""

MOST_DEPTH = 16


class PrivateRandomForest(PrivateClassifier):
    """Random trees on separate records, whose leaves choose labels by private selection.

    The trees depend only on the domains. Each record goes to one random tree, and so to one leaf:
    every leaf may spend all of ε. The assignment of records to trees is not stored.

    Args:
        epsilon: ε > 0 of the whole `fit`, in nats per record added or removed.
        domains: for each attribute the number of its categories, or its range (low, high), to
            which records are clipped. Public.
        classes: the possible labels, at least two and all different. Public.
        trees: the number of trees, ≥ 1.
        depth: splits on each path, in [1, 16].
        mechanism: chooses labels; one of `LABEL_RECIPES`.
        seed: determines the structure of the trees. Public.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> X = np.random.default_rng(1).random((4000, 1))
        >>> forest = PrivateRandomForest(domains=[(0, 1)], classes=["low", "high"], trees=8)
        >>> y = np.where(X[:, 0] > 0.5, "high", "low")
        >>> forest.fit(X, y, SeededSource(1)).predict([[0.1], [0.9]]).tolist()
        ['low', 'high']
        >>> print(forest.guarantee)
        ε = 1: one record added or removed; it is in one leaf of one tree [SNM Algorithm 3]
    """

    _statement = "one record added or removed; it is in one leaf of one tree"
    _source = "[SNM Algorithm 3]"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        domains: Sequence[Domain],
        classes: Sequence[Any],
        trees: int = 32,
        depth: int = 9,
        mechanism: LabelName = "permute_and_flip",
        seed: int = 0,
    ) -> None:
        super().__init__(epsilon, classes)
        self.domains = domains
        self._domains = [_checked_domain(n, domain) for n, domain in enumerate(domains)]
        validation.require_count("trees", trees)
        validation.require_count("depth", depth, 1, MOST_DEPTH)
        validation.require_count("seed", seed, 0)
        self.trees, self.depth, self.seed = trees, depth, seed
        self.mechanism: LabelName = mechanism
        labeller(mechanism, self.epsilon, len(self.classes_))  # not kept: it can't be pickled
        generator = np.random.default_rng(seed)
        self._trees: RandomTrees = random_trees(self._domains, trees, depth, generator)
        # The order of labels in ties; with the same order everywhere, all empty leaves would vote
        # for one label.
        shape = (trees, self._trees.leaves, len(self.classes_))
        self._order = generator.random(shape).argsort(axis=2)
        self.labels_: NDArray[np.int64] | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, source: RandomSource | None = None) -> Self:  # noqa: N803 - as scikit-learn
        """Choose all labels, each by an exact `select`.

        Args:
            X: codes of categories, and numbers, shape (n, attributes).
            y: labels among the classes, shape (n,).

        Raises:
            PrivateValueError: if a category or label is out of range, or a number not finite.
            ParameterError: if `source` is not a RandomSource.
        """
        bits = chosen_source(source)
        records = self._records(X)
        labels = self._label_codes(y, len(records))
        counts = self.leaf_counts(records, labels, self._assigned(len(records), bits))
        choose = labeller(self.mechanism, self.epsilon, len(self.classes_))
        places = choose.select(counts.reshape(-1, counts.shape[2]), bits)
        self.labels_ = self.labels_at(places.reshape(counts.shape[:2]))
        return self

    def labels_at(self, places: Codes) -> Codes:
        """Return the labels at these positions, (trees, leaves), in the leaves' own orders."""
        return np.take_along_axis(self._order, places[:, :, None], axis=2)[:, :, 0]

    def by_label(self, values: Array) -> Array:
        """Return values (trees, leaves, classes) in the labels' order instead of each leaf's."""
        result = np.empty_like(values)
        np.put_along_axis(result, self._order, values, axis=2)
        return result

    def leaf_counts(self, records: Array, labels: Codes, tree: NDArray[np.intp]) -> Codes:
        """Return the counts of labels in each leaf, shape (trees, leaves, classes): private.

        Each leaf has its own random, public order of the labels; `labels_at` undoes it. `tree` has
        each record's tree, shape (n,).
        """
        shape = (self.trees, self._trees.leaves, len(self.classes_))
        cells = np.ravel_multi_index((tree, self._trees.leaf(records, tree), labels), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        return np.take_along_axis(counts, self._order, axis=2)

    def leaves(self, records: Array) -> NDArray[np.intp]:
        """Return each record's leaf in every tree, shape (trees, n): private."""
        return np.stack(
            [
                self._trees.leaf(records, np.full(len(records), tree, dtype=np.intp))
                for tree in range(self.trees)
            ]
        )

    def _predicted(self, X: ArrayLike) -> Codes:  # noqa: N803 - as scikit-learn
        """Return the label that most trees choose, the first in a tie."""
        if self.labels_ is None:
            raise NotFittedError("fit the forest first")
        votes = np.take_along_axis(self.labels_, self.leaves(self._records(X)), axis=1)
        tally = np.stack([(votes == c).sum(axis=0) for c in range(len(self.classes_))])
        return np.asarray(tally.argmax(axis=0), dtype=np.int64)

    def _assigned(self, records: int, bits: RandomSource) -> NDArray[np.intp]:
        """Return a tree for each record, independently of other records."""
        return (random_words(bits, records) % np.uint64(self.trees)).astype(np.intp)

    def _records(self, X: ArrayLike) -> Array:  # noqa: N803 - as scikit-learn
        array = validation.float_array(X)
        expected = "of shape (n, attributes), with codes of categories and finite numbers"
        if array is None or array.ndim != 2 or array.shape[1] != len(self._domains):
            raise PrivateValueError(expected)
        records = array.copy()
        for number, domain in enumerate(self._domains):
            column = records[:, number]
            if not np.isfinite(column).all():
                raise PrivateValueError(expected)
            if not isinstance(domain, int):
                records[:, number] = np.clip(column, *domain)
            elif not ((column == np.floor(column)) & (column >= 0) & (column < domain)).all():
                raise PrivateValueError(expected)
        return records


def _checked_domain(number: int, domain: object) -> Domain:
    name = f"domains[{number}]"
    if isinstance(domain, int):
        validation.require_count(name, domain)
        return domain
    low, high = validation.numbers(name, domain) if _is_pair(domain) else (0.0, 0.0)
    if not low < high:
        raise ParameterError(name, domain, "a number of categories, or (low, high) with low < high")
    return low, high


def _is_pair(domain: object) -> bool:
    return isinstance(domain, Sequence) and not isinstance(domain, str) and len(domain) == 2
