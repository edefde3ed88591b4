"""geoveil simulate oneway, twoway, kde, distribution, epochs, selection: the experiments."""

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from geoveil.cli.console import bars, err, out, table_80
from geoveil.gp import ParameterError, validation
from geoveil.simulation import selection as selections
from geoveil.simulation.computing import Computer, Processes, computer
from geoveil.simulation.distribution import experiment as distributions
from geoveil.simulation.distribution.attributes import ATTRIBUTES
from geoveil.simulation.epochs import experiment as over_time
from geoveil.simulation.experiment import Experiment
from geoveil.simulation.experiments import kde as kernels
from geoveil.simulation.experiments import oneway as one_way
from geoveil.simulation.experiments import twoway_draws as two_way
from geoveil.simulation.experiments.kde_draws import MAPS, density_maps
from geoveil.simulation.experiments.own import OwnInput
from geoveil.simulation.experiments.page import write_page
from geoveil.simulation.experiments.settings import OneWayPanel
from geoveil.simulation.figures.kernels import draw_density_maps

Row = TypeVar("Row")
RESULTS = Path("results")
Out = Annotated[
    Path, typer.Option("--out", help="Directory for tables, figures and finished parts.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same table.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small part of it, to see what it does.")]
ProcessCount = Annotated[
    int | None,
    typer.Option(
        "--processes", help="Processes that compute at once; one for each processor by default."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler, e.g. tcp://10.0.0.5:8786, to use instead."),
]
Mode = Annotated[
    str,
    typer.Option(help="exact: from moments. monte-carlo: people and noise are drawn."),
]
Repetitions = Annotated[
    int | None, typer.Option(help="Repetitions in monte-carlo mode; the paper's number by default.")
]
Module = Annotated[
    Path | None,
    typer.Option(help="Python file of further mechanisms, as geoveil audit takes it; it is run."),
]
People = Annotated[
    Path | None,
    typer.Option(help="Other people: CSV or Parquet, with --column, or GeoPackage (.gpkg)."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(help="Of --data: what people hold; twice for longitude and latitude."),
]
Weight = Annotated[str | None, typer.Option(help="Of --data: how many people a row stands for.")]


def oneway(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    scheduler: Scheduler = None,
    module: Module = None,
    data: People = None,
    column: Columns = None,
    weight: Weight = None,
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
    given = OwnInput(module, data, tuple(column or ()), weight)
    if (threshold is None) != (per is None):
        raise ParameterError("--per", per, "given together with --threshold")
    panel = None
    if threshold is not None and per is not None:
        panel = OneWayPanel(threshold, per, footing=per)
    asked = one_way.experiment(mode, repetitions, seed, quick, given, panel)
    _run(asked, directory, processes, scheduler)


def twoway(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    scheduler: Scheduler = None,
    module: Module = None,
) -> None:
    """Pairs of thresholds on incomes and debts: the error over a grid of 34 × 34.

    Figure 4 of the paper. Its grid takes days in monte-carlo mode; --quick has 5 × 5.
    """
    asked = two_way.experiment(mode, repetitions, seed, quick, OwnInput(module))
    _run(asked, directory, processes, scheduler)


def kde(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    scheduler: Scheduler = None,
    module: Module = None,
    data: People = None,
    column: Columns = None,
    weight: Weight = None,
    maps: Annotated[
        str, typer.Option(help=f"Contour maps of one run: {', '.join(MAPS)}; minutes for each.")
    ] = "none",
) -> None:
    """Kernel densities of collisions in New York: the error over a grid of 61 × 61.

    Figure 6 of the paper; with --maps default also 5, with --maps all also 9, 10 and 11. In
    monte-carlo mode every report is drawn at 8 × 8 of the centres; --quick has 5 × 5 in any mode.
    """
    settings = MAPS[validation.choice("maps", maps, MAPS)]
    given = OwnInput(module, data, tuple(column or ()), weight)
    asked = kernels.experiment(mode, repetitions, seed, quick, given)
    _run(asked, directory, processes, scheduler)
    for setting in settings:
        with err.status(f"drawing the map of {setting.label}, n = {setting.n:,}"):
            name = f"kde-map-n{setting.n}-per{setting.per_m:g}-h{setting.factor:g}.png"
            draw_density_maps(
                density_maps(setting, seed=seed, given=given), setting, directory / name
            )


def distribution(
    population: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(ATTRIBUTES)}; may be repeated. All by default."),
    ] = None,
    participants: Annotated[
        list[int] | None, typer.Option(help="Number of people, n; may be repeated.")
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="ε for values $8,000 or 500 m apart; may be repeated."),
    ] = None,
    repetitions: Annotated[
        int, typer.Option(help="How often people and noise are drawn anew, 2 or more.")
    ] = distributions.REPETITIONS,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    scheduler: Scheduler = None,
) -> None:
    """Mean, quartiles, distribution function and histogram: geo-privacy beside ε-LDP.

    geoveil's one perturbed number of each person, against square wave, hierarchical histograms and
    the piecewise and hybrid mechanisms, each at three stated footings: distances at which ε-LDP
    promises as much. Minutes; an interrupted run goes on where it stopped.

    Example: geoveil simulate distribution --population incomes --participants 50000 --epsilon 1
    """
    asked = distributions.experiment(
        population or (), epsilon or (), participants or (), repetitions, seed, quick
    )
    _run(asked, directory, processes, scheduler)


def epochs(
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="In dollars; may be repeated. By default 55,500, 100,000 and 212,500."),
    ] = None,
    participants: Annotated[int, typer.Option(help="Number of people, n.")] = over_time.PEOPLE,
    repetitions: Annotated[
        int,
        typer.Option(
            help="Runs of each strategy without a shock, 2 or more;"
            f" with one at most {over_time.SHOCKED}."
        ),
    ] = over_time.REPETITIONS,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    scheduler: Scheduler = None,
) -> None:
    """A question asked every week for a year: one perturbed number an epoch, beside fresh noise.

    Californian incomes, a raise of 3 % ± 8 % a year in a week of each household's own. Devices that
    read their value once an epoch answer every week from the same point, carried on or
    extrapolated. In other runs one household in twenty loses half of its income at once.

    A quarter of an hour, or minutes with --repetitions 200.

    Example: geoveil simulate epochs --threshold 100000
    """
    asked = tuple(threshold or (over_time.THRESHOLDS[:1] if quick else over_time.THRESHOLDS))
    n, runs = (20_000, min(repetitions, 4)) if quick else (participants, repetitions)
    _run(over_time.experiment(asked, n, runs, seed), directory, processes, scheduler)


def selection(
    application: Annotated[str, typer.Option(help=f"One of {', '.join(selections.EXPERIMENTS)}.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A data set of the application's kind; may be repeated."),
    ] = None,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    scheduler: Scheduler = None,
) -> None:
    """Private selection: all mechanisms at one ε, which they keep, beside the papers' nominal ones.

    percentile: counts (.npz, .npy); without data, household incomes.

    nodes: graphs (text as the Stanford collection has it, or .npz); without data, a generated one.

    tree, forest: tables (CSV, Parquet), the class last; without data, those that ship.

    tdt: takes no data.

    An interrupted run goes on where it stopped.
    """
    options = selections.Options(data=tuple(data or ()), seed=seed, quick=quick)
    _run(selections.experiment(application, options), directory, processes, scheduler)


def results(
    directory: Annotated[
        Path, typer.Option("--out", help="Directory for results.md and, below it, images/.")
    ] = RESULTS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same page.")] = 1,
    processes: ProcessCount = None,
    scheduler: Scheduler = None,
) -> None:
    """All experiments, the paper's in exact mode, on one page with figures.

    A quarter of an hour or so. An interrupted run goes on where it stopped: parts stay in a
    directory beside the page.
    """
    work = directory / "results"
    for compute in (oneway, twoway, distribution, epochs):
        compute(directory=work, seed=seed, processes=processes, scheduler=scheduler)
    kde(directory=work, seed=seed, processes=processes, scheduler=scheduler, maps="default")
    err.print(f"written: {write_page(work, directory)}")


def _run(
    experiment: Experiment[Row], directory: Path, processes: int | None, scheduler: str | None
) -> None:
    """Compute the cells under a progress bar, write what came out, and print its tables."""
    with _computer(processes, scheduler) as compute, bars() as progress:
        task = progress.add_task(experiment.name, total=sum(c.cost for c in experiment.cells))
        rows = experiment.run(directory, compute, lambda c: progress.advance(task, c.cost))
    files = experiment.write(rows, directory)
    for told in experiment.tables(rows):
        table = table_80(
            *told.headers,
            wrapped=told.wrapped,
            right=told.right,
            title=told.title or None,
            title_justify="left",
        )
        table.columns[0].overflow = "fold"
        for row in told.rows:
            if row:
                table.add_row(*row)
            else:
                table.add_section()
        out.print(table)
    if note := experiment.note(rows):
        out.print(note)
    for file in files:
        err.print(f"written: {file}")


def _computer(processes: int | None, scheduler: str | None) -> AbstractContextManager[Computer]:
    if scheduler is not None:
        return computer(scheduler, processes)
    return nullcontext(processes_of(processes))


def processes_of(count: int | None) -> Processes:
    """Return so many processes of this machine; one for each processor if None."""
    return Processes(os.cpu_count() or 1 if count is None else count)
