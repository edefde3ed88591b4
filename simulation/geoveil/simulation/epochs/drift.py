"""Incomes that change: a raise once a year, in a week of each person's own, and maybe a shock."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.queries.base import Query
from geoveil.simulation.populations import Array, Population

Indices = NDArray[np.int64]
WEEKS = 52
"""In a year."""
_NODES = 40
_GRID = 40_001
"""Points of a function of income, 0 to the largest income; between them it is linear."""


@dataclass(frozen=True, eq=False)
class Drift:
    """A population whose incomes move.

    Args:
        people: the incomes in the beginning.
        mean_raise: of a year, as a share.
        spread: standard deviation of a raise, which is normal.
        shock_week: when a share of the people is hit; None: never.
        shock_share: of the people, drawn at random.
        shock_factor: what their incomes are multiplied by.
    """

    people: Population
    mean_raise: float = 0.03
    spread: float = 0.08
    shock_week: int | None = None
    shock_share: float = 0.05
    shock_factor: float = 0.5

    def __post_init__(self) -> None:
        validation.between("mean_raise", self.mean_raise, -0.5, 0.5)
        validation.between("spread", self.spread, 0, 0.5)
        validation.between("shock_share", self.shock_share, 0, 1)
        validation.between("shock_factor", self.shock_factor, 0, 10)

    def weeks(
        self, n: int, count: int, rng: np.random.Generator
    ) -> Iterator[tuple[Array, Indices]]:
        """Yield, for each week, the incomes of n people, and the numbers of those that changed.

        In the first week all have changed. The incomes are one array, which changes every week.
        """
        incomes = self.people.sample(n, rng)
        by_week = grouped(rng.integers(WEEKS, size=n), WEEKS)
        for week in range(count):
            changed = by_week[week % WEEKS]
            incomes[changed] *= 1 + rng.normal(self.mean_raise, self.spread, len(changed))
            if week == self.shock_week:
                hit = np.flatnonzero(rng.random(n) < self.shock_share)
                incomes[hit] *= self.shock_factor
                changed = np.union1d(changed, hit)
            yield incomes, changed if week else np.arange(n)

    def means(self, query: Query, count: int) -> Array:
        """Return the mean of a query over the whole population in each week, (count,).

        By the law of raises, not by drawing them: Gauss and Hermite's nodes for each raise.
        """
        raises = count // WEEKS + 1
        calm = self._after_raises(query, raises, lambda x: x)
        hit = self._after_raises(query, raises, lambda x: x * self.shock_factor)
        week = np.arange(count)
        year, raised = week // WEEKS, (week % WEEKS + 1) / WEEKS
        curves = [(1 - raised) * m[year] + raised * m[year + 1] for m in (calm, hit)]
        struck = np.zeros(count) if self.shock_week is None else week >= self.shock_week
        share = self.shock_share * struck
        return np.asarray((1 - share) * curves[0] + share * curves[1])

    def _after_raises(self, query: Query, raises: int, moved: Callable[[Array], Array]) -> Array:
        """Return the mean of the query after 0, 1, … raises of everybody."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        weights = weights / weights.sum()
        factors = 1 + self.mean_raise + self.spread * nodes
        grid = np.linspace(0.0, float(self.people.values.max()), _GRID)
        after = np.asarray(query.value(grid))

        def mean() -> float:
            return self.people.mean(lambda x: np.interp(moved(x), grid, after))

        found = [mean()]
        for _ in range(raises):
            raised = np.stack([np.interp(grid * factor, grid, after) for factor in factors])
            after = weights @ raised
            found.append(mean())
        return np.array(found)


def grouped(labels: Indices, count: int) -> list[Indices]:
    """Return, for each label, where it stands."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, count)))
