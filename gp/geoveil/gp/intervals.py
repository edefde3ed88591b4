"""Confidence intervals of a mean that do not collapse if few reports differ [MATH §8].

Where nearly all reports are equal, their standard error says nothing about the few people not
sampled. A report lies between two public ends, so one more report is imagined at each end. For
reports of 0 and 1, that is Clopper and Pearson's interval; in general, it is the Dirichlet-weighted
mean of Learned-Miller and Thomas (2019), with the quantile of a gamma law.

The sharper interval is Student's, moved by the skewness of the mean (Hall 1992), which the law of
the mechanism bounds (`ReportMoments`). A report of up to half the weight is imagined only where a
person outside the sample would move the mean by a fifth of its standard error or more.
"""

import math
import sys
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from geoveil.gp.errors import ParameterError
from geoveil.gp.limits import UNLIMITED, Limits, greatest_third_moment
from geoveil.gp.reprs import enum_repr

_LIGHT, _FULL = 0.2, 0.5
"""Effects of one person on the mean in standard errors: up to the first no report is imagined, from
the second on one of weight `_HALF`."""
_BOTH = 0.1
"""Such effects both ways, beyond which skewness, which follows the mean, shortens no margin."""
_HALF = 0.5
_OUTWEIGHS = 2
"""Distance of a person, in ranges of means, beyond which no margin is below Student's, because
rare noise has uncertain skewness."""
_SHARPEST_AT = 2_000
"""Reports at which `SEQUENCE` is sharpest, 1.55 times as wide as an interval of one look at 95 %: a
number that must not depend on the reports."""
_TOLERATED = 1.5
"""Factor by which an unknown skewness may raise the probability of missing a limit."""
_MANY = 400.0
"""The least degrees of freedom, over 1 + z², for which a quantile needs no SciPy."""
_NEARLY_NORMAL = 1e-5
"""Skewness below which the normal quantile replaces a gamma quantile."""


class IntervalMethod(StrEnum):
    """How an interval was computed."""

    __repr__ = enum_repr

    WEIGHTED_ENDS = "weighted-ends"
    """Student's, moved by the skewness, and widened if one person outside the sample could move it
    far."""
    FULL_ENDS = "full-ends"
    """One imagined report at each end, always with the weight of a report."""
    STUDENT = "student"
    """Student's interval, for reports without ends."""
    SEQUENCE = "sequence"
    """Holds at all looks while reports come in, with people imagined at each end."""

    @property
    def promise(self) -> str:
        """The promise of the interval, as a sentence without its full stop."""
        return _PROMISES[self]


_PROMISES = {
    IntervalMethod.WEIGHTED_ENDS: "missed its target at most a third more often than 95 %"
    " confidence says, and 1.7 times as often as 99 % does, in every population tried, however few"
    " are near the question",
    IntervalMethod.FULL_ENDS: "missed its target at most a tenth more often than its confidence"
    " says in every population tried, and is wider than it need be",
    IntervalMethod.STUDENT: "covers at its confidence once there are so many reports that their"
    " mean is nearly normal",
    IntervalMethod.SEQUENCE: "holds at its confidence at all looks at once, from 100 reports on,"
    " however often anybody looks, if the order of reports does not depend on their values",
}


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

    The interval is clipped to possible means: see `kept_within`.

    Args:
        n: reports, ≥ 2; a plan expects a number that need not be whole.
        variance: mean square of their deviations from it, the sum divided by n.
        method: None: weighted ends where there are ends, else Student's.

    Raises:
        ParameterError: if the method needs bounded reports, and these are not.

    Example:
        >>> nobody = interval_of_mean(1_000, 0.0, 0.0, 0.95, Limits((0.0, 1.0), (0.0, 1.0)))
        >>> nobody.low, round(nobody.high, 5)  # Clopper and Pearson: 0.00368
        (0.0, 0.00367)
    """
    method = _method(limits) if method is None else method
    below, above = margins_of_mean(n, mean, variance, confidence, limits, method)
    return Interval(*kept_within(mean - below, mean + above, limits.estimates), method)


def margins_of_mean(
    n: float,
    mean: float,
    variance: float,
    confidence: float,
    limits: Limits = UNLIMITED,
    method: IntervalMethod | None = None,
) -> tuple[float, float]:
    """Return the lower and upper margins of `interval_of_mean`, before clipping.

    Sums and differences of means use this: noise can move an estimate of a share beyond [0, 1].
    """
    method = _method(limits) if method is None else method
    return _MARGINS[method](n, mean, variance, (1 + confidence) / 2, limits)


def _method(limits: Limits) -> IntervalMethod:
    bounded = limits.bounded or all(map(math.isfinite, limits.means))
    return IntervalMethod.WEIGHTED_ENDS if bounded else IntervalMethod.STUDENT


def interval_of_weighted_mean(
    mean: float,
    squared_error: float,
    confidence: float,
    limits: Limits = UNLIMITED,
    *,
    largest: float,
    skewness: float,
    freedom: float,
) -> Interval:
    """Return the interval for the mean of reports with unequal weights.

    A person outside the sample is imagined with the largest weight, where that moves the mean far.
    Reports without ends have Student's interval, which is the whole line if they are all equal.

    Args:
        largest: the largest weight of one report, as a fraction of the total, in (0, 1].
        skewness: skewness of the mean, from the cubes of each report's contribution to its error.
        freedom: degrees of freedom, Kish's number of reports that all count the same, less 1.

    Example:
        >>> shares = Limits((0.0, 1.0), (0.0, 1.0))
        >>> equal = {"largest": 0.001, "skewness": 0.0, "freedom": 999}
        >>> round(interval_of_weighted_mean(0.0, 0.0, 0.95, shares, **equal).high, 5)
        0.00367
    """
    probability = (1 + confidence) / 2
    student, normal = _student_quantile(freedom, probability), _normal_quantile(probability)
    jumps = limits.jumps(mean)
    if not all(map(math.isfinite, jumps)):
        margin = student * math.sqrt(squared_error) if squared_error > 0 else math.inf
        ends = kept_within(mean - margin, mean + margin, limits.estimates)
        return Interval(*ends, IntervalMethod.STUDENT)
    alike = max(1 / largest, 2.0)
    variance = squared_error * (alike - 1)
    least = 0.0 if min(jumps) > _BOTH * math.sqrt(variance * alike) else -math.inf
    below, above = (
        _margin(alike, variance, max(towards, least), jump, student, normal)
        for towards, jump in zip((-skewness, skewness), jumps, strict=True)
    )
    ends = kept_within(mean - below, mean + above, limits.estimates)
    return Interval(*ends, IntervalMethod.WEIGHTED_ENDS)


def kept_within(low: float, high: float, ends: tuple[float, float]) -> tuple[float, float]:
    """Clip an interval to the possible values, between the two ends, or move it to the nearest one.

    The number in it that is nearest to an unbiased estimate is then the nearest possible one.

    Example:
        >>> kept_within(-0.5, 0.25, (0.0, 1.0)), kept_within(-0.75, -0.5, (0.0, 1.0))
        ((0.0, 0.25), (0.0, 0.25))
    """
    least, greatest = ends
    if high <= least:
        low, high = least, least + (high - low)
    elif low >= greatest:
        low, high = greatest - (high - low), greatest
    return max(low, least), min(high, greatest)


def _student(
    n: float, mean: float, variance: float, probability: float, limits: Limits
) -> tuple[float, float]:
    """Return the lower and upper margins of Student's interval."""
    margin = _student_quantile(n - 1, probability) * math.sqrt(variance / (n - 1))
    return margin, margin


def _full_ends(
    n: float, mean: float, variance: float, probability: float, limits: Limits
) -> tuple[float, float]:
    """Return the lower and upper margins with a whole report imagined at each end."""
    if not limits.bounded:
        raise ParameterError(
            "method", IntervalMethod.FULL_ENDS.value, "one for noise without bound"
        )
    normal = _normal_quantile(probability)

    def margin(distance: float) -> float:
        shift, error = _with_more(n, variance, distance, 1.0)
        if error**3 < sys.float_info.min:  # all reports are as good as equal
            return 0.0
        spread, third = error**2 * (n + 2), 0.0
        if distance:
            third = max(greatest_third_moment(spread, distance - shift), 0.0)
        skewness = 2 * third / ((n + 2) * (n + 3)) / error**3
        return min(shift + error * _gamma_quantile(skewness, normal), distance)

    low, high = limits.reports
    return margin(max(mean - low, 0.0)), margin(max(high - mean, 0.0))


def reach_at_all_looks(n: float, confidence: float) -> float:
    """Return the half-width of an interval for all looks at n reports, in standard errors.

    The asymptotic confidence sequence of a normal mixture [WASKR21].

    Example:
        >>> round(reach_at_all_looks(2_000, 0.95) / 1.96, 2)
        1.55
    """
    if confidence >= 1:
        return math.inf
    likely = -2 * math.log1p(-confidence)
    grown = max(n * (likely + math.log1p(likely)) / _SHARPEST_AT, sys.float_info.min)
    return math.sqrt((1 + 1 / grown) * (math.log1p(grown) + likely))


def _with_more(n: float, variance: float, distance: float, more: float) -> tuple[float, float]:
    """Return how far more reports at a distance move the mean, and the new standard error."""
    shift = more * distance / (n + more)
    spread = (n * variance + more * distance**2) / (n + more) - shift**2
    return shift, math.sqrt(spread / (n + more + 1))  # of a mean with Dirichlet weights


def _sequence(
    n: float, mean: float, variance: float, probability: float, limits: Limits
) -> tuple[float, float]:
    """Return the lower and upper margins that hold at all looks."""
    reach = reach_at_all_looks(n, 2 * probability - 1)
    farthest = max(mean - limits.reports[0], limits.reports[1] - mean)
    light = farthest <= _LIGHT / 2 * math.sqrt(variance * n)
    jumps = (0.0, 0.0) if light else limits.jumps(mean)  # which takes the law
    more = -math.log(max(2 - 2 * probability, sys.float_info.min)) / 2  # 1.5 people at 95 %
    below, above = (_with_more(n, variance, j if math.isfinite(j) else 0.0, more) for j in jumps)
    return below[0] + reach * below[1], above[0] + reach * above[1]


def _weighted_ends(
    n: float, mean: float, variance: float, probability: float, limits: Limits
) -> tuple[float, float]:
    """Return the lower and upper margins of the sharper interval."""
    student, normal = _student_quantile(n - 1, probability), _normal_quantile(probability)
    tolerated = _tolerated(normal)
    farthest = max(mean - limits.reports[0], limits.reports[1] - mean)
    if farthest <= min(tolerated, _LIGHT) * math.sqrt(variance * n):
        return _student(n, mean, variance, probability, limits)  # which takes no law
    jumps, (shortest, _) = limits.jumps(mean), _student(n, mean, variance, probability, limits)
    lower, upper = _skewness(n, mean, variance, tolerated, limits)
    if min(jumps) > _BOTH * math.sqrt(variance * n):
        lower, upper = min(lower, 0.0), max(upper, 0.0)
    below = _margin(n, variance, -lower, jumps[0], student, normal)
    above = _margin(n, variance, upper, jumps[1], student, normal)
    # The skewness follows the mean: with the true one at a limit it may be less.
    if lower > 0:
        there, _ = _skewness(n, mean - shortest, variance, tolerated, limits)
        if there < lower:
            below = max(below, _margin(n, variance, -max(there, 0.0), jumps[0], student, normal))
    if upper < 0:
        _, there = _skewness(n, mean + shortest, variance, tolerated, limits)
        if there > upper:
            above = max(above, _margin(n, variance, min(there, 0.0), jumps[1], student, normal))
    if max(jumps) > _OUTWEIGHS * (limits.means[1] - limits.means[0]):
        return max(below, shortest), max(above, shortest)
    return below, above


def _skewness(
    n: float, mean: float, variance: float, tolerated: float, limits: Limits
) -> tuple[float, float]:
    """Return the skewness of the mean that the lower and the upper limit take, by its bounds."""
    third = variance**1.5 * math.sqrt(n)
    if third <= sys.float_info.min:  # all reports are as good as equal
        return 0.0, 0.0
    least, greatest = (moment / third for moment in limits.third_moments(mean, variance))
    middle = (least + greatest) / 2
    return min(middle, least + tolerated), max(middle, greatest - tolerated)


_MARGINS = {
    IntervalMethod.WEIGHTED_ENDS: _weighted_ends,
    IntervalMethod.FULL_ENDS: _full_ends,
    IntervalMethod.STUDENT: _student,
    IntervalMethod.SEQUENCE: _sequence,
}


def _margin(
    n: float, variance: float, skewness: float, jump: float, student: float, normal: float
) -> float:
    """Return the distance of a limit from the mean.

    `skewness` is that of the mean, towards the limit; in this direction a person whom nobody met is
    at most `jump` away. As far as an imagined report counts, the quantile is normal
    instead of Student's.
    """
    share = _share(jump / math.sqrt(variance * n)) if variance > 0 else 1.0
    weight = _HALF * share if math.isfinite(jump) else 0.0
    total = n + weight
    shift = weight * jump / total if weight else 0.0
    spread = variance
    if weight:
        second = (n * variance + weight * jump**2) / total
        third = (n * skewness * variance**1.5 * math.sqrt(n) + weight * jump**3) / total
        spread = max(second - shift**2, 0.0)
        if spread**1.5 < sys.float_info.min:  # all reports are as good as equal
            return 0.0
        skewness = (third - 3 * shift * second + 2 * shift**3) / spread**1.5 / math.sqrt(total)
    quantile = student + share * (normal - student) if weight else student
    return shift + math.sqrt(spread / (total - 1)) * _moved_quantile(skewness, quantile)


def _share(jump: float) -> float:
    """Return the weight of one person, given the effect on the mean in standard errors."""
    return min(max((jump - _LIGHT) / (_FULL - _LIGHT), 0.0), 1.0)


def _tolerated(normal: float) -> float:
    """Return the error in the skewness with which a limit misses `_TOLERATED` times as often."""
    missed = 1 - _normal_probability(normal)
    moved = normal - _normal_quantile(1 - _TOLERATED * missed)
    return 6 * moved / (1 + 2 * normal**2)


def _moved_quantile(skewness: float, quantile: float) -> float:
    """Return a quantile of a studentised mean by Hall's correction, from a gamma law.

    To first order it is z + skewness·(1 + 2z²)/6, z that of the normal law: of a multiple of a
    count of 1/skewness² the limit by the mid-p value. Where one person matters, negative
    skewness, which brings the limit nearer, is largely ignored.
    """
    if skewness < 0:
        share = _share(-skewness)
        return -_count(-skewness * (1 - share), -quantile, _HALF * (1 - share))
    return _count(skewness, quantile, _HALF)


def _count(skewness: float, quantile: float, more: float) -> float:
    """Return the quantile of a gamma law of shape 1/skewness² + more, minus its first term."""
    if skewness < _NEARLY_NORMAL:
        return quantile
    count = 1 / skewness**2
    shape = count + more
    return skewness * (
        shape * max(1 - 1 / (9 * shape) + quantile / (3 * math.sqrt(shape)), 0.0) ** 3 - count
    )


def _gamma_quantile(skewness: float, normal: float) -> float:
    """Return the gamma law's quantile for a normal quantile, by Wilson and Hilferty."""
    if skewness < _NEARLY_NORMAL:
        return normal
    return 2 / skewness * ((1 + skewness * normal / 6 - skewness**2 / 36) ** 3 - 1)


def _student_quantile(freedom: float, probability: float) -> float:
    """Return a quantile of Student's law, by an expansion for many degrees of freedom.

    That expansion is 26.7.5 of [AS64], which is then exact to the last digits.
    """
    if freedom > _MANY and probability < 1:
        z = _normal_quantile(probability)
        s = z * z
        if freedom >= _MANY * (1 + s):
            orders = (
                (1 + s) / 4,
                (3 + s * (16 + 5 * s)) / 96,
                (-15 + s * (17 + s * (19 + 3 * s))) / 384,
                (-945 + s * (-1920 + s * (1482 + s * (776 + 79 * s)))) / 92_160,
            )
            return z + z * sum(order / freedom**k for k, order in enumerate(orders, 1))
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


_normal_quantile, _normal_probability = NormalDist().inv_cdf, NormalDist().cdf
