"""The paper's experiment on kernel densities: collisions in New York on a grid [SGP §5, App. B.2].

The error is the ASE: squared errors against the kernel means of the repetition's own sample, summed
over the grid. The paper spends ε for each of the 3,721 centres, 3,721 ε on each person in all, on
every mechanism but GP_loc. Each setting therefore has two panels: one as in the paper, and one in
which everyone spends ε in all: `kde_errors` has the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiments.draws import drawn_error
from geoveil.simulation.experiments.kde_draws import Sample, estimates, kernel_means
from geoveil.simulation.experiments.kde_errors import CentreErrors, centre_errors
from geoveil.simulation.experiments.kde_moments import KERNEL
from geoveil.simulation.experiments.kde_settings import (
    GRID_SIZE,
    REPETITIONS,
    SETTINGS,
    KernelGrid,
    KernelSetting,
    collision_places,
)
from geoveil.simulation.experiments.rows import MODES, ErrorRow
from geoveil.simulation.experiments.runs import ErrorCell

IN_ALL = "ε in all"
"""Marks a panel in which ε pays for the whole grid, and not for each centre."""
SUBGRID = 8
"""Centres along each side at which reports are drawn, in monte-carlo mode."""


@dataclass(frozen=True, slots=True)
class KernelExactCell(ErrorCell):
    """All settings and contestants, by the formulas of `kde_errors`: they share one pass.

    Args:
        settings: the panels.
        contestants: names in `KERNEL`.
        size: centres along each side of the grid.
        subgrid: centres along each side of the part of it whose errors are summed.
    """

    settings: tuple[KernelSetting, ...]
    contestants: tuple[str, ...]
    size: int = GRID_SIZE
    subgrid: int = GRID_SIZE

    @property
    def key(self) -> str:
        return f"kde exact {self}"

    @property
    def cost(self) -> float:
        return float(self.subgrid**2)

    def rows(self) -> list[ErrorRow]:
        places = collision_places()
        grid = KernelGrid.over(places, self.size)
        found = centre_errors(
            self.settings,
            places,
            grid,
            chosen=grid.thinned(self.subgrid),
            contestants={name: KERNEL[name] for name in self.contestants},
        )
        rows = []
        part = _part(self.size, self.subgrid)
        for setting, by_name in zip(self.settings, found, strict=True):
            for name, errors in by_name.items():
                for panel, law in (
                    (setting.label + part, errors.per_centre),
                    (f"{setting.label}{part}, {IN_ALL}", errors.whole_grid),
                ):
                    rows.append(_exact_row(setting, name, panel, law))
        return rows


@dataclass(frozen=True, slots=True)
class KernelMonteCarloCell(ErrorCell):
    """One setting and one contestant, by drawing people and every report at a sub-grid.

    Args:
        setting: how many people, ε and h.
        contestant: a name in `KERNEL`.
        repetitions: ≥ 2.
        seed: ≥ 0. The people of a repetition are the same for all contestants.
        size: centres along each side of the grid.
        subgrid: centres along each side of the part of it that is asked about.
    """

    setting: KernelSetting
    contestant: str
    repetitions: int
    seed: int
    size: int = GRID_SIZE
    subgrid: int = SUBGRID

    @property
    def key(self) -> str:
        return f"kde monte-carlo {self}"

    @property
    def cost(self) -> float:
        centres = 4 if KERNEL[self.contestant].answers_every_query else self.subgrid**2
        return float(self.setting.n * self.repetitions * centres)

    def rows(self) -> list[ErrorRow]:
        ase = [self.squared_error(number) for number in range(self.repetitions)]
        return [
            _row(
                self.setting,
                self.contestant,
                self.setting.label + _part(self.size, self.subgrid),
                **drawn_error(ase, self.seed),
            )
        ]

    def squared_error(self, number: int) -> float:
        """Return Σ_t e_t² over the sub-grid in one repetition."""
        places = collision_places()
        grid = KernelGrid.over(places, self.size)
        chosen = grid.thinned(self.subgrid)
        sample = Sample.draw(self.setting, places, seed=self.seed, number=number)
        bandwidth = grid.bandwidth(self.setting.factor)
        truth = kernel_means(sample.people, grid.centres[chosen], bandwidth)
        error = estimates(self.contestant, sample, grid, chosen.tolist()) - truth
        return float(np.sum(np.square(error)))


def cells(
    *,
    mode: str = "exact",
    repetitions: int = REPETITIONS,
    seed: int = 1,
    settings: Sequence[KernelSetting] = SETTINGS,
    contestants: Sequence[str] = tuple(KERNEL),
    subgrid: int | None = None,
) -> list[ErrorCell]:
    """Return the cells of the experiment.

    Args:
        mode: one of `MODES`.
        repetitions: ≥ 2; of each cell, in monte-carlo mode.
        seed: ≥ 0; the same seed gives the same rows.
        settings: the paper's seven by default.
        contestants: names in `KERNEL`.
        subgrid: centres along each side at which errors are summed; by default all in exact mode
            and `SUBGRID` in monte-carlo mode, where each centre costs one report per person.
    """
    if validation.choice("mode", mode, MODES) == "exact":
        return [KernelExactCell(tuple(settings), tuple(contestants), subgrid=subgrid or GRID_SIZE)]
    if repetitions < 2:
        raise ParameterError("repetitions", repetitions, "an integer >= 2")
    return [
        KernelMonteCarloCell(s, c, repetitions, seed, subgrid=subgrid or SUBGRID)
        for s in settings
        for c in contestants
    ]


def _part(size: int, subgrid: int) -> str:
    return "" if subgrid == size else f", {subgrid}×{subgrid} of {size}×{size} centres"


def _exact_row(setting: KernelSetting, name: str, panel: str, law: CentreErrors) -> ErrorRow:
    noise = float(law.noise.sum())
    return _row(setting, name, panel, error=law.ase, squared_bias=law.squared_bias, noise=noise)


def _row(
    setting: KernelSetting, name: str, panel: str, *, error: float, **rest: object
) -> ErrorRow:
    return ErrorRow(
        experiment="kde",
        panel=panel,
        n=setting.n,
        per=setting.per_m,
        mechanism=name,
        origin=KERNEL[name].origin,
        measure="ASE",
        error=error,
        **rest,  # type: ignore[arg-type]  # of two types
    )
