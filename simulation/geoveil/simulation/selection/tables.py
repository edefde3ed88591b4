"""The tables of the tree and forest experiments; `NOTICE` has their sources and terms.

Ranges and categories count as public: the ranges are round numbers that hold the data, and the
categories those of the published files.
"""

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError, UnsupportedError, validation

Domain = int | tuple[float, float]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Records with a class each, coded.

    Args:
        name: of the data.
        attributes: their names.
        domains: the number of categories, or the range, of each attribute.
        records: float64 of shape (n, attributes): codes of categories, or measurements.
        classes: the labels.
        labels: their indices, shape (n,).
    """

    name: str
    attributes: Sequence[str]
    domains: Sequence[Domain]
    records: NDArray[np.float64]
    classes: Sequence[str]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def discretised(self, edges: Mapping[str, Sequence[float]]) -> "Dataset":
        """Return the table with measurements replaced by the interval that they are in.

        Args:
            edges: by attribute: rising; a value equal to an edge belongs above it.

        Raises:
            KeyError: if a continuous attribute has no edges.
        """
        columns, domains = [], []
        for number, (name, domain) in enumerate(zip(self.attributes, self.domains, strict=True)):
            column = self.records[:, number]
            if not isinstance(domain, int):
                column = np.searchsorted(edges[name], column, side="right").astype(np.float64)
                domain = len(edges[name]) + 1
            columns.append(column)
            domains.append(domain)
        return Dataset(
            self.name,
            self.attributes,
            domains,
            np.stack(columns, axis=1),
            self.classes,
            self.labels,
        )

    def coded(self, parts: int = 20) -> "Dataset":
        """Return the table with measurements replaced by equal parts of their range."""
        edges = {
            name: np.linspace(*domain, parts + 1)[1:-1].tolist()
            for name, domain in zip(self.attributes, self.domains, strict=True)
            if not isinstance(domain, int)
        }
        return self.discretised(edges)


def read_table(file: Path) -> Dataset:
    """Return the table in a file, CSV (packed by gzip or not) or Parquet; its class is last.

    A column of text, or of at most 20 different numbers, is of categories; others are measurements.
    Its ranges and categories count as public: of private data they are not.

    Raises:
        ParameterError: if it is no such table, or lacks values.
        UnsupportedError: if pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv as packed_csv
        from pyarrow import parquet
    except ImportError:
        raise UnsupportedError("tables need pyarrow: pip install 'geoveil[simulation]'") from None
    try:
        read = parquet.read_table if file.suffix == ".parquet" else packed_csv.read_csv
        found = read(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise ParameterError("data", str(file), "a table: CSV or Parquet") from error
    if found.num_columns < 2 or not len(found) or any(c.null_count for c in found.columns):
        raise ParameterError("data", str(file), "a table of two columns or more, without gaps")
    *names, target = found.column_names
    columns: list[NDArray[np.float64]] = []
    domains: list[Domain] = []
    for name in names:
        values = found[name].to_numpy()
        kinds, codes = np.unique(values.astype(str), return_inverse=True)
        if values.dtype.kind in "iuf" and len(kinds) > _FEW:
            columns.append(values.astype(np.float64))
            domains.append((float(values.min()), float(values.max())))
        else:
            columns.append(codes.astype(np.float64))
            domains.append(len(kinds))
    classes, labels = np.unique(found[target].to_numpy().astype(str), return_inverse=True)
    name = file.name.split(".")[0]
    return Dataset(name, names, domains, np.stack(columns, axis=1), classes.tolist(), labels)


def given_tables(data: Sequence[Path]) -> Iterator[Dataset]:
    """Return the tables among files of several kinds."""
    for file in data:
        if file.suffix in (".csv", ".parquet") or file.name.endswith(".csv.gz"):
            with suppress(ParameterError):
                yield read_table(file)


_FEW = 20
"""Different numbers up to which a column of a file is of categories."""

ADULT_EDGES: Mapping[str, Sequence[float]] = MappingProxyType(
    {
        "age": (25, 30, 35, 40, 45, 50, 55, 60, 65),
        "educational-num": tuple(range(2, 17)),
        "capital-gain": (1, 3_000, 5_100, 7_000, 10_000),
        "capital-loss": (1, 1_500, 1_800, 2_000, 2_300),
        "hours-per-week": (20, 35, 40, 41, 46, 51, 60),
    }
)
"""Public intervals for ID3: years of age and of schooling, dollars, hours."""

_MARRIED = frozenset({"Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"})


def adult() -> Dataset:
    """Return the 45,222 persons without missing values, 12 attributes: does one earn > $50,000?

    Without the survey weight and the name of the degree, and with the marital state as married or
    not [LD §6.2].
    """
    rows = [row for row in _rows("uci_adult.csv.gz") if "?" not in row.values()]
    for row in rows:
        row["marital-status"] = "yes" if row["marital-status"] in _MARRIED else "no"
        del row["fnlwgt"], row["education"]
    ranges = {
        "age": (17.0, 90.0),
        "educational-num": (1.0, 16.0),
        "capital-gain": (0.0, 100_000.0),
        "capital-loss": (0.0, 5_000.0),
        "hours-per-week": (0.0, 100.0),
    }
    return _table("Adult", rows, "income", ranges)


def _shipped(
    title: str, file: str, target: str, ranges: Mapping[str, tuple[float, float]]
) -> Callable[[], Dataset]:
    return lambda: _table(title, _rows(file), target, ranges)


TABLES: Mapping[str, Callable[[], Dataset]] = MappingProxyType(
    {
        "adult": adult,
        "mushroom": _shipped("Mushroom", "uci_mushroom.csv.gz", "class", {}),
        "pen_digits": _shipped(
            *("Pen-digits", "uci_pendigits.csv.gz", "class"),
            {f"input{i}": (0.0, 100.0) for i in range(1, 17)},
        ),
        "wall_sensor": _shipped(
            *("Wall-sensor", "uci_wallsensor.csv.gz", "class"),
            {f"SD_{side}": (0.0, 5.0) for side in ("front", "left", "right", "back")},
        ),
        "wine": _shipped(
            *("Wine", "uci_wine_white.csv.gz", "quality"),
            {
                "fixed acidity": (3.0, 15.0),
                "volatile acidity": (0.0, 1.2),
                "citric acid": (0.0, 2.0),
                "residual sugar": (0.0, 70.0),
                "chlorides": (0.0, 0.4),
                "free sulfur dioxide": (0.0, 300.0),
                "total sulfur dioxide": (0.0, 450.0),
                "density": (0.98, 1.04),
                "pH": (2.5, 4.0),
                "sulphates": (0.0, 1.2),
                "alcohol": (8.0, 15.0),
            },
        ),
    }
)
"""Name → 8,124 mushrooms (22 attributes: edible or poisonous?), 10,992 handwritten digits (16
coordinates), 5,456 readings of a robot (4 distances in metres: which way does it turn?), 4,898
white wines (11 measurements: which of 7 grades?); and the incomes of `adult`."""


def table(name: str) -> Dataset:
    """Return one of `TABLES`, read once.

    Raises:
        ParameterError: if there is none of that name.
    """
    return _read(validation.choice("table", name, TABLES))


@cache
def _read(name: str) -> Dataset:
    return TABLES[name]()


def _rows(file: str) -> list[dict[str, str]]:
    path = files("geoveil.simulation").joinpath("data", file)
    with path.open("rb") as packed, gzip.open(packed) as stream:
        return list(csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8")))


def _table(
    name: str,
    rows: Sequence[Mapping[str, str]],
    target: str,
    ranges: Mapping[str, tuple[float, float]],
) -> Dataset:
    attributes = [attribute for attribute in rows[0] if attribute != target]
    columns: list[NDArray[np.float64]] = []
    domains: list[Domain] = []
    for attribute in attributes:
        values = [row[attribute] for row in rows]
        if attribute in ranges:
            columns.append(np.array(values, dtype=np.float64))
            domains.append(ranges[attribute])
        else:
            categories, codes = np.unique(values, return_inverse=True)
            columns.append(codes.astype(np.float64))
            domains.append(len(categories))
    classes, labels = np.unique([row[target] for row in rows], return_inverse=True)
    return Dataset(name, attributes, domains, np.stack(columns, axis=1), classes.tolist(), labels)
