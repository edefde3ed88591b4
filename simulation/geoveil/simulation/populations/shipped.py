"""The populations that ship inside the package; `NOTICE` has their sources and terms."""

from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from geoveil.simulation.populations.table import Population


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
