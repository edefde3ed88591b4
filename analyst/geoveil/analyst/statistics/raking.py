"""Weights that fit known margins, and files that state margins."""

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import Array, ParameterError, TableFileError, UnsupportedError, validation

__all__ = ["Margins", "checked_weights", "coded", "margins_from_csv", "raking_weights"]

Codes = NDArray[np.intp]
Margins = Mapping[str, Mapping[str, float]]
"""Variable → label → how many people of the population have it, or their share."""

_FITS = 1e-12
"""The largest relative distance of raked weights from a margin."""
_MOST_ROUNDS = 1_000


def raking_weights(
    labels: Mapping[str, ArrayLike], margins: Margins, weights: ArrayLike | None = None
) -> Array:
    """Return the weights next to given ones whose sums fit known margins, shape (n,).

    With one variable this is post-stratification; with several, iterative proportional fitting
    [DS40], to 10⁻¹² of each margin.

    Args:
        labels: variable → the label of each person, n of them.
        margins: variable → label → size, a count or a share; the sizes of all variables have one
            sum. Every label that somebody has, and no other, is listed.
        weights: to begin with, > 0, shape (n,); equal by default.

    Raises:
        ParameterError: if a label is missing or unknown, a size is not > 0, or sums differ.
        UnsupportedError: if no weights fit all margins.

    Example:
        >>> margins = {"region": {"north": 3, "south": 3}, "sex": {"f": 4, "m": 2}}
        >>> people = {"region": ["north", "north", "south", "south"], "sex": ["f", "m", "f", "f"]}
        >>> raking_weights(people, margins).round(9).tolist()
        [1.0, 2.0, 1.5, 1.5]
    """
    if not labels or set(labels) != set(margins):
        raise ParameterError("variables of the margins", sorted(margins), f"{sorted(labels)}")
    people = len(np.asarray(next(iter(labels.values()))))
    raked = np.ones(people) if weights is None else checked_weights(weights, people)
    wanted = [_margin(name, labels[name], margins[name], people) for name in labels]
    total = float(wanted[0][1].sum())
    for name, (_, sizes) in zip(labels, wanted, strict=True):
        if not math.isclose(sizes.sum(), total, rel_tol=1e-6):
            raise ParameterError(f"sum of margins[{name!r}]", float(sizes.sum()), f"{total:g}")
    # As sizes are rounded where they were published, the sum is that of the first.
    wanted = [(codes, sizes * (total / sizes.sum())) for codes, sizes in wanted]
    for _ in range(_MOST_ROUNDS):
        for codes, sizes in wanted:
            raked = raked * (sizes / np.bincount(codes, raked, len(sizes)))[codes]
        if all(_fits(raked, codes, sizes) for codes, sizes in wanted):
            return raked
    raise UnsupportedError(
        "no weights fit all margins: they contradict each other, or nobody has some combination of"
        " labels; join labels"
    )


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


def checked_weights(given: ArrayLike, n: int | None = None) -> Array:
    """Return weights, (n,), if all are finite and > 0.

    Raises:
        ParameterError: if they are not, without showing any.
    """
    checked = validation.float_array(given)
    if checked is None or checked.ndim != 1 or len(checked) != (len(checked) if n is None else n):
        raise ParameterError("weights", "something else", f"{n or 'one-dimensional'} numbers > 0")
    if not len(checked) or not (np.isfinite(checked).all() and (checked > 0).all()):
        raise ParameterError("weights", "something else", "at least one, all finite and > 0")
    return checked


def coded(name: str, labels: ArrayLike, n: int) -> tuple[list[str], Codes]:
    """Return the distinct labels, sorted, and which of them each person has."""
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ParameterError(name, f"labels of shape {given.shape}", f"one for each of {n:,}")
    names, codes = np.unique(given.astype(str), return_inverse=True)
    return names.tolist(), codes


def _margin(
    name: str, labels: ArrayLike, sizes: Mapping[str, float], n: int
) -> tuple[Codes, Array]:
    names, codes = coded(f"labels of {name!r}", labels, n)
    for label in names:
        if label not in sizes:
            raise ParameterError(f"labels in margins[{name!r}]", sorted(sizes), f"with {label!r}")
    for label, size in sizes.items():
        if label not in names:
            raise ParameterError(
                f"labels in margins[{name!r}]",
                sorted(sizes),
                f"those that somebody has: nobody is {label!r}; join it to another",
            )
        if not (isinstance(size, (int, float)) and math.isfinite(size) and size > 0):
            raise ParameterError(f"margins[{name!r}][{label!r}]", size, "a finite number > 0")
    return codes, np.array([sizes[label] for label in names], np.float64)


def _fits(weights: Array, codes: Codes, sizes: Array) -> bool:
    return bool((abs(np.bincount(codes, weights, len(sizes)) / sizes - 1) <= _FITS).all())


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
