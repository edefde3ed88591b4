"""What is known of reports and of their mean before any report comes in [MATH §8]."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from geoveil.gp.errors import ParameterError
from geoveil.gp.report_moments import ReportMoments
from geoveil.gp.reprs import ReprByArguments

_STRAYS = 5
"""Distance of a person, in ranges of means, from which on noise may move a mean both ways."""

FindsMoments = Callable[[], ReportMoments | None]
"""A function that computes a report's moments in milliseconds; it returns None if unknown."""


def _unknown() -> None:
    """Return None for unknown moments of a report."""


@dataclass(frozen=True, slots=True, repr=False)
class Limits(ReprByArguments):
    """Bounds of reports to a query, and of their expected mean, in the unit of the query."""

    reports: tuple[float, float] = (-math.inf, math.inf)
    """The least and the greatest report; infinite if the noise has no bound."""
    means: tuple[float, float] = (-math.inf, math.inf)
    """The least and the greatest mean of the query over any people."""

    moments: FindsMoments = field(default=_unknown, compare=False)
    """The law of the mechanism, used only for few reports."""
    imagined: tuple[float, float] | None = None
    """The ends of reports of a person outside the sample if no law is known. None: `unseen`."""
    possible: tuple[float, float] | None = None
    """The least and the greatest estimated mean, where `means` of reports are wider: answers that
    are extrapolated in time. None: `means`."""

    def __post_init__(self) -> None:
        for name, (low, high) in (("reports", self.reports), ("means", self.means)):
            if not low < high:
                raise ParameterError(name, (low, high), "(low, high) with low < high")

    def _arguments(self) -> Mapping[str, object]:
        return {"reports": self.reports, "means": self.means}

    @property
    def estimates(self) -> tuple[float, float]:
        """The least and the greatest possible estimate of the mean."""
        return self.possible or self.means

    @property
    def bounded(self) -> bool:
        """Whether reports are bounded on both sides."""
        return all(map(math.isfinite, self.reports))

    @property
    def unseen(self) -> tuple[float, float]:
        """The reports imagined of a person outside the sample, by default halfway between ends.

        If noise is unbounded, they are the ends of means: most of the third moment is noise.
        """
        if self.imagined is not None:
            return self.imagined
        if not self.bounded or not all(map(math.isfinite, self.means)):
            return self.reports if self.bounded else self.means
        (low, high), (least, greatest) = self.reports, self.means
        return (low + least) / 2, (high + greatest) / 2

    def jumps(self, mean: float) -> tuple[float, float]:
        """Return the largest distances of a person outside the sample, below and above the mean.

        The law of the mechanism gives them (`ReportMoments.jumps`), or else `unseen`.
        """
        moments = self.moments()
        if moments is not None and self.bounded:
            low, high = moments.jumps(mean)
            farthest = max(-low, high)
            # Noise that strays so far may stray as far the other way, which skewness does not show.
            if farthest > _STRAYS * (self.means[1] - self.means[0]):
                return farthest, farthest
            return max(-low, 0.0), max(high, 0.0)
        low, high = self.unseen
        if not math.isfinite(high - low):
            return math.inf, math.inf
        return max(mean - low, 0.0), max(high - mean, 0.0)

    def third_moments(self, mean: float, variance: float) -> tuple[float, float]:
        """Return bounds of the third central moment, by the ends of reports and any law."""
        moments = self.moments()
        if moments is not None and not self.bounded:
            low, high = (variance * jump for jump in moments.jumps(mean))
            if low > 0 or high < 0:  # nobody has this mean, and facets say nothing beyond people
                moments = None
        else:
            low, high = self._within_ends(mean, variance)
        if moments is not None and low < high:
            least, greatest = moments.third(mean, variance)
            low, high = min(max(least, low), high), max(min(greatest, high), low)
        return low, high

    def _within_ends(self, mean: float, variance: float) -> tuple[float, float]:
        """Return bounds of the third central moment from the ends of reports."""
        low, high = self.reports if self.bounded else self.unseen
        if not -math.inf < low < mean < high < math.inf:
            return 0.0, 0.0
        below, above = mean - low, high - mean
        if not self.bounded:  # symmetric noise may be any part of the variance
            least, most = (min(variance, below * above, d * d / 2) for d in (below, above))
            return -greatest_third_moment(least, below), greatest_third_moment(most, above)
        low, high = -greatest_third_moment(variance, below), greatest_third_moment(variance, above)
        middle = (low + high) / 2  # of both, where rounding exchanges them
        return min(low, middle), max(high, middle)


def greatest_third_moment(variance: float, distance: float) -> float:
    """Return the greatest third moment of a law with an end at a distance from its mean."""
    return variance * (distance - variance / distance)


UNLIMITED = Limits()
"""Infinite limits, for unknown reports."""
