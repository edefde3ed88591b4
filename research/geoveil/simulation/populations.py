"""Populations of simulated participants: weighted rows of a file or of geoveil, or a formula.

Two ship inside the package; `NOTICE` has their sources and terms. Rows are drawn by weight in
constant time, however many there are, by Walker's alias method.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError, validation
from geoveil.simulation.people_files import (
    COORDINATES,
    FORMATS,
    GEOPACKAGE,
    TableFileError,
    read_columns,
)

Array = NDArray[np.float64]


class ParticipantSource(ABC):
    """A population from which participants are drawn, with replacement."""

    name: str
    """The name of its members, in the plural."""
    unit: str
    """The unit of the values; "degree" for places."""
    source: str

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of coordinates of each member."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return the values of n members drawn at random: shape (n,), or (n, dimension)."""

    @abstractmethod
    def mean(self, function: Callable[[Array], Array]) -> float:
        """Return the mean of a vectorised function of the values over the whole population."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash in hexadecimal that identifies the population."""


class AliasTable(NamedTuple):
    """Two outcomes for each cell: its own index with probability `keep`, otherwise `other`."""

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
        """Return n indices, by the integer part of one uniform number each.

        Its fraction decides within the cell, with 53 bits less those of the number of cells.
        """
        place = rng.random(n)
        place *= len(self.keep)
        cell = place.astype(np.int64)
        # A product can be rounded up to the number of cells.
        np.minimum(cell, len(self.keep) - 1, out=cell)
        place -= cell
        return np.where(place < self.keep[cell], cell, self.other[cell])


@dataclass(frozen=True, eq=False)
class Population(ParticipantSource):
    """Points that people hold, each counted for `weight` people.

    Args:
        name, unit, source: see `ParticipantSource`.
        values: shape (n,), or (n, k); (n, 2) for (longitude, latitude).
        weights: shape (n,), > 0.

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
        finite = np.isfinite(self.weights.sum()) and np.isfinite(self.values).all()
        if not finite or not (self.weights > 0).all():
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
            path: CSV (.csv, in UTF-8, with a header), Parquet (.parquet) or a GeoPackage of points
                (.gpkg).
            values: columns of a member's value: one, or one per coordinate. None for a GeoPackage,
                whose points become (longitude, latitude).
            weights: column with the number of people of a row; 1 each if None. Rows of 0 are left
                out.
            name: of the members, in the plural; the file's name by default.
            unit: of the values; "degree" for (longitude, latitude), and of a GeoPackage.

        Raises:
            ParameterError: if the ending is another one, or no column is named, or one twice.
            TableFileError: naming the file, the row and the column, never a value.
            UnsupportedError: if the package for such files is not installed.
        """
        file = Path(path)
        if file.suffix not in FORMATS:
            raise ParameterError("population", str(path), f"a file: {', '.join(FORMATS)}")
        places = file.suffix == GEOPACKAGE
        if places and not values:
            values = COORDINATES
        if isinstance(values, str) or not values:
            raise ParameterError("values", values, "a list of at least one column name")
        if len(set(values)) < len(values):
            raise ParameterError("column", [*values], "another one each time, not the same twice")
        columns = [*values] if weights is None else [*values, weights]
        columns_read = read_columns(file, columns)
        points = (
            np.stack(columns_read[: len(values)], axis=-1) if len(values) > 1 else columns_read[0]
        )
        people = np.ones(len(points)) if weights is None else columns_read[-1]
        if (people < 0).any():
            row = int(np.argmax(people < 0)) + 1
            raise TableFileError(file, f"row {row}, column {weights!r}", "a weight >= 0")
        counted = people > 0
        if not counted.any():
            expected = "at least one row that stands for somebody"
            raise TableFileError(file, "what is beneath the header", expected)
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
        """The table for drawing by weight; None for equal weights."""
        if (self.weights == self.weights[0]).all():
            return None
        return AliasTable.of(self.weights)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        if self._alias is None:
            return self.values[rng.integers(0, len(self.values), size=n)]
        return self.values[self._alias.draw(n, rng)]

    def mean(self, function: Callable[[Array], Array]) -> float:
        return float(np.average(function(self.values), weights=self.weights))

    def mapped(self, function: Callable[[Array], Array], unit: str) -> "Population":
        """Return the people with function(values) in `unit` instead of their values."""
        return replace(self, values=function(self.values), unit=unit)

    def fingerprint(self) -> str:
        shape = repr(self.values.shape).encode()
        parts = (np.ascontiguousarray(part, np.float64) for part in (self.values, self.weights))
        return hashlib.sha256(shape + b"".join(part.tobytes() for part in parts)).hexdigest()


@dataclass(frozen=True, kw_only=True)
class LogNormalPopulation(ParticipantSource):
    """Pairs (a, b) whose logarithms are bivariate normal.

    Args:
        name, unit, source: see `ParticipantSource`; the unit is that of both values.
        mu: means of the logarithms.
        sigma: their standard deviations, > 0.
        correlation: in (-1, 1).

    Example:
        >>> people = incomes_and_debts()
        >>> round(people.mean(lambda pair: pair[:, 0]))  # exp(μ + σ²/2)
        138368
    """

    name: str
    unit: str
    mu: tuple[float, float]
    sigma: tuple[float, float]
    correlation: float
    source: str

    def __post_init__(self) -> None:
        for field in ("mu", "sigma"):
            pair = validation.numbers(field, getattr(self, field))
            if len(pair) != 2:
                raise ParameterError(field, pair, "two numbers")
            object.__setattr__(self, field, pair)
        for i, (mu, sigma) in enumerate(zip(self.mu, self.sigma, strict=True)):
            validation.between(f"mu[{i}]", mu, -100, 100)
            validation.between(f"sigma[{i}]", sigma, 0, 10, low_open=True)
        validation.between("correlation", self.correlation, -1, 1, low_open=True, high_open=True)

    @property
    def dimension(self) -> int:
        return 2

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.of_normals(rng.standard_normal((n, 2)))

    def mean(self, function: Callable[[Array], Array]) -> float:
        """Return the mean of a function over the population, by the trapezoid rule.

        Within 1e-6 of the truth for soft indicators whose band is at least a tenth as wide as the
        median of the values.
        """
        axis = np.linspace(-9.0, 9.0, 1_801)  # standard deviations
        density = np.exp(-np.square(axis) / 2)
        density /= density.sum()
        total = 0.0
        for first, weight in zip(axis, density, strict=True):
            # One row of the grid at a time, along which the second normal varies.
            row = self.of_normals(np.stack([np.full_like(axis, first), axis], axis=-1))
            total += weight * float(np.dot(function(row), density))
        return total

    def fingerprint(self) -> str:
        return hashlib.sha256(repr((self.mu, self.sigma, self.correlation)).encode()).hexdigest()

    def of_normals(self, normal: Array) -> Array:
        """Return (a, b) for independent standard normal numbers, shape (n, 2)."""
        rest = math.sqrt((1 - self.correlation) * (1 + self.correlation))
        second = self.correlation * normal[:, 0] + rest * normal[:, 1]
        logarithms = np.stack(
            [self.mu[0] + self.sigma[0] * normal[:, 0], self.mu[1] + self.sigma[1] * second],
            axis=-1,
        )
        return np.exp(logarithms, out=logarithms)


def incomes_and_debts() -> LogNormalPopulation:
    """Return household incomes and debts as the seed paper draws them [MATH §12].

    The logarithms have correlation 0.4 and one standard deviation; the mean debt is 1.791 times
    the mean income, so its logarithm's mean is that of the income plus ln 1.791.
    """
    mu, sigma = 11.49399503, 0.82907095
    return LogNormalPopulation(
        name="household incomes and debts",
        unit="dollar",
        mu=(mu, mu + math.log(1.791)),
        sigma=(sigma, sigma),
        correlation=0.4,
        source="log-normal model of the seed paper",
    )


@lru_cache(maxsize=1)
def household_incomes() -> Population:
    """Return California households: 141,199 rows that stand for 13.8 million.

    Dollars a year, as published: rounded, capped, 1.4 % of the weight zero or negative.
    """
    data = _load("ca_household_income_2024.npz")
    source = "US Census Bureau, ACS 2024 1-year PUMS"
    return Population("California households", "dollar", data["income"], data["weight"], source)


@lru_cache(maxsize=1)
def collisions() -> Population:
    """Return 200,000 motor vehicle collisions in New York, (longitude, latitude) in degrees."""
    data = _load("nyc_collisions_200k.npz")
    places = np.stack([data["lon_e6"], data["lat_e6"]], axis=-1) / 1e6
    source = "NYPD Motor Vehicle Collisions, NYC Open Data"
    return Population("New York collisions", "degree", places, np.ones(len(places)), source)


def _load(file: str) -> dict[str, Array]:
    path = resources.files("geoveil.simulation").joinpath("data", file)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return {name: column.astype(np.float64) for name, column in arrays.items()}
