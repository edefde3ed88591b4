"""Readings: values that are read, and perturbed, once in a stretch of time [MATH §13]."""

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from geoveil.gp import ParameterError, validation
from geoveil.gp.exact import INT64_MAX, INT64_MIN

COHORT = "reading"
"""The name of strata that devices fill in themselves, by when in an epoch they read."""
_SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=3660)
"""The longest epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """A campaign's wish that a device reads its value once in so long, and answers from that.

    All reports of such a stretch, an epoch, are made from one perturbed point, which is paid for
    once. Each device lays its epochs for itself, at times that it draws.

    Raises:
        ParameterError: if the length is not from a minute to ten years.

    Example:
        >>> print(Readings(every=timedelta(days=91), extrapolated=True))
        Your value is read once in 91 days, at a time that your device draws, and perturbed once\
 for all reports in between; what changed since the last reading is carried on.
    """

    every: timedelta
    """How long an epoch is."""
    extrapolated: bool = False
    """Whether an answer goes on as two readings did, at most for as long as lay between them: right
    for means that drift, at up to five times the variance of the noise (8/3 on average). A device
    without two such readings answers only when it reads: most do not in the first two epochs."""

    def __post_init__(self) -> None:
        if not isinstance(self.every, timedelta) or not _SHORTEST <= self.every <= LONGEST:
            raise ParameterError(
                "readings.every", str(self.every), "a timedelta from a minute to ten years"
            )
        validation.require_flag("readings.extrapolated", self.extrapolated)

    def __str__(self) -> str:
        days = self.every / timedelta(days=1)
        carried = "; what changed since the last reading is carried on" if self.extrapolated else ""
        return (
            f"Your value is read once in {days:g} days, at a time that your device draws, and"
            f" perturbed once for all reports in between{carried}."
        )

    def most(self, length: timedelta) -> int:
        """Return how many epochs a stretch of time touches, at most."""
        return 1 - (-length // self.every)


def moved_on(latest: int, before: int, age: timedelta, gap: timedelta) -> int:
    """Return latest + (age/gap)(latest − before), rounded, ties up; exactly, within 64 bits.

    Args:
        latest: the answer of the last reading.
        before: that of an earlier reading.
        age: of the last reading, from 0 to `gap`; what is outside counts as the nearer end.
        gap: the time between the two, > 0.

    Example:
        >>> moved_on(10, 4, timedelta(days=1), timedelta(days=2))
        13
    """
    share = min(max(Fraction(age // _MICROSECOND, gap // _MICROSECOND), Fraction(0)), Fraction(1))
    moved = latest + int((share * (latest - before) * 2 + 1) // 2)
    return min(max(moved, INT64_MIN), INT64_MAX)


_MICROSECOND = timedelta(microseconds=1)
