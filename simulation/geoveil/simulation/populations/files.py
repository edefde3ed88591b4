"""Columns of numbers from files. The rows may be real people: no error repeats what they hold.

Not even the header is repeated: in a file that has none, it is the first row. For the same reason
no error is raised while one of a parser, which quotes what it could not read, is being handled.
"""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import numpy as np

from geoveil.gp import TableFileError, UnsupportedError
from geoveil.simulation.populations.base import Array

_NUMBER = "a finite number (what it holds is not shown)"


def read_csv(path: Path, columns: Sequence[str]) -> list[Array]:
    """Return columns of a CSV file with a header, each of shape (n,)."""
    rows: list[list[float]] = []
    fault: tuple[str, str] | None = None
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            fault = _read_rows(stream, columns, rows)
    except (UnicodeDecodeError, csv.Error):
        fault = (f"row {len(rows) + 1}", "text in UTF-8, comma-separated")
    except OSError as error:
        fault = ("it", f"a file that can be read ({error.strerror})")
    if fault is not None:
        raise TableFileError(path, *fault)
    return list(np.array(rows, dtype=np.float64).reshape(-1, len(columns)).T.copy())


def _read_rows(
    stream: TextIO, columns: Sequence[str], rows: list[list[float]]
) -> tuple[str, str] | None:
    """Append the numbers of each row; return what is wrong and what was expected, or None."""
    lines = csv.reader(stream)
    header = [name.strip() for name in next(lines, [])]
    for column in columns:
        if header.count(column) != 1:
            return f"the header (its first row) with the column {column!r}", _once(header, column)
    places = [header.index(column) for column in columns]
    for line in lines:
        if not line:  # an empty line, as many programs leave at the end
            continue
        if len(line) != len(header):
            fields = f"of {len(header)} fields, as the header is (line {lines.line_num})"
            return f"row {len(rows) + 1}", fields
        numbers = [_number(line[place]) for place in places]
        for column, number in zip(columns, numbers, strict=True):
            if not math.isfinite(number):
                return f"row {len(rows) + 1}, column {column!r} (line {lines.line_num})", _NUMBER
        rows.append(numbers)
    return None


def _once(header: Sequence[str], column: str) -> str:
    """Return how a column is to be there, and why it may not be; no name in the header is told."""
    if not header:
        return "there, once; the file is empty"
    other = next((name for sign, name in _SEPARATORS.items() if sign in header[0]), None)
    if len(header) == 1 and other is not None:
        return f"there, once; fields are to be separated by commas, and here by {other}"
    if column in header:
        return f"there, once; it is there {header.count(column)} times"
    return f"there, once; it has {len(header)} columns, of other names"


_SEPARATORS = MappingProxyType({";": "semicolons", "\t": "tabs", "|": "bars"})
"""What stands between fields elsewhere, as spreadsheets write them where a comma is in numbers."""


def _number(text: str) -> float:
    """Return a number, or NaN; float's own error would quote the text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_parquet(path: Path, columns: Sequence[str]) -> list[Array]:
    """Return columns of a Parquet file, each of shape (n,).

    Raises:
        UnsupportedError: if pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UnsupportedError(
            "reading Parquet needs pyarrow: pip install 'geoveil[simulation]'"
        ) from None
    fault = ("it", "a Parquet file that can be read")
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            missing = [column for column in columns if names.count(column) != 1]
            table = None if missing else file.read(columns=list(dict.fromkeys(columns)))
        if missing:
            fault = (f"column {missing[0]!r}", "there, once")
    except (OSError, ValueError):  # pyarrow's errors are these
        table = None
    if table is None:
        raise TableFileError(path, *fault)
    return [_column(path, column, table.column(column)) for column in columns]


def _column(path: Path, name: str, column: Any) -> Array:
    import pyarrow.types as types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind)):
        raise TableFileError(path, f"column {name!r}, of type {kind},", "of numbers")
    numbers = column.fill_null(0).to_numpy().astype(np.float64)
    return _finite(path, name, np.where(column.is_null().to_numpy(), np.nan, numbers))


def _finite(path: Path, name: str, numbers: Array) -> Array:
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad)) + 1
        raise TableFileError(path, f"row {row}, column {name!r}", _NUMBER)
    return numbers


COORDINATES = ("longitude", "latitude")
"""What the two numbers of a point are called, as columns of a file of points."""


def read_geopackage(path: Path, columns: Sequence[str]) -> list[Array]:
    """Return columns of a GeoPackage of points, each of shape (n,); two are `COORDINATES`.

    Raises:
        UnsupportedError: if GeoPandas is not installed.
    """
    try:
        import geopandas
    except ImportError:
        raise UnsupportedError("GeoPackages need GeoPandas: pip install geopandas") from None
    try:
        table = geopandas.read_file(path)
    except (OSError, ValueError, RuntimeError):  # pyogrio's errors are these
        table = None
    if table is None:
        raise TableFileError(path, "it", "a GeoPackage that can be read")
    if table.crs is None or not len(table) or not (table.geom_type == "Point").all():
        raise TableFileError(path, "it", "points, each with its place, in a known system")
    if missing := [c for c in columns if c not in COORDINATES and c not in table.columns]:
        raise TableFileError(path, f"column {missing[0]!r}", "there, once")
    degrees = table.geometry.to_crs("EPSG:4326")
    place: dict[str, Any] = dict(zip(COORDINATES, (degrees.x, degrees.y), strict=True))
    found = []
    for column in columns:
        numbers = place.get(column, table.get(column))
        if numbers.dtype.kind not in "iuf":
            raise TableFileError(path, f"column {column!r}", "of numbers")
        values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        found.append(_finite(path, column, values))
    return found
