"""An interval for the mean of heavy-tailed reports that needs no variance.

The mean of each block of reports is as likely above as below the true mean: exactly for symmetric
reports, otherwise up to their skewness, whose effect shrinks faster with a block's size than the
interval does. So the number of blocks below is Binomial(K, ½), and two ordered block means enclose
the true mean with a known probability: the sign test's interval (Hettmansperger and McKean, Robust
Nonparametric Statistical Methods, §1.3) for the median of means (Nemirovski and Yudin 1983).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, ldexp

from geoveil.gp import Accumulator, validation


@dataclass(frozen=True, slots=True)
class MedianOfMeans:
    """The median of the blocks' means, and its interval."""

    value: float
    ci_low: float
    ci_high: float
    blocks: int
    """The number of blocks with reports."""


def median_of_means(
    blocks: Sequence[Accumulator], step_exponent: int, confidence: float = 0.95
) -> MedianOfMeans | None:
    """Return the median of means and its interval; None with too few answers.

    Skewness moves the median of a block mean by at most about skewness·K/(6√n) of the total's
    standard error, so n ≥ K² is required, and as many blocks as the confidence needs. `blocks` are
    exact sums of disjoint blocks, chosen independently of their values.

    Raises:
        ParameterError: if `confidence` is not in (0, 1).

    Example:
        >>> blocks = [Accumulator.of([i] * 20) for i in range(1, 17)]
        >>> median_of_means(blocks, 0, 0.9)
        MedianOfMeans(value=8.5, ci_low=5.0, ci_high=12.0, blocks=16)
    """
    confidence = validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    means = sorted(Fraction(block.total, block.n) for block in blocks if block.n)
    count = len(means)
    rank = _rank(count, confidence)
    if rank < 1 or sum(block.n for block in blocks) < len(blocks) ** 2:
        return None
    step = ldexp(1.0, step_exponent)
    middle = (means[(count - 1) // 2] + means[count // 2]) / 2
    return MedianOfMeans(
        value=float(middle) * step,
        ci_low=float(means[rank - 1]) * step,
        ci_high=float(means[count - rank]) * step,
        blocks=count,
    )


def _rank(count: int, confidence: float) -> int:
    """Return the greatest r with 2·P[Binomial(count, ½) < r] ≤ 1 − confidence, or 0."""
    allowed = (1 - Fraction(confidence)) / 2 * 2**count
    below = rank = 0
    while rank < count // 2 and below + comb(count, rank) <= allowed:
        below += comb(count, rank)
        rank += 1
    return rank
