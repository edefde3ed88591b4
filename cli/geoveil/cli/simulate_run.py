"""What the experiments' commands share: options, and computing cells under a progress bar."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from geoveil.cli.console import bars
from geoveil.simulation.experiments.runs import ExperimentCell, Run

Out = Annotated[
    Path, typer.Option("--out", help="Directory for tables, figures and finished parts.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same table.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small part of it, to see what it does.")]
Processes = Annotated[
    int | None,
    typer.Option(help="Processes that compute at once; one for each processor by default."),
]
RESULTS = Path("results")
Row = TypeVar("Row")


def computed(
    label: str, cells: Sequence[ExperimentCell[Row]], directory: Path, processes: int | None
) -> list[Row]:
    """Return the rows of all cells; those that are finished in the directory are not computed."""
    run = Run(directory / "cells", os.cpu_count() or 1 if processes is None else processes)
    with bars() as progress:
        task = progress.add_task(label, total=sum(cell.cost for cell in cells))
        return run.rows(cells, lambda cell: progress.advance(task, cell.cost))
