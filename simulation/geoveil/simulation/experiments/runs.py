"""Run an experiment cell by cell, on several processes, and resume where it was interrupted.

A cell is a part of an experiment that is computed in one go. When it is finished its rows are
written to a file of its own, named after the cell's key; a run into the same directory reads it
instead of computing the cell again. The key holds all that the rows depend on, but for the code and
the data; the file holds a fingerprint of those, and is not read by another version of them.
"""

import hashlib
import json
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeVar

from geoveil.gp import ParameterError
from geoveil.simulation.experiments.rows import ErrorRow
from geoveil.simulation.processes import killed_on_error, unreached_by_ctrl_c

Row = TypeVar("Row", covariant=True)
"""A frozen dataclass of plain values: one row."""


class ExperimentCell(Protocol[Row]):
    """A part of an experiment. Frozen dataclasses of plain values travel between processes."""

    @property
    def row_type(self) -> type[Row]:
        """The kind of its rows."""
        ...

    @property
    def key(self) -> str:
        """Names the cell and everything its rows depend on."""
        ...

    @property
    def cost(self) -> float:
        """How long it takes, in any unit; for the time left."""
        ...

    def rows(self) -> Sequence[Row]:
        """Compute the cell."""
        ...


class ErrorCell(ExperimentCell[ErrorRow], Protocol):
    """A part of an experiment on errors."""

    @property
    def row_type(self) -> type[ErrorRow]:
        return ErrorRow


OnDone = Callable[[ExperimentCell[Any]], None]


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


@dataclass(frozen=True, slots=True)
class Run:
    """Where finished cells are kept, and how many processes compute the others.

    Args:
        directory: for the files of the cells, made if it is not there; None keeps nothing.
        processes: ≥ 1.
    """

    directory: Path | None = None
    processes: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.processes, bool) or not isinstance(self.processes, int):
            raise ParameterError("processes", self.processes, "an integer >= 1")
        if self.processes < 1:
            raise ParameterError("processes", self.processes, "an integer >= 1")

    def rows(
        self, cells: Sequence[ExperimentCell[Row]], on_done: OnDone = lambda _: None
    ) -> list[Row]:
        """Return the rows of all cells, in their order, computing those without a file.

        Args:
            cells: with different keys.
            on_done: called with each cell when its rows are there.
        """
        if len({cell.key for cell in cells}) != len(cells):
            raise ParameterError("cells", "some", "cells with different keys")
        found: dict[str, Sequence[Row]] = {}
        missing = []
        for cell in cells:
            rows = self._read(cell)
            if rows is None:
                missing.append(cell)
            else:
                found[cell.key] = rows
                on_done(cell)
        for cell, rows in self._compute(missing):
            self._write(cell, rows)
            found[cell.key] = rows
            on_done(cell)
        return [row for cell in cells for row in found[cell.key]]

    def _compute(
        self, cells: Sequence[ExperimentCell[Row]]
    ) -> Iterator[tuple[ExperimentCell[Row], Sequence[Row]]]:
        if self.processes == 1 or len(cells) < 2:
            for cell in cells:
                yield cell, cell.rows()
            return
        # The long ones first, so that no process is left alone with one at the end. Not a fork: the
        # parent may hold threads.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.processes, mp_context=context) as pool, killed_on_error():
            longest_first = sorted(cells, key=lambda cell: -cell.cost)
            with unreached_by_ctrl_c():
                futures = {pool.submit(_rows, cell): cell for cell in longest_first}
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _file(self, cell: ExperimentCell[Any]) -> Path | None:
        if self.directory is None:
            return None
        readable = re.sub(r"[^\w.=-]+", "-", cell.key).strip("-")[:100]
        digest = hashlib.sha256(cell.key.encode()).hexdigest()[:12]
        return self.directory / f"{readable}-{digest}.json"

    def _read(self, cell: ExperimentCell[Row]) -> Sequence[Row] | None:
        file = self._file(cell)
        if file is None or not file.exists():
            return None
        content: Mapping[str, object] = json.loads(file.read_text(encoding="utf-8"))
        if (content.get("key"), content.get("code")) != (cell.key, code_fingerprint()):
            return None
        return [cell.row_type(**row) for row in content["rows"]]  # type: ignore[attr-defined]  # JSON

    def _write(self, cell: ExperimentCell[Any], rows: Sequence[Any]) -> None:
        file = self._file(cell)
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "key": cell.key,
            "code": code_fingerprint(),
            "rows": [asdict(row) for row in rows],
        }
        # Complete or not there: an interrupted write leaves the old name alone.
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
        part.replace(file)


def _rows(cell: ExperimentCell[Row]) -> Sequence[Row]:
    return cell.rows()
