"""Hard questions behind soft ones: their difference, and intervals of hard shares [MATH §8].

A soft share is unbiased for itself, but differs from the hard share because of people within the
band. Knowledge about them tells how far: exactly for point masses, such as round incomes; and for
a density, within limits given by a bound on its slope. An interval for the hard share is then long
enough to cover whatever remains unknown [AK20].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from geoveil.analyst.simultaneous import critical_value_of_one
from geoveil.campaign import Difference
from geoveil.gp import (
    ParameterError,
    Query,
    Range,
    SoftIndicator,
    Threshold,
    UnsupportedError,
    kept_within,
    validation,
)

_HALVINGS = 60
_CELLS = 1 << 13
_ROUND_UP = 1 + 1e-5
"""Factor above the error of the trapezoidal rule on that many cells."""


@dataclass(frozen=True, slots=True)
class Heap:
    """People who hold exactly one value.

    Args:
        share: of all people, in [0, 1].
    """

    at: float
    share: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", validation.real("at", self.at))
        object.__setattr__(self, "share", validation.between("share", self.share, 0, 1))

    @classmethod
    def parse(cls, text: str) -> "Heap":
        """Return the heap that a text VALUE=SHARE describes.

        Example:
            >>> Heap.parse("100000=0.0105")
            Heap(at=100000.0, share=0.0105)
        """
        value, _, share = text.partition("=")
        try:
            return cls(float(value), float(share))
        except ValueError:
            raise ParameterError("heap", text, "VALUE=SHARE, for example 100000=0.0105") from None


def difference(query: Query, slope: float, heaps: Sequence[Heap] = ()) -> Difference:
    """Return the difference of soft and hard share, as far as the assumptions determine it.

    Args:
        query: a `Threshold`, for the share above it, or a `Range`, for the share above its low end
            and up to its high one.
        slope: the density of people outside the heaps changes by at most this near a threshold, in
            shares per (unit of the values)²: from a prior, a pilot, or a conservative guess.
        heaps: point masses. An unstated one is not counted, but outweighs any slope if it is next
            to the threshold.

    Raises:
        UnsupportedError: if the query is of another shape.

    Example:
        >>> soft = Threshold(at=100_000, width=40_000, profile="smoothstep")
        >>> found = difference(soft, slope=1e-11, heaps=(Heap(100_000, 0.0105),))
        >>> round(found.expected, 5), round(found.bound, 5)
        (0.00525, 0.0004)
    """
    if isinstance(query, Threshold):
        low, high, bands = query.at, math.inf, 1
    elif isinstance(query, Range):
        low, high, bands = query.low, query.high, 2
    else:
        raise UnsupportedError(f"the hard question behind {query!r} is not bounded: ask a prior")
    expected = 0.0
    for heap in heaps:
        expected += heap.share * (float(query.value(heap.at)) - (low < heap.at <= high))
    return Difference(expected, bands * slope * _leverage(query))


@dataclass(frozen=True, slots=True)
class HardShare:
    """The estimate of a hard share."""

    value: float
    """The estimate of the soft share minus the expected difference, clamped to the interval."""
    ci_low: float
    """Lower end of an interval that allows for the unknown difference, in [0, 1]."""
    ci_high: float
    """Its upper end."""


def hard_share(
    value: float, ci_low: float, ci_high: float, softness: Difference, confidence: float = 0.95
) -> HardShare:
    """Return the estimate of a hard share with a bias-aware interval.

    With B the bound and s the standard error, the interval reaches cv(B/s)·s to either side, cv(t)
    the quantile of |N(t, 1)|: it covers the hard share with the confidence for every difference
    within the bound, if that of the soft share does and is normal [AK20]. The
    s of either side is that by which the soft interval reaches there.

    Args:
        value: the estimate of the soft share.
        softness: soft minus hard share.
        confidence: of both intervals, in (0, 1).

    Example:
        >>> found = hard_share(0.4918, 0.4879, 0.4957, Difference(0.005, 0.001))
        >>> round(found.value, 4), round(found.ci_low, 4), round(found.ci_high, 4)
        (0.4868, 0.4825, 0.4911)
    """
    quantile = critical_value_of_one(confidence)
    ends = []
    for side, end in ((-1.0, ci_low), (1.0, ci_high)):
        # An end may have been clipped to the range of a share.
        error = max(side * (end - value), 0.0) / quantile
        further = reach(error, softness.bound, confidence) - quantile * error
        ends.append(end + side * further - softness.expected)
    low, high = kept_within(ends[0], ends[1], (0.0, 1.0))
    return HardShare(min(max(value - softness.expected, low), high), low, high)


def reach(error: float, bound: float, confidence: float = 0.95) -> float:
    """Return the half-width of a bias-aware interval, cv(B/s)·s [AK20].

    Args:
        error: the standard error s ≥ 0; ∞ if there is none.
        bound: of the bias, B ≥ 0.

    Example:
        >>> round(reach(0.002, 0.001), 5), reach(0.0, 0.001)
        (0.00436, 0.001)
    """
    if not 0 < error < math.inf:
        return max(error, bound)
    return critical_value(bound / error, confidence) * error


def critical_value(ratio: float, confidence: float = 0.95) -> float:
    """Return the quantile of |N(t, 1)|, the half-width of an interval in standard errors.

    Args:
        ratio: t ≥ 0, the largest bias in standard errors.

    Example:
        >>> [round(critical_value(t), 3) for t in (0.0, 0.5, 1.0, 3.0)]
        [1.96, 2.181, 2.646, 4.645]
    """
    t = validation.non_negative("ratio", ratio)
    confidence = validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    normal = NormalDist()
    low, high = 0.0, t + normal.inv_cdf((1 + confidence) / 2)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        covered = normal.cdf(middle - t) - normal.cdf(-middle - t)
        low, high = (middle, high) if covered < confidence else (low, middle)
    return high


def _leverage(query: SoftIndicator) -> float:
    """Return the largest difference per slope of the density of people near one threshold.

    It is 2∫sφ(−s) over the distances s at which the band reaches beyond the threshold.
    """
    s = np.linspace(0.0, query.width / 2, _CELLS + 1)
    return 2 * float((s * query.profile.value(-s)).sum() * s[1]) * _ROUND_UP
