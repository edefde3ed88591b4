"""Random forests on five tables: Figure 5 of [SNM], at equal, really satisfied ε.

32 trees, 80 % of the records to learn from, ten executions with other trees, parts and splits. The
depths are the paper's. The margin is that of a leaf; the paper takes one for the database. The
paper's mechanisms run at the ε that they claim, with a utility of 0 or 1.

`LEAF_CONTESTANTS` are the mechanisms that it compares, with what each really costs. The accuracy of
a majority vote is its expectation over the labels of the leaves.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.noise.base import Noise
from geoveil.selection import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.contrib.forest import PrivateRandomForest
from geoveil.simulation.selection.counts import (
    PUBLISHED,
    Counts,
    best,
    by_lead,
    by_margin,
    by_rows,
    directly,
    for_each_noise,
    pair_law,
    published_law,
)
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    OPEN,
    Array,
    Choice,
    Compute,
    Made,
    Make,
    Options,
    SelectionContestant,
    SelectionRow,
    brought,
    compared,
)
from geoveil.simulation.selection.tables import Dataset, read_table, table

Index = NDArray[np.intp]


def expected_votes(probabilities: Array, leaves: Index, labels: NDArray[np.int64]) -> float:
    """Return the expected share of records that a vote on two labels gets right, exactly.

    The number of trees that vote for the second label is a sum of independent coins; a tie is a
    vote for the first. Shapes: probabilities (trees, leaves, 2), leaves (trees, n), labels (n,).

    Example:
        >>> p = np.array([[[0.1, 0.9]], [[0.2, 0.8]], [[0.5, 0.5]]])
        >>> round(expected_votes(p, np.zeros((3, 1), dtype=int), np.array([1])), 4)
        0.85
    """
    trees, records = leaves.shape
    second = np.take_along_axis(probabilities[:, :, 1], leaves, axis=1)
    # Row k: the probability that k of the trees so far vote for the second label.
    votes = np.zeros((trees + 1, records))
    votes[0] = 1.0
    for tree, p in enumerate(second):
        votes[1 : tree + 2] = votes[1 : tree + 2] * (1 - p) + votes[: tree + 1] * p
        votes[0] *= 1 - p
    wins = votes[trees // 2 + 1 :].sum(axis=0)
    return float(np.where(labels == 1, wins, 1 - wins).mean())


def drawn_votes(
    probabilities: Array,
    leaves: Index,
    labels: NDArray[np.int64],
    draws: int,
    generator: np.random.Generator,
) -> float:
    """Return the mean share of records that a vote gets right, over drawn labels of the leaves.

    Shapes: probabilities (trees, leaves, labels), leaves (trees, n), labels (n,).
    """
    cumulative = probabilities.cumsum(axis=2)
    # Against rounding: a uniform number is always below the last.
    cumulative[:, :, -1] = 1.0
    right = 0
    for _ in range(draws):
        uniform = generator.random(probabilities.shape[:2])
        chosen = (uniform[:, :, None] >= cumulative).sum(axis=2)
        votes = np.take_along_axis(chosen, leaves, axis=1)
        tally = np.stack([(votes == c).sum(axis=0) for c in range(probabilities.shape[2])])
        right += int((tally.argmax(axis=0) == labels).sum())
    return right / (draws * len(labels))


def _zero_one(mechanism: type[ExponentialMechanism | PermuteAndFlip]) -> Make:
    """Return a mechanism that does not look at the margin, and what it costs at a switch."""

    def make(epsilon: float, classes: int) -> Made:
        law = pair_law(mechanism(epsilon, 1.0), lambda _, outcomes: np.eye(outcomes)[0])
        winner, other = law(1, classes)
        return Made(by_lead(law), float(np.log(winner / other)))

    return make


LEAF_CONTESTANTS: Sequence[SelectionContestant] = (
    SelectionContestant("permute-and-flip, counts", directly(PermuteAndFlip, monotone=True)),
    SelectionContestant("exponential, counts", directly(ExponentialMechanism, monotone=True)),
    SelectionContestant("stability, optimal", by_margin("stability")),
    SelectionContestant("permute-and-flip, distance", by_margin("distance_permute_and_flip")),
    SelectionContestant("exponential, distance", by_margin("distance_exponential")),
    SelectionContestant("smooth noisy max, proved", by_margin("smooth_noisy_max")),
    SelectionContestant("permute-and-flip, 0/1", _zero_one(PermuteAndFlip), NOMINAL),
    SelectionContestant("exponential, 0/1", _zero_one(ExponentialMechanism), NOMINAL),
    *PUBLISHED,
)
"""Local dampening of the 0/1 utility is the exponential mechanism on the distance: D = j."""


_TREES = 32
"""The trees of a forest."""
_DEPTHS = {"adult": 9, "mushroom": 11, "wine": 10, "pen_digits": 12, "wall_sensor": 4}
"""Depths of the paper's trees [SNM §7.3]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestSetting:
    """What the experiment is run on."""

    depths: Mapping[str, int] = field(default_factory=lambda: _DEPTHS)
    """Name of one of `TABLES` → the depth of its trees."""
    budgets: Sequence[float] = (0.01, 0.05, 0.1, 1.0, 2.0)
    executions: int = 10
    """With other trees, parts and splits, ≥ 2."""
    draws: int = 10
    """Draws of all labels, per execution, where there are more than two."""


QUICK = ForestSetting(
    depths={"mushroom": 6, "wall_sensor": 4}, budgets=(0.1, 1.0), executions=2, draws=2
)
_DEPTH = 5
"""The depth of trees where a table is given: the paper's for Compas."""


def parts(options: Options) -> Mapping[str, Compute]:
    """Return what is computed, by table; `data` are tables, five that ship without any."""
    setting = QUICK if options.quick else ForestSetting()
    given = [(read_table(file), _DEPTH) for file in options.data]
    tables = given or [(table(name), depth) for name, depth in setting.depths.items()]
    everyone = (*LEAF_CONTESTANTS, *brought(options.own, by_rows))
    return {
        data.name: partial(rows_of, data, depth, setting, options.seed, everyone)
        for data, depth in tables
    }


def one_margin(data: Dataset) -> Sequence[SelectionContestant]:
    """Return the paper's mechanisms as its code has them: all leaves take the table's margin.

    That is no bound of a leaf's sensitivity, and nothing is proved.
    """
    second, first = np.sort(np.bincount(data.labels))[-2:]

    def of_the_table(counts: Counts) -> tuple[Index, NDArray[np.int64]]:
        return counts.argmax(axis=1), np.full(len(counts), first - second)

    def make(noise: Noise, epsilon: float, _: int) -> Made:
        return Made(by_lead(published_law(epsilon, noise), of_the_table), math.inf)

    return for_each_noise(make)


_NO_PRIVACY = SelectionContestant("no privacy", lambda *_: Made(best, math.inf), OPEN)


def rows_of(
    data: Dataset,
    depth: int,
    setting: ForestSetting,
    seed: int,
    contestants: Sequence[SelectionContestant] = LEAF_CONTESTANTS,
) -> Iterator[SelectionRow]:
    """Yield the rows of one table: by mechanism and ε, and what there is without privacy."""
    yield from compared(
        (*contestants, _NO_PRIVACY),
        setting.budgets,
        len(data.classes),
        (_execution(data, depth, setting.draws, [seed, n]) for n in range(setting.executions)),
        lambda choice, accuracy: {"expected accuracy": accuracy(choice)},
        application="forest",
        dataset=data.name,
        setting=f"depth {depth}",
        mode="exact" if len(data.classes) == 2 else "monte-carlo",
    )


def _execution(
    data: Dataset, depth: int, draws: int, seed: Sequence[int]
) -> Callable[[Choice], float]:
    """Return the expected accuracy of a choice of labels, for what the seed draws."""
    generator = np.random.default_rng(seed)
    forest = PrivateRandomForest(
        domains=data.domains,
        classes=range(len(data.classes)),
        trees=_TREES,
        depth=depth,
        seed=int(generator.integers(2**32)),
    )
    test = generator.permutation(len(data)) < len(data) // 5
    tree = generator.integers(_TREES, size=int((~test).sum()))
    counts = forest.leaf_counts(data.records[~test], data.labels[~test], tree)
    leaves, labels = forest.leaves(data.records[test]), data.labels[test]
    distinct, back = np.unique(counts.reshape(-1, counts.shape[2]), axis=0, return_inverse=True)

    def accuracy(choice: Choice) -> float:
        by_label = forest.by_label(choice(distinct)[back.ravel()].reshape(counts.shape))
        if counts.shape[2] == 2:
            return expected_votes(by_label, leaves, labels)
        # The same draws for all mechanisms, so that they differ in what they do.
        return drawn_votes(by_label, leaves, labels, draws, np.random.default_rng([*seed, 1]))

    return accuracy
