"""Read columns of numbers from files. Rows may be real people, so errors never show their content.

Errors name columns only if every name begins with a letter, since a file without a header has a row
there. They are raised outside the handler of a parser's error, which quotes the text.
"""

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import GeoVeilError, UnsupportedError, needed_for, validation


class TableFileError(GeoVeilError, ValueError):
    """A file at `path` does not have the `expected` content at `where`.

    `where` states row and column, never their content, since rows may be real people.

    Example:
        >>> str(TableFileError(Path("census.csv"), "row 7, column 'people'", "a number > 0"))
        "census.csv: row 7, column 'people' must be a number > 0"
    """

    def __init__(self, path: Path, where: str, expected: str) -> None:
        super().__init__(path, where, expected)
        self.path = path
        self.where = where
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.path}: {self.where} must be {self.expected}"


Array = NDArray[np.float64]

GEOPACKAGE = ".gpkg"
FORMATS = (".csv", ".parquet", GEOPACKAGE)
"""The supported file extensions."""
COORDINATES = ("longitude", "latitude")
"""The names of a point's two columns in a file of points."""
_FARTHEST = f"{validation.FARTHEST:g}"
_NUMBER = f"a number from -{_FARTHEST} to {_FARTHEST} (what it holds is not shown)"
_NAME = re.compile(r"[^\W\d]\w*(\W+[^\W\d]\w*)*\W*")
"""The pattern of a column's header, such as "Rent ($)", which no number matches."""
_SEPARATORS = MappingProxyType({";": "semicolons", "\t": "tabs", "|": "bars"})
"""Separators that spreadsheets use in countries with decimal commas."""


def read_csv(path: Path, columns: Sequence[str]) -> list[Array]:
    """Return columns of a CSV file with a header, each of shape (n,)."""
    rows: list[list[float]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(stream)
            header = [name.strip() for name in next(lines, [])]
            for column in columns:
                if header.count(column) != 1:
                    where = f"the header (its first row) with the column {column!r}"
                    raise TableFileError(path, where, _once(header, column))
            places = [header.index(column) for column in columns]
            for line in filter(None, lines):  # many programs write an empty last line
                row, at = f"row {len(rows) + 1}", f"(line {lines.line_num})"
                if len(line) != len(header):
                    fields = f"of {len(header)} fields, as the header is {at}"
                    raise TableFileError(path, row, fields)
                rows.append([_number(line[place]) for place in places])
                for column, number in zip(columns, rows[-1], strict=True):
                    if not abs(number) <= validation.FARTHEST:  # NaN compares false
                        raise TableFileError(path, f"{row}, column {column!r} {at}", _NUMBER)
        return list(np.array(rows, dtype=np.float64).reshape(-1, len(columns)).T.copy())
    except (UnicodeDecodeError, csv.Error):
        fault = (f"row {len(rows) + 1}", "text in UTF-8, comma-separated")
    except OSError as error:
        fault = ("it", f"a file that can be read ({error.strerror})")
    raise TableFileError(path, *fault)


def _once(header: Sequence[str], column: str) -> str:
    """Return, in words, the requirement on a column, and why the header fails it."""
    if not header:
        return "there, once; the file is empty"
    other = next((name for sign, name in _SEPARATORS.items() if sign in header[0]), None)
    if len(header) == 1 and other is not None:
        return f"there, once; fields must be separated by commas, but here are separated by {other}"
    if column in header:
        return f"there, once; it is there {header.count(column)} times"
    if not all(_NAME.fullmatch(name) for name in header):
        return f"there, once; it has {len(header)} columns, and perhaps no header of names"
    return f"there, once; it has {', '.join(header[:20])}"


def _number(text: str) -> float:
    """Return a number, or NaN; float's own error would quote the text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _read_parquet(path: Path, columns: list[str]) -> Any:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return file.read(columns)


def _read_points(path: Path, columns: list[str]) -> Any:
    """Return columns of a GeoPackage of points; two are `COORDINATES`."""
    import geopandas
    import pyarrow

    points = geopandas.read_file(path)
    if points.crs is None or not len(points) or not (points.geom_type == "Point").all():
        raise TableFileError(path, "it", "points, each with its place, in a known system")
    degrees = points.geometry.to_crs("EPSG:4326")
    places = dict(zip(COORDINATES, (degrees.x, degrees.y), strict=True))
    held = points.drop(columns=points.geometry.name)
    return pyarrow.table({c: held[c] for c in columns if c in held} | places)


def read_columns(path: Path, columns: Sequence[str]) -> list[Array]:
    """Return columns of a file with one of the `FORMATS`, each of shape (n,).

    Raises:
        TableFileError: with the file, the row and the column.
        UnsupportedError: if the package for such files is not installed.
    """
    if path.suffix == ".csv":
        return read_csv(path, columns)
    if path.suffix == GEOPACKAGE:
        read, kind = _read_points, "GeoPackage"
    else:
        read, kind = _read_parquet, "Parquet file"
    try:
        with needed_for(f"reading a {kind}"):
            table = read(path, list(dict.fromkeys(columns)))
    except (TableFileError, UnsupportedError):
        raise
    except (OSError, ValueError, RuntimeError):  # includes pyarrow's and pyogrio's
        table = None
    if table is None:
        raise TableFileError(path, "it", f"a {kind} that can be read")
    for column in columns:
        if table.column_names.count(column) != 1:
            raise TableFileError(path, f"column {column!r}", "there, once")
    return [_numbers(path, column, table.column(column)) for column in columns]


def _numbers(path: Path, name: str, column: Any) -> Array:
    from pyarrow import types

    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        raise TableFileError(path, f"column {name!r}, of type {column.type},", "of numbers")
    numbers: Array = column.to_numpy().astype(np.float64)  # NaN for empty cells
    bad = ~(np.abs(numbers) <= validation.FARTHEST)  # NaN compares false
    if bad.any():
        raise TableFileError(path, f"row {int(np.argmax(bad)) + 1}, column {name!r}", _NUMBER)
    return numbers
