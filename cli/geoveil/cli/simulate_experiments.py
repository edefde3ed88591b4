"""geoveil simulate oneway, twoway, kde: the experiments of Liang and Yi (CCS 2024)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from geoveil.cli.console import err, out, table_80
from geoveil.cli.simulate_distribution import distribution
from geoveil.cli.simulate_epochs import epochs
from geoveil.cli.simulate_run import RESULTS, Out, Processes, Quick, Seed, computed
from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiments.own import OwnInput
from geoveil.simulation.experiments.published import (
    MAPS,
    PublishedExperiment,
    draw_map,
    kernels,
    one_way,
    two_way,
    write_page,
)
from geoveil.simulation.experiments.rows import LOCAL, ErrorRow, compare
from geoveil.simulation.experiments.settings import OneWayPanel

Mode = Annotated[
    str,
    typer.Option(help="exact: from moments. monte-carlo: people and noise are drawn."),
]
Repetitions = Annotated[
    int | None, typer.Option(help="Repetitions in monte-carlo mode; the paper's number by default.")
]


def oneway(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
    module: Annotated[
        Path | None,
        typer.Option(
            help="Python file of further mechanisms, as geoveil audit takes it; it is run."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Table of other people, CSV or Parquet; with --column.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Of --data: what people hold.")] = None,
    weight: Annotated[
        str | None, typer.Option(help="Of --data: how many people a row stands for.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="The only threshold, > 0; with --per.")
    ] = None,
    per: Annotated[
        float | None, typer.Option(help="1/ε, in the unit of the values; with --threshold.")
    ] = None,
) -> None:
    """One threshold on incomes: twelve settings, error against the number of people.

    Figures 3 and 8 of the paper. An interrupted run goes on where it stopped.

    With a mechanism of one's own, other people, or both:

    geoveil simulate oneway --module wide.py --data heights.csv --column cm --threshold 180 --per 2
    """
    given = OwnInput(module, data, column, weight)
    if (threshold is None) != (per is None):
        raise ParameterError("--per", per, "given together with --threshold")
    panel = None
    if threshold is not None and per is not None:
        panel = OneWayPanel(threshold, per, footing=per)
    _run(one_way(mode, repetitions, seed, quick, given, panel), directory, processes)


def twoway(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
) -> None:
    """Pairs of thresholds on incomes and debts: the error over a grid of 34 × 34.

    Figure 4 of the paper. Its grid takes days in monte-carlo mode; --quick has 5 × 5.
    """
    _run(two_way(mode, repetitions, seed, quick), directory, processes)


def kde(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
    maps: Annotated[
        str, typer.Option(help=f"Contour maps of one run: {', '.join(MAPS)}; minutes for each.")
    ] = "none",
) -> None:
    """Kernel densities of collisions in New York: the error over a grid of 61 × 61.

    Figure 6 of the paper; with --maps default also 5, with --maps all also 9, 10 and 11. In
    monte-carlo mode every report is drawn at 8 × 8 of the centres; --quick has 5 × 5 in any mode.
    """
    settings = MAPS[validation.choice("maps", maps, MAPS)]
    _run(kernels(mode, repetitions, seed, quick), directory, processes)
    for setting in settings:
        with err.status(f"drawing the map of {setting.label}, n = {setting.n:,}"):
            draw_map(setting, seed, directory)


def results(
    directory: Annotated[
        Path, typer.Option("--out", help="Directory for results.md and, below it, images/.")
    ] = RESULTS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same page.")] = 1,
    processes: Processes = None,
) -> None:
    """All experiments, the paper's in exact mode, on one page with figures.

    A quarter of an hour or so. An interrupted run goes on where it stopped: parts stay in a
    directory beside the page.
    """
    work = directory / "results"
    oneway(directory=work, seed=seed, processes=processes)
    twoway(directory=work, seed=seed, processes=processes)
    kde(directory=work, seed=seed, processes=processes, maps="default")
    distribution(directory=work, seed=seed, processes=processes)
    epochs(directory=work, seed=seed)
    err.print(f"written: {write_page(work, directory)}")


def _run(experiment: PublishedExperiment, directory: Path, processes: int | None) -> None:
    """Compute the cells under a progress bar, write what came out, and print the comparison."""
    label = f"{experiment.name}, {experiment.mode}"
    rows = computed(label, experiment.cells, directory, processes)
    stem = experiment.write(rows, directory)
    _print_comparison(rows)
    err.print(f"tables and figures: {stem}*")


def _print_comparison(rows: Sequence[ErrorRow]) -> None:
    found = compare(rows)
    own = any(c.own for c in found)
    headers = ("setting", "n", "paper's best", "geoveil's best", "ratio", "prior")
    table = table_80(*headers, *(["yours", "ratio"] if own else []), wrapped=[0])
    for c in found:
        table.add_row(
            c.panel,
            _count(c.n),
            c.seed.mechanism,
            c.ours.mechanism,
            out.styled((f"{c.ratio:.3g}", "bold")),
            "" if c.aided is None else f"{c.ratio_with_prior:.3g}",
            *([c.own.mechanism, f"{c.own_ratio:.3g}"] if c.own else []),
        )
    out.print(table)
    out.print(
        f"ratio: {rows[0].measure} of the paper's best mechanism over that of geoveil's best."
        f" {LOCAL} has another guarantee, equal at one distance only, and is left out. prior: the"
        " ratio if both may let a public survey choose the query."
    )


def _count(n: int) -> str:
    return f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n / 1e3:g}k"
