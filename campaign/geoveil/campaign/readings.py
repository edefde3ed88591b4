"""Readings: values that are read and perturbed once per epoch [MATH §13]."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from geoveil.campaign.saying import days_in
from geoveil.campaign.words import digits, say
from geoveil.gp import INT64_MAX, INT64_MIN, ParameterError, validation

MOST_COHORTS = 16
"""The most parts of an epoch, since doubling the parts halves a device's anonymity."""
_SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=3660)
"""The longest epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Makes a device read its value once per epoch and answer from that reading.

    All reports of an epoch come from one perturbed point, whose cost is charged once. Each device
    draws the beginning of its first epoch; the others follow without gaps.

    Raises:
        ParameterError: unless the length is from a minute to ten years, and cohorts is 0 or 2 to
            16.

    Example:
        >>> print(Readings(every=timedelta(days=91), extrapolated=True))
        Your value is read and perturbed once in each stretch of 91 days, when your device first\
 answers in it; all reports of the stretch are made from that, and continue the change between\
 two readings, so that a report may tell of both. Your device draws at random when its stretches\
 begin, so any 91 days touch two of them.
    """

    every: timedelta
    """The length of an epoch."""
    extrapolated: bool = False
    """Whether answers extrapolate from two readings, at most as far as the time between them: right
    for drifting means, at up to five times the noise's variance (8/3 on average). A device without
    two such readings answers only when it reads, as most devices in the first two epochs."""
    cohorts: int = 0
    """The number of parts of an epoch, 2 to 16: a device reports the part in which its own epochs
    begin. With 0 it does not."""

    def __post_init__(self) -> None:
        if not isinstance(self.every, timedelta) or not _SHORTEST <= self.every <= LONGEST:
            raise ParameterError(
                "readings.every", str(self.every), "a timedelta from a minute to ten years"
            )
        validation.require_flag("readings.extrapolated", self.extrapolated)
        if validation.require_count("readings.cohorts", self.cohorts, 0, MOST_COHORTS) == 1:
            raise ParameterError("readings.cohorts", 1, f"0, or 2 to {MOST_COHORTS}")

    def __str__(self) -> str:
        moved = say("readings.moved") if self.extrapolated else ""
        return say("readings", days=days_in(self.every), moved=moved)

    @property
    def telling(self) -> str:
        """The sentence that tells people their device reveals its part of an epoch."""
        days, others = days_in(self.every), digits(self.cohorts - 1)
        return say("readings.cohorts", days=days, cohorts=digits(self.cohorts), others=others)

    def cohort(self, begins: datetime) -> int:
        """Return the part in which an epoch began, from 0; 0 without cohorts.

        Parts count from 1970 for all campaigns, so two campaigns with the same number of parts, or
        a divisor of it, learn no more than one does.
        """
        return self.cohorts * ((begins - ORIGIN) % self.every) // self.every

    def most(self, length: timedelta) -> int:
        """Return the largest number of epochs that a stretch of time touches."""
        return 1 - (-length // self.every)


def moved_on(latest: int, before: int, age: timedelta, gap: timedelta) -> int:
    """Return latest + (age/gap)(latest − before), rounded, ties up; exactly, within 64 bits.

    `age` is the last reading's, clipped to [0, gap]; `gap` > 0 is the time between the readings.

    Example:
        >>> moved_on(10, 4, timedelta(days=1), timedelta(days=2))
        13
    """
    share = min(max(Fraction(age // _MICROSECOND, gap // _MICROSECOND), Fraction(0)), Fraction(1))
    moved = latest + int((share * (latest - before) * 2 + 1) // 2)
    return min(max(moved, INT64_MIN), INT64_MAX)


_MICROSECOND = timedelta(microseconds=1)
ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)
"""The time from which the parts of epochs are counted."""
