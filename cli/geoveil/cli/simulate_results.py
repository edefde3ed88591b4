"""geoveil simulate results: all experiments, exactly, and the page that shows them."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from geoveil.cli.console import err
from geoveil.cli.simulate_experiments import kde, oneway, twoway
from geoveil.simulation.experiments.page import Section, results_page
from geoveil.simulation.experiments.rows import ErrorRow, read_csv

PEOPLE = 1_600_000
"""The n that the tables of thresholds show; the figures and the CSV files have all."""


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
