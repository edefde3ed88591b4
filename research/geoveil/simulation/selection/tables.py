"""The tables of the tree and forest experiments; `NOTICE` has their sources and terms.

Categories (those of the published files) and ranges (round numbers around the data) are public.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError, needed_for, validation
from geoveil.selection.contrib.random_trees import Domain

Ranges = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Coded records with their classes."""

    name: str
    attributes: Sequence[str]
    domains: Sequence[Domain]
    """The number of categories, or the range, of each attribute."""
    records: NDArray[np.float64]
    """Codes of categories, or measurements, shape (n, attributes)."""
    classes: Sequence[str]
    labels: NDArray[np.int64]
    """Indices of the classes, shape (n,)."""

    def __len__(self) -> int:
        return len(self.labels)

    def discretised(self, edges: Mapping[str, Sequence[float]]) -> "Dataset":
        """Return the table with measurements as intervals, which contain their lower edge."""
        records, domains = self.records.copy(), [*self.domains]
        for number, name in enumerate(self.attributes):
            if not isinstance(domains[number], int):
                records[:, number] = np.searchsorted(edges[name], records[:, number], side="right")
                domains[number] = len(edges[name]) + 1
        return replace(self, domains=domains, records=records)

    def coded(self) -> "Dataset":
        """Return the table with measurements as 20 equal intervals of their range."""
        edges = {
            name: np.linspace(*domain, 21)[1:-1].tolist()
            for name, domain in zip(self.attributes, self.domains, strict=True)
            if not isinstance(domain, int)
        }
        return self.discretised(edges)


def read_table(file: Path) -> Dataset:
    """Return the table in a CSV (gzipped or not) or Parquet file; its last column is the class.

    Columns of text, or of at most 20 distinct numbers, are categories. Categories and ranges are
    assumed public.

    Raises:
        ParameterError: if it is not such a table, or lacks values.
        UnsupportedError: if pyarrow is not installed.
    """
    columns = _columns(file)
    ranges = {
        name: (float(values.min()), float(values.max()))
        for name, values in columns.items()
        if values.dtype.kind in "iuf" and len(np.unique(values)) > 20
    }
    return _dataset(file.name.split(".")[0], columns, [*columns][-1], ranges)


def _columns(file: Path) -> dict[str, NDArray[Any]]:
    with needed_for("a table"):
        import pyarrow as pa
        from pyarrow import csv, parquet
    try:
        table = (parquet.read_table if file.suffix == ".parquet" else csv.read_csv)(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise ParameterError("data", str(file), "a table: CSV or Parquet") from error
    if table.num_columns < 2 or not len(table) or any(c.null_count for c in table.columns):
        raise ParameterError("data", str(file), "a table of two columns or more, without gaps")
    return {name: table[name].to_numpy() for name in table.column_names}


def _dataset(
    name: str, columns: Mapping[str, NDArray[Any]], target: str, ranges: Ranges
) -> Dataset:
    """Return coded columns: measurements if they have a range, otherwise categories."""
    kinds = {
        column: np.unique(values.astype(str), return_inverse=True)
        for column, values in columns.items()
        if column == target or column not in ranges
    }
    classes, labels = kinds.pop(target)
    attributes = [column for column in columns if column != target]
    domains: list[Domain] = [ranges[a] if a not in kinds else len(kinds[a][0]) for a in attributes]
    coded = [columns[a] if a not in kinds else kinds[a][1] for a in attributes]
    records = np.stack(coded, axis=1).astype(np.float64)
    return Dataset(name, attributes, domains, records, classes.tolist(), labels)


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

_ADULT: Ranges = {
    "age": (17.0, 90.0),
    "educational-num": (1.0, 16.0),
    "capital-gain": (0.0, 100_000.0),
    "capital-loss": (0.0, 5_000.0),
    "hours-per-week": (0.0, 100.0),
}
_WINE: Ranges = {
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
}
_DIGITS: Ranges = {f"input{i}": (0.0, 100.0) for i in range(1, 17)}
_WALLS: Ranges = {f"SD_{side}": (0.0, 5.0) for side in ("front", "left", "right", "back")}

TABLES: Mapping[str, tuple[str, str, str, Ranges]] = MappingProxyType(
    {
        "adult": ("Adult", "uci_adult", "income", _ADULT),
        "mushroom": ("Mushroom", "uci_mushroom", "class", {}),
        "pen_digits": ("Pen-digits", "uci_pendigits", "class", _DIGITS),
        "wall_sensor": ("Wall-sensor", "uci_wallsensor", "class", _WALLS),
        "wine": ("Wine", "uci_wine_white", "quality", _WINE),
    }
)
"""Name → title, file, class and ranges of 45,222 persons without missing values (12 attributes:
earns > $50,000?), 8,124 mushrooms (22 attributes: edible or poisonous?), 10,992 handwritten digits
(16 coordinates), a robot's 5,456 readings (4 distances in metres: which way does it turn?) and
4,898 white wines (11 measurements: which of 7 grades?)."""


@cache
def table(name: str) -> Dataset:
    """Return one of `TABLES`, read once; ParameterError for an unknown name."""
    title, file, target, ranges = TABLES[validation.choice("table", name, TABLES)]
    columns = _columns(Path(str(files("geoveil.simulation"))) / "data" / f"{file}.csv.gz")
    return _dataset(title, _persons(columns) if name == "adult" else columns, target, ranges)


def _persons(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return complete rows without weight and degree name; marriage is yes or no [LD §6.2]."""
    whole = np.all([values != "?" for values in columns.values()], axis=0)
    names = [name for name in columns if name not in ("fnlwgt", "education")]
    kept = {name: columns[name][whole] for name in names}
    married = np.char.startswith(kept["marital-status"].astype(str), "Married-")
    return kept | {"marital-status": np.where(married, "yes", "no")}
