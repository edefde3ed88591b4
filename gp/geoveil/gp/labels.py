"""Randomised labels: which group somebody is in, told with a lie at times [MATH §6].

k-ary randomised response (Warner's, of k labels): the truth with a probability e^ε times that of
each other label. Means within groups are then found by undoing it: with p the probability of the
truth and q that of each other label, a report that came with label r counts (1{r = s} − q)/(p − q)
towards group s, in the mean 1 if its sender is in s, and else 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ldexp

from geoveil.gp import validation
from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.estimation import Accumulator, Estimate
from geoveil.gp.exact import BALL, lower, working_precision
from geoveil.gp.intervals import IntervalMethod, Limits
from geoveil.gp.privacy import LocalPrivacy
from geoveil.gp.randomness import RandomSource

__all__ = ["MOST_EPSILON", "GroupMeans", "RandomizedLabels"]

MOST_EPSILON = 16.0
"""Beyond, one in a million lies: whoever wants less should be told that there is no protection."""
_ONE = 1 << 32
"""The weight of each label that is a lie."""
_BITS = 128


@dataclass(frozen=True, slots=True)
class GroupMeans:
    """What reports with labels say of the mean within each group."""

    values: Array
    """(groups,); NaN where the size of a group can't be told from 0."""
    covariance: Array
    """(groups, groups), linearised; NaN likewise."""
    low: Array
    """The lower ends of Fieller's intervals, (groups,); NaN likewise."""
    high: Array


@dataclass(frozen=True, slots=True)
class RandomizedLabels:
    """ε-local differential privacy for one of k labels: any two are ε-distinguishable.

    Proof: a label is drawn among T + (k − 1)·2³² integers, uniformly, T = ⌊e^ε·2³²⌋ of which tell
    the truth and 2³² each other label. The probabilities of one output under two truths are equal,
    or have the ratio T/2³² ≤ e^ε, exactly.

    Args:
        labels: how many, 2 or more.
        epsilon: nats, in (0, 16].

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> lies = RandomizedLabels(4, 1.0)
        >>> round(float(lies.truth), 4), str(lies.privacy)
        (0.4754, 'ε = 1 between any two values')
    """

    labels: int
    epsilon: float

    def __post_init__(self) -> None:
        validation.require_count("labels", self.labels, 2)
        validation.between("epsilon", self.epsilon, 0, MOST_EPSILON, low_open=True)

    @property
    def privacy(self) -> LocalPrivacy:
        """What one label spends."""
        return LocalPrivacy(self.epsilon)

    @property
    def weight(self) -> int:
        """T: in how many of the integers the truth is told."""
        return _weight(self.epsilon)

    @property
    def truth(self) -> Fraction:
        """The probability p of the truth."""
        weight = self.weight
        return Fraction(weight, weight + (self.labels - 1) * _ONE)

    @property
    def towards(self) -> Array:
        """What a report that came with a label counts towards each group, [group, label].

        1 in the mean if its sender is in the group, else 0.
        """
        p = float(self.truth)
        q = (1 - p) / (self.labels - 1)
        return np.asarray((np.eye(self.labels) - q) / (p - q))

    def draw(self, label: int, source: RandomSource) -> int:
        """Return the label that is sent.

        Args:
            label: the true one, from 0. Private.
            source: random bits.
        """
        weight = self.weight
        drawn = source.below(weight + (self.labels - 1) * _ONE) - weight
        if drawn < 0:
            return label
        other = drawn // _ONE
        return other + (other >= label)

    def means(
        self,
        sums: Sequence[Accumulator],
        step_exponent: int,
        confidence: float,
        limits: Limits,
        moved: Array | None = None,
    ) -> GroupMeans:
        """Return the means within groups, from the sums of the reports that came with each label.

        A mean is the quotient of two unbiased estimates, of a sum and of a number of people; it is
        biased by terms of the order of 1/n.

        Args:
            sums: of the reports of each label, in order; in units of the grid.
            step_exponent: of the grid.
            confidence: of the intervals, in (0, 1).
            limits: what means can be.
            moved: how far false reports can move the sum of each group's people, (groups,), with
                which its interval is to hold.
        """
        from scipy.special import ndtri

        if len(sums) != self.labels:
            raise ParameterError("sums", len(sums), f"{self.labels}: one for each label")
        n = sum(of_label.n for of_label in sums)
        step, k = ldexp(1.0, step_exponent), self.labels
        values, low, high = (np.full(k, math.nan) for _ in range(3))
        covariance = np.full((k, k), math.nan)
        if n < 2:
            return GroupMeans(values, covariance, low, high)
        # About the mean of all, exactly: nothing is lost where the mean is far from 0.
        centre = sum(of_label.total for of_label in sums) // n
        counts = np.array([float(s.n) for s in sums])
        totals = np.array([float(s.total - centre * s.n) for s in sums]) * step
        squares = step**2 * np.array(
            [float(s.total_of_squares - 2 * centre * s.total + centre * centre * s.n) for s in sums]
        )
        shares = self.towards
        people, sum_ = shares @ counts, shares @ totals
        quantile = float(ndtri((1 + confidence) / 2))
        # |S − mN| ≤ z·√Var(S − mN), a quadratic inequality in m, Fieller's.
        more, z2 = n / (n - 1), quantile**2
        of_people = more * ((shares**2) @ counts - people**2 / n)
        of_both = more * ((shares**2) @ totals - people * sum_ / n)
        of_sums = more * ((shares**2) @ squares - sum_**2 / n)
        lead = people**2 - z2 * of_people
        off = np.zeros(k) if moved is None else np.asarray(moved)

        def end(sign: int) -> Array:
            """Return the lower (−1) or the upper end: that of the sum moved that way."""
            shifted = (sum_ + sign * off)[learnt]
            middle = people[learnt] * shifted - z2 * of_both[learnt]
            rest = shifted**2 - z2 * of_sums[learnt]
            root = np.sqrt(np.maximum(middle**2 - lead[learnt] * rest, 0.0))
            return np.asarray((middle + sign * root) / lead[learnt] + offset)

        learnt = (people > 0) & (lead > 0)
        offset = centre * step
        means = sum_[learnt] / people[learnt]
        values[learnt] = means + offset
        low[learnt] = np.maximum(end(-1), limits.means[0])
        high[learnt] = np.minimum(end(1), limits.means[1])
        weights = shares[learnt] / people[learnt][:, None]
        products = (
            squares
            - (means[:, None, None] + means[None, :, None]) * totals
            + means[:, None, None] * means[None, :, None] * counts
        )
        covariance[np.ix_(learnt, learnt)] = more * np.einsum(
            "sr,tr,str->st", weights, weights, products
        )
        return GroupMeans(values, covariance, low, high)

    def estimates(
        self, sums: Sequence[Accumulator], step_exponent: int, confidence: float, limits: Limits
    ) -> list[Estimate]:
        """Return what `means` does, one by one; None for what can't be told."""
        means = self.means(sums, step_exponent, confidence, limits)
        return [
            Estimate(s.n, None, None, confidence, None, None, None)
            if math.isnan(value)
            else Estimate(
                s.n, value, math.sqrt(max(variance, 0.0)), confidence, low, high, _FIELLER
            )
            for s, value, variance, low, high in zip(
                sums,
                means.values.tolist(),
                np.diag(means.covariance).tolist(),
                means.low.tolist(),
                means.high.tolist(),
                strict=True,
            )
        ]


@lru_cache
def _weight(epsilon: float) -> int:
    with working_precision(_BITS):
        weight = lower(BALL.constant(epsilon).exp() * BALL.constant(_ONE))
    return math.floor(weight)


_FIELLER = IntervalMethod.STUDENT
"""Fieller's interval holds once a mean is nearly normal, as Student's does."""
