"""Results on pages, and the files that readers can save."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from geoveil.analyst import GeoResult, Result, cells, code_of_packages
from geoveil.console.charts import picture_of
from geoveil.console.http import RefusedError, Response, download

_MOST_ROWS = 400
"""The most rows of a table on a page; a file has all rows."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
CSV = "text/csv; charset=utf-8"
"""The media type of comma-separated values."""
_KINDS = MappingProxyType(
    {
        "csv": CSV,
        "json": "application/json",
        "geojson": "application/geo+json",
        "svg": "image/svg+xml",
    }
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A result on a page."""

    title: str
    notes: Sequence[str]
    picture: Markup | None
    heads: Sequence[str]
    rows: Sequence[Sequence[tuple[str, str]]]
    """Cells: the displayed text, and the exact number, empty for other values."""
    left_out: int
    """The number of rows that only a file has."""
    kinds: Sequence[str]
    """The types of files it can be saved as."""
    code: str
    """Python code that computes the same result."""


def shown_result(result: Result, code: str = "", picture: Markup | None = None) -> Shown:
    """Return the part of a page that shows a result.

    Args:
        code: Python code that computes it.
        picture: replaces the usual picture of such a result.
    """
    every = result.rows()
    rows = every[:_MOST_ROWS]
    lines = [cells(row) for row in rows]
    drawn = _drawn(result, picture)
    kinds = ["csv", "json"]
    if isinstance(result, GeoResult):
        kinds.append("geojson")
    if drawn is not None:
        kinds.append("svg")
    return Shown(
        title=result.title,
        notes=result.notes,
        picture=drawn,
        heads=[key.replace("_", " ") for key in (lines[0] if lines else ())],
        rows=[
            [(text, _exact(row, key)) for key, text in line.items()]
            for row, line in zip(rows, lines, strict=True)
        ],
        left_out=len(every) - len(rows),
        kinds=kinds,
        code=code,
    )


def file_of(result: Result, kind: str, name: str, picture: Markup | None = None) -> Response:
    """Return a result as a file.

    Args:
        kind: csv, json, geojson or svg.
        name: the file's name, without its extension.
        picture: as in `shown_result`.

    Raises:
        RefusedError: if the result has no such file.
    """
    content: str | None = None
    if kind == "csv":
        content = csv_text(result.rows())
    elif kind == "json":
        content = json_text(result)
    elif kind == "geojson" and isinstance(result, GeoResult):
        content = json.dumps(result.to_geojson(), allow_nan=False)
    elif kind == "svg":
        drawn = _drawn(result, picture)
        content = None if drawn is None else str(drawn)
    if content is None:
        raise RefusedError(404, f"this result has no form {kind[:20]!r}")
    return download(content.encode(), _KINDS[kind], f"{name}.{kind}")


def _drawn(result: Result, picture: Markup | None) -> Markup | None:
    with code_of_packages(type(result)):
        return picture_of(result) if picture is None else picture


def json_text(result: Result) -> str:
    """Return the output of `geoveil estimate --json`."""
    return json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as comma-separated values, with formulas made harmless.

    Example:
        >>> print(csv_text([{"name": "=1+1", "estimate": -0.5}]).replace(chr(13), ""), end="")
        name,estimate
        '=1+1,-0.5
    """
    written = io.StringIO()
    if rows:
        writer = csv.DictWriter(written, rows[0])
        writer.writeheader()
        writer.writerows({key: json_value(value) for key, value in row.items()} for row in rows)
    return written.getvalue()


def json_value(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula; numbers are unchanged."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def code_of(value: Any) -> str:
    """Return Python code for a value; it leaves out default arguments.

    Example:
        >>> from geoveil.analyst import DistributionFunction, Quantiles
        >>> code_of(DistributionFunction()), code_of(Quantiles(levels=[0.5]))
        ('DistributionFunction()', 'Quantiles(levels=[0.5])')
    """
    if not is_dataclass(value) or isinstance(value, type):
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(code_of, value))}]"
        return repr(value)
    said = []
    for parameter in fields(value):
        given = getattr(value, parameter.name)
        make = parameter.default_factory
        usual = parameter.default if make is MISSING else make()
        if parameter.init and given != usual:
            said.append(f"{parameter.name}={code_of(given)}")
    return f"{type(value).__name__}({', '.join(said)})"


def _exact(row: Mapping[str, Any], key: str) -> str:
    """Return a number's exact text, or "" for other values."""
    value = row.get(key)
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
