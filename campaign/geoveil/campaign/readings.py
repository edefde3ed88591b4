"""Readings: values that are read, and perturbed, once in a stretch of time [MATH §13]."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from geoveil.campaign.saying import days_in
from geoveil.campaign.words import digits, say
from geoveil.gp import INT64_MAX, INT64_MIN, ParameterError, validation

MOST_COHORTS = 16
"""The most parts of an epoch: doubling the parts halves the anonymity of a device."""
_SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=3660)
"""The longest epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Makes a device read its value once an epoch and answer from that reading.

    All reports of an epoch are made from one perturbed point, whose cost is charged once. Each
    device draws when its first epoch begins; the others follow without a gap.

    Raises:
        ParameterError: if the length is not from a minute to ten years, or cohorts not 0 or 2 to
            16.

    Example:
        >>> print(Readings(every=timedelta(days=91), extrapolated=True))
        Your value is read and perturbed once in each stretch of 91 days, when your device first\
 answers in it; all reports of the stretch are made from that, and go on as two readings did. Your\
 device draws when its stretches begin: any 91 days touch two of them.
    """

    every: timedelta
    """The length of an epoch."""
    extrapolated: bool = False
    """Whether an answer extrapolates two readings, at most as long as lay between them: right for
    means that drift, at up to five times the variance of the noise (8/3 on average). A device
    without two such readings answers only when it reads: most do not in the first two epochs."""
    cohorts: int = 0
    """2 to 16: a device reports the part of an epoch, out of this many, in which its own begin; 0:
    none."""

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
        """The sentence for people whose device reveals its part of an epoch."""
        days, others = days_in(self.every), digits(self.cohorts - 1)
        return say("readings.cohorts", days=days, cohorts=digits(self.cohorts), others=others)

    def cohort(self, begins: datetime) -> int:
        """Return the part in which an epoch began, from 0; 0 without cohorts.

        Parts count from 1970 on for all campaigns, so two with the same number, or a divisor, learn
        no more than one.
        """
        return self.cohorts * ((begins - ORIGIN) % self.every) // self.every

    def most(self, length: timedelta) -> int:
        """Return the largest number of epochs that a stretch of time touches."""
        return 1 - (-length // self.every)


def moved_on(latest: int, before: int, age: timedelta, gap: timedelta) -> int:
    """Return latest + (age/gap)(latest − before), rounded, ties up; exactly, within 64 bits.

    `age` is that of the last reading, clipped to [0, gap]; `gap` > 0 lies between the two readings.

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
