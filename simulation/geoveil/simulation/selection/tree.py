"""ID3 on Adult: Figure 6 of [LD] and Figure 4 of [SNM], at equal, really satisfied ε.

Ten folds, depth 2 and 5. The template, how it splits ε and how it labels leaves are the same for
all, so that only the choice of attributes differs. The paper's mechanisms choose with the share ε'
of ε that they claim to.

Each mechanism is split into what a node's utilities are, which no ε changes, and the probabilities
that it makes of them: an experiment over many ε computes the first once. Each has beside it what it
really costs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from geoveil.gp import ParameterError
from geoveil.selection import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.contrib.criteria import max_operator
from geoveil.selection.contrib.tree import CodedRecords, TreePlan
from geoveil.simulation.selection.counts import (
    PUBLISHED,
    best,
    by_margin,
    by_rows,
    directly,
)
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    OPEN,
    Compute,
    Made,
    Make,
    Options,
    SelectionContestant,
    SelectionExperiment,
    SelectionRow,
    brought,
)
from geoveil.simulation.selection.tables import ADULT_EDGES, Dataset, read_table, table
from geoveil.simulation.selection.tree_accuracy import (
    Fold,
    Utilities,
    dampened_gain,
    expected_accuracy,
    in_units,
    shifted_dampened_gain,
)


def on(utilities: Utilities, make: Make) -> Make:
    """Return a mechanism on utilities of a node's attributes, which it keeps for every ε."""

    def made(epsilon: float, attributes: int) -> Made:
        plain = make(epsilon, attributes)
        return replace(plain, choice=lambda node: plain.choice(node.utilities(utilities)[None])[0])

    return made


def _on_counts(contestants: Sequence[SelectionContestant]) -> list[SelectionContestant]:
    """Return mechanisms on the maximum operator."""
    return [replace(known, make=on(max_operator, known.make)) for known in contestants]


_flip = directly(PermuteAndFlip, monotone=True)
_exponential = directly(ExponentialMechanism, monotone=False)
_gain = in_units("information_gain")
_KEPT: Mapping[str, tuple[Utilities, Make]] = {
    "permute-and-flip, max operator": (max_operator, _flip),
    "exponential, max operator": (max_operator, directly(ExponentialMechanism, monotone=True)),
    "stability, max operator": (max_operator, by_margin("stability")),
    "smooth noisy max, proved": (max_operator, by_margin("smooth_noisy_max")),
    "permute-and-flip, gini": (in_units("gini"), _flip),
    "permute-and-flip, information gain": (_gain, _flip),
    "local dampening": (dampened_gain, _exponential),
    "local dampening, replaced": (partial(dampened_gain, replace=True), _exponential),
    "shifted local dampening": (shifted_dampened_gain, _exponential),
}
# Noise for utilities that move apart, where they move in one direction.
_printed = on(_gain, directly(ExponentialMechanism, monotone=False, costs=0.5))
CONTESTANTS: Sequence[SelectionContestant] = (
    *(SelectionContestant(name, on(*how)) for name, how in _KEPT.items()),
    SelectionContestant("exponential, information gain", _printed, NOMINAL),
    *_on_counts(PUBLISHED),
)
_NO_PRIVACY = tuple(
    SelectionContestant(f"no privacy, {name}", on(utilities, lambda *_: Made(best, math.inf)), OPEN)
    for name, utilities in (("information gain", _gain), ("max operator", max_operator))
)
_NOTHING_LEFT_TO_CHANCE = 1e6
"""The ε at which trees without privacy are grown."""
EXACT_DEPTH = 2
"""Depth up to which all trees are summed over; deeper ones are drawn."""
_CALM = 2.0
"""The ε below which trees are drawn more often, in proportion: they differ more there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSetting:
    """What the experiment is run on."""

    depths: Sequence[int] = (2, 5)
    budgets: Sequence[float] = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
    folds: int = 10
    """At least 2, of which each is judged by what the others teach."""
    most_draws: int = 12
    """Trees per fold and mechanism at most, where they are drawn."""


QUICK = TreeSetting(depths=(2,), budgets=(0.1, 1.0), folds=2)


def parts(options: Options) -> Mapping[str, Compute]:
    """Return what is computed, by table; `data` are tables of two classes, Adult without any."""
    setting = QUICK if options.quick else TreeSetting()
    tables = [_of_two_classes(file) for file in options.data]
    tables = tables or [table("adult").discretised(ADULT_EDGES)]
    everyone = (*CONTESTANTS, *_on_counts(brought(options.own, by_rows)))
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
    contestants: Sequence[SelectionContestant] = CONTESTANTS,
) -> Iterator[SelectionRow]:
    """Yield the rows of a coded table of two classes: by depth, mechanism and ε."""
    cells = []
    for depth, contestant, epsilon in product(
        setting.depths, (*contestants, *_NO_PRIVACY), setting.budgets
    ):
        budget = _NOTHING_LEFT_TO_CHANCE if contestant.standing == OPEN else epsilon
        plan = TreePlan(budget, depth, max(_values(data)), len(data.classes))
        cells.append((contestant, epsilon, plan, contestant.make(plan.part, len(data.domains))))
    accuracies: list[list[float]] = []
    for number, fold in enumerate(_folds(data, setting.folds, seed)):
        accuracies.append([])
        for contestant, epsilon, plan, made in cells:
            draws: Sequence[np.random.Generator | None] = [None]
            if plan.depth > EXACT_DEPTH:
                most = 1 if contestant.standing == OPEN else setting.most_draws
                # The same draws for all mechanisms, so that they differ in what they do.
                generator = np.random.default_rng([seed, number])
                draws = [generator] * max(1, min(most, math.ceil(_CALM / epsilon)))
            found = [expected_accuracy(fold, plan, made.choice, draw) for draw in draws]
            accuracies[-1].append(float(np.mean(found)))
    for (contestant, epsilon, plan, made), values in zip(
        cells, np.transpose(accuracies), strict=True
    ):
        spent = epsilon + plan.depth * (made.epsilon - plan.part)
        yield contestant.row(
            values,
            Made(made.choice, spent, plan.depth * made.delta),
            application="tree",
            dataset=data.name,
            setting=f"depth {plan.depth}",
            epsilon=epsilon,
            measure="expected accuracy",
            mode="exact" if plan.depth <= EXACT_DEPTH else "monte-carlo",
        )


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


EXPERIMENT = SelectionExperiment("tree", parts, "Private ID3: which attribute to split by")
