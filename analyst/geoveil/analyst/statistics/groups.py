"""Compare groups of people: means, differences, and weighted totals.

The mean of a group is that of its reports. Intervals of differences hold simultaneously; weighted
to known sizes, the groups give an estimate for the whole population [MATH §8].
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoveil.analyst.results import Series, estimated, rows_of
from geoveil.analyst.simultaneous import (
    Correlated,
    confidence_at,
    correlations_of,
    critical_value_of_one,
    largest_errors,
    scores_of,
)
from geoveil.analyst.statistics.joint import Quantity
from geoveil.gp import UNLIMITED, Array, Limits, ParameterError, kept_within, validation

WEIGHTED = (
    "For the population that the weights stand for; errors include the noise of privacy and the "
    "sampling, and take the sizes of groups as exact."
)
_FAR = 2.0**400


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupEstimates(Correlated):
    """The mean of one question within each group of people.

    Example:
        >>> groups = GroupEstimates(
        ...     labels=("north", "south"), values=np.array([0.42, 0.55]),
        ...     covariance=np.diag([1e-4, 4e-4]))
        >>> whole = groups.post_stratify({"north": 300_000, "south": 700_000})
        >>> round(whole.value, 3), round(whole.standard_error, 4)
        (0.511, 0.0143)
        >>> for row in groups.differences().rows():
        ...     print(row["group"], "-", row["other"], round(row["estimate"], 3))
        south - north 0.13
    """

    labels: tuple[str, ...]
    """The names of the groups."""
    limits: Limits = UNLIMITED
    """The range of a mean."""
    question: str = "mean"
    """The question."""
    population: str = (
        "Each row is for the people of that group, of whom the participants are a random sample."
    )
    coverage = (
        "Each {of.percent} interval holds by itself, and all bands hold at once. Their differences"
        " have errors of their own."
    )

    @property
    def title(self) -> str:
        return f"Estimates by group: {self.question}"

    def rows(self) -> list[dict[str, Any]]:
        (low, high), (below, above) = self.intervals(self.confidence), self.band()
        return rows_of(
            {
                "group": self.labels,
                **estimated(self.values, self.standard_errors, low, high),
                "band_low": below,
                "band_high": above,
            }
        )

    def band(self) -> tuple[Array, Array]:
        """Return the ends of simultaneous intervals of all groups' means."""
        return self.intervals(confidence_at(self.critical_value()))

    def intervals(self, confidence: float) -> tuple[Array, Array]:
        """Return the ends of separate intervals of the groups' means."""
        down, up = self.margins_at(confidence)
        ends = zip(self.values - down, self.values + up, strict=True)
        low, high = zip(*(kept_within(*pair, self.limits.estimates) for pair in ends), strict=True)
        return np.array(low), np.array(high)

    def post_stratify(self, sizes: Mapping[str, float]) -> Quantity:
        """Return the mean of a population whose groups have known sizes.

        Its error is that of the groups' means, weighted by the sizes, which count as exact.

        Args:
            sizes: group → its people, or its share; every group, and no other.

        Raises:
            ParameterError: if a group is missing or unknown, or a size is not > 0.
        """
        shares = shares_of(sizes, self.labels)
        variance = float(shares @ self.covariance @ shares)
        value, error = float(shares @ self.values), math.sqrt(max(variance, 0.0))
        reach = critical_value_of_one(self.confidence) * error
        below, above = _recovered(self, shares[None, :], self.confidence)
        low, high = value - max(reach, float(below[0])), value + max(reach, float(above[0]))
        low, high = kept_within(low, high, self.limits.estimates)
        return Quantity(
            label=self.question,
            value=value,
            standard_error=error,
            ci_low=low,
            ci_high=high,
            confidence=self.confidence,
            population=WEIGHTED,
            about=self.about,
        )

    def differences(self, against: str | None = None) -> "Differences":
        """Return the differences between groups, with simultaneous intervals.

        Args:
            against: the group that the others are compared with; None: every pair.

        Raises:
            ParameterError: if there is no such group, or only one group.
        """
        if len(self.labels) < 2:
            raise ParameterError("groups", self.labels, "at least two")
        if against is not None:
            validation.choice("against", against, self.labels)
        many = len(self.labels)
        if against is None:
            chosen = [(i, j) for j in range(many) for i in range(j + 1, many)]
        else:
            base = self.labels.index(against)
            chosen = [(i, base) for i in range(many) if i != base]
        each = np.eye(many)
        contrasts = np.array([each[i] - each[j] for i, j in chosen])
        values = contrasts @ self.values
        errors = np.sqrt(np.einsum("ki,ij,kj->k", contrasts, self.covariance, contrasts))
        scores = scores_of(values, lambda level: _recovered(self, contrasts, level))
        confidence, p_values = _together(self, contrasts, scores)
        below, above = _recovered(self, contrasts, confidence)
        return Differences(
            pairs=tuple((self.labels[i], self.labels[j]) for i, j in chosen),
            values=values,
            standard_errors=errors,
            low=values - below,
            high=values + above,
            p_values=p_values,
            confidence=self.confidence,
            population=self.population,
            about=self.about,
            question=self.question,
        )


def shares_of(sizes: Mapping[str, float], labels: Sequence[str]) -> Array:
    """Return the shares of people in groups, from the size of every group and no other."""
    if set(sizes) != set(labels):
        raise ParameterError("groups of the sizes", sorted(sizes), f"{sorted(labels)}")
    shares = np.array([validation.positive(f"sizes[{of!r}]", sizes[of]) for of in labels])
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Differences(Series):
    """Differences between groups, with jointly adjusted intervals and p values."""

    coverage = "All {of.percent} intervals hold at once, and the p values count all differences."
    pairs: tuple[tuple[str, str], ...]
    """A group, and the group subtracted from it."""
    p_values: Array
    """The p value of each difference, adjusted for all of them."""
    question: str = ""
    """The name of the groups' means."""

    @property
    def title(self) -> str:
        return f"Differences between groups{self.question and f': {self.question}'}"

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {
                "group": [group for group, _ in self.pairs],
                "other": [other for _, other in self.pairs],
                **self.columns,
                "p_value": self.p_values,
            }
        )


def _together(groups: GroupEstimates, contrasts: Array, scores: Array) -> tuple[float, Array]:
    """Return the confidence for each interval, and the p values of scores."""
    from scipy.special import ndtr

    single = 2 * ndtr(-scores)
    correlations = correlations_of(contrasts @ groups.covariance @ contrasts.T)
    largest = np.sort(largest_errors(correlations))
    critical = float(np.quantile(largest, groups.confidence, method="hazen"))
    beyond = len(largest) - np.searchsorted(largest, scores)
    # Where no draw is so large, the sum of the risks is more precise.
    counted = (beyond + 1) / (len(largest) + 1)
    bounded = np.where(beyond > 0, counted, np.minimum(len(scores) * single, counted))
    return confidence_at(critical), np.maximum(bounded, single)


def _recovered(groups: GroupEstimates, contrasts: Array, confidence: float) -> Array:
    """Return the margins of contrasts, recovered from those of the groups.

    The method of variance estimates recovery [ZD08]: each group's margin stands for
    its error, so that no interval collapses where a group's doesn't.
    """
    # An infinite end counts as very far, so that products with 0 are 0.
    down, up = np.minimum(groups.margins_at(confidence), _FAR)

    def reach(margins: Array) -> Array:
        squares = np.einsum("ki,ij,kj->k", margins, groups.correlations, margins)
        far = np.sqrt(np.maximum(squares, 0.0))
        return np.where(far < _FAR / 2**50, far, math.inf)

    positive, negative = np.maximum(contrasts, 0), np.minimum(contrasts, 0)
    return np.stack(
        [reach(positive * down + negative * up), reach(positive * up + negative * down)]
    )
