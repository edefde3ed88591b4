"""geoveil estimate, and the output of results: a table, JSON, CSV, Parquet or a picture."""

import csv
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    Analyst,
    Change,
    DensityMap,
    EstimateRequest,
    Result,
    cells,
    code_of_packages,
    whole_file,
)
from geoveil.cli.asking import asks, asks_statistics
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err, out, print_json, print_table
from geoveil.cli.options import AsJson, options_of, takes
from geoveil.gp import ParameterError, needed_for

_PICTURES = (".png", ".svg", ".pdf")
_MOST_ROWS = 1_000
"""The most rows of a table; for more, use a file or a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFormat:
    """The output options of a command.

    Raises:
        ParameterError: if two forms are wanted on standard output, or a file has the wrong ending.
    """

    as_json: AsJson = False
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values instead.")] = (
        False
    )
    parquet: Annotated[Path | None, "Parquet file to write the rows to."] = None
    plot: Annotated[Path | None, f"Picture to draw, by its ending {', '.join(_PICTURES)}."] = None
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print numbers without notes; with --plot or --parquet print nothing.",
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.as_json and self.as_csv:
            raise ParameterError("csv", True, "left out where there is --json: one is printed")
        check_picture("--plot", self.plot)

    def show(self, first: Result, *others: Result, beside: Sequence[Result] = ()) -> None:
        """Print results, and write the requested files.

        Args:
            first: the only one that a form of one result can have.
            others: further requested results.
            beside: results that follow from the first, only for tables and JSON.

        Raises:
            ParameterError: if there are several results and a form that holds one, or a file can't
                be written.
            UnsupportedError: if one has no picture but one was requested, before anything is
                printed.
        """
        results = [first, *others, *beside]
        for name, wanted in (("csv", self.as_csv), ("parquet", self.parquet), ("plot", self.plot)):
            if wanted and others:
                raise ParameterError(
                    f"--{name}",
                    f"for {len(results)} results",
                    "asked of one result: ask one statistic at a time",
                )
        if beside and (self.as_csv or self.parquet or self.plot):
            err.tell(f"only the first of {len(results)} tables is written: --json has all of them")
        for write, file in ((_draw, self.plot), (_write_parquet, self.parquet)):
            if file is not None:
                write(first, file)
                err.tell_all(None if self.quiet else f"wrote {file}")
        if self.as_json:
            records = [result.to_dict() for result in results]
            print_json(records[0] if len(records) == 1 else {"results": records})
        elif self.as_csv:
            _print_csv(first.rows())
        elif not (self.quiet and (self.plot or self.parquet)):
            notes_shown: set[str] = set()
            for result in results:
                _print_table(result)
                notes = dict.fromkeys(() if self.quiet else result.notes)
                out.paragraphs(*(note for note in notes if note not in notes_shown))
                notes_shown.update(notes)


def check_picture(option: str, file: Path | None) -> None:
    """Raise an error if a file's extension is not a picture format.

    Args:
        file: where it goes; None: nowhere.
    """
    if file is not None and file.suffix.lower() not in _PICTURES:
        raise ParameterError(
            option,
            str(file),
            f"a file whose name ends in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}",
        )


formed = takes("form", options_of(OutputFormat), OutputFormat)
"""Replaces a command's argument `form` by the output options."""


def _draw(result: Result, file: Path) -> None:
    with needed_for("--plot"):
        import matplotlib
    matplotlib.use("Agg")
    with code_of_packages(type(result)):
        figure = result.plot().get_figure(root=True)
    assert figure is not None  # new axes have one
    with whole_file("--plot", file) as beside:
        figure.savefig(beside, dpi=150, bbox_inches="tight")


def _write_parquet(result: Result, file: Path) -> None:
    with needed_for("--parquet"):
        import pyarrow
        from pyarrow import parquet

    content = Result.to_dict(result)  # with its rows, also where JSON has a form of its own
    about = {"title": content["title"], "notes": "\n".join(content["notes"])}
    table = pyarrow.Table.from_pylist(content["rows"]).replace_schema_metadata(about)
    with whole_file("--parquet", file) as beside:
        parquet.write_table(table, beside)


def _print_csv(rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _print_table(result: Result) -> None:
    out.tell_all(*(((str(answer), "bold"),) for answer in result.sentences), result.title)
    rows = result.rows()
    if len(rows) > _MOST_ROWS:
        out.print(f"{len(rows):,} rows: --csv, --json, --parquet and --plot have them.")
    elif rows:
        lines = [cells(row) for row in rows]
        text = {key for row in rows for key, value in row.items() if isinstance(value, str)}
        print_table(
            (key.replace("_", " ") for key in lines[0]),
            (line.values() for line in lines),
            wrapped=range(len(lines[0])),
            right=[place for place, key in enumerate(lines[0]) if key not in text],
        )


@connects
@formed
@asks_statistics
@asks
@takes("request", options_of(EstimateRequest), EstimateRequest)
def estimate(*, request: EstimateRequest, form: OutputFormat, connection: Connection) -> None:
    """Print the unbiased estimate of every query of a campaign.

    A value campaign has no queries: by default, the mean point is shown. The options --threshold,
    --range, --place, --circle and --region; for numbers, --mean, --quantile, --curve, --density,
    --histogram, --gini and --top-share; and for places, --map, --districts and --nearest ask
    questions of the same points, at no further cost in privacy.

    Example: geoveil estimate where --place Midtown=-73.985,40.755 --bandwidth 1000

    Example: geoveil estimate incomes --quantile 0.5 --curve

    Example: geoveil estimate weekly --over-time --change 0,51 --label "above 100k"

    Example: geoveil estimate incomes --quantile 0.5 --against incomes-2025 --people different
    """
    with ExitStack() as open_:

        @cache
        def connect() -> Analyst:
            return open_.enter_context(analyst_at(connection))

        for first, *others in request.answered(connect, err.tell):
            maps = [of for of in (first, *others) if isinstance(of, DensityMap)]
            for file, result in zip(request.statistics.get("map", ()), maps, strict=False):
                with whole_file("--map", Path(file)) as beside:
                    beside.write_text(json.dumps(result.to_geojson()) + "\n", encoding="utf-8")
                err.tell_all(None if form.quiet else f"wrote {file}")
            changes = all(isinstance(result, Change) for result in others)  # of the first, a curve
            form.show(first, *(() if changes else others), beside=others if changes else ())
