"""From reports to estimates: exact integer sums, then one division [MATH §8]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import ldexp, sqrt

from geoveil.gp import validation
from geoveil.gp.arrays import NDArray, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.intervals import IntervalMethod, interval_of_mean
from geoveil.gp.limits import UNLIMITED, Limits

_LIMB_BITS = 22
_SMALL = 1 << 43
"""Integers below this in absolute value have two limbs of 22 bits, others three."""


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
    def of(cls, values: Iterable[int]) -> Accumulator:
        """Return the sums of integers."""
        n = total = squares = 0
        for value in values:
            n += 1
            total += value
            squares += value * value
        return cls(n, total, squares)

    def __add__(self, other: Accumulator) -> Accumulator:
        return Accumulator(
            self.n + other.n,
            self.total + other.total,
            self.total_of_squares + other.total_of_squares,
        )


def sums_of(integers: NDArray[np.int64], starts: NDArray[np.intp]) -> Iterator[Accumulator]:
    """Yield the sums of consecutive parts of an array, in 64-bit integers that can't overflow.

    There are 1 to 2¹⁸ integers; the parts begin at `starts`, which increase from 0.

    Example:
        >>> list(sums_of(np.array([2**62, 2**62, -1]), np.array([0, 2]))) == [
        ...     Accumulator.of([2**62, 2**62]), Accumulator.of([-1])]
        True
    """
    count = 2 if max(int(integers.max()), -int(integers.min())) < _SMALL else 3
    mask = (1 << _LIMB_BITS) - 1
    limbs = [(integers >> (_LIMB_BITS * i)) & mask for i in range(count - 1)]
    limbs.append(integers >> (_LIMB_BITS * (count - 1)))  # keeps the sign
    sizes = np.diff(starts, append=len(integers)).tolist()
    totals, squares = [0] * len(starts), [0] * len(starts)
    for i, limb in enumerate(limbs):
        for part, total_of_limb in enumerate(np.add.reduceat(limb, starts).tolist()):
            totals[part] += total_of_limb << (_LIMB_BITS * i)
    # Products of two limbs are below 2^44 in size, and 2^18 of them stay below 2^62.
    for i, j in combinations_with_replacement(range(count), 2):
        shift = _LIMB_BITS * (i + j) + (i != j)
        products = np.add.reduceat(limbs[i] * limbs[j], starts).tolist()
        for part, total_of_limb in enumerate(products):
            squares[part] += total_of_limb << shift
    yield from map(Accumulator, sizes, totals, squares)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of the mean of one query over all people, from their reports.

    Attributes:
        n: reports counted.
        value: their mean, unbiased, so that it may be beyond the interval; None while n < 1.
        standard_error: s/√n, which holds noise and sampling together; None while n < 2.
        confidence: of the interval, in (0, 1).
        ci_low: lower end of the interval; None while n < 2.
        ci_high: its upper end.
        method: how the interval was found; None while n < 2.
    """

    n: int
    value: float | None
    standard_error: float | None
    confidence: float
    ci_low: float | None
    ci_high: float | None
    method: IntervalMethod | None

    @property
    def possible(self) -> float | None:
        """The number in the interval nearest to the value; the value itself without an interval."""
        if self.value is None or self.ci_low is None or self.ci_high is None:
            return self.value
        return min(max(self.value, self.ci_low), self.ci_high)


def estimate(
    sums: Accumulator,
    step_exponent: int,
    confidence: float = 0.95,
    limits: Limits = UNLIMITED,
    method: IntervalMethod | None = None,
) -> Estimate:
    """Return the mean of k·2^step_exponent over the reports, with an interval.

    s/√n is conservative for people whose reports are independent but not identically distributed.

    Args:
        sums: exact sums of the integers k.
        step_exponent: of the campaign's grid.
        limits: bounds of reports and of their expected mean.
        method: of the interval, see `interval_of_mean`.

    Raises:
        ParameterError: if `confidence` is not in (0, 1), or the method needs bounded reports.

    Example:
        >>> estimate(Accumulator.of([0, 4, 4, 8]), step_exponent=-2).value
        1.0
    """
    confidence = validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    if sums.n == 0:
        return Estimate(0, None, None, confidence, None, None, None)
    step = ldexp(1.0, step_exponent)
    value = float(Fraction(sums.total, sums.n)) * step
    if sums.n == 1:
        return Estimate(1, value, None, confidence, None, None, None)
    spread = Fraction(sums.n * sums.total_of_squares - sums.total * sums.total, sums.n * sums.n)
    error = sqrt(float(spread / (sums.n - 1))) * step
    variance = float(spread) * step * step
    interval = interval_of_mean(sums.n, value, variance, confidence, limits, method)
    return Estimate(sums.n, value, error, confidence, interval.low, interval.high, interval.method)


@dataclass(frozen=True, slots=True)
class ForgedShare:
    """A lower bound in [0, 1] of the share of forged reports; 0: no forgery shows.

    It does not exceed the true share, with the probability `confidence`, whatever the people are
    like.
    """

    at_least: float
    confidence: float = 0.99

    @property
    def shows(self) -> bool:
        """Whether the bound is above 0."""
        return self.at_least > 0
