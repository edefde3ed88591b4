"""Incomes that change, and what a fleet answers weekly if devices perturb them once an epoch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.statistics.over_time import flagged
from geoveil.gp import PlanarLaplace, Query, Threshold
from geoveil.gp.intervals import Interval, Limits, interval_of_mean
from geoveil.gp.lazy import lazy
from geoveil.simulation.populations import Array, Population

WEEKS = 52
"""In a year."""
_SHOCK_SHARE, _SHOCK_FACTOR = 0.05, 0.5
"""How many a shock hits, drawn at random, and what their incomes are multiplied by."""
_NODES = 40
_GRID = 40_001
"""Points of a function of income, 0 to the largest income; between them it is linear."""


@dataclass(frozen=True, eq=False)
class Drift:
    """A population whose incomes rise once a year, in a week of each person's own.

    Args:
        people: the incomes in the beginning.
        mean_raise: of a year, as a share.
        spread: standard deviation of a raise, which is normal.
        shock_week: when one person in twenty loses half; None: never.
    """

    people: Population
    mean_raise: float = 0.03
    spread: float = 0.08
    shock_week: int | None = None

    def weeks(
        self, n: int, count: int, rng: np.random.Generator
    ) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        """Yield, for each week, the incomes of n people, and the numbers of those that changed.

        In the first week all have changed. The incomes are one array, which changes every week.
        """
        incomes = self.people.sample(n, rng)
        by_week = grouped(rng.integers(WEEKS, size=n), WEEKS)
        for week in range(count):
            changed = by_week[week % WEEKS]
            incomes[changed] *= 1 + rng.normal(self.mean_raise, self.spread, len(changed))
            if week == self.shock_week:
                hit = np.flatnonzero(rng.random(n) < _SHOCK_SHARE)
                incomes[hit] *= _SHOCK_FACTOR
                changed = np.union1d(changed, hit)
            yield incomes, changed if week else np.arange(n)

    def means(self, query: Query, count: int) -> Array:
        """Return the mean of a query over the whole population in each week, (count,).

        By the law of raises, not by drawing them: Gauss and Hermite's nodes for each raise.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        weights /= weights.sum()
        factors = 1 + self.mean_raise + self.spread * nodes
        values, people = self.people.values, self.people.weights
        grid = np.linspace(0.0, float(values.max()), _GRID)
        after = np.asarray(query.value(grid))  # as many raises of everybody
        of_raises = []
        for _ in range(count // WEEKS + 2):
            of_all = (np.interp(factor * values, grid, after) for factor in (1.0, _SHOCK_FACTOR))
            of_raises.append([np.average(answers, weights=people) for answers in of_all])
            raised = np.stack([np.interp(grid * factor, grid, after) for factor in factors])
            after = weights @ raised
        week = np.arange(count)
        year, part = week // WEEKS, (week % WEEKS + 1) / WEEKS
        calm, hit = ((1 - part) * m[year] + part * m[year + 1] for m in np.transpose(of_raises))
        struck = np.zeros(count) if self.shock_week is None else week >= self.shock_week
        return np.asarray((1 - _SHOCK_SHARE * struck) * calm + _SHOCK_SHARE * struck * hit)


def grouped(labels: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """Return, for each label, where it stands."""
    return [np.flatnonzero(labels == label) for label in range(count)]


@dataclass(frozen=True, eq=False)
class Curves:
    """Weekly estimates of one run, arrays by week.

    In the week of age a since a device read its value it answers `carried` with y_e, and
    `extrapolated` with y_e + (a/R)(y_e − y_{e−1}), R the length of an epoch: both computed from the
    points of its last two epochs. The cohort of a week are those who read their value in it.
    """

    epoch: int
    """R, in weeks."""
    n: int
    """People."""
    limits: tuple[float, float]
    """The least and the greatest answer that is carried."""
    week: Array
    truth: Array
    """The mean of the query over the participants."""
    carried: Array
    extrapolated: Array
    variance: Array
    """The variance of one extrapolated answer."""
    cohort: Array
    """The mean of the week's cohort alone."""
    cohort_size: Array
    change: Array
    """The mean change of the cohort since its last epoch."""
    change_variance: Array
    """The variance of one change."""

    @lazy
    def flags(self) -> Array:
        """Whether each week is flagged at 1 % false alarms a year: NaN, 0 or 1 (`flagged`)."""
        noise = self.change_variance / self.cohort_size
        return flagged(self.change, noise, self.epoch, looks=WEEKS)

    def interval(self, place: int, confidence: float = 0.95) -> Interval:
        """Return the interval for the population's mean in a week, from extrapolated answers."""
        low, high = self.limits
        # 2y − y', y and y' in [low, high]; the mean of two shares likewise.
        ends = Limits((2 * low - high, 2 * high - low), (-1.0, 2.0))
        mean, variance = float(self.extrapolated[place]), float(self.variance[place])
        return interval_of_mean(self.n, mean, variance, confidence, ends)


def follow(
    drift: Drift,
    query: Threshold,
    mechanism: PlanarLaplace,
    epoch: int,
    n: int,
    years: int,
    rng: np.random.Generator,
) -> Curves:
    """Draw one run, which is longer than two epochs, from the week in which all have read twice.

    A device draws in which week of an epoch it reads. There are at least 20 people for each week
    of an epoch.
    """
    estimator = mechanism.estimator(query, debias=True)
    cohorts = grouped(rng.integers(epoch, size=n), epoch)
    sizes = np.array([len(cohort) for cohort in cohorts])
    latest, before = np.full(n, np.nan), np.full(n, np.nan)
    asked = np.empty(n)
    sums = np.full((5, epoch), np.nan)
    rows = []
    for week, (incomes, changed) in enumerate(drift.weeks(n, years * WEEKS, rng)):
        asked[changed] = query.value(incomes[changed])
        now = week % epoch
        cohort = cohorts[now]
        before[cohort] = latest[cohort]
        latest[cohort] = estimator.value(mechanism.simulate(incomes[cohort], rng))
        y, old = latest[cohort], before[cohort]
        sums[:, now] = y.sum(), old.sum(), y @ y, y @ old, old @ old
        if week < 2 * epoch:
            continue
        age = ((week - np.arange(epoch)) % epoch) / epoch
        new, past, new2, both, past2 = sums
        mean = ((1 + age) * new - age * past).sum() / n
        square = ((1 + age) ** 2 * new2 - 2 * age * (1 + age) * both + age**2 * past2).sum() / n
        change = (new[now] - past[now]) / sizes[now]
        scatter = (new2[now] - 2 * both[now] + past2[now]) / sizes[now] - change**2
        answers = new.sum() / n, mean, square - mean**2, new[now] / sizes[now]
        rows.append((week, asked.mean(), *answers, sizes[now], change, scatter))
    return Curves(epoch, n, estimator.limits.reports, *np.array(rows).T)
