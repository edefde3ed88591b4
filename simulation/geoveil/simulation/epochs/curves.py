"""What one fleet answers week by week, if every device perturbs its value once an epoch."""

from dataclasses import dataclass

import numpy as np

from geoveil.analyst.statistics.over_time import flagged
from geoveil.gp import ParameterError, PlanarLaplace, Threshold
from geoveil.gp.intervals import Interval, Limits, interval_of_mean
from geoveil.gp.lazy import lazy
from geoveil.simulation.epochs.drift import WEEKS, Drift, grouped
from geoveil.simulation.populations import Array

EPOCHS = (52, 26, 13, 4, 2, 1)
"""The lengths that an epoch can have, in weeks."""


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
        return flagged(
            self.change, self.change_variance / self.cohort_size, self.epoch, looks=WEEKS
        )

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
    """Draw one run, from the week in which every device has read twice.

    A device draws in which week of an epoch it reads. There are at least 20 people for each week
    of an epoch, and the run is longer than two of them.

    Raises:
        ParameterError: if a number is out of range.
    """
    if epoch not in EPOCHS:
        raise ParameterError("epoch", epoch, f"one of {', '.join(map(str, EPOCHS))}")
    if n < 20 * epoch:
        raise ParameterError("n", n, f"at least {20 * epoch}, 20 for each week of an epoch")
    if years * WEEKS <= 2 * epoch:
        raise ParameterError("years", years, "longer than two epochs")
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
