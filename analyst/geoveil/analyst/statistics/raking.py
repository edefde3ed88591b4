"""Files that state the sizes of groups."""

import csv
import math
from pathlib import Path
from typing import Any

from geoveil.gp import TableFileError

__all__ = ["margins_from_csv"]


def margins_from_csv(path: str | Path) -> dict[str, dict[str, float]]:
    r"""Read the sizes of groups from a CSV file with a header.

    Of one variable it has two columns, whose first header names the variable: region,people. Of
    several it has three: variable,label,people. Sizes are counts or shares; in any language, the
    names of the columns are free.

    Raises:
        TableFileError: naming the file, and the line and column where it has something else.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     census = Path(folder, "census.csv")
        ...     _ = census.write_text("region,people\nnorth,700\nsouth,300\n", encoding="utf-8")
        ...     margins_from_csv(census)
        {'region': {'north': 700.0, 'south': 300.0}}
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            return _margins_in(path, csv.reader(stream, strict=True))
    except OSError as error:
        raise TableFileError(path, "it", f"a file that can be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error):
        raise TableFileError(path, "it", "text in UTF-8, separated by commas") from None


def _margins_in(path: Path, lines: Any) -> dict[str, dict[str, float]]:
    header = [name.strip() for name in next(lines, [])]
    if len(header) not in (2, 3) or not all(header):
        raise TableFileError(
            path,
            "line 1, the header,",
            "two names (region,people) or three (variable,label,people)",
        )
    margins: dict[str, dict[str, float]] = {}
    for line in lines:
        if not line:  # an empty line, as many programs leave at the end
            continue
        where = f"line {lines.line_num}"
        if len(line) != len(header):
            raise TableFileError(path, where, f"of {len(header)} fields, as the header")
        *variable, label, size = (text.strip() for text in line)
        for column, text in zip(header, (*variable, label), strict=False):
            if not text:
                raise TableFileError(path, f"{where}, column {column!r}", "a name")
        of_variable = margins.setdefault(variable[0] if variable else header[0], {})
        if label in of_variable:
            raise TableFileError(
                path, f"{where}, column {header[-2]!r}", f"another label: {label!r} was before"
            )
        of_variable[label] = _size(path, f"{where}, column {header[-1]!r}", size)
    if not margins:
        raise TableFileError(path, "line 2", "the size of a group")
    return margins


def _size(path: Path, where: str, text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        raise TableFileError(path, where, "a finite number > 0")
    return size
