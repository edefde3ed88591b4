"""Confidence intervals of a mean that do not collapse where few reports differ [MATH §8].

Where hardly anybody is near a question, nearly all reports are equal: their standard error is next
to 0, and says nothing of the few who were not met. A report lies between two public ends, so that
one may imagine one more report at each end: the upper limit is that of the n reports and one at the
upper end, the lower limit likewise. For reports of 0 and 1 it is Clopper and Pearson's interval; in
general it is the Dirichlet-weighted mean of Learned-Miller and Thomas (2019), whose quantile is
here that of a gamma law with the largest third moment that the ends permit.

How much an end matters is measured by r = (end − mean)/(s√n): the skewness of a mean is at most r,
as a central third moment is at most (end − mean)·s². The sharper interval imagines the report
nearer (`Limits.ends`), and gives it the weight that r calls for, from 0 to 1: where both weights
are 0 it is Student's.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from geoveil.gp.errors import ParameterError
from geoveil.gp.shown import ReprByArguments, member

__all__ = ["UNLIMITED", "Interval", "IntervalMethod", "Limits", "interval_of_mean"]

_LIGHT, _FULL = 0.1, 0.4
"""r up to which the imagined report has no weight, and from which on it has all of it."""
_NEARLY_NORMAL = 1e-6
"""Skewness below which a gamma quantile is computed as a normal one."""


class IntervalMethod(StrEnum):
    """How an interval was found."""

    __repr__ = member

    WEIGHTED_ENDS = "weighted-ends"
    """Student's interval, widened by imagined reports with the weight that n and s call for."""
    FULL_ENDS = "full-ends"
    """One imagined report at each end, always with the weight of a report."""
    STUDENT = "student"
    """Student's interval: for reports without ends."""

    @property
    def promise(self) -> str:
        """What the interval holds, as a sentence without its full stop."""
        return _PROMISES[self]


_PROMISES = {
    IntervalMethod.WEIGHTED_ENDS: "covers at its confidence, within half a point at 95 % and a"
    " third of one at 99 %, in every population tried, however few are near the question",
    IntervalMethod.FULL_ENDS: "covers at its confidence or more in every population tried, at any"
    " number of reports, and is wider than it need be",
    IntervalMethod.STUDENT: "covers at its confidence once there are so many reports that their"
    " mean is nearly normal",
}


@dataclass(frozen=True, slots=True, repr=False)
class Limits(ReprByArguments):
    """What reports to a query, and their expected mean, can be, in the unit of the query."""

    reports: tuple[float, float] = (-math.inf, math.inf)
    """The least and the greatest report; infinite if the noise has no bound."""
    means: tuple[float, float] = (-math.inf, math.inf)
    """The least and the greatest mean of the query over any people."""

    def __post_init__(self) -> None:
        for name, (low, high) in (("reports", self.reports), ("means", self.means)):
            if not low < high:
                raise ParameterError(name, (low, high), "(low, high) with low < high")

    @property
    def bounded(self) -> bool:
        """Whether reports have two ends."""
        return all(map(math.isfinite, self.reports))

    @property
    def ends(self) -> tuple[float, float] | None:
        """Where reports of some weight are imagined; None: nowhere, as nothing is known.

        Halfway between what a mean and what a report can be: a person whom nobody met has a mean,
        and noise, of which the reports at hand say much. If noise has no bound, at the former.
        """
        known = [ends for ends in (self.reports, self.means) if all(map(math.isfinite, ends))]
        if not known:
            return None
        low, high = zip(*known, strict=True)
        return sum(low) / len(known), sum(high) / len(known)


UNLIMITED = Limits()
"""The ends of reports of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval for a mean."""

    low: float
    high: float
    method: IntervalMethod


def interval_of_mean(
    n: float,
    mean: float,
    variance: float,
    confidence: float,
    limits: Limits = UNLIMITED,
    method: IntervalMethod | None = None,
) -> Interval:
    """Return the interval for the expected mean of independent reports.

    What no mean can be is cut off, unless the whole interval lies there.

    Args:
        n: reports, ≥ 2; a plan expects a number that need not be whole.
        mean: of the reports.
        variance: mean square of their deviations from it, the sum divided by n.
        confidence: in (0, 1).
        limits: of the query.
        method: None: weighted ends where there are ends, else Student's.

    Raises:
        ParameterError: if the method needs bounded reports, and these are not.

    Example:
        >>> nobody = interval_of_mean(1_000, 0.0, 0.0, 0.95, Limits((0.0, 1.0), (0.0, 1.0)))
        >>> nobody.low, round(nobody.high, 5)  # Clopper and Pearson: 0.00368
        (0.0, 0.00367)
    """
    ends = limits.ends
    if method is None:
        method = IntervalMethod.STUDENT if ends is None else IntervalMethod.WEIGHTED_ENDS
    full = method is IntervalMethod.FULL_ENDS
    if full and not limits.bounded:
        raise ParameterError("method", method.value, "one for noise without bound")
    if full:
        ends = limits.reports
    elif method is IntervalMethod.STUDENT or ends is None:
        ends = -math.inf, math.inf
    quantile = _student_quantile(math.inf if full else n - 1, (1 + confidence) / 2)
    below, above = (
        _margin(n, variance, max(distance, 0.0), quantile, full)
        for distance in (mean - ends[0], ends[1] - mean)
    )
    low, high = mean - below, mean + above
    least, greatest = limits.means
    if low < greatest and high > least:
        low, high = max(low, least), min(high, greatest)
    return Interval(low, high, method)


def _margin(n: float, variance: float, distance: float, quantile: float, full: bool) -> float:
    """Return how far a limit is from the mean, with a report imagined at a distance from it."""
    weight = 1.0 if full else _weight(n, variance, distance)
    if weight == 0:
        return quantile * math.sqrt(variance / (n - 1))
    total = n + weight
    shift = weight * distance / total
    spread = max((n * variance + weight * distance**2) / total - shift**2, 0.0)
    if spread == 0:
        return 0.0
    # The variance of a mean with Dirichlet weights at weight 1, of Student's at weight 0.
    error = math.sqrt(spread / (total + 2 * weight - 1))
    left = distance - shift
    third = spread * max(left - spread / left, 0.0)
    skewness = 2 * weight * third / ((total + 1) * (total + 2)) / error**3
    return min(shift + _gamma_quantile(skewness, quantile) * error, distance)


def _weight(n: float, variance: float, distance: float) -> float:
    """Return the weight of a report that is imagined at a distance from the mean."""
    if math.isinf(distance):
        return 0.0
    if variance == 0:
        return 1.0
    r = distance / math.sqrt(variance * n)
    return min(max((r - _LIGHT) / (_FULL - _LIGHT), 0.0), 1.0)


def _gamma_quantile(skewness: float, normal: float) -> float:
    """Return the quantile of a gamma law of mean 0 and variance 1, after Wilson and Hilferty.

    Args:
        skewness: ≥ 0.
        normal: the quantile that a normal law has.
    """
    if skewness < _NEARLY_NORMAL:
        return normal
    return 2 / skewness * ((1 + skewness * normal / 6 - skewness**2 / 36) ** 3 - 1)


def _student_quantile(freedom: float, probability: float) -> float:
    from scipy.special import ndtri, stdtrit

    return float(ndtri(probability) if freedom == math.inf else stdtrit(freedom, probability))
