"""Populations of simulated participants: weighted rows of a shipped or own file, or a formula.

Two files ship with the package; `NOTICE` has their sources and terms. Walker's alias method draws
rows by weight in constant time.
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
    """A population from which participants are drawn with replacement."""

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
        """Return the values of n random members, shape (n,) or (n, dimension)."""

    @abstractmethod
    def mean(self, function: Callable[[Array], Array]) -> float:
        """Return the population mean of a vectorised function of the values."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash in hexadecimal that identifies the population."""


class AliasTable(NamedTuple):
    """For each cell two outcomes: its own index with probability `keep`, otherwise `other`."""

    keep: NDArray[np.float64]
    other: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.float64]) -> "AliasTable":
        """Return the table for positive weights, shape (n,), with any sum.

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
        for i in small + large:  # 1 up to rounding
            keep[i] = 1.0
        return cls(np.array(keep), np.array(other))

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return n indices, each from one uniform number, whose integer part chooses the cell.

        Its fraction, 53 bits less those of the number of cells, chooses between the two outcomes.
        """
        place = rng.random(n)
        place *= len(self.keep)
        cell = place.astype(np.int64)
        # Rounding can raise a product to the number of cells.
        np.minimum(cell, len(self.keep) - 1, out=cell)
        place -= cell
        return np.where(place < self.keep[cell], cell, self.other[cell])


@dataclass(frozen=True, eq=False)
class Population(ParticipantSource):
    """Points that people hold; each row stands for `weight` people.

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
            values: the column of values, or one column per coordinate. None for a GeoPackage,
                whose points become (longitude, latitude).
            weights: the column with each row's number of people; None for 1 each. Rows with 0
                people are left out.
            name: the members' name, in the plural; the file's name by default.
            unit: the values' unit; "degree" for (longitude, latitude) and GeoPackages.

        Raises:
            ParameterError: if the extension is unsupported, or columns are missing or repeated.
            TableFileError: with the file, the row and the column, never a value.
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
        """The number of people: the sum of the weights."""
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
        """Return the people with function(values), in `unit`, as their values."""
        return replace(self, values=function(self.values), unit=unit)

    def fingerprint(self) -> str:
        shape = repr(self.values.shape).encode()
        parts = (np.ascontiguousarray(part, np.float64) for part in (self.values, self.weights))
        return hashlib.sha256(shape + b"".join(part.tobytes() for part in parts)).hexdigest()


@dataclass(frozen=True, kw_only=True)
class LogNormalPopulation(ParticipantSource):
    """Pairs (a, b) whose logarithms are bivariate normal.

    Args:
        name, unit, source: see `ParticipantSource`; both values have this unit.
        mu: the means of the logarithms.
        sigma: the standard deviations of the logarithms, > 0.
        correlation: the correlation of the logarithms, in (-1, 1).

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

        It is within 1e-6 of the truth for soft indicators whose band is at least a tenth of the
        values' median wide.
        """
        axis = np.linspace(-9.0, 9.0, 1_801)  # standard deviations
        density = np.exp(-np.square(axis) / 2)
        density /= density.sum()
        total = 0.0
        for first, weight in zip(axis, density, strict=True):
            # One row of the grid at a time; the second normal varies along it.
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
    """Return household incomes and debts, distributed as in the seed paper [MATH §12].

    The logarithms have correlation 0.4 and the same standard deviation. The mean debt is 1.791
    times the mean income, so the means of the logarithms differ by ln 1.791.
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
    """Return the incomes of Californian households: 141,199 rows for 13.8 million households.

    In dollars per year as published: rounded and capped, with 1.4 % of the weight at or below 0.
    """
    data = _load("ca_household_income_2024.npz")
    source = "US Census Bureau, ACS 2024 1-year PUMS"
    return Population("California households", "dollar", data["income"], data["weight"], source)


@lru_cache(maxsize=1)
def collisions() -> Population:
    """Return the places of 200,000 collisions in New York, (longitude, latitude) in degrees."""
    data = _load("nyc_collisions_200k.npz")
    places = np.stack([data["lon_e6"], data["lat_e6"]], axis=-1) / 1e6
    source = "NYPD Motor Vehicle Collisions, NYC Open Data"
    return Population("New York collisions", "degree", places, np.ones(len(places)), source)


def _load(file: str) -> dict[str, Array]:
    path = resources.files("geoveil.simulation").joinpath("data", file)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return {name: column.astype(np.float64) for name, column in arrays.items()}
