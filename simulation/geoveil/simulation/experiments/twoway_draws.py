"""The two-way experiment as the paper runs it: people and noise are drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from geoveil.gp import ParameterError, PlanarLaplace
from geoveil.simulation.experiments.contestants import Array
from geoveil.simulation.experiments.draws import drawn_blocks, drawn_error, total
from geoveil.simulation.experiments.rows import LOCAL, ErrorRow
from geoveil.simulation.experiments.runs import ErrorCell
from geoveil.simulation.experiments.settings import (
    TWO_WAY_FOOTING,
    TWO_WAY_PANELS,
    TWO_WAY_REPETITIONS,
    TwoWayPanel,
)
from geoveil.simulation.experiments.twoway import ORIGIN, SCALAR, coordinate_reports, setting
from geoveil.simulation.experiments.twoway_exact import TwoWayExactCell
from geoveil.simulation.populations import incomes_and_debts

BLOCK = 1 << 14
"""People who are drawn together, from a seed of their own."""

Sums = Callable[[Array, np.random.Generator], Array]
"""Points (n, 2) and a generator → sum of the reports at each threshold, (m, m)."""


@dataclass(frozen=True, slots=True)
class TwoWayMonteCarloCell(ErrorCell):
    """One ε, one mechanism and one n."""

    panel: TwoWayPanel
    contestant: str
    n: int
    repetitions: int
    seed: int

    @property
    def key(self) -> str:
        return (
            f"twoway monte-carlo {self.contestant} n={self.n} repetitions={self.repetitions}"
            f" seed={self.seed} {self.panel}"
        )

    @property
    def cost(self) -> float:
        return float(self.n * self.repetitions * len(self.panel.axis) ** 2)

    def rows(self) -> list[ErrorRow]:
        ases = [float(np.sum(np.square(self.errors(r)))) for r in range(self.repetitions)]
        return [
            ErrorRow(
                experiment="twoway",
                panel=self.panel.label,
                n=self.n,
                per=self.panel.per,
                mechanism=self.contestant,
                origin=ORIGIN[self.contestant],
                measure="ASE",
                **drawn_error(ases, self.seed),
            )
        ]

    def errors(self, repetition: int) -> Array:
        """Return estimate less truth at each pair of thresholds in one repetition."""
        sums = _sums(self.panel, self.contestant)
        population = incomes_and_debts()
        name = f"twoway {self.panel.label} {self.contestant}"
        axis = np.array(self.panel.axis)
        off = np.zeros((len(axis), len(axis)))
        for people, rng in drawn_blocks(
            name, self.n, size=BLOCK, seed=self.seed, repetition=repetition
        ):
            x = population.sample(people, rng)
            off += sums(x, rng) - _above(x, axis)
        return off / self.n


def cells(
    *,
    mode: str = "exact",
    repetitions: int = TWO_WAY_REPETITIONS,
    seed: int = 1,
    panels: Sequence[TwoWayPanel] = TWO_WAY_PANELS,
    contestants: Sequence[str] = tuple(ORIGIN),
) -> list[ErrorCell]:
    """Return the cells of the experiment.

    Args:
        mode: one of `MODES`. The paper's grid takes minutes for each repetition and mechanism in
            monte-carlo mode: 1156 reports of each person.
        repetitions: ≥ 2; of each cell, in monte-carlo mode.
        seed: ≥ 0; the same seed gives the same rows.
        panels: the paper's three by default.
        contestants: names in `ORIGIN`, in monte-carlo mode; exact mode does all at once.
    """
    if mode == "exact":
        return [TwoWayExactCell(panel, seed=seed) for panel in panels]
    if repetitions < 2:
        raise ParameterError("repetitions", repetitions, "an integer >= 2")
    return [
        TwoWayMonteCarloCell(p, c, n, repetitions, seed)
        for p in panels
        for n in p.people
        for c in contestants
    ]


@lru_cache(maxsize=2)
def _sums(panel: TwoWayPanel, contestant: str) -> Sums:
    """Return how the reports of a contestant are drawn and summed."""
    axis = np.array(panel.axis)
    if contestant == "GP_loc":
        points = PlanarLaplace(panel.privacy, dimension=2)
        return lambda x, rng: _above(points.simulate(x, rng), axis)
    if contestant == LOCAL:
        scale = panel.per / TWO_WAY_FOOTING

        def local(x: Array, rng: np.random.Generator) -> Array:
            noise = [rng.laplace(scale=scale, size=len(x)).sum() for _ in range(len(axis) ** 2)]
            return np.asarray(_above(x, axis) + np.reshape(noise, (len(axis), len(axis))))

        return local
    if contestant == "deconvolved":
        reports = coordinate_reports(panel)

        def deconvolved(x: Array, rng: np.random.Generator) -> Array:
            noisy = x + rng.laplace(scale=reports.scale, size=x.shape)
            scale = reports.scale
            first, second = (
                np.asarray(reports.query.profile.debiased(c - axis[:, None], scale))
                for c in noisy.T
            )
            return np.asarray(first @ second.T)

        return deconvolved
    mechanisms = [
        SCALAR[contestant](setting(panel, (a, b))) for a in panel.axis for b in panel.axis
    ]

    def scalar(x: Array, rng: np.random.Generator) -> Array:
        totals = [total(mechanism, x, rng) for mechanism in mechanisms]
        return np.reshape(totals, (len(axis), len(axis)))

    return scalar


def _above(points: Array, axis: Array) -> Array:
    """Return the number of points with both coordinates above each pair of thresholds."""
    first, second = ((c > axis[:, None]).astype(np.float64) for c in points.T)
    return np.asarray(first @ second.T)
