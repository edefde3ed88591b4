"""Groups of people by the labels that reports came with, sent openly or with lies at times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from geoveil.analyst.contamination import Contamination, Weights, weights_of
from geoveil.analyst.statistics.groups import GroupEstimates
from geoveil.campaign import Strata
from geoveil.gp import Accumulator, Array, RandomizedLabels, estimate


def groups_of(
    strata: Strata, sums: tuple[Accumulator, ...], step_exponent: int, **common: Any
) -> GroupEstimates | None:
    """Return the means of one question within groups; None if nothing can be told.

    Args:
        strata: of the campaign.
        sums: of the reports that came with each label, in units of the grid.
        step_exponent: the exponent e of the grid's step 2^e.
        common: `confidence`, `limits` and what else `GroupEstimates` has.
    """
    if strata.randomized is not None:
        return RandomizedGroupEstimates.of(
            strata.labels, strata.randomized, sums, step_exponent, common
        )
    estimates = {
        label: estimate(sums_of_group, step_exponent)
        for label, sums_of_group in zip(strata.labels, sums, strict=True)
        if sums_of_group.n > 1
    }
    if not estimates:
        return None
    return GroupEstimates.independent(
        {label: group.value or 0.0 for label, group in estimates.items()},
        {label: group.standard_error or 0.0 for label, group in estimates.items()},
        {label: group.n for label, group in estimates.items()},
        **common,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class RandomizedGroupEstimates(GroupEstimates):
    """The means within groups whose labels were sent through randomised response.

    Reports that came with a label are not those of its people, so that the groups' estimates are
    correlated; how many people a group has is not known, and `n` is None.
    """

    lies: RandomizedLabels
    """How labels were sent."""
    sums: tuple[Accumulator, ...]
    """The sums of the reports that came with each of all labels, in units of the grid."""
    step_exponent: int
    """The exponent e of the grid's step 2^e."""
    estimable: tuple[int, ...]
    """Which of all labels something can be told of."""

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        lies: RandomizedLabels,
        sums: tuple[Accumulator, ...],
        step_exponent: int,
        common: Mapping[str, Any],
    ) -> Self | None:
        """Return the groups of which something can be told; None if there is none.

        Args:
            labels: all.
            lies: how labels were sent.
            sums: of the reports that came with each label.
            step_exponent: of the grid.
            common: `confidence`, `limits` and what else `GroupEstimates` has.
        """
        means = lies.means(sums, step_exponent, common["confidence"], common["limits"])
        learnt = np.flatnonzero(np.isfinite(means.values)).tolist()
        if not learnt:
            return None
        return cls(
            labels=tuple(labels[i] for i in learnt),
            values=means.values[learnt],
            covariance=means.covariance[np.ix_(learnt, learnt)],
            lies=lies,
            sums=sums,
            step_exponent=step_exponent,
            estimable=tuple(learnt),
            **common,
        )

    @property
    def notes(self) -> Sequence[str]:
        return (
            *super().notes,
            "Labels were sent with lies at times, which is undone: errors hold these, too. An"
            " interval is Fieller's.",
        )

    def intervals(self, confidence: float) -> tuple[Array, Array]:
        return self._fieller(confidence, self.contamination)

    def margins_at(self, confidence: float) -> Array:
        low, high = self._fieller(confidence, 0.0)
        return np.stack([self.values - low, high - self.values])

    def _fieller(self, confidence: float, fraction: float) -> tuple[Array, Array]:
        """Return Fieller's intervals, with a fraction of false reports."""
        moved = None
        if fraction:
            least, greatest = self.limits.reports
            width, counts = min(greatest - least, self.width), self._counts
            n = counts.sum()
            of_groups = [weights_of(counts / n, n * np.abs(row)) for row in self.lies.towards]
            moved = np.array([Contamination(fraction, width, weights=w).moved for w in of_groups])
        means = self.lies.means(self.sums, self.step_exponent, confidence, self.limits, moved)
        learnt = list(self.estimable)
        least, greatest = self.limits.means
        low, high = (
            means.low[learnt],
            means.high[learnt],
        )  # NaN where it is told no more at this one
        return np.where(np.isnan(low), least, low), np.where(np.isnan(high), greatest, high)

    @property
    def _counts(self) -> Array:
        return np.array([float(sums.n) for sums in self.sums])

    def _weights(self, contrast: Array) -> Weights:
        counts, towards = self._counts, self.lies.towards[list(self.estimable)]
        of_reports = (contrast / (towards @ counts))[:, None] * towards
        n = counts.sum()
        return weights_of(counts / n, n * heaviest(of_reports))


def heaviest(counted: Array) -> Array:
    """Return how much the reports with each label count for at most, (labels,).

    A report y counts a(g)·(y − m(g)) for each group, which is most, over all y and m(g) of a range,
    with y at one end of it: the sum of the a above 0, or of those below, times its width.

    Args:
        counted: a, (groups, labels).
    """
    above, below = np.maximum(counted, 0).sum(axis=0), np.maximum(-counted, 0).sum(axis=0)
    return np.asarray(np.maximum(above, below))
