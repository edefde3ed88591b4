"""geoveil simulate selection: the experiments of the papers on private selection."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from geoveil.cli.console import err, out, table_80
from geoveil.cli.simulate_run import RESULTS, Out, Processes, Quick, Seed, computed
from geoveil.gp import validation
from geoveil.simulation.result_tables import write_tables
from geoveil.simulation.selection import EXPERIMENTS, Options, SelectionRow, cells
from geoveil.simulation.selection.experiment import mechanisms

_SHOWN = 4
"""Values of ε in the table; the files have all."""


def selection(
    application: Annotated[str, typer.Option(help=f"One of {', '.join(EXPERIMENTS)}.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A data set of the application's kind; may be repeated."),
    ] = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
) -> None:
    """Private selection: all mechanisms at one ε, which they keep, beside the papers' nominal ones.

    percentile: counts (.npz, .npy); without data, household incomes.

    nodes: graphs (text as the Stanford collection has it, or .npz); without data, a generated one.

    tree, forest: tables (CSV, Parquet), the class last; without data, those that ship.

    tdt: takes no data.

    An interrupted run goes on where it stopped.
    """
    experiment = EXPERIMENTS[validation.choice("application", application, EXPERIMENTS)]
    options = Options(data=tuple(data or ()), seed=seed, quick=quick)
    rows = computed(application, cells(application, options), directory, processes)
    files = write_tables(rows, directory / f"selection-{application}", seed)
    files += experiment.draw(rows, directory)
    _show(rows)
    for file in files:
        err.print(f"written: {file}")


def _show(rows: Sequence[SelectionRow]) -> None:
    """Print a table for each measure and setting: mechanisms by a few values of ε."""
    for measure, dataset, setting in dict.fromkeys((r.measure, r.dataset, r.setting) for r in rows):
        own = [r for r in rows if (r.measure, r.dataset, r.setting) == (measure, dataset, setting)]
        epsilons = _some(sorted({row.epsilon for row in own}))
        headers = ("mechanism", "ε", "proved", *(f"ε = {epsilon:.3g}" for epsilon in epsilons))
        table = table_80(
            *headers,
            wrapped=range(len(headers)),
            right=range(3, len(headers)),
            title=f"{measure}: {dataset}, {setting}",
            title_justify="left",
        )
        table.columns[0].overflow = "fold"
        for mechanism, standing in mechanisms(own):
            lines = [r for r in own if (r.mechanism, r.standing) == (mechanism, standing)]
            value = {row.epsilon: row.value for row in lines}
            proved = max(row.proved_epsilon / row.epsilon for row in lines)
            table.add_row(
                mechanism,
                standing,
                f"{proved:.3g} ε",
                *(f"{value[e]:.4g}" if e in value else "–" for e in epsilons),
            )
        out.print(table)


def _some(epsilons: Sequence[float]) -> list[float]:
    """Return a few values, evenly spaced, the first and the last among them."""
    if len(epsilons) <= _SHOWN:
        return list(epsilons)
    step = (len(epsilons) - 1) / (_SHOWN - 1)
    return [epsilons[round(place * step)] for place in range(_SHOWN)]
