"""geoveil compare; simulate oneway, twoway, kde, distribution, epochs, relations, selection."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import whole_file
from geoveil.audit import mechanisms_in
from geoveil.cli import options
from geoveil.cli.console import bars, err, out, print_json, print_table
from geoveil.gp import __version__
from geoveil.simulation import relations as related, selection as selections
from geoveil.simulation.computing import Computer, Processes, computer
from geoveil.simulation.distribution import experiment as distributions
from geoveil.simulation.distribution.attributes import ATTRIBUTES
from geoveil.simulation.epochs import experiment as over_time
from geoveil.simulation.experiment import Experiment, Table
from geoveil.simulation.experiments import kde as kernels, oneway as one_way, twoway as two_way
from geoveil.simulation.experiments.own import OwnInput
from geoveil.simulation.experiments.page import write_page
from geoveil.simulation.experiments.published import PaperRun
from geoveil.simulation.peers import PACKAGES, compare_peers, peers_page, peers_table, version_of

RESULTS = Path("results")
Seed = Annotated[int, typer.Option(help="Seed: the same one gives the same table.")]
Quick = Annotated[bool, typer.Option("--quick", help="Run only a small part, as a trial.")]
ProcessCount = Annotated[
    int | None,
    typer.Option("--processes", help="Parallel processes; by default one per processor."),
]
Mode = Annotated[
    str,
    typer.Option(help="exact: compute from moments. monte-carlo: draw people and noise."),
]
Repetitions = Annotated[
    int | None, typer.Option(help="Repetitions in monte-carlo mode; the paper's number by default.")
]
_GIVEN: dict[str, Any] = {
    "module": Annotated[
        Path | None,
        typer.Option(
            help="Python file with further mechanisms, as for geoveil audit; it is executed."
        ),
    ],
    "data": Annotated[
        Path | None,
        typer.Option(
            help="Data about other people: CSV or Parquet with --column, or GeoPackage (.gpkg)."
        ),
    ],
    "column": Annotated[
        list[str] | None,
        typer.Option(
            help="With --data: the column of values; twice for pairs, or for longitude and"
            " latitude."
        ),
    ],
    "weight": Annotated[
        str | None,
        typer.Option(
            help="With --data: the column with the number of people that a row stands for."
        ),
    ],
    "threshold": Annotated[
        list[float] | None,
        typer.Option(
            help="Threshold in the unit of --data, with --per; twice for pairs, once per column."
        ),
    ],
    "per": Annotated[float | None, typer.Option(help="1/ε, in the unit of the values.")],
    "ends": Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--range",
            metavar="<low high>",
            help="With --data: the least and the greatest value, a public fact.",
        ),
    ],
    "mechanism": Annotated[
        list[str] | None,
        typer.Option(
            help="A further mechanism, such as 'smooth:noise=student-t,nu=5'; 'geoveil "
            "mechanisms' lists"
            " them. May be repeated."
        ),
    ],
}
"""Name → the option for the user's own input."""


def _brings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's argument `given` by options for the user's own input."""
    return options.takes("given", {name: (_GIVEN[name], None) for name in names}, _input)


def _input(
    column: Sequence[str] | None = None,
    threshold: Sequence[float] | None = None,
    mechanism: Sequence[str] | None = None,
    **more: Any,
) -> OwnInput:
    return OwnInput(
        columns=tuple(column or ()),
        thresholds=tuple(threshold or ()),
        mechanisms=tuple(mechanism or ()),
        **more,
    )


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The execution of an experiment, and the place of its results."""

    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="Directory for tables, figures and finished parts; or a file for the figure (.svg,"
            " .pdf, .png), with everything else beside it.",
        ),
    ] = RESULTS
    seed: Seed = 1
    quick: Quick = False
    processes: ProcessCount = None
    scheduler: options.Scheduler = None

    def asked(self, mode: str, repetitions: int | None, given: OwnInput) -> PaperRun:
        """Return the run of an experiment of the paper."""
        return PaperRun(
            mode=mode, repetitions=repetitions, seed=self.seed, quick=self.quick, given=given
        )

    def __call__(self, experiment: Experiment[Any]) -> None:
        """Compute the cells under a progress bar, write the results, and print the tables."""
        with self._computer() as compute, bars() as progress:
            task = progress.add_task(experiment.name, total=sum(c.cost for c in experiment.cells))
            rows = experiment.run(self.out, compute, lambda c: progress.advance(task, c.cost))
        with err.status("drawing"):
            files = experiment.write(rows, self.out)
        for table in experiment.tables(rows):
            show_table(table)
        if note := experiment.note(rows):
            out.print(note)
        for file in files:
            err.print(f"written: {file}")

    def _computer(self) -> AbstractContextManager[Computer]:
        if self.scheduler is not None:
            return computer(self.scheduler, self.processes)
        return nullcontext(processes_of(self.processes))


_runs = options.takes("run", {f.name: (f.type, f.default) for f in fields(_Run)}, _Run)
"""Gives a command the options of all experiments, in place of its argument `run`."""


def processes_of(count: int | None) -> Processes:
    """Return a pool of a number of processes, by default one per processor."""
    return Processes(os.cpu_count() or 1 if count is None else count)


def write_text(page: Path, text: str) -> None:
    """Write a page in Markdown, and say where it is."""
    page.parent.mkdir(parents=True, exist_ok=True)
    with whole_file("--out", page) as beside:
        beside.write_text(text, encoding="utf-8")
    err.print(f"written: {page}")


def show_table(table: Table) -> None:
    """Print the table of an experiment."""
    print_table(
        table.headers,
        table.rows,
        wrapped=table.wrapped,
        right=table.right,
        title=table.title or None,
        title_justify="left",
    )


@_runs
@_brings("module", "mechanism", "data", "column", "weight", "threshold", "per")
def oneway(
    mode: Mode = "exact", repetitions: Repetitions = None, *, given: OwnInput, run: _Run
) -> None:
    """One threshold on incomes: twelve settings, error against the number of people.

    Figures 3 and 8 of the paper. An interrupted run goes on where it stopped.

    With a mechanism of one's own, other people, or both:

    geoveil simulate oneway --module wide.py --data heights.csv --column cm --threshold 180 --per 2
    """
    run(one_way.experiment(run.asked(mode, repetitions, given)))


@_runs
@_brings("module", "mechanism", "data", "column", "weight", "threshold", "per")
def twoway(
    mode: Mode = "exact", repetitions: Repetitions = None, *, given: OwnInput, run: _Run
) -> None:
    """Pairs of thresholds on incomes and debts: the error over a grid of 34 × 34.

    Figure 4 of the paper. Its grid takes days in monte-carlo mode; --quick has 5 × 5. Other people
    hold two numbers, and are asked one pair: --threshold of the first, --threshold of the second.
    """
    run(two_way.experiment(run.asked(mode, repetitions, given)))


@_runs
@_brings("module", "mechanism", "data", "column", "weight")
def kde(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    maps: Annotated[
        str,
        typer.Option(help=f"Contour maps of one run: {', '.join(kernels.MAPS)}; minutes for each."),
    ] = "none",
    *,
    given: OwnInput,
    run: _Run,
) -> None:
    """Kernel densities of collisions in New York: the error over a grid of 61 × 61.

    Figure 6 of the paper; with --maps default also 5, with --maps all also 9, 10 and 11. In
    monte-carlo mode every report is drawn at 8 × 8 of the centres; --quick has 5 × 5 in any mode.
    """
    run(kernels.experiment(run.asked(mode, repetitions, given), maps))


@_runs
@_brings("module", "data", "column", "weight", "per", "ends")
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
        typer.Option(help="ε for values $8,000, 500 m or --per apart; may be repeated."),
    ] = None,
    repetitions: Annotated[
        int, typer.Option(help="Repetitions with new people and noise, 2 or more.")
    ] = distributions.REPETITIONS,
    *,
    given: OwnInput,
    run: _Run,
) -> None:
    """Mean, quartiles, distribution function and histogram: geo-privacy beside ε-LDP.

    geoveil's one perturbed number of each person, against square wave, hierarchical histograms and
    the piecewise and hybrid mechanisms, each at three stated footings: distances at which ε-LDP
    promises as much. Minutes; an interrupted run goes on where it stopped. A mechanism of --module
    asks each person for one of 31 edges of a histogram.

    Examples: geoveil simulate distribution --population incomes --participants 50000 --epsilon 1;
    geoveil simulate distribution --data heights.csv --column cm --per 2 --range 140 200
    """
    run(
        distributions.experiment(
            population or (),
            *(epsilon or (), participants or (), repetitions),
            run.seed,
            run.quick,
            given,
        )
    )


@_runs
@_brings("data", "column", "weight", "threshold", "per")
def epochs(
    participants: Annotated[int, typer.Option(help="Number of people, n.")] = over_time.PEOPLE,
    repetitions: Annotated[
        int,
        typer.Option(
            help="Runs of each strategy without a shock, 2 or more;"
            f" with one at most {over_time.SHOCKED}."
        ),
    ] = over_time.REPETITIONS,
    *,
    given: OwnInput,
    run: _Run,
) -> None:
    """A question asked every week for a year: one perturbed number an epoch, beside fresh noise.

    Californian incomes, each raised by 3 % ± 8 % once a year, in a week of the household's own.
    --data takes numbers >= 0. Devices that read their value once an epoch answer every week from
    the same point, carried on or extrapolated. In other runs one in twenty loses half of their
    income at once.

    A quarter of an hour, or minutes with --repetitions 200.

    Example: geoveil simulate epochs --threshold 100000
    """
    run(over_time.experiment(participants, repetitions, run.seed, run.quick, given))


@_runs
def relations(
    epsilon: Annotated[
        float, typer.Option(help="ε of each field, at its distance; 0.01 to 4.")
    ] = 1.0,
    participants: Annotated[int, typer.Option(help="Number of people, n.")] = related.PEOPLE,
    repetitions: Annotated[
        int, typer.Option(help="Repetitions with new people and noise, 2 or more.")
    ] = related.REPETITIONS,
    *,
    run: _Run,
) -> None:
    """Several private answers of one person: a form beside ε-LDP, and beside closed forms.

    Shares, a mean score, a cell of a table, a correlation, a slope and a mean within a disc, of
    ages, hours, schooling, incomes and places. Contestants of ε-LDP send the cell of each answer,
    with 1, 2 or 4 times ε between any two; and are given geoveil's estimators. Minutes.

    Example: geoveil simulate relations --participants 20000
    """
    run(related.experiment(epsilon, participants, repetitions, run.seed, run.quick))


@_runs
def selection(
    application: Annotated[str, typer.Option(help=f"One of {', '.join(selections.EXPERIMENTS)}.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A data set for the application; may be repeated."),
    ] = None,
    module: Annotated[
        Path | None,
        typer.Option(
            help="Python file with further mechanisms, functions of epsilon and sensitivity;"
            " it is executed."
        ),
    ] = None,
    *,
    run: _Run,
) -> None:
    """Private selection: all mechanisms at one ε that they keep, and the papers' at nominal ε.

    percentile: counts (.npz, .npy); without data, household incomes.

    nodes: graphs (text as the Stanford collection has it, or .npz); without data, a generated one.

    tree, forest: tables (CSV, Parquet), the class last; without data, those that ship.

    tdt: takes no data.

    An interrupted run goes on where it stopped.
    """
    run(
        selections.experiment(
            application,
            selections.Options(
                data=tuple(data or ()), seed=run.seed, quick=run.quick, module=module
            ),
        )
    )


def results(
    directory: Annotated[
        Path, typer.Option("--out", help="Directory for results.md and, below it, images/.")
    ] = RESULTS,
    seed: Annotated[int, typer.Option(help="Seed: the same one gives the same page.")] = 1,
    processes: ProcessCount = None,
    scheduler: options.Scheduler = None,
) -> None:
    """All experiments, the paper's in exact mode, on one page with figures.

    A quarter of an hour or so. An interrupted run goes on where it stopped: parts stay in a
    directory beside the page.
    """
    work = directory / "results"
    for compute in (oneway, twoway, distribution, epochs):
        compute(out=work, seed=seed, processes=processes, scheduler=scheduler)
    kde(out=work, seed=seed, processes=processes, scheduler=scheduler, maps="default")
    err.print(f"written: {write_page(work, directory)}")


def compare(
    n: Annotated[int, typer.Option("--participants", "-n", help="People, at least 100.")] = 5_000,
    repetitions: Annotated[int, typer.Option(help="Reports of each person, at least 2.")] = 40,
    samples: Annotated[
        int, typer.Option(help="Reports that the audit draws for each income, at least 1,000.")
    ] = 10_000,
    module: Annotated[
        Path | None,
        typer.Option(help="Add the mechanisms of this Python file; it is run."),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--out", help="Directory for peers.md; none by default.")
    ] = None,
    seed: Seed = 1,
    quick: Quick = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare geoveil with other packages: the error, the time and the audited ε of each.

    OpenDP, diffprivlib and pure-LDP take part if they are installed, as geoveil's extra "peers"
    does. All learn the share of incomes above $100,000, and the shares above ten thresholds, from
    one report of each person. Two minutes of one processor; seconds with --quick.
    """
    own = {} if module is None else mechanisms_in(module)
    people, times, drawn = (1_000, 5, 1_000) if quick else (n, repetitions, samples)
    sizes = {"n": people, "repetitions": times, "samples": drawn}
    rows = []
    with err.status("comparing") as shown:
        for row in compare_peers(**sizes, seed=seed, own=own):
            rows.append(row)
            shown.update(f"comparing: {row.name} is done")
    if missing := [name for name in PACKAGES if version_of(name) is None]:
        err.print(f"not installed: {', '.join(missing)}; pip install 'geoveil[peers]'")
    if directory is not None:
        about = (
            f"{datetime.now(UTC):%Y-%m-%d}, geoveil {__version__}: {sizes['n']:,} people, each of"
            f" whom reported {sizes['repetitions']} times; the audit saw {sizes['samples']:,}"
            " reports of each income."
        )
        write_text(directory / "peers.md", peers_page(rows, about))
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        show_table(peers_table(rows))
        out.print(
            "Error: root mean squared error of the hard share of participants above one threshold,"
            " and above each of ten; ±: its standard error. Bias: the mean error above the one. "
            "µs: processor time per report. Proven: the part of the promised ε that outputs prove "
            "to"
            " be used; above 1 the promise is broken."
        )
