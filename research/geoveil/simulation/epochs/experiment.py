"""The experiment: one question every week for a year, by strategies with at most the same ε."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from geoveil.analyst import FALSE_ALARMS, windows
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace, Threshold, validation
from geoveil.simulation.epochs.curves import WEEKS, Curves, Drift, follow
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.experiments.sums import seeded
from geoveil.simulation.figures.epochs import draw_curves
from geoveil.simulation.populations import Array, Population, household_incomes

THRESHOLDS = (55_500.0, 100_000.0, 212_500.0)
PER = 8_000.0
"""Dollars: a reading has ε = 1 per $8,000, and a threshold's band is four times as wide."""
PEOPLE, REPETITIONS, SHOCKED = 100_000, 1_000, 200
"""SHOCKED: the most runs with a shock. `REPETITIONS` runs without one estimate coverage to 0.7 %,
since their weeks are dependent; 200 would to 1.5 %."""
EPOCHS = {1: WEEKS, 4: WEEKS // 4}
"""ε per year → the length of an epoch in weeks."""
YEARS = 4
"""The years of a run; only the last is measured, and it has the shock."""
SHOCK = (YEARS - 1) * WEEKS
"""The week of the shock, from 0."""
AFTER = 8
"""Weeks after the shock over which errors are measured."""
ALONE, FRESH, SPLIT = "sampling alone", "fresh every week", "split over the weeks"
CARRIED, EXTRAPOLATED, COHORT = "carried", "extrapolated", "cohort alone"
POWER = 0.9
"""The probability with which a shift is flagged within the delay."""
_CURVES = MappingProxyType({CARRIED: "carried", EXTRAPOLATED: "extrapolated", COHORT: "cohort"})
"""Strategy → the field of `Curves` with its answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One strategy at one threshold, with root mean square errors over weeks and repetitions.

    The truth is the participants' own mean, or the population's for "sampling alone".
    """

    threshold: float
    """In dollars."""
    n: int
    strategy: str
    epsilon: float
    """ε per year and $8,000."""
    repetitions: int
    """Simulated years of slow drift, and of a shock (at most 200)."""
    error: float
    """The error of a weekly answer in a year of slow drift."""
    standard_error: float = 0.0
    """The standard error of `error`; 0 if it was computed, not simulated."""
    coverage: float | None = None
    """Share of weeks whose 95 % interval holds the population's mean; None without intervals."""
    coverage_error: float | None = None
    """The standard error of `coverage`, from the spread between runs."""
    after_shock: float | None = None
    """The error in the eight weeks from the shock on; None if not measured."""
    delay: int | None = None
    """Weeks within which the shock is flagged with probability 0.9; None if more than an epoch."""
    flagged: float | None = None
    """Share of runs that flagged it by then."""
    false_alarms: float | None = None
    """Share of years without a shock that had a flag."""


def experiment(
    n: int = PEOPLE,
    repetitions: int = REPETITIONS,
    seed: int = 1,
    quick: bool = False,
    given: OwnInput = AS_PUBLISHED,
) -> Experiment[EpochRow]:
    """Return the experiment: every strategy at each threshold.

    Args:
        n: people.
        repetitions: runs of each strategy without a shock, 2 or more; at most 200 have a shock.
        seed: the same seed gives the same rows.
        quick: whether to compute only a small part, at one threshold.
        given: a user's people, the distance at which ε is 1, and thresholds, of which the first is
            drawn in the figure; by default incomes and `THRESHOLDS`.

    Raises:
        ParameterError: if a number is out of range, or a table comes without a distance.
    """
    sign = "$" if given.data is None else ""
    if given.data is not None and given.per is None:
        raise ParameterError("per", None, "given together with a table")
    per = given.per or PER
    people_of(given)
    thresholds, given = given.thresholds, replace(given, thresholds=())
    if given.data is not None and not thresholds:
        raise ParameterError("threshold", None, "given together with a table")
    thresholds = thresholds or (THRESHOLDS[:1] if quick else THRESHOLDS)
    if quick:
        n, repetitions = 20_000, min(repetitions, 4)
    validation.between("seed", seed, 0, 2**63)
    validation.between("n", n, 20 * WEEKS, 10_000_000)
    validation.require_count("repetitions", repetitions, 2)
    for threshold in thresholds:
        validation.between("threshold", threshold, 4 * per, 1e12)
    cells: list[Cell[EpochRow]] = []
    for threshold in dict.fromkeys(thresholds):
        cells.append(Cell(computed, (threshold, n, repetitions, given), cost=1e-3))
        cells += [
            Cell(drawn, (threshold, n, epsilon, epoch, repetitions, seed, given))
            for epsilon, epoch in EPOCHS.items()
        ]

    def draw(rows: Sequence[EpochRow], file: Path) -> list[Path]:
        runs = {
            f"{epsilon} ε a year: each device reads every {epoch} weeks": run(
                thresholds[0], n, epoch, 0, seed, shock=True, given=given
            )
            for epsilon, epoch in EPOCHS.items()
        }
        question = f"share above {sign}{thresholds[0]:,.15g}"
        draw_curves(runs, file, question=question, shock=SHOCK)
        return [file]

    return Experiment(
        name="epochs",
        cells=cells,
        seed=seed,
        draw=draw,
        tables=partial(_tables, sign=sign),
        note=partial(_note, per=f"{sign}{per:,.15g}"),
    )


@lru_cache(maxsize=2)
def people_of(given: OwnInput) -> Population:
    """Return household incomes or a table's people; ParameterError if a number is negative."""
    people = given.people(1)
    if people is None:
        return household_incomes()
    if people.values.min() < 0:
        raise ParameterError("column", given.columns[0], "of numbers >= 0")
    return people


def asked(threshold: float, given: OwnInput = AS_PUBLISHED) -> Threshold:
    """Return the weekly question about a threshold."""
    return Threshold(threshold, 4 * (given.per or PER), "smoothstep")


def mechanism(epsilon: float = 1.0, given: OwnInput = AS_PUBLISHED) -> PlanarLaplace:
    """Return the mechanism that perturbs a reading."""
    return PlanarLaplace(GeoPrivacy(epsilon, per=given.per or PER, unit="dollar"), dimension=1)


def run(
    threshold: float,
    n: int,
    epoch: int,
    repetition: int,
    seed: int,
    shock: bool = False,
    given: OwnInput = AS_PUBLISHED,
) -> Curves:
    """Return the curves of one repetition."""
    drift = Drift(people_of(given), shock_week=SHOCK if shock else None)
    rng = seeded(seed, int(threshold), n, epoch, repetition, int(shock))
    return follow(drift, asked(threshold, given), mechanism(given=given), epoch, n, YEARS, rng)


def computed(
    threshold: float, n: int, repetitions: int, given: OwnInput = AS_PUBLISHED
) -> list[EpochRow]:
    """Return the strategies with a formula: independent noise every week, and no noise."""
    query, people = asked(threshold, given), people_of(given)
    share = float(Drift(people).means(query, YEARS * WEEKS)[SHOCK:].mean())

    def noise(epsilon: float) -> float:
        # The first year's variance, since it hardly changes with the incomes.
        return people.mean(mechanism(epsilon, given).estimator(query, debias=True).variance)

    row = partial(EpochRow, threshold=threshold, n=n, repetitions=repetitions)
    return [
        row(strategy=strategy, epsilon=epsilon, error=math.sqrt(variance / n))
        for strategy, epsilon, variance in (
            (ALONE, 0.0, people.mean(lambda x: np.square(query.value(x) - share))),
            (FRESH, float(WEEKS), noise(1.0)),
            (SPLIT, 1.0, noise(1 / WEEKS)),
        )
    ]


def drawn(
    threshold: float,
    n: int,
    epsilon: int,
    epoch: int,
    repetitions: int,
    seed: int,
    given: OwnInput = AS_PUBLISHED,
) -> list[EpochRow]:
    """Return the rows of devices that make one reading per epoch."""
    calm, struck = (
        [run(threshold, n, epoch, repetition, seed, shock, given) for repetition in range(runs)]
        for shock, runs in ((False, repetitions), (True, min(repetitions, SHOCKED)))
    )
    query, people = asked(threshold, given), people_of(given)
    means, after = (
        Drift(people, shock_week=week).means(query, YEARS * WEEKS)[SHOCK:] for week in (None, SHOCK)
    )
    scatter = float(np.mean([c.change_variance[2 * epoch : -WEEKS].mean() for c in struck]))
    stated = delay(float(after[0] - means[0]), scatter, n, epoch)
    within = [(c.flags[-WEEKS:][: stated or 0] == 1).any() for c in struck]
    held = np.array([_coverage(c, means) for c in calm])
    of_intervals: dict[str, Any] = {
        "coverage": float(held.mean()),
        "coverage_error": float(held.std(ddof=1)) / math.sqrt(repetitions),
        "delay": stated,
        "flagged": float(np.mean(within)),
        "false_alarms": float(np.mean([np.nanmax(c.flags[-WEEKS:]) for c in calm])),
    }
    row = partial(EpochRow, threshold=threshold, n=n, repetitions=repetitions)
    rows = []
    for strategy, name in _CURVES.items():
        squares, after_shock = (
            np.array([np.square(getattr(c, name) - c.truth)[-WEEKS:][:weeks].mean() for c in runs])
            for runs, weeks in ((calm, WEEKS), (struck, AFTER))
        )
        error = math.sqrt(squares.mean())
        rows.append(
            row(
                strategy=strategy,
                epsilon=float(epsilon),
                error=error,
                standard_error=float(squares.std(ddof=1)) / math.sqrt(repetitions) / (2 * error),
                after_shock=math.sqrt(after_shock.mean()),
                **(of_intervals if strategy == EXTRAPOLATED else {}),
            )
        )
    return rows


def delay(shift: float, change_variance: float, n: int, epoch: int) -> int | None:
    """Return the number of cohorts within which a shift is flagged; None if more than an epoch.

    Args:
        shift: the sudden change of the mean of a query with values in [0, 1].
        change_variance: the variance of one person's change of answer from epoch to epoch before
            the shock, > 0. The shock adds at most |shift|, as no answer changes by more than 1.
        n: people, ≥ 1.
        epoch: cohorts in an epoch, 2 or more.

    Example:
        >>> [delay(-0.0122, 0.066, n=100_000, epoch=weeks) for weeks in (52, 13)]
        [13, 4]
    """
    from scipy.special import ndtri

    validation.positive("change_variance", change_variance)
    lengths = windows(epoch)
    needed = -float(ndtri(FALSE_ALARMS / (2 * WEEKS * len(lengths))) + ndtri(1 - POWER))
    usual = change_variance / n
    recent = (change_variance + abs(shift)) * epoch / n
    enough = (
        length
        for length in lengths
        if abs(shift) >= needed * math.sqrt(recent / length + 2 * usual)
    )
    return next(enough, None)


def _coverage(curves: Curves, means: Array) -> float:
    """Return the share of weeks of the last year whose interval holds the population's mean."""
    intervals = (curves.interval(place) for place in range(-WEEKS, 0))
    return float(
        np.mean([i.low <= mean <= i.high for i, mean in zip(intervals, means, strict=True)])
    )


def _tables(rows: Sequence[EpochRow], sign: str) -> list[Table]:
    return [
        table(
            [row for row in rows if row.threshold == threshold],
            f"share above {sign}{threshold:,.15g}, n = {rows[0].n:,}",
        )
        for threshold in dict.fromkeys(row.threshold for row in rows)
    ]


def table(rows: Sequence[EpochRow], title: str = "") -> Table:
    """Return the table of one threshold."""
    (fresh,) = (row.error for row in rows if row.strategy == FRESH)

    def cells(row: EpochRow) -> Iterator[str]:
        yield from (row.strategy, f"{row.epsilon:g}", f"{row.error:.5f}")
        yield "" if row.strategy == ALONE else f"{row.error / fresh:,.3g}"
        spread = "" if row.coverage_error is None else f" ± {100 * row.coverage_error:.1f}"
        yield "" if row.coverage is None else f"{row.coverage:.1%}{spread}"
        yield "" if row.after_shock is None else f"{row.after_shock:.4f}"
        within = "–" if row.delay is None else f"{row.delay} weeks, {row.flagged:.0%}"
        yield "" if row.flagged is None else within

    return Table(
        headers=(
            *("strategy", "ε a year", "error", "÷ fresh", "coverage", "after a shock"),
            "flagged within",
        ),
        rows=[tuple(cells(row)) for row in rows],
        title=title,
        wrapped=(0, 5, 6),
        right=range(1, 7),
    )


def _note(rows: Sequence[EpochRow], per: str) -> str:
    alarms = [row.false_alarms for row in rows if row.false_alarms is not None]
    return (
        f"ε a year: per {per}. error: root mean square over the weeks of a year of slow drift, in"
        f" which each number rises by {Drift.mean_raise:.0%} ± {Drift.spread:.0%}, against the"
        " participants' own mean; sampling is not in it, and is the error of their mean alone in"
        f" the first line. {SPLIT}: each week at 1/52 of the ε. coverage: of the"
        " population's mean by 95 % intervals of extrapolated answers, ± its standard error between"
        " runs, in hundredths. after a shock: the error in the eight weeks after one in twenty lost"
        " half. flagged within: the weeks in which that is seen with probability 0.9, by a week's"
        " cohort beside those before it, and how often"
        f" it was; years with a false alarm, of which {FALSE_ALARMS:.0%} are permitted:"
        f" {sum(alarms) / len(alarms):.1%}."
    )
