"""Changing incomes, and the weekly answers of devices that perturb them once per epoch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import flagged
from geoveil.gp import Interval, Limits, PlanarLaplace, Query, Threshold, interval_of_mean, lazy
from geoveil.simulation.populations import Array, Population

WEEKS = 52
"""Weeks per year."""
_SHOCK_SHARE, _SHOCK_FACTOR = 0.05, 0.5
"""The fraction of people that a shock hits, and the factor on their incomes."""
_NEVER = -(2**40)
"""The week of a missing reading."""
_NODES = 40
_GRID = 40_001
"""Nodes of a piecewise linear function of income, from 0 to the largest income."""


@dataclass(frozen=True, eq=False)
class Drift:
    """A population whose incomes rise once a year, each person's in a different random week.

    Raises, as shares, are normal with a mean and a spread. In `shock_week` one person in twenty
    loses half of their income.
    """

    people: Population
    mean_raise: float = 0.03
    spread: float = 0.08
    shock_week: int | None = None

    def weeks(
        self, n: int, count: int, rng: np.random.Generator
    ) -> Iterator[tuple[Array, NDArray[np.int64]]]:
        """Yield each week's n incomes, in one array, and the indices of those that changed."""
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
        """Return a query's population mean in each week, (count,), by Gauss–Hermite nodes."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        weights /= weights.sum()
        factors = 1 + self.mean_raise + self.spread * nodes
        values, people = self.people.values, self.people.weights
        grid = np.linspace(0.0, float(values.max()), _GRID)
        after = np.asarray(query.value(grid))  # after as many raises for everybody
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


def _mean_and_variance(numbers: Array) -> tuple[float, float]:
    return (float(numbers.mean()), float(numbers.var())) if len(numbers) else (np.nan, np.nan)


def grouped(labels: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """Return the positions of each label."""
    return [np.flatnonzero(labels == label) for label in range(count)]


@dataclass(frozen=True, eq=False)
class Curves:
    """Weekly estimates of one run, as arrays from its first week on.

    A device whose reading y has age a answers `carried` with y, and `extrapolated` with
    y + (a/g)(y − y'), where y' is its latest reading at least a older than y, and g the time
    between the two. In the week of its reading it answers y; without such a y', nothing.
    A week's cohort consists of the answering devices whose epoch begins in that week.
    """

    epoch: int
    """R, in weeks."""
    n: int
    """People."""
    limits: tuple[float, float]
    """The least and the greatest carried answer."""
    week: Array
    truth: Array
    """The mean of the query over all n."""
    answered: Array
    """The number of extrapolated answers."""
    carried: Array
    extrapolated: Array
    variance: Array
    """The variance of one extrapolated answer."""
    cohort: Array
    """The mean of the week's cohort."""
    change_count: Array
    """The number of the cohort's devices that also read an epoch ago."""
    change: Array
    """Their mean change; NaN without any."""
    change_variance: Array
    """The variance of one change."""

    @lazy
    def flags(self) -> Array:
        """Whether each week is flagged at 1 % false alarms a year: NaN, 0 or 1 (`flagged`)."""
        flags, begun = np.full(len(self.week), np.nan), self.week >= 2 * self.epoch
        noise = self.change_variance[begun] / self.change_count[begun]

        def margins(confidence: float, first: int, end: int) -> tuple[float, float]:
            error = math.sqrt(noise[first:end].sum()) / (end - first)
            margin = NormalDist().inv_cdf((1 + confidence) / 2) * error
            return margin, margin

        flags[begun] = flagged(self.change[begun], margins, self.epoch, looks=WEEKS)
        return flags

    def interval(self, place: int, confidence: float = 0.95) -> Interval:
        """Return the interval for the population's mean in a week, from extrapolated answers."""
        low, high = self.limits
        # 2y − y', y and y' in [low, high]; the mean of two shares likewise.
        ends = Limits((2 * low - high, 2 * high - low), (-1.0, 2.0))
        mean, variance = float(self.extrapolated[place]), float(self.variance[place])
        return interval_of_mean(int(self.answered[place]), mean, variance, confidence, ends)


def follow(
    drift: Drift,
    query: Threshold,
    mechanism: PlanarLaplace,
    epoch: int,
    n: int,
    years: int,
    rng: np.random.Generator,
    skipped: float = 0.0,
) -> Curves:
    """Simulate one run, from the week in which the campaign opens.

    A device draws the week in which its epochs begin, and makes a reading with its first answer in
    each: in the first week, and again as each epoch begins. There must be at least 20 people for
    each week of an epoch.

    Args:
        query: the question.
        mechanism: perturbs each reading.
        epoch: weeks.
        years: the length of the run.
        skipped: the probability that a device gives no answer in a week, independently.
    """
    estimator = mechanism.estimator(query, debias=True)
    cohorts = grouped(rng.integers(epoch, size=n), epoch)
    (apart,) = rng.spawn(1)  # a separate generator, so that other runs do not change
    begun, read, values = np.zeros(n, int), np.full((3, n), _NEVER), np.zeros((3, n))
    gaps, slopes = np.full((2, n), -1), np.zeros((2, n))
    current, answers = np.empty(n), np.ones(n, bool)
    rows = []
    for week, (incomes, changed) in enumerate(drift.weeks(n, years * WEEKS, rng)):
        current[changed] = query.value(incomes[changed])
        if skipped:
            answers = apart.random(n) >= skipped
        begun[cohorts[week % epoch]] = week
        cohort = cohorts[week % epoch]
        cohort = cohort[answers[cohort]]
        due = answers & (read[0] < begun)
        due[cohort] = False
        for who, source in ((cohort, rng), (np.flatnonzero(due), apart)):
            read[1:, who], values[1:, who] = read[:-1, who], values[:-1, who]
            read[0, who] = week
            values[0, who] = estimator.value(mechanism.simulate(incomes[who], source))
            gaps[:, who] = np.where(read[1:, who] == _NEVER, -1, week - read[1:, who])
            slopes[:, who] = (values[0, who] - values[1:, who]) / gaps[:, who]
        age = week - read[0]
        moved = values[0] + age * slopes[0]
        late = np.flatnonzero((age > gaps[0]) & answers)
        moved[late] = values[0, late] + age[late] * slopes[1, late]
        reach = answers.copy()
        reach[late] = (age[late] == 0) | (age[late] <= gaps[1, late])
        answers_now, latest = moved[reach], values[0, answers]
        change = (values[0, cohort] - values[1, cohort])[gaps[0, cohort] == epoch]
        rows.append(
            (
                *(
                    week,
                    current.mean(),
                    len(answers_now),
                    latest.mean(),
                    answers_now.mean(),
                    answers_now.var(),
                ),
                *(_mean_and_variance(values[0, cohort])[0], len(change)),
                *_mean_and_variance(change),
            )
        )
    return Curves(epoch, n, estimator.limits.reports, *np.array(rows).T)
