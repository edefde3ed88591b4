"""Random forests on five tables: Figure 5 of [SNM], at equal, really satisfied ε.

32 trees, 80 % of the records to learn from, ten executions with other trees, parts and splits. The
depths are the paper's. The margin is that of a leaf; the paper takes one for the database. The
paper's mechanisms run at the ε that they claim, with a utility of 0 or 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geoveil.selection.contrib.forest import PrivateRandomForest
from geoveil.simulation.selection.accuracy import Choice, Contestant
from geoveil.simulation.selection.accuracy_figure import draw_accuracies
from geoveil.simulation.selection.forest_contestants import LEAF_CONTESTANTS
from geoveil.simulation.selection.forest_votes import drawn_votes, expected_votes
from geoveil.simulation.selection.rows import OPEN, Row
from geoveil.simulation.selection.settings import Experiment, Options
from geoveil.simulation.selection.tables import Table, table


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


def run(options: Options) -> list[Row]:
    """Return the rows; it takes no data.

    Raises:
        ParameterError: if it is given data.
    """
    options.refuse_data()
    setting = QUICK if options.quick else ForestSetting()
    return [
        row
        for name, depth in setting.tables
        for row in rows_of(table(name), depth, setting, options.seed)
    ]


def rows_of(data: Table, depth: int, setting: ForestSetting, seed: int) -> Iterator[Row]:
    """Yield the rows of one table: by mechanism and ε, and what there is without privacy."""
    cells = [
        (contestant, epsilon, contestant.choice(epsilon, len(data.classes)))
        for contestant in LEAF_CONTESTANTS
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


def draw(rows: Sequence[Row], directory: Path) -> list[Path]:
    """Draw the figure."""
    file = directory / "selection-forest.png"
    draw_accuracies(
        rows,
        file,
        title="Private random forests: which label a leaf has",
        notes={
            "SNM-T": ",\ncosts over 3 times its ε",
        },
    )
    return [file]


def _commonest(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(np.eye(counts.shape[1])[counts.argmax(axis=1)])


_NO_PRIVACY = Contestant(
    "no privacy",
    lambda epsilon, classes: _commonest,
    proved=lambda epsilon, classes: np.inf,
    standing=OPEN,
)


def _accuracies(
    data: Table,
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
    data: Table,
    depth: int,
    contestant: Contestant,
    epsilon: float,
    accuracies: NDArray[np.float64],
) -> Row:
    return contestant.row(
        accuracies,
        exact=len(data.classes) == 2,
        application="forest",
        dataset=data.name,
        setting=f"depth {depth}",
        epsilon=epsilon,
        proved_epsilon=contestant.cost(epsilon, len(data.classes)),
        delta=contestant.delta,
    )


EXPERIMENT = Experiment("forest", run, draw)
