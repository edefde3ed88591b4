"""Random forests on five tables: Figure 5 of [SNM], at equal, really satisfied ε.

32 trees, 80 % of the records to learn from, ten executions with other trees, parts and splits. The
depths are the paper's. The margin is that of a leaf; the paper takes one for the database. The
paper's mechanisms run at the ε that they claim, with a utility of 0 or 1.

`LEAF_CONTESTANTS` are the mechanisms that it compares, with what each really costs. The accuracy of
a majority vote is its expectation over the labels of the leaves.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit import OwnSelection
from geoveil.gp.noise.base import Noise
from geoveil.selection import (
    ExponentialMechanism,
    Margin,
    PermuteAndFlip,
    ScoresLike,
    SelectionMechanism,
    SmoothNoisyMax,
    StabilityMechanism,
)
from geoveil.selection.contrib.forest import LabelName, PrivateRandomForest, labeller
from geoveil.selection.stability import (
    distance_utilities,
    indicator_utilities,
    winners_and_margins,
)
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    OPEN,
    OWN,
    Choice,
    Compute,
    Options,
    SelectionContestant,
    SelectionExperiment,
    SelectionRow,
)
from geoveil.simulation.selection.published import (
    PUBLISHED_NOISE,
    delta_of,
    published_bound,
    published_law,
    winner_and_other,
)
from geoveil.simulation.selection.tables import Dataset, read_table, table

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def expected_votes(probabilities: Array, leaves: Index, labels: NDArray[np.int64]) -> float:
    """Return the expected share of records that a vote on two labels gets right, exactly.

    The number of trees that vote for the second label is a sum of independent coins; a tie is a
    vote for the first.

    Args:
        probabilities: of the labels of each leaf, shape (trees, leaves, 2).
        leaves: of each record in each tree, shape (trees, n).
        labels: what is right, shape (n,).

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

    Args:
        probabilities: of the labels of each leaf, shape (trees, leaves, labels).
        leaves: of each record in each tree, shape (trees, n).
        labels: what is right, shape (n,).
        draws: of all labels.
        generator: draws them.
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


Counts = NDArray[np.int64]
Law = Callable[[int], tuple[float, float]]
"""Probabilities of the winner, and of each other label, by the margin."""


def _by_counts(name: LabelName) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, classes: int) -> Choice:
        return labeller(name, epsilon, classes).probabilities

    return choice


def _by_margin(law: Callable[[float, int], Law]) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, classes: int) -> Choice:
        known = lru_cache(maxsize=None)(law(epsilon, classes))

        def probabilities(counts: Counts) -> Array:
            winners, margins = winners_and_margins(counts)
            return _spread(winners, margins, known, counts.shape[1])

        return probabilities

    return choice


def _spread(winners: NDArray[np.intp], margins: Counts, law: Law, classes: int) -> Array:
    distinct, back = np.unique(margins, return_inverse=True)
    pairs = np.array([law(int(margin)) for margin in distinct])[back]
    result = np.repeat(pairs[:, 1:], classes, axis=1)
    result[np.arange(len(winners)), winners] = pairs[:, 0]
    return result


def _law(
    make: Callable[[float, int], SelectionMechanism], scores: Callable[[Margin, Any], ScoresLike]
) -> Callable[[float, int], Law]:
    def law(epsilon: float, classes: int) -> Law:
        mechanism = make(epsilon, classes)

        def of_margin(margin: int) -> tuple[float, float]:
            known = scores(Margin(0, margin, classes), mechanism)
            return winner_and_other(mechanism.probabilities(known))

        return of_margin

    return law


def _exponential(epsilon: float, _: int) -> SelectionMechanism:
    return ExponentialMechanism(epsilon, 1.0)


def _flip(epsilon: float, _: int) -> SelectionMechanism:
    return PermuteAndFlip(epsilon, 1.0)


def _distance(margin: Margin, _: Any) -> ScoresLike:
    return distance_utilities(margin)


def _zero_one(margin: Margin, _: Any) -> ScoresLike:
    return np.asarray(np.eye(margin.outcomes)[margin.winner])


def _cost_at_a_switch(law: Callable[[float, int], Law]) -> Callable[[float, int], float]:
    """Return what a mechanism costs that does not look at the margin."""

    def cost(epsilon: float, classes: int) -> float:
        winner, other = law(epsilon, classes)(1)
        return float(np.log(winner / other))

    return cost


def _published_smooth(noise: Noise) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, classes: int) -> Choice:
        law = published_law(epsilon, noise)

        def probabilities(counts: Counts) -> Array:
            top = np.sort(counts, axis=1)[:, -2:]
            leads = top[:, 1] - top[:, 0]
            return _spread(counts.argmax(axis=1), leads, lambda k: law(k, classes), classes)

        return probabilities

    return choice


LEAF_CONTESTANTS: Sequence[SelectionContestant] = (
    SelectionContestant("permute-and-flip, counts", _by_counts("permute_and_flip")),
    SelectionContestant("exponential, counts", _by_counts("exponential")),
    *(
        SelectionContestant(name, _by_margin(law))
        for name, law in {
            "stability, optimal": _law(
                lambda e, _: StabilityMechanism(e), lambda margin, _: margin
            ),
            "permute-and-flip, distance": _law(_flip, _distance),
            "exponential, distance": _law(_exponential, _distance),
            "smooth noisy max, proved": _law(
                SmoothNoisyMax, lambda margin, of: indicator_utilities(margin, of.beta)
            ),
        }.items()
    ),
    *(
        SelectionContestant(name, _by_margin(law), _cost_at_a_switch(law), standing=NOMINAL)
        for name, law in {
            "permute-and-flip, 0/1": _law(_flip, _zero_one),
            "exponential, 0/1": _law(_exponential, _zero_one),
        }.items()
    ),
    *(
        SelectionContestant(
            name,
            _published_smooth(noise),
            partial(published_bound, noise=noise),
            standing=NOMINAL,
            delta=delta_of(noise),
        )
        for name, noise in PUBLISHED_NOISE.items()
    ),
)
"""Local dampening of the 0/1 utility is the exponential mechanism on the distance: D = j."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestSetting:
    """What the experiment is run on.

    Args:
        tables: pairs of the name of one of `TABLES` and the depth of its trees [SNM §7.3].
        budgets: ε.
        trees: in a forest.
        executions: with other trees, parts and splits, ≥ 2.
        draws: of all labels, per execution, where there are more than two.
    """

    tables: Sequence[tuple[str, int]] = (
        ("adult", 9),
        ("mushroom", 11),
        ("wine", 10),
        ("pen_digits", 12),
        ("wall_sensor", 4),
    )
    budgets: Sequence[float] = (0.01, 0.05, 0.1, 1.0, 2.0)
    trees: int = 32
    executions: int = 10
    draws: int = 10


QUICK = ForestSetting(
    tables=(("mushroom", 6), ("wall_sensor", 4)), budgets=(0.1, 1.0), executions=2, draws=2
)


def parts(options: Options) -> Mapping[str, Compute]:
    """Return what is computed, by table; `data` are tables, five that ship without any.

    Raises:
        ParameterError: if a file can't be read.
    """
    setting = QUICK if options.quick else ForestSetting()
    given = [(read_table(file), _DEPTH) for file in options.data]
    own = [
        SelectionContestant(
            name, partial(_by_row, mechanism), lambda epsilon, _: math.inf, standing=OWN
        )
        for name, mechanism in options.own.items()
    ]
    tables = given or [(table(name), depth) for name, depth in setting.tables]

    everyone = (*LEAF_CONTESTANTS, *own)
    return {
        data.name: partial(rows_of, data, depth, setting, options.seed, everyone)
        for data, depth in tables
    }


def _by_row(given: OwnSelection, epsilon: float, classes: int) -> Choice:
    def probabilities(counts: NDArray[np.int64]) -> Array:
        return np.array([given.at(epsilon).probabilities(row) for row in counts])

    return probabilities


_DEPTH = 5
"""The depth of trees where a table is given: the paper's for Compas."""


def one_margin(data: Dataset) -> Sequence[SelectionContestant]:
    """Return the paper's mechanisms as its code has them: all leaves take the table's margin.

    That is no bound of a leaf's sensitivity, and nothing is proved.
    """
    second, first = np.sort(np.bincount(data.labels))[-2:]

    def contestant(name: str, noise: Noise) -> SelectionContestant:
        def choice(epsilon: float, classes: int) -> Choice:
            pair = published_law(epsilon, noise)(int(first - second), classes)
            return lambda counts: _spread(
                counts.argmax(axis=1), np.zeros(len(counts), np.int64), lambda _: pair, classes
            )

        return SelectionContestant(name, choice, lambda epsilon, classes: np.inf, standing=NOMINAL)

    return [contestant(name, noise) for name, noise in PUBLISHED_NOISE.items()]


def rows_of(
    data: Dataset,
    depth: int,
    setting: ForestSetting,
    seed: int,
    contestants: Sequence[SelectionContestant] = LEAF_CONTESTANTS,
) -> Iterator[SelectionRow]:
    """Yield the rows of one table: by mechanism and ε, and what there is without privacy."""
    cells = [
        (contestant, epsilon, contestant.choice(epsilon, len(data.classes)))
        for contestant in contestants
        for epsilon in setting.budgets
    ]
    choices: list[Choice] = [*(choice for _, _, choice in cells), _commonest]
    accuracies = np.array(
        [
            _accuracies(data, depth, setting, choices, [seed, execution])
            for execution in range(setting.executions)
        ]
    ).T
    for (contestant, epsilon, _), values in zip(cells, accuracies, strict=False):
        yield _row(data, depth, contestant, epsilon, values)
    for epsilon in setting.budgets:
        yield _row(data, depth, _NO_PRIVACY, epsilon, accuracies[-1])


def _commonest(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(np.eye(counts.shape[1])[counts.argmax(axis=1)])


_NO_PRIVACY = SelectionContestant(
    "no privacy",
    lambda epsilon, classes: _commonest,
    proved=lambda epsilon, classes: np.inf,
    standing=OPEN,
)


def _accuracies(
    data: Dataset,
    depth: int,
    setting: ForestSetting,
    choices: Sequence[Choice],
    seed: Sequence[int],
) -> list[float]:
    """Return the expected accuracy of each choice in one execution."""
    generator = np.random.default_rng(seed)
    forest = PrivateRandomForest(
        domains=data.domains,
        classes=range(len(data.classes)),
        trees=setting.trees,
        depth=depth,
        seed=int(generator.integers(2**32)),
    )
    test = generator.permutation(len(data)) < len(data) // 5
    tree = generator.integers(setting.trees, size=int((~test).sum()))
    counts = forest.leaf_counts(data.records[~test], data.labels[~test], tree)
    leaves, labels = forest.leaves(data.records[test]), data.labels[test]
    distinct, back = np.unique(counts.reshape(-1, counts.shape[2]), axis=0, return_inverse=True)
    back = np.asarray(back).ravel()
    result = []
    for choice in choices:
        probabilities = choice(distinct)[back].reshape(counts.shape)
        if counts.shape[2] == 2:
            result.append(expected_votes(forest.by_label(probabilities), leaves, labels))
        else:
            # The same draws for all mechanisms, so that they differ in what they do.
            drawing = np.random.default_rng([*seed, 1])
            by_label = forest.by_label(probabilities)
            result.append(drawn_votes(by_label, leaves, labels, setting.draws, drawing))
    return result


def _row(
    data: Dataset,
    depth: int,
    contestant: SelectionContestant,
    epsilon: float,
    accuracies: NDArray[np.float64],
) -> SelectionRow:
    return contestant.row(
        accuracies,
        contestant.cost(epsilon, len(data.classes)),
        exact=len(data.classes) == 2,
        application="forest",
        dataset=data.name,
        setting=f"depth {depth}",
        epsilon=epsilon,
        delta=contestant.delta,
    )


EXPERIMENT = SelectionExperiment("forest", parts, "Private random forests: which label a leaf has")
