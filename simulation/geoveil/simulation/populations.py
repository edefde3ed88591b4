"""Populations: real points with weights, to draw simulated participants from.

The data ships inside the package; `NOTICE` has its sources and terms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import ParameterError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Points that people hold, each standing for `weight` people.

    Args:
        name: what one member is, in the plural.
        unit: of the values; "degree" for places.
        values: shape (n,), or (n, 2) for (longitude, latitude).
        weights: shape (n,), > 0.
        source: where the data comes from.

    Example:
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
        if not (self.weights > 0).all() or not np.isfinite(self.values).all():
            raise ParameterError("weights, values", "some", "positive weights and finite values")

    @property
    def size(self) -> float:
        """Number of people: the sum of the weights."""
        return float(self.weights.sum())

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return the values of n people drawn with replacement, by weight."""
        return self.values[rng.choice(len(self.values), size=n, p=self.weights / self.size)]

    def mean(self, function: Callable[[Array], Array]) -> float:
        """Return the weighted mean of a vectorised function of the values."""
        return float(np.average(function(self.values), weights=self.weights))


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
    path = files("geoveil.simulation").joinpath("data", file)
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
