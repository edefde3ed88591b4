"""Random forests on five tables: Figure 5 of [SNM], at an equal ε that every mechanism keeps.

There are 32 trees of the paper's depths, ten executions, and 80 % of the records for training. Our
margin is a leaf's. The paper's is the database's; its mechanisms run at their nominal ε with a
utility of 0 or 1.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import Noise
from geoveil.selection.contrib.forest import PrivateRandomForest
from geoveil.simulation.selection.experiment import (
    LEAF_CONTESTANTS,
    Array,
    Choice,
    Compute,
    Counts,
    Made,
    Options,
    SelectionContestant,
    SelectionRow,
    brought,
    by_lead,
    by_rows,
    compared,
    for_each_noise,
    openly,
    published_law,
)
from geoveil.simulation.selection.tables import Dataset, read_table, table

Index = NDArray[np.intp]


def expected_votes(probabilities: Array, leaves: Index, labels: Index) -> float:
    """Return the exact expected share of correct labels by a vote between two labels.

    Trees vote independently for the second label; a tie counts for the first. Shapes:
    probabilities (trees, leaves, 2), leaves (trees, n), labels (n,).
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
    probabilities: Array, leaves: Index, labels: Index, draws: int, generator: np.random.Generator
) -> float:
    """Return the mean share of correct labels by drawn votes; shapes as in `expected_votes`."""
    cumulative = probabilities.cumsum(axis=2)
    cumulative[:, :, -1] = 1.0  # despite rounding, so that every uniform number is below
    right = 0
    for _ in range(draws):
        uniform = generator.random(probabilities.shape[:2])
        chosen = (uniform[:, :, None] >= cumulative).sum(axis=2)
        votes = np.take_along_axis(chosen, leaves, axis=1)
        tally = np.stack([(votes == c).sum(axis=0) for c in range(probabilities.shape[2])])
        right += int((tally.argmax(axis=0) == labels).sum())
    return right / (draws * len(labels))


_TREES = 32
_DEPTHS = {"adult": 9, "mushroom": 11, "wine": 10, "pen_digits": 12, "wall_sensor": 4}
"""Name of one of `TABLES` → the depth of the paper's trees [SNM §7.3]."""
_QUICK_DEPTHS = {"mushroom": 6, "wall_sensor": 4}
DEPTH = 5
"""The depth of trees for a given table: the paper's for Compas."""
QUICK: Mapping[str, Any] = {"budgets": (0.1, 1.0), "executions": 2, "draws": 2}


def shipped(quick: bool) -> list[tuple[Dataset, int]]:
    """Return the shipped tables with the depths of their trees."""
    depths = _QUICK_DEPTHS if quick else _DEPTHS
    return [(table(name), depth) for name, depth in depths.items()]


def parts(options: Options) -> Mapping[str, Compute]:
    """Return parts by table; `data` are tables, by default the five shipped ones."""
    tables = [(read_table(file), DEPTH) for file in options.data] or shipped(options.quick)
    everyone = (*LEAF_CONTESTANTS, *brought(options.own, by_rows))
    rows = partial(rows_of, seed=options.seed, contestants=everyone)
    setting = QUICK if options.quick else {}
    return {data.name: partial(rows, data, depth, **setting) for data, depth in tables}


def one_margin(data: Dataset) -> Sequence[SelectionContestant]:
    """Return the paper's mechanisms with the table's margin, as in its code; nothing is proved."""
    second, first = np.sort(np.bincount(data.labels))[-2:]

    def of_the_table(counts: Counts) -> tuple[Index, Index]:
        return counts.argmax(axis=1), np.full(len(counts), first - second)

    def make(noise: Noise, epsilon: float, _: int) -> Made:
        return Made(by_lead(published_law(epsilon, noise), of_the_table), math.inf)

    return for_each_noise(make)


def rows_of(
    data: Dataset,
    depth: int,
    seed: int,
    contestants: Sequence[SelectionContestant] = LEAF_CONTESTANTS,
    *,
    budgets: Sequence[float] = (0.01, 0.05, 0.1, 1.0, 2.0),
    executions: int = 10,
    draws: int = 10,
) -> Iterator[SelectionRow]:
    """Yield the rows of one table: by mechanism and ε, and without privacy.

    Each of two or more executions has its own trees, partition and splits, and draws of labels.
    """
    yield from compared(
        (*contestants, openly("no privacy")),
        budgets,
        len(data.classes),
        (_execution(data, depth, draws, [seed, number]) for number in range(executions)),
        lambda choice, accuracy: {"expected accuracy": accuracy(choice)},
        application="forest",
        dataset=data.name,
        setting=f"depth {depth}",
        mode="exact" if len(data.classes) == 2 else "monte-carlo",
    )


def _execution(
    data: Dataset, depth: int, draws: int, seed: Sequence[int]
) -> Callable[[Choice], float]:
    """Return a function from a choice of labels to its expected accuracy, with seeded trees."""
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
        # The same draws for all mechanisms, so that only their behaviour differs.
        return drawn_votes(by_label, leaves, labels, draws, np.random.default_rng([*seed, 1]))

    return accuracy
