"""Results of experiments as tables: CSV, and Parquet that says where its numbers come from."""

import csv
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np

from geoveil.gp import UnsupportedError
from geoveil.gp.version import __version__

Row = TypeVar("Row")
"""A frozen dataclass of plain values: one row."""
PROVENANCE = b"geoveil"
"""The key of the provenance, JSON, in the metadata of a Parquet file."""


def provenance(seed: int) -> dict[str, str]:
    """Return what numbers may depend on besides the experiment: versions, hardware and seed."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processors": str(os.cpu_count() or 1),
        "seed": str(seed),
    }


def write_tables(rows: Sequence[Any], stem: Path, seed: int) -> list[Path]:
    """Write rows as CSV and as Parquet, and return the files.

    Args:
        rows: of one kind, one or more.
        stem: of the names of the files.
        seed: of what was drawn.

    Raises:
        UnsupportedError: if pyarrow is not installed; the CSV is there then.
    """
    files = [stem.with_suffix(".csv"), stem.with_suffix(".parquet")]
    write_csv(rows, files[0])
    write_parquet(rows, files[1], seed)
    return files


def write_csv(rows: Sequence[Any], file: Path) -> None:
    """Write a table as CSV, with a header."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [*asdict(rows[0])])
        writer.writeheader()
        writer.writerows(map(asdict, rows))


def read_csv(file: Path, kind: type[Row]) -> list[Row]:
    """Return the rows of a table that `write_csv` has written."""
    types = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(kind).items()}

    def value(name: str, text: str) -> Any:
        return None if not text and NoneType in types[name] else types[name][0](text)

    with file.open(newline="", encoding="utf-8") as stream:
        return [kind(**{n: value(n, t) for n, t in r.items()}) for r in csv.DictReader(stream)]


def write_parquet(rows: Sequence[Any], file: Path, seed: int) -> None:
    """Write a table as Parquet, with `provenance` as JSON under `PROVENANCE` in the metadata.

    Raises:
        UnsupportedError: if pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UnsupportedError(
            "Parquet needs pyarrow: pip install 'geoveil[simulation]'; the CSV holds the same"
        ) from None
    types: dict[Any, Any] = {str: pa.string(), int: pa.int64(), int | None: pa.int64()}
    hints = get_type_hints(type(rows[0]))
    columns = [(name, types.get(hints[name], pa.float64())) for name in asdict(rows[0])]
    schema = pa.schema(columns, metadata={PROVENANCE: json.dumps(provenance(seed)).encode()})
    pq.write_table(pa.Table.from_pylist([*map(asdict, rows)], schema), file)
