"""The contract of a population: who can be drawn, and what is true of all of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class People(ABC):
    """A population that participants can be drawn from, with replacement.

    Attributes:
        name: what its members are, in the plural.
        unit: of the values; "degree" for places.
        source: where the data comes from.
    """

    name: str
    unit: str
    source: str

    @property
    @abstractmethod
    def dimension(self) -> int:
        """How many numbers each member holds."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return the values of n members drawn at random: shape (n,), or (n, dimension)."""

    @abstractmethod
    def mean(self, function: Callable[[Array], Array]) -> float:
        """Return the mean of a vectorised function of the values over the whole population."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash, in hexadecimal, that is the same for the same population only."""
