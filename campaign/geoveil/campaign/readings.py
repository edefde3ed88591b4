"""Readings: values that are read, and perturbed, once in a stretch of time [MATH §13]."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from geoveil.campaign.saying import days_in
from geoveil.gp import INT64_MAX, INT64_MIN, ParameterError, validation

COHORT = "reading"
"""The name of strata that devices fill in themselves, by when their epochs begin."""
MOST_COHORTS = 16
"""The most labels of such strata: each halving of the parts halves who a device may be."""
_SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=3660)
"""The longest epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """A campaign's wish that a device reads its value once in so long, and answers from that.

    All reports of such a stretch, an epoch, are made from one perturbed point, which is paid for
    once. Each device draws when its first epoch begins; the others follow without a gap, and the
    value is read when the device first answers in one.

    Raises:
        ParameterError: if the length is not from a minute to ten years.

    Example:
        >>> print(Readings(every=timedelta(days=91), extrapolated=True))
        Your value is read and perturbed once in each stretch of 91 days, when your device first\
 answers in it; all reports of the stretch are made from that, and go on as two readings did. Your\
 device draws when its stretches begin: any 91 days touch two of them.
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
        days = days_in(self.every)
        moved = ", and go on as two readings did" if self.extrapolated else ""
        return (
            f"Your value is read and perturbed once in each stretch of {days} days, when your"
            f" device first answers in it; all reports of the stretch are made from that{moved}."
            f" Your device draws when its stretches begin: any {days} days touch two of them."
        )

    def telling(self, cohorts: int) -> str:
        """Return what to tell people whose device tells in which part of an epoch it begins.

        Args:
            cohorts: how many parts there are.
        """
        return (
            f"Your device also tells in which of {cohorts} parts of {days_in(self.every)} days its"
            " stretches begin. That stays the same, and tells your reports of different stretches"
            f" from those of {cohorts - 1} in {cohorts} other people."
        )

    def cohort(self, begins: datetime, cohorts: int) -> int:
        """Return in which of so many parts an epoch began, from 0.

        Parts are counted from 1970 on, for all campaigns alike: two that ask for as many, or for a
        divisor, learn no more than one.
        """
        return cohorts * ((begins - ORIGIN) % self.every) // self.every

    def most(self, length: timedelta) -> int:
        """Return how many epochs a stretch of time touches, at most."""
        return 1 - (-length // self.every)


def moved_on(latest: int, before: int, age: timedelta, gap: timedelta) -> int:
    """Return latest + (age/gap)(latest − before), rounded, ties up; exactly, within 64 bits.

    Args:
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
ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
"""From when on the parts are counted in which epochs begin."""
