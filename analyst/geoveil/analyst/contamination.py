"""The effect of false reports and of people who did not answer on an estimate [MATH §8].

If a fraction η of n reports says anything within the range [lo, hi], it moves their mean by at most
η·(hi − lo). False values that an honest app perturbs move it, on average, by at most η·(the
greatest minus the least mean). If n of N people answered, the mean over all N is between (n·m + (N
− n)·lo)/N and (n·m + (N − n)·hi)/N, with m the mean of those who answered (Manski's bounds).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoveil.analyst.results import Estimates, possible, rows_of
from geoveil.campaign import rounded_up
from geoveil.gp import ParameterError, validation

MEAN_MOVES = (
    "One false answer far out moves a mean by any distance. Ask the points for a quantile, or for a"
    " share above a value: how far false answers can move these is known."
)
"""The sentence about means of numbers without ends."""


@dataclass(frozen=True, slots=True)
class Contamination:
    """How far a fraction of false reports can move an estimate.

    Args:
        fraction: η, the false part of an estimate's reports, in [0, 1).
        width: hi − lo, the range of a report's contribution.
        means: the least and the greatest mean over any people.

    Raises:
        ParameterError: if the fraction is out of range, or a report's contribution is unbounded.

    Example:
        >>> liars = Contamination(0.01, width=2.3, means=(0.0, 1.0))
        >>> round(liars.moved, 3), liars.moved_by_values
        (0.023, 0.01)
        >>> liars.widened(0.005, 0.015)
        (0.0, 0.038)
    """

    fraction: float
    width: float
    means: tuple[float, float] = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        validation.between("contamination", self.fraction, 0, 1, high_open=True)
        if not math.isfinite(self.width):
            bounded = (
                "left out: nothing bounds what a report counts for (ask points for a quantile, or"
                " for a share above a value)"
            )
            raise ParameterError("contamination", self.fraction, bounded)

    @property
    def moved(self) -> float:
        """How far arbitrary reports can move the estimate."""
        return self.fraction * self.width

    @property
    def moved_by_values(self) -> float:
        """How far false values, perturbed like true ones, can move the estimate's expectation."""
        low, high = self.means
        if not self.fraction:
            return 0.0
        return min(self.fraction * (high - low), self.moved)

    @property
    def words(self) -> str:
        """How far the estimate moves, as a part of a sentence; rounded up."""
        moved, by_values = (rounded_up(most, 3) for most in (self.moved, self.moved_by_values))
        return (
            f"by at most {moved:g}, whatever they say, and by at most {by_values:g} if they are an"
            " honest app's about false values"
        )

    def widened(self, low: float, high: float) -> tuple[float, float]:
        """Return an interval of the mean over honest people, given an interval of the estimand."""
        least, greatest = self.means
        return max(low - self.moved, min(least, low)), min(high + self.moved, max(greatest, high))

    def to_dict(self) -> dict[str, object]:
        """Return JSON values."""
        return {
            "fraction": self.fraction,
            "moved": self.moved,
            "moved_by_false_values": self.moved_by_values,
        }


WORST_CASE = "worst_case_low", "worst_case_high"
"""Columns of the interval for the mean over everybody invited."""
UNSTATED = (
    "People who did not answer may differ. State how many were invited to see the worst case."
)
"""The note where the number of people invited is unknown."""


def worst_case(
    low: float, high: float, answered: int, invited: int, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return an interval for the mean over everybody invited, whatever the silent ones hold.

    Args:
        low: lower end of the interval for the mean of those who answered.
        answered: people, n ≥ 0.
        invited: people, N ≥ n.
        ends: the least and the greatest mean over any people.

    Raises:
        ParameterError: if fewer people were invited than answered, the mean has no ends, or `low`
            is above `high`.

    Example:
        >>> worst_case(0.25, 0.5, 100, 200, (0.0, 1.0))
        (0.125, 0.75)
    """
    validation.require_count("answered", answered, 0)
    require_invited(answered, invited)
    if not low <= high:
        raise ParameterError("low", low, f"a number of at most high={high}")
    if not all(map(math.isfinite, ends)):
        expected = "left out: values without a range can move a mean by any distance"
        raise ParameterError("invited", invited, expected)
    part = answered / invited
    return part * low + (1 - part) * ends[0], part * high + (1 - part) * ends[1]


def require_invited(answered: int, invited: int) -> None:
    """Refuse a number of people invited that is smaller than the number who answered."""
    validation.require_count("invited", invited)
    if invited < answered:
        expected = f"at least {answered:,}, the number of people who answered"
        raise ParameterError("invited", invited, expected)


def note_of_invited(answered: int, invited: int) -> str:
    """Return the sentence on the worst case."""
    share = 100 * answered / invited
    return (
        f"{answered:,} of {invited:,} people invited answered ({share:.3g} %). The worst-case"
        f" interval holds the mean over all {invited:,}, whatever the others hold; the other"
        " intervals assume that they are like those who answered."
    )


@dataclass(frozen=True, kw_only=True)
class ResponseRates(Estimates):
    """The share of each group's invited people who answered, estimated from private answers."""

    coverage = "All intervals hold at once at {of.percent}."
    name: str
    """The field of the groups."""
    invited: Mapping[str, int]
    """Group → people invited, ≥ 1."""
    answered: Mapping[str, tuple[float, float, float]]
    """Group → estimated number of people who answered, and both ends of its interval."""
    population: str = (
        "A rate is the estimated number of people of a group who answered, divided by the number"
        " invited."
    )

    @property
    def title(self) -> str:
        return f"Response by {self.name}, of {sum(self.invited.values()):,} people invited"

    def rows(self) -> list[dict[str, Any]]:
        rates = {
            group: [min(max(end / self.invited[group], 0.0), 1.0) for end in (low, high)]
            for group, (_, low, high) in self.answered.items()
        }
        values = [of[0] / self.invited[group] for group, of in self.answered.items()]
        low, high = zip(*rates.values(), strict=True)
        return rows_of(
            {
                self.name: rates,
                "invited": [self.invited[group] for group in rates],
                **possible(values, low, high),
                "ci_low": low,
                "ci_high": high,
            }
        )
