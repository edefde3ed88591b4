"""The experiment: one income, asked every week for a year, by strategies of equal or less ε."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from geoveil.analyst.statistics.over_time import delay
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace, Threshold, validation
from geoveil.simulation.epochs.curves import Curves, follow
from geoveil.simulation.epochs.drift import WEEKS, Drift
from geoveil.simulation.populations import household_incomes
from geoveil.simulation.populations.base import Array

THRESHOLDS = (55_500.0, 100_000.0, 212_500.0)
PER = 8_000.0
"""Dollars: every reading of an income is ε = 1 per $8,000."""
WIDTH = 4 * PER
PEOPLE, REPETITIONS, SHOCKED = 100_000, 1_000, 200
"""SHOCKED: the most runs with a shock. Coverage is known to 0.7 %, of runs without one, whose weeks
hang together: from 200 of them it would be known to 1.5 %."""
EPOCHS = {1: WEEKS, 4: WEEKS // 4}
"""ε a year → the length of an epoch in weeks."""
YEARS = 4
"""The years of a run: the last is measured, and in it the shock comes."""
AFTER = 8
"""Weeks after the shock in which errors are measured."""
ALONE, FRESH, SPLIT = "sampling alone", "fresh every week", "split over the weeks"
CARRIED, EXTRAPOLATED, COHORT = "carried", "extrapolated", "cohort alone"
_CURVES: Mapping[str, Callable[[Curves], Array]] = MappingProxyType(
    {
        CARRIED: lambda curves: curves.carried,
        EXTRAPOLATED: lambda curves: curves.extrapolated,
        COHORT: lambda curves: curves.cohort,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One strategy at one threshold: errors are root mean squares over weeks and repetitions.

    The truth is the participants' own mean; for "sampling alone" the population's.
    """

    threshold: float
    """In dollars."""
    n: int
    """People."""
    strategy: str
    epsilon: float
    """ε a year per $8,000."""
    repetitions: int
    """Years of slow drift that were drawn; as many with a shock, but at most 200."""
    error: float
    """The error of a weekly answer in a year of slow drift."""
    standard_error: float = 0.0
    """The standard error of `error`; 0 where it was computed, not drawn."""
    coverage: float | None = None
    """Share of weeks whose 95 % interval holds the population's mean; None: no interval."""
    coverage_error: float | None = None
    """Its standard error, between runs."""
    after_shock: float | None = None
    """The error in the eight weeks from the shock on; None: not measured."""
    delay: int | None = None
    """Weeks within which the shock is flagged with probability 0.9; None: not within an epoch."""
    flagged: float | None = None
    """Share of runs in which it was flagged by then."""
    false_alarms: float | None = None
    """Share of years without a shock in which something was flagged."""


def rows(
    thresholds: Sequence[float] = THRESHOLDS,
    n: int = PEOPLE,
    repetitions: int = REPETITIONS,
    seed: int = 1,
    done: Callable[[], object] = lambda: None,
) -> list[EpochRow]:
    """Return the table: for each threshold, every strategy.

    Args:
        thresholds: in dollars, each asked as a smoothstep of four noise scales.
        n: people.
        repetitions: runs of each strategy without a shock, 2 or more; with one at most 200.
        seed: the same seed gives the same rows.
        done: called after each threshold and ε a year.

    Raises:
        ParameterError: if a number is out of range.
    """
    validation.between("seed", seed, 0, 2**63)
    validation.between("n", n, 20 * WEEKS, 10_000_000)
    if validation.require_count("repetitions", repetitions) < 2:
        raise ParameterError("repetitions", repetitions, "an integer >= 2")
    for threshold in thresholds:
        validation.between("threshold", threshold, WIDTH, 1e7)
    found: list[EpochRow] = []
    for threshold in dict.fromkeys(thresholds):
        found += _computed(threshold, n, repetitions)
        for epsilon, epoch in EPOCHS.items():
            found += _drawn(threshold, n, epsilon, epoch, repetitions, seed)
            done()
    return found


def mechanism(epsilon: float = 1.0) -> PlanarLaplace:
    """Return what a device does when it reads an income: one perturbed number."""
    return PlanarLaplace(GeoPrivacy(epsilon, per=PER, unit="dollar"), dimension=1)


def shocked(drift: Drift) -> Drift:
    """Return the same with a shock in the last year: one person in twenty loses half."""
    return Drift(drift.people, drift.mean_raise, drift.spread, shock_week=(YEARS - 1) * WEEKS)


def run(
    threshold: float, n: int, epoch: int, repetition: int, seed: int, shock: bool = False
) -> Curves:
    """Return the curves of one repetition."""
    calm = Drift(household_incomes())
    key = (int(threshold), n, epoch, repetition, int(shock))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    drift = shocked(calm) if shock else calm
    return follow(
        drift, Threshold(threshold, WIDTH, "smoothstep"), mechanism(), epoch, n, YEARS, rng
    )


def _computed(threshold: float, n: int, repetitions: int) -> Iterator[EpochRow]:
    """Yield what needs no drawing: independent noise every week, and none."""
    query = Threshold(threshold, WIDTH, "smoothstep")
    drift = Drift(household_incomes())
    share = float(drift.means(query, YEARS * WEEKS)[-WEEKS:].mean())
    people = drift.people
    # The variance of noise hardly moves with the incomes: that of the first year.
    variances = {
        FRESH: people.mean(mechanism().estimator(query, debias=True).variance),
        SPLIT: people.mean(mechanism(1 / WEEKS).estimator(query, debias=True).variance),
        ALONE: people.mean(lambda x: np.square(query.value(x) - share)),
    }
    for strategy, epsilon in ((ALONE, 0.0), (FRESH, float(WEEKS)), (SPLIT, 1.0)):
        error = math.sqrt(variances[strategy] / n)
        yield EpochRow(
            threshold=threshold,
            n=n,
            strategy=strategy,
            epsilon=epsilon,
            repetitions=repetitions,
            error=error,
        )


def _drawn(
    threshold: float, n: int, epsilon: int, epoch: int, repetitions: int, seed: int
) -> Iterator[EpochRow]:
    """Yield what devices answer that read once an epoch."""
    query = Threshold(threshold, WIDTH, "smoothstep")
    calm, struck = (
        [run(threshold, n, epoch, repetition, seed, shock) for repetition in range(runs)]
        for shock, runs in ((False, repetitions), (True, min(repetitions, SHOCKED)))
    )
    drift = Drift(household_incomes())
    means = [d.means(query, YEARS * WEEKS) for d in (drift, shocked(drift))]
    first = (YEARS - 1) * WEEKS
    scatter = float(np.mean([c.change_variance[c.week < first].mean() for c in struck]))
    stated = delay(float((means[1] - means[0])[first]), scatter, n, epoch)
    alarms = [np.nanmax(c.flags[c.week >= first]) for c in calm]
    weeks = [_first_flag(c, first) for c in struck]
    held = np.array([_coverage(c, means[0], first) for c in calm])
    for strategy, curve in _CURVES.items():
        squares = np.array([_square(c, curve(c), first, WEEKS) for c in calm])
        error = math.sqrt(squares.mean())
        after = np.array([_square(c, curve(c), first, AFTER) for c in struck])
        extrapolated = strategy == EXTRAPOLATED
        yield EpochRow(
            threshold=threshold,
            n=n,
            strategy=strategy,
            epsilon=float(epsilon),
            repetitions=repetitions,
            error=error,
            standard_error=float(squares.std(ddof=1)) / math.sqrt(repetitions) / (2 * error),
            coverage=float(held.mean()) if extrapolated else None,
            coverage_error=(
                float(held.std(ddof=1)) / math.sqrt(repetitions) if extrapolated else None
            ),
            after_shock=math.sqrt(after.mean()),
            delay=stated if extrapolated else None,
            flagged=float(np.mean([w <= (stated or 0) for w in weeks])) if extrapolated else None,
            false_alarms=float(np.mean(alarms)) if extrapolated else None,
        )


def _square(curves: Curves, estimates: Array, first: int, count: int) -> float:
    """Return the mean squared error over so many weeks."""
    measured = (curves.week >= first) & (curves.week < first + count)
    return float(np.square(estimates - curves.truth)[measured].mean())


def _coverage(curves: Curves, means: Array, first: int) -> float:
    """Return the share of weeks of the last year whose interval holds the population's mean."""
    held = []
    for place in np.flatnonzero(curves.week >= first).tolist():
        interval = curves.interval(place)
        held.append(interval.low <= means[int(curves.week[place])] <= interval.high)
    return float(np.mean(held))


def _first_flag(curves: Curves, first: int) -> float:
    """Return within how many weeks of a shock it was flagged; infinite if it was not."""
    later = np.flatnonzero((curves.week >= first) & (curves.flags == 1))
    return float(curves.week[later[0]] - first + 1) if len(later) else math.inf
