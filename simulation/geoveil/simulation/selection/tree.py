"""ID3 on Adult: Figure 6 of [LD] and Figure 4 of [SNM], at equal, really satisfied ε.

Ten folds, depth 2 and 5. The template, how it splits ε and how it labels leaves are the same for
all, so that only the choice of attributes differs. The paper's mechanisms choose with the share ε'
of ε that they claim to.

Each mechanism is split into what a node's utilities are, which no ε changes, and the probabilities
that it makes of them: an experiment over many ε computes the first once. Each has beside it what it
really costs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError
from geoveil.gp.noise.base import Noise
from geoveil.selection import (
    ExponentialMechanism,
    Margin,
    PermuteAndFlip,
    SmoothNoisyMax,
    StabilityMechanism,
)
from geoveil.selection.contrib.tree import CodedRecords, TreePlan
from geoveil.selection.stability import count_margin, indicator_utilities
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
from geoveil.simulation.selection.tables import ADULT_EDGES, Dataset, read_table, table
from geoveil.simulation.selection.tree_accuracy import Fold, expected_accuracy

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeContestant(SelectionContestant):
    """A way to choose an attribute.

    Args:
        utilities: of a node's attributes: a criterion, dampened or not; one of `KINDS`.
    """

    utilities: str


def _exponential(epsilon: float, attributes: int) -> Choice:
    return ExponentialMechanism(epsilon, 1.0).probabilities


def _permute_and_flip(epsilon: float, attributes: int) -> Choice:
    return PermuteAndFlip(epsilon, 1.0, monotone=True).probabilities


def _stability(epsilon: float, attributes: int) -> Choice:
    mechanism = StabilityMechanism(epsilon)
    return lambda values: mechanism.probabilities(count_margin(values))


@cache
def _smooth(epsilon: float, attributes: int) -> Choice:
    mechanism = SmoothNoisyMax(epsilon, max(attributes, 2))

    @cache
    def by_margin(margin: int, outcomes: int) -> tuple[float, float]:
        scores = indicator_utilities(Margin(0, margin, outcomes), mechanism.beta)
        return winner_and_other(mechanism.probabilities(scores))

    return lambda values: _spread(count_margin(values), by_margin)


def _published_smooth(noise: Noise) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, attributes: int) -> Choice:
        law = published_law(epsilon, noise)
        return lambda values: _spread(_published_margin(values), law)

    return choice


def _published_margin(values: Array) -> Margin:
    """Return [SNM Proposition 6.3]'s k, the difference to the second."""
    if len(values) == 1:
        return Margin(0, 0, 1)
    second, first = np.sort(values)[-2:]
    return Margin(int(values.argmax()), int(first - second), len(values))


def _spread(margin: Margin, law: Callable[[int, int], tuple[float, float]]) -> Array:
    if margin.outcomes == 1:
        return np.ones(1)
    winner, other = law(margin.margin, margin.outcomes)
    result = np.full(margin.outcomes, other)
    result[margin.winner] = winner
    return result


CONTESTANTS: Sequence[TreeContestant] = (
    *(
        TreeContestant(name, choice, utilities=utilities)
        for name, choice, utilities in (
            ("permute-and-flip, max operator", _permute_and_flip, "max operator"),
            (
                "exponential, max operator",
                lambda e, _: ExponentialMechanism(e, 1.0, monotone=True).probabilities,
                "max operator",
            ),
            ("stability, max operator", _stability, "max operator"),
            ("smooth noisy max, proved", _smooth, "max operator"),
            ("permute-and-flip, gini", _permute_and_flip, "gini"),
            ("permute-and-flip, information gain", _permute_and_flip, "information gain"),
            ("local dampening", _exponential, "dampened information gain"),
            ("local dampening, replaced", _exponential, "dampened information gain, largest"),
            ("shifted local dampening", _exponential, "shifted dampened information gain"),
        )
    ),
    # Noise for utilities that move apart, where they move in one direction.
    TreeContestant(
        "exponential, information gain",
        _exponential,
        proved=lambda epsilon, _: epsilon / 2,
        standing=NOMINAL,
        utilities="information gain",
    ),
    *(
        TreeContestant(
            name,
            _published_smooth(noise),
            proved=partial(published_bound, noise=noise),
            standing=NOMINAL,
            delta=delta_of(noise),
            utilities="max operator",
        )
        for name, noise in PUBLISHED_NOISE.items()
    ),
)


EXACT_DEPTH = 2
"""Depth up to which all trees are summed over; deeper ones are drawn."""
_CALM = 2.0
"""The ε below which trees are drawn more often, in proportion: they differ more there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSetting:
    """What the experiment is run on.

    Args:
        depths: of the trees.
        budgets: ε.
        folds: ≥ 2, of which each is judged by what the others teach.
        most_draws: trees per fold and mechanism at most, where they are drawn.
    """

    depths: Sequence[int] = (2, 5)
    budgets: Sequence[float] = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
    folds: int = 10
    most_draws: int = 12

    def draws(self, epsilon: float) -> int:
        """Return how many trees to draw in a fold."""
        return max(1, min(self.most_draws, math.ceil(_CALM / epsilon)))


QUICK = TreeSetting(depths=(2,), budgets=(0.1, 1.0), folds=2)


def parts(options: Options) -> Mapping[str, Compute]:
    """Return what is computed, by table; `data` are tables of two classes, Adult without any.

    Raises:
        ParameterError: if a file can't be read, or has not two classes.
    """
    setting = QUICK if options.quick else TreeSetting()
    tables = [_of_two_classes(file) for file in options.data]
    tables = tables or [table("adult").discretised(ADULT_EDGES)]
    own = [
        TreeContestant(
            name,
            lambda epsilon, _, of=given: of.at(epsilon).probabilities,  # type: ignore[misc]  # bound here
            proved=lambda epsilon, _: math.inf,
            standing=OWN,
            utilities="max operator",
        )
        for name, given in options.own.items()
    ]

    everyone = (*CONTESTANTS, *own)
    return {d.name: partial(rows_of, d, setting, options.seed, everyone) for d in tables}


def _of_two_classes(file: Path) -> Dataset:
    data = read_table(file)
    if len(data.classes) != 2:
        raise ParameterError("data", str(file), "a table whose last column has two classes")
    return data.coded()


def rows_of(
    data: Dataset,
    setting: TreeSetting,
    seed: int,
    contestants: Sequence[TreeContestant] = CONTESTANTS,
) -> Iterator[SelectionRow]:
    """Yield the rows of one table: by depth, mechanism and ε, and what there is without privacy.

    Args:
        data: coded, with two classes.
        setting: of the experiment.
        seed: of folds and trees: the same rows for the same seed.
        contestants: beside those without privacy.
    """
    cells = [
        (depth, contestant, epsilon)
        for depth in setting.depths
        for contestant in (*contestants, *_NO_PRIVACY)
        for epsilon in setting.budgets
    ]
    accuracies = np.array(
        [
            [_accuracy(fold, data, setting, cell, [seed, number]) for cell in cells]
            for number, fold in enumerate(_folds(data, setting.folds, seed))
        ]
    ).T
    for cell, values in zip(cells, accuracies, strict=True):
        yield _row(data, *cell, values)


def _best(utilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.eye(len(utilities))[utilities.argmax()])


_NO_PRIVACY = tuple(
    TreeContestant(
        f"no privacy, {kind}",
        lambda epsilon, attributes: _best,
        proved=lambda epsilon, attributes: math.inf,
        standing=OPEN,
        utilities=kind,
    )
    for kind in ("information gain", "max operator")
)
_NOTHING_LEFT_TO_CHANCE = 1e6
"""The ε at which trees without privacy are grown."""


def _plan(data: Dataset, depth: int, contestant: TreeContestant, epsilon: float) -> TreePlan:
    free = contestant in _NO_PRIVACY
    budget = _NOTHING_LEFT_TO_CHANCE if free else epsilon
    return TreePlan(budget, depth, max(_values(data)), len(data.classes))


def _values(data: Dataset) -> list[int]:
    return [domain for domain in data.domains if isinstance(domain, int)]


def _folds(data: Dataset, folds: int, seed: int) -> Iterator[Fold]:
    codes = data.records.astype(np.int64)
    part = np.random.default_rng(seed).permutation(len(data)) % folds
    for number in range(folds):
        train, test = (
            CodedRecords(
                codes[which], data.labels[which], _values(data), len(data.classes), len(data)
            )
            for which in (part != number, part == number)
        )
        yield Fold(train, test)


def _accuracy(
    fold: Fold,
    data: Dataset,
    setting: TreeSetting,
    cell: tuple[int, TreeContestant, float],
    seed: Sequence[int],
) -> float:
    depth, contestant, epsilon = cell
    plan = _plan(data, *cell)
    choice = contestant.choice(plan.part, len(data.domains))
    if depth <= EXACT_DEPTH:
        return expected_accuracy(fold, plan, contestant.utilities, choice)
    # The same draws for all mechanisms, so that they differ in what they do.
    generator = np.random.default_rng(seed)
    draws = 1 if contestant in _NO_PRIVACY else setting.draws(epsilon)
    return float(
        np.mean(
            [
                expected_accuracy(fold, plan, contestant.utilities, choice, generator)
                for _ in range(draws)
            ]
        )
    )


def _row(
    data: Dataset,
    depth: int,
    contestant: TreeContestant,
    epsilon: float,
    accuracies: NDArray[np.float64],
) -> SelectionRow:
    part = _plan(data, depth, contestant, epsilon).part
    return contestant.row(
        accuracies,
        epsilon + depth * (contestant.cost(part, len(data.domains)) - part),
        exact=depth <= EXACT_DEPTH,
        application="tree",
        dataset=data.name,
        setting=f"depth {depth}",
        epsilon=epsilon,
        delta=depth * contestant.delta,
    )


EXPERIMENT = SelectionExperiment("tree", parts, "Private ID3: which attribute to split by")
