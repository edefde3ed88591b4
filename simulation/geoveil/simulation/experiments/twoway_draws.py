"""The two-way experiment as the paper runs it: people and noise are drawn."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from geoveil.gp import PlanarLaplace
from geoveil.simulation.comparison import Array
from geoveil.simulation.experiment import Cell, Experiment
from geoveil.simulation.experiments.draws import drawn_blocks, drawn_error, total
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.experiments.published import IN_FULL, Asked, published
from geoveil.simulation.experiments.rows import LOCAL, ErrorRow
from geoveil.simulation.experiments.settings import (
    TWO_WAY_AXIS,
    TWO_WAY_PANELS,
    TWO_WAY_REPETITIONS,
    TwoWayPanel,
)
from geoveil.simulation.experiments.twoway import coordinate_reports, origins, scalar, setting
from geoveil.simulation.experiments.twoway_exact import POINTS, exact
from geoveil.simulation.figures.thresholds import draw_settings
from geoveil.simulation.populations import incomes_and_debts

BLOCK = 1 << 14
"""People who are drawn together, from a seed of their own."""

Sums = Callable[[Array, np.random.Generator], Array]
"""Points (n, 2) and a generator → sum of the reports at each threshold, (m, m)."""


def drawn(
    panel: TwoWayPanel,
    name: str,
    n: int,
    repetitions: int,
    seed: int,
    given: OwnInput = AS_PUBLISHED,
) -> list[ErrorRow]:
    """Return the error at one ε of one mechanism, for one n."""
    errors = (drawn_once(panel, name, n, r, seed, given) for r in range(repetitions))
    return [
        ErrorRow(
            experiment="twoway",
            panel=panel.label,
            n=n,
            per=panel.per,
            mechanism=name,
            origin=origins(given)[name],
            measure="ASE",
            **drawn_error([float(np.sum(np.square(each))) for each in errors], seed),
        )
    ]


def drawn_once(
    panel: TwoWayPanel,
    name: str,
    n: int,
    repetition: int,
    seed: int,
    given: OwnInput = AS_PUBLISHED,
) -> Array:
    """Return estimate less truth at each pair of thresholds in one repetition."""
    sums = _sums(panel, name, given)
    population = given.people(2) or incomes_and_debts()
    off = np.zeros(tuple(map(len, panel.axes)))
    for people, rng in drawn_blocks(
        f"twoway {panel.label} {name}", n, size=BLOCK, seed=seed, repetition=repetition
    ):
        x = population.sample(people, rng)
        off += sums(x, rng) - _above(x, panel)
    return off / n


def cells(
    asked: Asked = IN_FULL,
    panels: Sequence[TwoWayPanel] | None = None,
) -> list[Cell[ErrorRow]]:
    """Return the cells of the experiment.

    Args:
        asked: how it is run. Where people and noise are drawn the paper's grid takes minutes for
            each repetition and mechanism: 1156 reports of each person.
        panels: those that are asked for by default: the paper's three, or a question of one's own.

    Raises:
        ParameterError: if a file has no mechanisms, or there is a table without a question.
    """
    given, names = asked.given, origins(asked.given)
    panels = _panels(asked) if panels is None else panels
    if not asked.drawn:
        return [Cell(exact, (p, asked.seed, POINTS, given)) for p in panels]
    runs = asked.runs(TWO_WAY_REPETITIONS, 10)
    return [
        Cell(drawn, (p, name, n, runs, asked.seed, given), cost=float(n * runs * len(p.pairs)))
        for p in panels
        for n in p.people
        for name in names
    ]


def _panels(asked: Asked) -> tuple[TwoWayPanel, ...]:
    panels = TWO_WAY_PANELS
    if question := asked.given.question(2):
        (first, second), per = question
        panels = (TwoWayPanel(per, (first,), other=(second,), footing=per),)
    if not asked.quick:
        return panels
    axis = TWO_WAY_AXIS[1::7]
    small = (p if p.other else replace(p, axis=axis) for p in panels)
    return tuple(replace(p, people=(20_000,)) for p in small)


def experiment(asked: Asked) -> Experiment[ErrorRow]:
    """Return pairs of thresholds on incomes and debts, a grid of 34 × 34: figure 4 of the paper."""
    return published("twoway", asked, cells(asked), draw_settings)


@lru_cache(maxsize=2)
def _sums(panel: TwoWayPanel, contestant: str, given: OwnInput) -> Sums:
    """Return how the reports of a contestant are drawn and summed."""
    shape = tuple(map(len, panel.axes))
    if contestant == "GP_loc":
        points = PlanarLaplace(panel.privacy, dimension=2)
        return lambda x, rng: _above(points.simulate(x, rng), panel)
    if contestant == LOCAL:
        scale = panel.per / panel.footing

        def local(x: Array, rng: np.random.Generator) -> Array:
            noise = [rng.laplace(scale=scale, size=len(x)).sum() for _ in panel.pairs]
            return np.asarray(_above(x, panel) + np.reshape(noise, shape))

        return local
    if contestant == "deconvolved":
        reports = coordinate_reports(panel)

        def deconvolved(x: Array, rng: np.random.Generator) -> Array:
            noisy = x + rng.laplace(scale=reports.scale, size=x.shape)
            scale = reports.scale
            first, second = (
                np.asarray(reports.query.profile.debiased(c - np.array(axis)[:, None], scale))
                for c, axis in zip(noisy.T, panel.axes, strict=True)
            )
            return np.asarray(first @ second.T)

        return deconvolved
    build = scalar(given)[contestant].build
    mechanisms = [build(setting(panel, at)) for at in panel.pairs]

    def by_threshold(x: Array, rng: np.random.Generator) -> Array:
        totals = [total(mechanism, x, rng) for mechanism in mechanisms]
        return np.reshape(totals, shape)

    return by_threshold


def _above(points: Array, panel: TwoWayPanel) -> Array:
    """Return the number of points with both coordinates above each pair of thresholds."""
    first, second = (
        (c > np.array(axis)[:, None]).astype(np.float64)
        for c, axis in zip(points.T, panel.axes, strict=True)
    )
    return np.asarray(first @ second.T)
