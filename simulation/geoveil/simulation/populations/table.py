"""Populations as rows with weights.

Two ship inside the package; `NOTICE` has their sources and terms. Rows are drawn by weight in
constant time, however many there are, by Walker's alias method.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError, TableFileError
from geoveil.simulation.populations import files
from geoveil.simulation.populations.base import Array, People

GEOPACKAGE = ".gpkg"
FORMATS: Mapping[str, Callable[[Path, Sequence[str]], list[Array]]] = MappingProxyType(
    {".csv": files.read_csv, ".parquet": files.read_parquet, GEOPACKAGE: files.read_geopackage}
)
"""Ending of a file of people → what reads columns of it."""


class AliasTable(NamedTuple):
    """Two outcomes per cell: the cell's own number with probability `keep`, otherwise `other`."""

    keep: NDArray[np.float64]
    other: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> "AliasTable":
        """Return the table of positive weights, shape (n,), which need not add up to 1.

        Example:
            >>> AliasTable.of(np.array([1.0, 3.0])).keep.tolist()
            [0.5, 1.0]
        """
        n = len(weights)
        keep = (weights * (n / weights.sum())).tolist()
        other = list(range(n))
        small = [i for i, share in enumerate(keep) if share < 1]
        large = [i for i, share in enumerate(keep) if share >= 1]
        while small and large:
            poor, rich = small.pop(), large[-1]
            other[poor] = rich
            keep[rich] -= 1 - keep[poor]
            if keep[rich] < 1:
                small.append(large.pop())
        for i in small + large:  # 1 but for rounding
            keep[i] = 1.0
        return cls(np.array(keep), np.array(other))

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return n indices. One uniform number each: its integer part is the cell.

        The fractional part, which decides within the cell, has 53 bits less those of the number of
        cells: 35 for 200,000 rows.
        """
        place = rng.random(n)
        place *= len(self.keep)
        cell = place.astype(np.int64)
        # A product can be rounded up to the number of cells.
        np.minimum(cell, len(self.keep) - 1, out=cell)
        place -= cell
        return np.where(place < self.keep[cell], cell, self.other[cell])


@dataclass(frozen=True, eq=False)
class Population(People):
    """Points that people hold, each standing for `weight` people.

    Args:
        name: what one member is, in the plural.
        unit: of the values; "degree" for places.
        values: shape (n,), or (n, k); (n, 2) for (longitude, latitude).
        weights: shape (n,), > 0.
        source: where the data comes from.

    Example:
        >>> from geoveil.simulation import household_incomes
        >>> households = household_incomes()
        >>> round(households.mean(lambda income: income > 100_000), 4)
        0.4868
    """

    name: str
    unit: str
    values: Array
    weights: Array
    source: str

    def __post_init__(self) -> None:
        if len(self.values) == 0:
            raise ParameterError("values", "0 rows", "at least one row")
        if self.weights.shape != self.values.shape[:1]:
            raise ParameterError("weights", self.weights.shape, f"of shape {self.values.shape[:1]}")
        if (
            not (self.weights > 0).all()
            or not np.isfinite(self.weights.sum())
            or not np.isfinite(self.values).all()
        ):
            raise ParameterError("weights, values", "some", "positive weights and finite values")

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        values: Sequence[str] = (),
        weights: str | None = None,
        name: str | None = None,
        unit: str | None = None,
    ) -> "Population":
        """Read rows from a file: a table, or points of a map.

        Args:
            path: of the file; its ending says what it is: a CSV file (.csv, in UTF-8, with a
                header), Parquet (.parquet) or a GeoPackage of points (.gpkg).
            values: columns that hold what a member holds: one, or one per coordinate. None for a
                GeoPackage, whose points become (longitude, latitude).
            weights: column that says how many people a row stands for; 1 each if None. Rows of
                weight 0 stand for nobody and are left out.
            name: what the members are, in the plural; the file's name by default.
            unit: of the values; "degree" for (longitude, latitude), and of a GeoPackage.

        Raises:
            ParameterError: if the ending is another one, or no column is named.
            TableFileError: naming the file, the row and the column. Never a row's value, as
                the people in the file may be real.
            UnsupportedError: if what reads such files is not installed.
        """
        file = Path(path)
        if file.suffix not in FORMATS:
            raise ParameterError("population", str(path), f"a file: {', '.join(FORMATS)}")
        places = file.suffix == GEOPACKAGE
        if places and not values:
            values = files.COORDINATES
        if isinstance(values, str) or not values:
            raise ParameterError("values", values, "a list of at least one column name")
        columns = [*values] if weights is None else [*values, weights]
        found = FORMATS[file.suffix](file, columns)
        points = np.stack(found[: len(values)], axis=-1) if len(values) > 1 else found[0]
        people = np.ones(len(points)) if weights is None else found[-1]
        if (people < 0).any():
            row = int(np.argmax(people < 0)) + 1
            raise TableFileError(file, f"row {row}, column {weights!r}", "a weight >= 0")
        counted = people > 0
        if not counted.any():
            raise TableFileError(
                file, "what is beneath the header", "at least one row that stands for somebody"
            )
        unit = unit or ("degree" if places else "unit")
        return cls(name or file.stem, unit, points[counted], people[counted], file.name)

    @property
    def dimension(self) -> int:
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    @property
    def size(self) -> float:
        """Number of people: the sum of the weights."""
        return float(self.weights.sum())

    @cached_property
    def _alias(self) -> AliasTable | None:
        """How to draw by weight; None if all weigh the same."""
        if (self.weights == self.weights[0]).all():
            return None
        return AliasTable.of(self.weights)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return people drawn with replacement, by weight."""
        if self._alias is None:
            return self.values[rng.integers(0, len(self.values), size=n)]
        return self.values[self._alias.draw(n, rng)]

    def mean(self, function: Callable[[Array], Array]) -> float:
        """Return the weighted mean of a function over the rows."""
        return float(np.average(function(self.values), weights=self.weights))

    def mapped(self, function: Callable[[Array], Array], unit: str) -> "Population":
        """Return the same people with function(values) in `unit` instead of their values."""
        return replace(self, values=function(self.values), unit=unit)

    def fingerprint(self) -> str:
        """Return a hash of the values and weights."""
        shape = repr(self.values.shape).encode()
        parts = (np.ascontiguousarray(part, np.float64) for part in (self.values, self.weights))
        return hashlib.sha256(shape + b"".join(part.tobytes() for part in parts)).hexdigest()


@lru_cache(maxsize=1)
def household_incomes() -> Population:
    """Return California households: 141,199 rows that stand for 13.8 million.

    Dollars a year, as published: rounded, capped, 1.4 % of the weight zero or negative.
    """
    data = _load("ca_household_income_2024.npz")
    return Population(
        name="California households",
        unit="dollar",
        values=data["income"].astype(np.float64),
        weights=data["weight"].astype(np.float64),
        source="US Census Bureau, ACS 2024 1-year PUMS",
    )


@lru_cache(maxsize=1)
def collisions() -> Population:
    """Return 200,000 motor vehicle collisions in New York, (longitude, latitude) in degrees."""
    data = _load("nyc_collisions_200k.npz")
    places = np.stack([data["lon_e6"] / 1e6, data["lat_e6"] / 1e6], axis=-1)
    return Population(
        name="New York collisions",
        unit="degree",
        values=places,
        weights=np.ones(len(places)),
        source="NYPD Motor Vehicle Collisions, NYC Open Data",
    )


def _load(file: str) -> dict[str, NDArray[np.int64]]:
    path = resources.files("geoveil.simulation").joinpath("data", file)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
