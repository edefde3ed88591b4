"""The paper's experiment on kernel densities: collisions in New York on a grid [SGP §5, App. B.2].

The error is the ASE: squared errors against the kernel means of the repetition's own sample, summed
over the grid. The paper spends ε for each of the 3,721 centres, 3,721 ε on each person in all, on
every mechanism but GP_loc. Each setting therefore has two panels: one as in the paper, and one in
which everyone spends ε in all: `kde_errors` has the formulas.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from geoveil.gp import validation
from geoveil.simulation.experiment import Cell, Experiment
from geoveil.simulation.experiments.draws import drawn_error
from geoveil.simulation.experiments.kde_draws import (
    MAPS,
    Sample,
    density_maps,
    estimates,
    kernel_means,
)
from geoveil.simulation.experiments.kde_errors import centre_errors
from geoveil.simulation.experiments.kde_moments import KERNEL
from geoveil.simulation.experiments.kde_settings import (
    DEFAULT,
    GRID_SIZE,
    IN_ALL,
    REPETITIONS,
    SETTINGS,
    KernelGrid,
    KernelSetting,
    collision_places,
)
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput, with_own
from geoveil.simulation.experiments.published import IN_FULL, Asked, published
from geoveil.simulation.experiments.rows import ErrorRow
from geoveil.simulation.figures.kernels import draw_density_maps, draw_kernel_errors

SUBGRID = 8
"""Centres along each side at which reports are drawn, in monte-carlo mode."""


_row = partial(ErrorRow, experiment="kde", measure="ASE")


def exact(
    settings: tuple[KernelSetting, ...],
    names: tuple[str, ...],
    size: int = GRID_SIZE,
    subgrid: int = GRID_SIZE,
    given: OwnInput = AS_PUBLISHED,
) -> list[ErrorRow]:
    """Return all errors by the formulas of `kde_errors`: settings and mechanisms share one pass.

    Args:
        settings: the panels.
        names: of mechanisms.
        size: centres along each side of the grid.
        subgrid: centres along each side of the part of it whose errors are summed.
        given: mechanisms and places of one's own.
    """
    places, known = collision_places(given), with_own(KERNEL, given)
    grid = KernelGrid.over(places, size)
    found = centre_errors(
        settings,
        places,
        grid,
        chosen=grid.thinned(subgrid),
        contestants={name: known[name] for name in names},
    )
    part = _part(size, subgrid)
    return [
        _row(
            panel=panel,
            n=setting.n,
            per=setting.per_m,
            mechanism=name,
            origin=known[name].origin,
            error=law.ase,
            squared_bias=law.squared_bias,
            noise=float(law.noise.sum()),
        )
        for setting, by_name in zip(settings, found, strict=True)
        for name, errors in by_name.items()
        for panel, law in (
            (setting.label + part, errors.per_centre),
            (f"{setting.label}{part}, {IN_ALL}", errors.whole_grid),
        )
    ]


def drawn(
    setting: KernelSetting,
    name: str,
    repetitions: int,
    seed: int,
    size: int = GRID_SIZE,
    subgrid: int = SUBGRID,
    given: OwnInput = AS_PUBLISHED,
) -> list[ErrorRow]:
    """Return the error of one mechanism, by drawing people and every report at a sub-grid.

    Args:
        setting: how many people, ε and h.
        name: of the mechanism.
        repetitions: ≥ 2.
        seed: ≥ 0. The people of a repetition are the same for all mechanisms.
        size: centres along each side of the grid.
        subgrid: centres along each side of the part of it that is asked about.
        given: mechanisms and places of one's own.
    """
    squares = [
        squared_error(setting, name, number, seed, size, subgrid, given)
        for number in range(repetitions)
    ]
    return [
        _row(
            panel=setting.label + _part(size, subgrid),
            n=setting.n,
            per=setting.per_m,
            mechanism=name,
            origin=with_own(KERNEL, given)[name].origin,
            **drawn_error(squares, seed),
        )
    ]


def squared_error(
    setting: KernelSetting,
    name: str,
    number: int,
    seed: int,
    size: int = GRID_SIZE,
    subgrid: int = SUBGRID,
    given: OwnInput = AS_PUBLISHED,
) -> float:
    """Return Σ_t e_t² over the sub-grid in one repetition."""
    places = collision_places(given)
    grid = KernelGrid.over(places, size)
    chosen = grid.thinned(subgrid)
    sample = Sample.draw(setting, places, seed=seed, number=number)
    truth = kernel_means(sample.people, grid.centres[chosen], grid.bandwidth(setting.factor))
    found = estimates(name, sample, grid, chosen.tolist(), with_own(KERNEL, given))
    return float(np.sum(np.square(found - truth)))


def cells(
    asked: Asked = IN_FULL,
    settings: Sequence[KernelSetting] | None = None,
    contestants: Sequence[str] | None = None,
    subgrid: int | None = None,
) -> list[Cell[ErrorRow]]:
    """Return the cells of the experiment.

    Args:
        asked: how it is run.
        settings: the paper's seven by default.
        contestants: their names; all by default.
        subgrid: centres along each side at which errors are summed; by default all in exact mode
            and `SUBGRID` where every report is drawn, one per person and centre.

    Raises:
        ParameterError: if a file has no mechanisms.
    """
    known = with_own(KERNEL, asked.given)
    names = tuple(known if contestants is None else contestants)
    if settings is None:
        settings = (replace(DEFAULT, n=20_000),) if asked.quick else SETTINGS
    side = subgrid or (5 if asked.quick else SUBGRID if asked.drawn else GRID_SIZE)
    if not asked.drawn:
        return [Cell(exact, (tuple(settings), names, GRID_SIZE, side, asked.given))]
    runs = asked.runs(REPETITIONS, 2)
    centres = {name: 4 if known[name].answers_every_query else side**2 for name in names}
    return [
        Cell(
            drawn,
            (s, name, runs, asked.seed, GRID_SIZE, side, asked.given),
            cost=float(s.n * runs * centres[name]),
        )
        for s in settings
        for name in names
    ]


def experiment(asked: Asked, maps: str = "none") -> Experiment[ErrorRow]:
    """Return densities of collisions in New York, a grid of 61 × 61: figure 6 of the paper.

    Args:
        asked: how it is run.
        maps: which of `MAPS` are drawn besides.
    """
    chosen = MAPS[validation.choice("maps", maps, MAPS)]

    def drawn_maps(file: Path) -> list[Path]:
        begins = file.stem.removesuffix(f"-{asked.mode}")
        files = []
        for s in chosen:
            name = f"{begins}-map-n{s.n}-per{s.per_m:g}-h{s.factor:g}{file.suffix}"
            files.append(file.with_name(name))
            found = density_maps(s, seed=asked.seed, given=asked.given)
            draw_density_maps(found, s, files[-1])
        return files

    return published("kde", asked, cells(asked), draw_kernel_errors, drawn_maps)


def _part(size: int, subgrid: int) -> str:
    return "" if subgrid == size else f", {subgrid}×{subgrid} of {size}×{size} centres"
