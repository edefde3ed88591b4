"""Experiments: cells of parameters, and the engine that computes, stores and writes their rows.

A cell is a function from parameters to rows (its law) with its parameters. A file named after the
cell's key stores its rows; a later run with the same code, data and directory reads them again.
"""

import csv
import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import whole_file
from geoveil.gp import ParameterError, __version__, needed_for
from geoveil.simulation.computing import Computer, in_this_process

Row = TypeVar("Row")
"""A frozen dataclass of plain values: one row."""
PROVENANCE = b"geoveil"
"""The metadata key of a Parquet file under which JSON states the provenance of its numbers."""


@dataclass(frozen=True)
class Cell(Generic[Row]):
    """A function with its arguments, and its relative cost for estimating the time left.

    The law is a module's function whose annotation names the type of its rows. Parameters are plain
    values and frozen dataclasses of them. Their `key`, or else their `repr`, states everything that
    the rows depend on.
    """

    law: Callable[..., list[Row]]
    parameters: tuple[Any, ...] = ()
    cost: float = 1.0

    @cached_property  # it may hash files
    def key(self) -> str:
        """The name of the cell, and everything on which its rows depend."""
        named = [getattr(value, "key", None) or repr(value) for value in self.parameters]
        module = self.law.__module__.removeprefix("geoveil.simulation.")
        return f"{module}.{self.law.__qualname__}({', '.join(named)})"

    @property
    def file(self) -> str:
        """The name of the file of its rows."""
        readable = re.sub(r"[^\w.=-]+", "-", self.key).strip("-")[:100]
        return f"{readable}-{hashlib.sha256(self.key.encode()).hexdigest()[:12]}.json"

    def rows(self) -> list[Row]:
        """Compute the cell."""
        return self.law(*self.parameters)


@lru_cache(maxsize=1)
def code_fingerprint() -> str:
    """Return a hash, in hexadecimal, of the mathematics, the experiments and their data."""
    digest = hashlib.sha256()
    for package in ("geoveil.gp", "geoveil.selection", "geoveil.audit", "geoveil.simulation"):
        root = Path(str(files(package)))
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".npz", ".gz"):
                digest.update(str(file.relative_to(root)).encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def compute_cells(
    cells: Sequence[Cell[Row]],
    directory: Path | None = None,
    compute: Computer = in_this_process,
    on_done: Callable[[Cell[Row]], None] = lambda _: None,
) -> list[Row]:
    """Return the rows of all cells, in order; compute those without a file in `directory`.

    Cells must have different keys. With None no files are written. `on_done` is called for each
    finished cell.
    """
    if len({cell.key for cell in cells}) != len(cells):
        raise ParameterError("cells", "some", "cells with different keys")
    rows_of = {}
    for cell in cells:
        if directory is not None and (rows := _read(cell, directory / cell.file)) is not None:
            rows_of[cell.key] = rows
            on_done(cell)
    missing = [cell for cell in cells if cell.key not in rows_of]
    # The longest first, so that at the end no process works alone on a long cell.
    for cell, rows in compute(Cell.rows, sorted(missing, key=lambda cell: -cell.cost)):
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            held = [*map(asdict, list[Any](rows))]
            content = {"key": cell.key, "code": code_fingerprint(), "rows": held}
            with whole_file("out", directory / cell.file) as beside:
                text = json.dumps(content, indent=1, ensure_ascii=False)
                beside.write_text(text, encoding="utf-8")
        rows_of[cell.key] = rows
        on_done(cell)
    return [row for cell in cells for row in rows_of[cell.key]]


def _read(cell: Cell[Row], file: Path) -> list[Row] | None:
    if not file.exists():
        return None
    content: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if (content.get("key"), content.get("code")) != (cell.key, code_fingerprint()):
        return None
    (kind,) = get_args(get_type_hints(cell.law)["return"])
    return [kind(**row) for row in content["rows"]]


def write_tables(rows: Sequence[Any], stem: Path, seed: int) -> list[Path]:
    """Write rows of one kind as CSV and as Parquet with `PROVENANCE`, and return the files.

    Raises:
        UnsupportedError: if pyarrow is not installed; the CSV is written nevertheless.
    """
    files = [stem.with_suffix(".csv"), stem.with_suffix(".parquet")]
    held = [*map(asdict, rows)]
    with files[0].open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [*held[0]])
        writer.writeheader()
        writer.writerows(held)
    with needed_for("writing Parquet beside the CSV"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    provenance = {
        "version": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": str(os.cpu_count() or 1),
        "seed": str(seed),
    }
    types: dict[Any, Any] = {str: pa.string(), int: pa.int64(), int | None: pa.int64()}
    hints = get_type_hints(type(rows[0]))
    columns = [(name, types.get(hints[name], pa.float64())) for name in held[0]]
    schema = pa.schema(columns, metadata={PROVENANCE: json.dumps(provenance).encode()})
    pq.write_table(pa.Table.from_pylist(held, schema), files[1])
    return files


def read_csv(file: Path, kind: type[Row]) -> list[Row]:
    """Return the rows of a CSV file that `write_tables` has written."""
    types = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(kind).items()}

    def value(name: str, text: str) -> Any:
        return None if not text and NoneType in types[name] else types[name][0](text)

    with file.open(newline="", encoding="utf-8") as stream:
        return [kind(**{n: value(n, t) for n, t in r.items()}) for r in csv.DictReader(stream)]


def grouped(rows: Iterable[Row], *fields: str) -> dict[Any, list[Row]]:
    """Return the rows by one field or several, in the order of first appearance."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(attrgetter(*fields)(row), []).append(row)
    return groups


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return a mean and its standard error, which is 0 for a single value."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return float(values.mean()), spread / math.sqrt(len(values))


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text for commands and pages.

    An empty row is a line between sections. Columns, counted from 0, may be `wrapped` or aligned
    `right`.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    wrapped: Sequence[int] = (0,)
    right: Sequence[int] = ()

    def markdown(self) -> str:
        """Return the table as Markdown, without its title.

        Example:
            >>> print(Table(headers=("n", "error"), rows=[("10", "0.5")]).markdown())
            | n | error |
            |---|---|
            | 10 | 0.5 |
        """
        lines = [self.headers, *(row for row in self.rows if row)]
        head, *body = (f"| {' | '.join(cells)} |" for cells in lines)
        sides = ("--:" if place in self.right else "---" for place in range(len(self.headers)))
        return "\n".join([head, f"|{'|'.join(sides)}|", *body])


def page_text(name: str, **values: object) -> str:
    """Return a page of the documents, or a section of one, with values filled in."""
    file = files("geoveil.simulation").joinpath("data", "pages", f"{name}.md")
    return file.read_text(encoding="utf-8").format(**values)


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[Row]):
    """The description of an experiment.

    Args:
        name: the beginning of its files' names.
        cells: all cells.
        seed: the seed of the draws.
        draw: draws figures of the rows, the first into the given file, and returns their files.
        tables: makes tables of the rows.
        note: explains how to read the tables.
    """

    name: str
    cells: Sequence[Cell[Row]]
    seed: int
    draw: Callable[[Sequence[Row], Path], Sequence[Path]]
    tables: Callable[[Sequence[Row]], Sequence[Table]]
    note: Callable[[Sequence[Row]], str]

    def run(self, out: Path, compute: Computer, on_done: Callable[[Cell[Row]], None]) -> list[Row]:
        """Return the rows; finished cells in the directory are read, not computed again."""
        return compute_cells(self.cells, self._figure(out).parent / "cells", compute, on_done)

    def write(self, rows: Sequence[Row], out: Path) -> list[Path]:
        """Write tables and figures of the rows into a directory, and return the files.

        `out` may also be the first figure's file (.png, .pdf or .svg), which gives the others their
        names.
        """
        file = self._figure(out)
        return [*write_tables(rows, file, self.seed), *self.draw(rows, file)]

    def _figure(self, out: Path) -> Path:
        return out if out.suffix.lower() in (".png", ".pdf", ".svg") else out / f"{self.name}.png"
