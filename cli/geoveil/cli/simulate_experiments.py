"""geoveil simulate oneway, twoway, kde: the seed paper's experiments."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer

from geoveil.cli.console import bars, err, out, table_80
from geoveil.gp import validation
from geoveil.simulation.experiments import kde as kernels
from geoveil.simulation.experiments import oneway as one_way
from geoveil.simulation.experiments import twoway_draws as two_way
from geoveil.simulation.experiments.kde_draws import density_maps
from geoveil.simulation.experiments.kde_settings import DEFAULT, SETTINGS, KernelSetting
from geoveil.simulation.experiments.kde_settings import REPETITIONS as KERNEL_REPETITIONS
from geoveil.simulation.experiments.page import Section, results_page
from geoveil.simulation.experiments.rows import (
    LOCAL,
    MODES,
    ErrorRow,
    compare,
    read_csv,
    write_csv,
    write_parquet,
)
from geoveil.simulation.experiments.runs import ExperimentCell, Run
from geoveil.simulation.experiments.settings import (
    ONE_WAY_PANELS,
    ONE_WAY_REPETITIONS,
    TWO_WAY_AXIS,
    TWO_WAY_PANELS,
    TWO_WAY_REPETITIONS,
)

Mode = Annotated[
    str,
    typer.Option(help="exact: from moments. monte-carlo: people and noise are drawn."),
]
Repetitions = Annotated[
    int | None, typer.Option(help="In monte-carlo mode; the paper's number by default.")
]
Out = Annotated[
    Path, typer.Option("--out", help="Directory for tables, figures and finished parts.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same table.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small part of it, to see what it does.")]
_MAPS: Mapping[str, tuple[KernelSetting, ...]] = MappingProxyType(
    {"none": (), "default": (DEFAULT,), "all": SETTINGS}
)
"""What to map → the settings."""
Processes = Annotated[
    int | None, typer.Option(help="That compute at once; one for each processor by default.")
]
PEOPLE = 1_600_000
"""The n that the tables of thresholds show; the figures and the CSV files have all."""


def oneway(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = Path("results"),
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
) -> None:
    """One threshold on incomes: twelve settings, error against the number of people.

    Figures 3 and 8 of the paper. An interrupted run goes on where it stopped.
    """
    panels = ONE_WAY_PANELS
    if quick:
        panels = tuple(replace(p, people=(100_000,)) for p in panels[1::3])
    cells = one_way.cells(
        mode=_checked(mode, seed),
        repetitions=_repetitions(repetitions, 10 if quick else ONE_WAY_REPETITIONS),
        seed=seed,
        panels=panels,
    )
    rows = _run("oneway", mode, cells, directory, processes)
    from geoveil.simulation.figures.thresholds import draw_lines

    _finish("oneway", mode, rows, directory, draw_lines)


def twoway(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = Path("results"),
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
) -> None:
    """Pairs of thresholds on incomes and debts: the error over a grid of 34 × 34.

    Figure 4 of the paper. Its grid takes days in monte-carlo mode; --quick has 5 × 5.
    """
    panels = TWO_WAY_PANELS
    if quick:
        panels = tuple(replace(p, axis=TWO_WAY_AXIS[1::7], people=(20_000,)) for p in panels)
    cells = two_way.cells(
        mode=_checked(mode, seed),
        repetitions=_repetitions(repetitions, 10 if quick else TWO_WAY_REPETITIONS),
        seed=seed,
        panels=panels,
    )
    rows = _run("twoway", mode, cells, directory, processes)
    from geoveil.simulation.figures.thresholds import draw_bars

    _finish("twoway", mode, rows, directory, draw_bars)


def kde(
    mode: Mode = "exact",
    repetitions: Repetitions = None,
    directory: Out = Path("results"),
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
    maps: Annotated[
        str, typer.Option(help=f"Contour maps of one run: {', '.join(_MAPS)}; minutes for each.")
    ] = "none",
) -> None:
    """Kernel densities of collisions in New York: the error over a grid of 61 × 61.

    Figure 6 of the paper; with --maps default also 5, with --maps all also 9, 10 and 11. In
    monte-carlo mode every report is drawn at 8 × 8 of the centres; --quick has 5 × 5 in any mode.
    """
    settings = _MAPS[validation.choice("maps", maps, _MAPS)]
    cells = kernels.cells(
        mode=_checked(mode, seed),
        repetitions=_repetitions(repetitions, 2 if quick else KERNEL_REPETITIONS),
        seed=seed,
        settings=(replace(DEFAULT, n=20_000),) if quick else SETTINGS,
        subgrid=5 if quick else None,
    )
    rows = _run("kde", mode, cells, directory, processes)
    from geoveil.simulation.figures.kernels import draw_density_maps, draw_kernel_errors

    _finish("kde", mode, rows, directory, draw_kernel_errors)
    for setting in settings:
        with err.status(f"drawing the map of {setting.label}, n = {setting.n:,}"):
            name = f"kde-map-n{setting.n}-per{setting.per_m:g}-h{setting.factor:g}.png"
            draw_density_maps(density_maps(setting, seed=seed), setting, directory / name)


def results(
    directory: Annotated[
        Path, typer.Option("--out", help="Directory for results.md and, below it, images/.")
    ] = Path("results"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same page.")] = 1,
    processes: Annotated[
        int | None, typer.Option(help="That compute at once; one for each processor by default.")
    ] = None,
) -> None:
    """All experiments in exact mode, on one page with figures.

    Two minutes or so. An interrupted run goes on where it stopped: parts stay in a directory beside
    the page.
    """
    work = directory / "results"
    processes = processes or os.cpu_count() or 1
    oneway(directory=work, seed=seed, processes=processes)
    twoway(directory=work, seed=seed, processes=processes)
    kde(directory=work, seed=seed, processes=processes, maps="default")
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    sections = [
        _section(work, "oneway", "One threshold on incomes", images, PEOPLE),
        _section(work, "twoway", "Pairs of thresholds on incomes and debts", images, PEOPLE),
        _section(work, "kde", "Densities of collisions in New York", images, None),
    ]
    page = directory / "results.md"
    page.write_text(results_page(sections), encoding="utf-8")
    err.print(f"written: {page}")


def _section(work: Path, name: str, title: str, images: Path, people: int | None) -> Section:
    rows: Sequence[ErrorRow] = read_csv(work / f"{name}-exact.csv")
    figures = {}
    for suffix, text in (("", "error of every mechanism"), ("-ratios", "error ratios")):
        file = f"{name}-exact{suffix}.png"
        shutil.copyfile(work / file, images / file)
        figures[f"images/{file}"] = f"{title}: {text}"
    maps = sorted(work.glob(f"{name}-map-*.png"))
    for drawn in maps:
        shutil.copyfile(drawn, images / drawn.name)
        figures[f"images/{drawn.name}"] = f"{title}: one run of each mechanism, every report drawn"
    return Section(
        title=title,
        command=f"geoveil simulate {name}" + (" --maps default" if maps else ""),
        figures=figures,
        rows=rows,
        keep=lambda row: people is None or row.n == people,
    )


def _checked(mode: str, seed: int) -> str:
    validation.between("seed", seed, 0, 2**63)
    return validation.choice("mode", mode, MODES)


def _repetitions(asked: int | None, default: int) -> int:
    return default if asked is None else asked


def _run(
    name: str, mode: str, cells: Sequence[ExperimentCell], directory: Path, processes: int | None
) -> list[ErrorRow]:
    """Compute the cells under a progress bar; what is finished stays in the directory."""
    run = Run(directory / "cells", os.cpu_count() or 1 if processes is None else processes)
    with bars() as progress:
        task = progress.add_task(f"{name}, {mode}", total=sum(cell.cost for cell in cells))
        return run.rows(cells, lambda cell: progress.advance(task, cell.cost))


def _finish(
    name: str,
    mode: str,
    rows: Sequence[ErrorRow],
    directory: Path,
    draw: Callable[[Sequence[ErrorRow], Path], None],
) -> None:
    """Write the tables and figures, and print the comparison."""
    from geoveil.simulation.figures.thresholds import draw_ratios

    comparisons = compare(rows)
    stem = directory / f"{name}-{mode}"
    write_csv(rows, stem.with_suffix(".csv"))
    write_parquet(rows, stem.with_suffix(".parquet"))
    draw(rows, stem.with_suffix(".png"))
    draw_ratios(rows, comparisons, directory / f"{name}-{mode}-ratios.png")
    headers = ("setting", "n", "seed's best", "geoveil's best", "ratio", "prior")
    table = table_80(*headers, wrapped=1)
    for c in comparisons:
        table.add_row(
            c.panel,
            _count(c.n),
            c.seed.mechanism,
            c.ours.mechanism,
            out.styled((f"{c.ratio:.3g}", "bold")),
            "" if c.aided is None else f"{c.ratio_with_prior:.3g}",
        )
    out.print(table)
    out.print(
        f"ratio: {rows[0].measure} of the seed paper's best mechanism over that of geoveil's best."
        f" {LOCAL} has another guarantee and is left out. prior: the ratio if both may let a"
        " public survey choose the query."
    )
    err.print(f"tables and figures: {stem}*")


def _count(n: int) -> str:
    return f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n / 1e3:g}k"
