"""Differences between periods and campaigns, in one test.

Different people have independent errors: variances add up. The same people do not, and the
correlation of their errors cannot be known, as nobody can link reports: the standard error of
a difference is then at most the sum of both, which is the one stated.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.results import Series, counted, rows_of
from geoveil.analyst.simultaneous import (
    confidence_at,
    correlations_of,
    critical_value,
    critical_value_of_one,
    two_sided,
)
from geoveil.analyst.statistics.distribution import Curve, DistributionCurve
from geoveil.analyst.statistics.joint import LIARS, JointEstimates, Quantity
from geoveil.analyst.statistics.quantiles import QuantileEstimates, farthest_of_two, grown
from geoveil.gp import Array, ParameterError, UnsupportedError, enum_repr, validation

Numbers: TypeAlias = JointEstimates | Quantity | QuantileEstimates
"""Estimates whose differences are `Changes`."""


class People(StrEnum):
    """Whether two estimates are about the same people."""

    __repr__ = enum_repr

    DIFFERENT = "different"
    """Nobody is in both, except by chance: two samples drawn independently."""
    SAME = "same"
    """The same people may be in both, as in a recurring campaign."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes(Series):
    """How several means changed, with intervals that cover all at once and one test of all.

    For the same people, the standard errors are the largest possible.
    """

    coverage = (
        "The intervals hold all differences at once at {of.percent}; adjusted p is by Holm's rule."
    )
    labels: tuple[str, ...]
    p_values: Array
    """(m,), separate two-sided p values: 1 minus the confidence at which the interval just contains
    0."""
    adjusted: Array
    """(m,), by Holm's rule: rejecting all differences with at most α makes any error with
    probability α or less."""
    people: People
    """The people behind the estimates."""
    counts: tuple[int, ...]
    """People in each of the compared sets."""

    @property
    def title(self) -> str:
        return (
            f"{counted(len(self.labels), 'difference')}, between {len(self.counts)} sets of reports"
        )

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {"name": self.labels, **self.columns, "p": self.p_values, "p_adjusted": self.adjusted}
        )


_SIDES = np.maximum, np.minimum
_SAID = {
    People.DIFFERENT: "The people are assumed to be different: the variances add up.",
    People.SAME: "The people may be the same: reports can't be linked, so each standard error is "
    "at most what is stated.",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveChange(Curve):
    """The change in the share of the people up to each threshold, with a band."""

    adjusted: Array
    """(m,), p of no change at each threshold, by Holm's rule; the smallest tests no change at
    any."""
    changes: Changes
    """The changes as differences of shares."""

    @property
    def title(self) -> str:
        return f"{self.name}, from {' and '.join(f'{n:,}' for n in self.changes.counts)} reports"

    def rows(self) -> list[dict[str, Any]]:
        adjusted = self.adjusted.tolist()
        return [row | {"p_adjusted": p} for row, p in zip(super().rows(), adjusted, strict=True)]


@overload
def compare(
    *estimates: Numbers, people: People | str, names: Sequence[str] = (), to_first: bool = False
) -> Changes: ...


@overload
def compare(
    *estimates: DistributionCurve, people: People | str, names: Sequence[str] = ()
) -> CurveChange: ...


def compare(
    *estimates: Numbers | DistributionCurve,
    people: People | str,
    names: Sequence[str] = (),
    to_first: bool = False,
) -> Changes | CurveChange:
    """Return the differences of estimates of the same questions, each from the one before.

    Intervals of means of values are widened to hold simultaneously, like those of a normal error,
    and so are those of quantiles beyond twice their reach.

    Args:
        estimates: two or more of a kind, of the same labels and confidence: periods, campaigns or
            groups. Two, where they are distribution functions: of the same thresholds.
        people: whether the people behind them are different, or may be the same.
        names: names of the compared sets; "1", "2", … by default.
        to_first: whether to compare all to the first, not to the one before.

    Raises:
        ParameterError: if they have different kinds, questions, softness or confidences, or an
            argument is invalid.
        UnsupportedError: if the reports do not reach as far out as one of the quantiles.

    Example:
        >>> mean = {"confidence": 0.95, "n": 1_000}
        >>> may = Quantity(label="mean", value=40.0, standard_error=3.0, ci_low=34.1, ci_high=45.9,
        ...     **mean)
        >>> june = Quantity(label="mean", value=50.0, standard_error=4.0, ci_low=42.2, ci_high=57.8,
        ...     **mean)
        >>> made = compare(may, june, people="different")
        >>> made.values.tolist(), made.standard_errors.tolist(), made.p_values.round(3).tolist()
        ([10.0], [5.0], [0.045])
    """
    kind = people_of(people)
    curves = [estimate for estimate in estimates if isinstance(estimate, DistributionCurve)]
    if curves:
        if len(curves) != len(estimates) or len(curves) != 2 or to_first:
            raise ParameterError("estimates", len(estimates), "two distribution functions")
        return _curve_change(curves[0], curves[1], kind, names or ("1", "2"))
    samples = [compared_estimates(estimate) for estimate in estimates]
    check_comparable(samples, names)
    names = tuple(names) or tuple(str(i + 1) for i in range(len(samples)))
    pairs = [(0 if to_first else i - 1, i) for i in range(1, len(samples))]
    weights = np.zeros((len(pairs), len(samples), len(samples[0].labels)))
    for row, (a, b) in enumerate(pairs):
        weights[row, a], weights[row, b] = -1.0, 1.0
    return Changes(
        labels=tuple(
            f"{names[b]} − {names[a]}: {label}" for a, b in pairs for label in samples[0].labels
        ),
        about=tuple(dict.fromkeys([_SAID[kind], *(n for of in samples for n in of.about)])),
        **sums_over(samples, weights, kind),
    )


def sums_over(
    samples: Sequence["ComparedEstimates"], weights: Array, people: People
) -> dict[str, Any]:
    """Return the fields of `Changes` for sums of estimates with weights (sums, sets, m)."""
    first, counts = samples[0].of, tuple(sample.of.n for sample in samples)
    values = np.sum(weights * [sample.values for sample in samples], axis=1).ravel()
    # The margin of a sum from those of its parts (Zou and Donner 2008), or its maximum.
    joined = np.add if people is People.SAME else np.hypot

    def ends_of(sides: Sequence[Any], joined: np.ufunc = joined, weights: Array = weights) -> Array:
        """Return lower and upper ends of the sums, (2, sums · m), given those of each set."""
        ends = np.array(sides)
        turned = np.where((weights > 0)[:, :, None], ends, ends[:, ::-1])
        used = weights[:, :, None] != 0  # 0 times infinity is not a number
        parts = np.abs(weights)[:, :, None] * np.where(used, turned, 0.0)
        return np.concatenate(joined.reduce(parts, axis=1), axis=1)

    def margins(confidence: float) -> Array:
        if people is People.DIFFERENT and isinstance(first, QuantileEstimates):
            later, earlier = (partial(of_sides, weights=clip(weights, 0)) for clip in _SIDES)
            return farthest_of_two(later, earlier, confidence)
        return of_sides(confidence, weights)

    def of_sides(confidence: float, weights: Array) -> Array:
        return ends_of([sample.margins(confidence) for sample in samples], weights=weights)

    errors, _ = ends_of([(sample.errors, sample.errors) for sample in samples])
    if people is People.SAME:
        # Bonferroni's, which is valid for any correlations.
        critical = critical_value_of_one(1 - (1 - first.confidence) / len(values))
    else:
        # An unbounded error is correlated with no other.
        own = [np.where(np.isfinite(sample.errors), sample.errors, 0.0) for sample in samples]
        of_each = [s.correlations * np.outer(e, e) for s, e in zip(samples, own, strict=True)]
        covariance = np.einsum("asi,bsj,sij->aibj", weights, weights, of_each)
        covariance = covariance.reshape(len(values), -1) * np.isfinite(errors)
        critical = critical_value(correlations_of(covariance), first.confidence)
    below, above = margins(confidence_at(critical))
    down, up = ends_of([sample.moved for sample in samples], np.add)
    # The part that liars can't have caused.
    left = np.sign(values) * np.maximum(np.abs(values) - np.where(values > 0, down, up), 0.0)
    p_values = two_sided(left, margins)
    return {
        "values": values,
        "standard_errors": errors,
        "low": values - below - down,
        "high": values + above + up,
        "p_values": p_values,
        "adjusted": holm(p_values),
        "people": people,
        "confidence": first.confidence,
        "n": sum(counts),
        "counts": counts,
        "privacy": first.privacy,
    }


@dataclass(frozen=True)
class ComparedEstimates:
    """The compared estimates of one set of reports."""

    of: Numbers
    labels: tuple[str, ...]
    values: Array
    errors: Array
    correlations: Array
    softness: float
    """The width of the soft thresholds; 0 if labels state it, or if unknown."""
    margins: Callable[[float], Array]
    """Returns lower and upper margins at a confidence if no report is false, (2, m)."""
    moved: Array
    """How far false reports can move each mean, down and up, (2, m)."""
    about: Sequence[str]


def compared_estimates(estimates: Numbers | DistributionCurve) -> ComparedEstimates:
    """Return what a comparison needs of one set of estimates."""
    if not isinstance(estimates, JointEstimates | Quantity | QuantileEstimates):
        expected = "means, quantiles or shares, or two distribution functions"
        raise ParameterError("estimates", type(estimates).__name__, expected)
    labels: tuple[str, ...]
    about, softness = estimates.notes[2:], 0.0
    if isinstance(estimates, Quantity):
        labels, values = (estimates.label,), np.array([estimates.value])
        errors, correlations = np.array([estimates.standard_error]), np.eye(1)
        if estimates.assumed:
            about = (*about, f"The intervals hold{estimates.assumed}.")
        ends = np.array([[estimates.value - estimates.ci_low],
                         [estimates.ci_high - estimates.value]])  # fmt: skip
        # The part beyond the errors of honest reports is due to liars.
        reach = critical_value_of_one(estimates.confidence)
        liars = any(note.startswith(LIARS) for note in estimates.notes)
        moved = np.maximum(ends - reach * errors, 0.0) if liars else np.zeros((2, 1))
        margins: Callable[[float], Array] = partial(grown, np.maximum(ends - moved, 0.0), reach)
    else:
        values, errors = estimates.values, estimates.standard_errors
        correlations, margins = estimates.correlations, estimates.margins_at
        if isinstance(estimates, JointEstimates):
            labels, moved = estimates.labels, np.stack([estimates.moved] * 2)
        else:
            labels = tuple(f"quantile {level:g}" for level in estimates.levels.tolist())
            moved, softness = estimates.moved, estimates.width
    for label, value in zip(labels, values.tolist(), strict=True):
        if not math.isfinite(value):
            raise UnsupportedError(f"{label}: the reports show no value so far out")
    return ComparedEstimates(
        estimates, labels, values, errors, correlations, softness, margins, moved, about
    )


def _curve_change(
    before: DistributionCurve, after: DistributionCurve, people: People, names: Sequence[str]
) -> CurveChange:
    if not np.array_equal(before.at, after.at):
        given = f"{len(before.at)} and {len(after.at)} thresholds"
        raise ParameterError("at", given, "the same for both: ask with the same `at`")
    _check_softness(before.width, after.width)
    # The share up to a threshold is 1 minus that above it.
    changes = compare(after.above, before.above, people=people, names=names)
    return CurveChange(
        name=f"Change of the distribution function, {names[1]} − {names[0]}",
        axis=before.axis,
        at=before.at,
        values=changes.values,
        low=changes.low,
        high=changes.high,
        confidence=changes.confidence,
        n=changes.n,
        privacy=before.privacy,
        about=(
            "Where the band is above 0, more people lie up to there than before; below 0, fewer. "
            f"For no change anywhere p is {changes.adjusted.min():.3g}, by Holm's rule.",
            *dict.fromkeys([*before.about, *changes.about]),
        ),
        adjusted=changes.adjusted,
        changes=replace(
            changes,
            counts=changes.counts[::-1],
            labels=tuple(f"{names[1]} − {names[0]}: up to {at:,.15g}" for at in before.at.tolist()),
        ),
    )


def holm(p_values: ArrayLike) -> Array:
    """Return p values adjusted by Holm's rule (1979), which may all be compared with α.

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def check_comparable(samples: Sequence[ComparedEstimates], names: Sequence[str]) -> None:
    """Refuse samples that differ in labels, confidence or softness."""
    if len(samples) < 2:
        raise ParameterError("estimates", len(samples), "two or more")
    if names and len(names) != len(samples):
        raise ParameterError("names", list(names), f"{len(samples)} of them")
    first = samples[0]
    for sample in samples[1:]:
        if sample.labels != first.labels:
            raise ParameterError(
                "labels", sample.labels[:5], f"as of the first: {first.labels[:5]}"
            )
        if sample.of.confidence != first.of.confidence:
            raise ParameterError("confidence", sample.of.confidence, f"{first.of.confidence}")
        _check_softness(first.softness, sample.softness)


def _check_softness(first: float, other: float) -> None:
    if first != other:
        raise ParameterError(
            "width", other, f"{first:.15g}, as for the first: ask all with one width"
        )


def people_of(people: People | str) -> People:
    """Return whether two estimates are about the same people."""
    return People(validation.choice("people", people, tuple(of.value for of in People)))
