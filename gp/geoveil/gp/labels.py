"""Means within groups whose labels were sent through randomised response [MATH §6].

With p the probability of the truth and q that of each other label, a report that came with label r
counts (1{r = s} − q)/(p − q) towards group s, in the mean 1 if its sender is in s, and else 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ldexp

from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.estimation import Accumulator, Estimate
from geoveil.gp.intervals import IntervalMethod, Limits
from geoveil.gp.mechanisms.categories import ONE, KaryResponse

__all__ = ["GroupMeans", "RandomizedLabels"]


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


@dataclass(frozen=True)
class RandomizedLabels(KaryResponse):
    """k-ary randomised response, and what its reports say of the means within groups.

    Example:
        >>> lies = RandomizedLabels(4, 1.0)
        >>> round(float(lies.truth), 4), str(lies.privacy)
        (0.4754, 'ε = 1 between any two values')
    """

    @property
    def truth(self) -> Fraction:
        """The probability p of the truth."""
        return Fraction(self.weight, self.weight + (self.options - 1) * ONE)

    @property
    def towards(self) -> Array:
        """What a report that came with a label counts towards each group, [group, label].

        1 in the mean if its sender is in the group, else 0.
        """
        p = float(self.truth)
        q = (1 - p) / (self.options - 1)
        return np.asarray((np.eye(self.options) - q) / (p - q))

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

        if len(sums) != self.options:
            raise ParameterError("sums", len(sums), f"{self.options}: one for each label")
        n = sum(of_label.n for of_label in sums)
        step, k = ldexp(1.0, step_exponent), self.options
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


_FIELLER = IntervalMethod.STUDENT
"""Fieller's interval holds once a mean is nearly normal, as Student's does."""
