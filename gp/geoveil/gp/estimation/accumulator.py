"""Exact sums of reports: any order, any sharding, any replay gives the same bits."""

from collections.abc import Iterable
from dataclasses import dataclass

from geoveil.gp.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Accumulator:
    """n, Σk and Σk² of the integers reported for one query.

    Example:
        >>> Accumulator.of([1, 2]) + Accumulator.of([3])
        Accumulator(n=3, total=6, total_of_squares=14)
    """

    n: int = 0
    total: int = 0
    total_of_squares: int = 0

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ParameterError("n", self.n, "an integer >= 0")
        # Cauchy-Schwarz; anything else is not a sum of squares of n integers.
        if self.total * self.total > self.n * self.total_of_squares:
            raise ParameterError(
                "total_of_squares", self.total_of_squares, f"at least {self.total}^2 / {self.n}"
            )

    @classmethod
    def of(cls, values: Iterable[int]) -> "Accumulator":
        """Return the sums of integers."""
        n = total = squares = 0
        for value in values:
            n += 1
            total += value
            squares += value * value
        return cls(n, total, squares)

    def __add__(self, other: "Accumulator") -> "Accumulator":
        return Accumulator(
            self.n + other.n,
            self.total + other.total,
            self.total_of_squares + other.total_of_squares,
        )
