"""ID3 on Adult: Figure 6 of [LD] and Figure 4 of [SNM], at equal, really satisfied ε.

Ten folds, depth 2 and 5. The template, how it splits ε and how it labels leaves are the same for
all, so that only the choice of attributes differs. The paper's mechanisms choose with the share ε'
of ε that they claim to.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geoveil.selection.contrib.tree import CodedRecords, TreePlan
from geoveil.simulation.selection.accuracy_figure import draw_accuracies
from geoveil.simulation.selection.rows import OPEN, Row
from geoveil.simulation.selection.settings import Experiment, Options
from geoveil.simulation.selection.tables import ADULT_EDGES, Table, table
from geoveil.simulation.selection.tree_contestants import CONTESTANTS, TreeContestant
from geoveil.simulation.selection.tree_expected import expected_accuracy
from geoveil.simulation.selection.tree_nodes import Fold

EXACT_DEPTH = 2
"""Depth up to which all trees are summed over; deeper ones are drawn."""
_CALM = 2.0
"""At a smaller ε trees differ more, and are smaller: they are drawn more often, in proportion."""


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


def run(options: Options) -> list[Row]:
    """Return the rows; it takes no data.

    Raises:
        ParameterError: if it is given data.
    """
    options.refuse_data()
    setting = QUICK if options.quick else TreeSetting()
    return list(rows_of(table("adult").discretised(ADULT_EDGES), setting, options.seed))


def rows_of(data: Table, setting: TreeSetting, seed: int) -> Iterator[Row]:
    """Yield the rows of one table: by depth, mechanism and ε, and what there is without privacy.

    Args:
        data: coded, with two classes.
        setting: of the experiment.
        seed: of folds and trees: the same rows for the same seed.
    """
    cells = [
        (depth, contestant, epsilon)
        for depth in setting.depths
        for contestant in (*CONTESTANTS, *_NO_PRIVACY)
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


def draw(rows: Sequence[Row], directory: Path) -> list[Path]:
    """Draw the figure."""
    file = directory / "selection-tree.png"
    draw_accuracies(
        rows,
        file,
        title="Private ID3: which attribute to split by",
        notes={
            "exponential, information gain": ",\na choice costs half of what it is given",
            "SNM-T": ",\na choice costs over 3 times what it is given",
        },
    )
    return [file]


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


def _plan(data: Table, depth: int, contestant: TreeContestant, epsilon: float) -> TreePlan:
    free = contestant in _NO_PRIVACY
    budget = _NOTHING_LEFT_TO_CHANCE if free else epsilon
    return TreePlan(budget, depth, max(_values(data)), len(data.classes))


def _values(data: Table) -> list[int]:
    return [domain for domain in data.domains if isinstance(domain, int)]


def _folds(data: Table, folds: int, seed: int) -> Iterator[Fold]:
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
    data: Table,
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
    data: Table,
    depth: int,
    contestant: TreeContestant,
    epsilon: float,
    accuracies: NDArray[np.float64],
) -> Row:
    part = _plan(data, depth, contestant, epsilon).part
    return contestant.row(
        accuracies,
        exact=depth <= EXACT_DEPTH,
        application="tree",
        dataset=data.name,
        setting=f"depth {depth}",
        epsilon=epsilon,
        proved_epsilon=epsilon + depth * (contestant.cost(part, len(data.domains)) - part),
        delta=depth * contestant.delta,
    )


EXPERIMENT = Experiment("tree", run, draw)
