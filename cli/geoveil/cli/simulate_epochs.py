"""geoveil simulate epochs: weekly answers for a year, and what they cost."""

from collections.abc import Sequence
from typing import Annotated

import typer

from geoveil.analyst.statistics.over_time import FALSE_ALARMS
from geoveil.cli.console import bars, err, out, table_80
from geoveil.cli.simulate_run import RESULTS, Out, Quick, Seed
from geoveil.simulation.epochs.drift import WEEKS
from geoveil.simulation.epochs.experiment import (
    ALONE,
    EPOCHS,
    FRESH,
    PEOPLE,
    REPETITIONS,
    SHOCKED,
    SPLIT,
    THRESHOLDS,
    YEARS,
    EpochRow,
    rows,
    run,
)
from geoveil.simulation.epochs.page import coverage_of
from geoveil.simulation.figures.epochs import draw_curves
from geoveil.simulation.result_tables import write_tables


def epochs(
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="In dollars; may be repeated. By default 55,500, 100,000 and 212,500."),
    ] = None,
    participants: Annotated[int, typer.Option(help="Number of people, n.")] = PEOPLE,
    repetitions: Annotated[
        int,
        typer.Option(
            help=f"Runs of each strategy without a shock, 2 or more; with one at most {SHOCKED}."
        ),
    ] = REPETITIONS,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
) -> None:
    """A question asked every week for a year: one perturbed number an epoch, beside fresh noise.

    Californian incomes, a raise of 3 % ± 8 % a year in a week of each household's own. Devices that
    read their value once an epoch answer every week from the same point, carried on or
    extrapolated. In other runs one household in twenty loses half of its income at once.

    A quarter of an hour, or minutes with --repetitions 200.

    Example: geoveil simulate epochs --threshold 100000
    """
    asked = tuple(threshold or (THRESHOLDS[:1] if quick else THRESHOLDS))
    n, runs = (20_000, min(repetitions, 4)) if quick else (participants, repetitions)
    with bars() as progress:
        task = progress.add_task("epochs", total=len(set(asked)) * len(EPOCHS))
        table = rows(asked, n, runs, seed, lambda: progress.advance(task))
    directory.mkdir(parents=True, exist_ok=True)
    files = write_tables(table, directory / "epochs", seed)
    drawn = {
        f"{epsilon} ε a year: each device reads every {epoch} weeks": run(
            asked[0], n, epoch, 0, seed, shock=True
        )
        for epsilon, epoch in EPOCHS.items()
    }
    draw_curves(
        drawn,
        directory / "epochs.png",
        question=f"share above ${asked[0]:,.0f}",
        shock=(YEARS - 1) * WEEKS,
    )
    _show(table)
    for file in (*files, directory / "epochs.png"):
        err.print(f"written: {file}")


def _show(table: Sequence[EpochRow]) -> None:
    for threshold in dict.fromkeys(row.threshold for row in table):
        own = [row for row in table if row.threshold == threshold]
        (fresh,) = (row for row in own if row.strategy == FRESH)
        shown = table_80(
            "strategy",
            "ε a year",
            "error",
            "÷ fresh",
            "coverage",
            "after a shock",
            "flagged within",
            wrapped=(0, 5, 6),
            right=range(1, 7),
            title=f"share above ${threshold:,.0f}, n = {own[0].n:,}",
            title_justify="left",
        )
        for row in own:
            shown.add_row(
                row.strategy,
                f"{row.epsilon:g}",
                f"{row.error:.2g}",
                "" if row.strategy == ALONE else f"{row.error / fresh.error:,.3g}",
                coverage_of(row),
                "" if row.after_shock is None else f"{row.after_shock:.2g}",
                _flag(row),
            )
        out.print(shown)
    alarms = [row.false_alarms for row in table if row.false_alarms is not None]
    out.print(
        "ε a year: per $8,000. error: root mean square over the weeks of a year of slow drift,"
        " against the participants' own mean; sampling is not in it, and is the error of their mean"
        f" alone in the first line. {SPLIT}: each week at 1/52 of the ε. coverage: of the"
        " population's mean by 95 % intervals of extrapolated answers, ± its standard error between"
        " runs, in hundredths. after a shock: the error in the eight weeks after one in twenty lost"
        " half. flagged within: the weeks in which that is seen with probability 0.9, by a week's"
        " cohort beside those before it, and how often"
        f" it was; years with a false alarm, of which {FALSE_ALARMS:.0%} are permitted:"
        f" {sum(alarms) / len(alarms):.1%}."
    )


def _flag(row: EpochRow) -> str:
    if row.flagged is None:
        return ""
    return "–" if row.delay is None else f"{row.delay} weeks ({row.flagged:.0%})"
