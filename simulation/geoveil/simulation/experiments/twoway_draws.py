"""The two-way experiment as the paper runs it: people and noise are drawn."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from geoveil.gp import PlanarLaplace
from geoveil.simulation.experiment import Cell, Experiment
from geoveil.simulation.experiments.contestants import Array
from geoveil.simulation.experiments.draws import drawn_blocks, drawn_error, total
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.experiments.published import drawn_mode, published
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
    *,
    mode: str = "exact",
    repetitions: int = TWO_WAY_REPETITIONS,
    seed: int = 1,
    panels: Sequence[TwoWayPanel] = TWO_WAY_PANELS,
    given: OwnInput = AS_PUBLISHED,
) -> list[Cell[ErrorRow]]:
    """Return the cells of the experiment.

    Args:
        mode: one of `MODES`. The paper's grid takes minutes for each repetition and mechanism in
            monte-carlo mode: 1156 reports of each person.
        repetitions: ≥ 2; of each cell, in monte-carlo mode.
        seed: ≥ 0; the same seed gives the same rows.
        panels: the paper's three by default.
        given: mechanisms of one's own.

    Raises:
        ParameterError: if a number is out of range, or a file has no mechanisms.
    """
    names = origins(given)
    if not drawn_mode(mode, repetitions, seed):
        return [Cell(exact, (p, seed, POINTS, given)) for p in panels]
    return [
        Cell(
            drawn,
            (p, name, n, repetitions, seed, given),
            cost=float(n * repetitions * len(p.pairs)),
        )
        for p in panels
        for n in p.people
        for name in names
    ]


def experiment(
    mode: str = "exact",
    repetitions: int | None = None,
    seed: int = 1,
    quick: bool = False,
    given: OwnInput = AS_PUBLISHED,
) -> Experiment[ErrorRow]:
    """Return pairs of thresholds on incomes and debts, a grid of 34 × 34: figure 4 of the paper.

    Args:
        mode: "exact" or "monte-carlo".
        repetitions: in the latter; the paper's number by default.
        seed: the same seed gives the same rows.
        quick: whether to compute a grid of 5 × 5.
        given: mechanisms and people of one's own; its question is the only setting.
    """
    panels = TWO_WAY_PANELS
    if quick:
        panels = tuple(replace(p, axis=TWO_WAY_AXIS[1::7], people=(20_000,)) for p in panels)
    if asked := given.question(2):
        (first, second), per = asked
        people = panels[0].people
        panels = (TwoWayPanel(per, (first,), people, other=(second,), footing=per),)
    if repetitions is None:
        repetitions = 10 if quick else TWO_WAY_REPETITIONS
    found = cells(mode=mode, repetitions=repetitions, seed=seed, panels=panels, given=given)
    return published("twoway", mode, found, seed, draw_settings)


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
