"""Estimates of several questions from the same reports, and numbers made of them [MATH §8].

Questions answered by the same perturbed points have correlated errors: a difference of two is known
better, or worse, than if they were independent. Everything here rests on the covariance matrix C of
the estimates: a contrast c has the variance cᵀCc.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.contamination import Contamination
from geoveil.analyst.results import (
    Answer,
    Estimates,
    amount_answer,
    counted,
    estimated,
    possible,
    rows_of,
)
from geoveil.analyst.simultaneous import Correlated, confidence_at, critical_value_of_one
from geoveil.gp import (
    Array,
    Interval,
    IntervalMethod,
    Limits,
    LogScale,
    ParameterError,
    interval_of_mean,
    margins_of_mean,
    validation,
)

_MOST_DOUBLED = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantity(Estimates):
    """One number with its error and interval."""

    coverage = "The interval covers at {of.percent}{of.assumed}."
    label: str
    value: float
    """The estimate, unbiased for a mean; rows clamp it to the interval."""
    standard_error: float
    """Noise and sampling together; NaN if the interval needs none."""
    ci_low: float
    """Infinite if the reports do not bound the quantity on this side."""
    ci_high: float
    assumed: str = ""
    """The condition under which the interval covers, as the end of a sentence."""

    @property
    def title(self) -> str:
        return self.label

    @property
    def sentences(self) -> Sequence[Answer]:
        if not math.isfinite(self.value):
            return ()
        ends = self.ci_low, self.ci_high
        value = float(possible(self.value, *ends)["estimate"])
        return (amount_answer(value, *ends, "", f"is the {self.label}"),)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": self.label,
                **estimated(self.value, self.standard_error, self.ci_low, self.ci_high),
                "n": self.n,
            }
        ]

    def held(self, scale: LogScale) -> Self:
        value, low, high = (
            float(scale.from_log(x)) for x in (self.value, self.ci_low, self.ci_high)
        )
        return replace(
            self,
            label=f"geometric {self.label}",
            value=value,
            standard_error=self.standard_error * value,  # to first order
            ci_low=low,
            ci_high=high,
        )

    def scaled(self, factor: float, label: str) -> "Quantity":
        """Return a multiple, for example a total from a share.

        Args:
            factor: > 0.
        """
        factor = validation.positive("factor", factor)
        return replace(
            self,
            label=label,
            value=self.value * factor,
            standard_error=self.standard_error * factor,
            ci_low=self.ci_low * factor,
            ci_high=self.ci_high * factor,
        )


def ratio_of(a: float, b: float, covariance: Array, like: Quantity) -> Quantity:
    """Return a/b with Fieller's interval, from their covariance, (2, 2); else it is `like`."""
    quantile = critical_value_of_one(like.confidence)
    (aa, ab), (_, bb) = covariance.tolist()
    value = a / b if b else math.nan
    error = (
        math.sqrt(max(aa - 2 * value * ab + value * value * bb, 0.0)) / abs(b) if b else math.inf
    )
    low, high = _fieller(a, b, (aa, ab, bb), quantile)
    return replace(
        like,
        value=value,
        standard_error=error,
        ci_low=low,
        ci_high=high,
        about=(
            *like.about,
            "The interval is Fieller's, which holds even where the denominator may be near 0, and "
            "is the whole line where it may be 0; the standard error comes from the delta "
            "method.",
        ),
    )


def ratios_within(
    contrast: Callable[[float], tuple[float, float]],
    ratio: Quantity,
    *,
    falls: bool,
    least: float = -math.inf,
) -> tuple[float, float]:
    """Return the ends of all r for which the interval of a − r·b contains 0, with the estimate.

    Args:
        contrast: r → the ends of the interval of a − r·b.
        ratio: the estimate of a/b, with its approximate error.
        falls: whether a − r·b decreases in r.
        least: a lower bound of all ratios; ignored if the interval contains no r above it.
    """
    from scipy.optimize import brentq

    start = max(ratio.value, least)
    low, high = contrast(start)
    if not low <= 0 <= high:
        start, least = ratio.value, -math.inf
    step = max(ratio.standard_error, abs(ratio.value) * 1e-3, 1e-9)
    first = step * max(critical_value_of_one(ratio.confidence), 1.0)

    def end(sign: int) -> float:
        side = int((sign > 0) == falls)

        @cache
        def left(away: float) -> float:
            """Return how far 0 is from the contrast's end; negative if r is outside."""
            bound = contrast(start + sign * away)[side]
            return bound if side else -bound

        inside, outside = 0.0, first
        for _ in range(_MOST_DOUBLED):
            if sign < 0 and start - outside < least:
                outside = start - least
                if left(outside) >= 0:
                    return least
            if left(outside) < 0:
                root: Any = brentq(left, inside, outside, xtol=step * 1e-12)
                return start + sign * float(root)
            inside, outside = outside, 2 * outside
        return sign * math.inf

    return min(end(-1), ratio.value), max(end(1), ratio.value)


def _fieller(
    a: float, b: float, covariance: tuple[float, float, float], quantile: float
) -> tuple[float, float]:
    """Return the ends of all r with |a − r·b| ≤ z·√Var(a − r·b).

    If b may be 0, that set is not an interval, and the whole line is returned.
    """
    aa, ab, bb = covariance
    square = quantile**2
    # (a − r·b)² = z²·Var: lead·r² − 2·half·r + last = 0
    lead, half = b * b - square * bb, a * b - square * ab
    if b == 0 or lead <= 0:
        return -math.inf, math.inf
    inside = math.sqrt(max(half * half - lead * (a * a - square * aa), 0.0))
    return (half - inside) / lead, (half + inside) / lead


LIARS = "Intervals hold also if"
"""The beginning of a note on false reports."""


@dataclass(frozen=True, kw_only=True, eq=False)
class JointEstimates(Correlated):
    """Estimates of the means of several soft questions from at least two reports.

    With their covariances, differences and sums have errors; with variances only, the intervals of
    all means at once are valid for any correlations.

    Example:
        >>> from geoveil.gp import GeoPrivacy
        >>> two = JointEstimates(
        ...     labels=("a", "b"), values=np.array([0.5, 0.3]),
        ...     covariance=np.array([[0.0004, 0.0003], [0.0003, 0.0004]]), n=1_000,
        ...     confidence=0.95, limits=(Limits((0.0, 1.0), (0.0, 1.0)),) * 2,
        ...     privacy=GeoPrivacy(1.0, per=8_000.0, unit="dollar"))
        >>> round(two.difference("a", "b").standard_error, 4)  # 0.0283 if they were independent
        0.0141
    """

    labels: tuple[str, ...]
    """The names of the questions, distinct."""
    limits: tuple[Limits, ...]
    """The ranges of answers to each question and of their mean."""
    period: int | None = None
    """The period of a recurring campaign, from 0; else None."""
    contamination: float = 0.0
    """The fraction of false reports for which intervals are valid, in [0, 1)."""
    answers: tuple[int, ...] | None = None
    """Answers to each question, at least 2; None: everybody answered every question."""

    def __post_init__(self) -> None:
        m = len(self.labels)
        if len(set(self.labels)) != m or not m:
            raise ParameterError("labels", self.labels, "one or more, and distinct")
        if len(self.limits) != m:
            raise ParameterError("limits", f"{len(self.limits)} of them", f"{m}: one of each label")
        for name, shapes in (("values", [(m,)]), ("covariance", [(m, m), (m,)])):
            array = np.asarray(getattr(self, name), np.float64)
            if array.shape not in shapes or not np.isfinite(array).all():
                raise ParameterError(name, f"shape {array.shape}", f"shape {shapes[0]}, all finite")
            object.__setattr__(self, name, array)
        if min([self.n, *(self.answers or ())]) < 2:
            raise ParameterError("n", (self.n, self.answers), "at least 2")
        if len(self.answers or self.labels) != m:
            raise ParameterError("answers", self.answers, f"{m} numbers, or None")
        validation.between("confidence", self.confidence, 0, 1, low_open=True, high_open=True)

    @property
    def title(self) -> str:
        period = "" if self.period is None else f", period {self.period}"
        return f"{counted(len(self.labels), 'estimate')}{period}, from {self.n:,} reports"

    @property
    def people(self) -> int:
        """The number of people whom the estimates are about."""
        return self.n

    @property
    def notes(self) -> Sequence[str]:
        return (*super().notes, *self.assumes, *notes_of_liars(self.contamination))

    @property
    def assumes(self) -> Sequence[str]:
        """The note on what intervals assume where nothing bounds the reports."""
        return notes_of_ends(self.limits)

    def rows(self) -> list[dict[str, Any]]:
        low, high = self.intervals()
        return rows_of(
            {
                "name": self.labels,
                **estimated(self.values, self.standard_errors, low, high),
                "n": [self.n] * len(self.labels),
            }
        )

    def index(self, question: str | int) -> int:
        """Return the index of a question, given its label or index."""
        if isinstance(question, str) and question in self.labels:
            return self.labels.index(question)
        if isinstance(question, int) and 0 <= question < len(self.labels):
            return question
        few = ", ".join(self.labels[:5]) + (", …" if len(self.labels) > 5 else "")
        raise ParameterError("question", question, f"a label ({few}) or its index from 0")

    def interval(self, question: str | int, confidence: float | None = None) -> Interval:
        """Return the separate interval of one question.

        Args:
            question: its label, or its index from 0.
            confidence: in (0, 1); that of the estimates by default.
        """
        i = self.index(question)
        n, limits = self.n if self.answers is None else self.answers[i], self.limits[i]
        variance = float(self.variances[i]) * (n - 1)
        confidence = self.confidence if confidence is None else confidence
        honest = interval_of_mean(n, float(self.values[i]), variance, confidence, limits)
        return with_liars(honest, self.contamination, limits)

    def intervals(self, confidence: float | None = None) -> tuple[Array, Array]:
        """Return the lower and the upper ends of separate intervals, (m,) and (m,)."""
        each = [self.interval(i, confidence) for i in range(len(self.labels))]
        return np.array([i.low for i in each]), np.array([i.high for i in each])

    def less(self, shares: Array) -> tuple[Array, Array]:
        """Return the ends of the intervals of each mean minus each share, (shares, m) twice."""
        low, high = self.intervals()
        return low - shares[:, None], high - shares[:, None]

    def margins_at(self, confidence: float) -> Array:
        """Return the lower and upper margins of each if all reports are true, (2, m)."""
        answers, spreads = self.answers or (self.n,) * len(self.labels), self.variances.tolist()
        rows = zip(answers, self.values.tolist(), spreads, self.limits, strict=True)
        margins = [margins_of_mean(n, m, v * (n - 1), confidence, ends) for n, m, v, ends in rows]
        return np.array(margins).T

    def band(
        self, confidence: float | None = None, critical: float | None = None
    ) -> tuple[Array, Array]:
        """Return the ends of intervals that cover all means at once, (m,) and (m,).

        They do not collapse where hardly any report differs from the others: each is the interval
        of one question at the confidence that corresponds to the critical value.

        Args:
            confidence: in (0, 1); that of the estimates by default.
            critical: how many standard errors cover all simultaneously, if that is known.
        """
        critical = self.critical_value(confidence) if critical is None else critical
        return self.intervals(confidence_at(critical))

    @property
    def moved(self) -> Array:
        """How far the false reports can move each estimate, (m,).

        Raises:
            ParameterError: if there are some, and the contribution of one is unbounded.
        """
        if not self.contamination:
            return np.zeros(len(self.labels))
        ends = [limit.reports for limit in self.limits]
        liars = [Contamination(self.contamination, b - a) for a, b in ends]
        return np.array([liar.moved for liar in liars])

    def combined(
        self,
        weights: ArrayLike,
        labels: Sequence[str],
        limits: Sequence[Limits] | None = None,
        plus: Array | float = 0.0,
    ) -> "JointEstimates":
        """Return the joint estimates of weighted sums of the means, Σⱼ wᵢⱼ mⱼ + cᵢ.

        Args:
            weights: (r, m).
            labels: of the sums, distinct.
            limits: the range of each sum for one person's answers, and for their means; by default,
                the widest that the limits of the questions permit, without constants.
            plus: the constants c, (r,).
        """
        w = np.asarray(weights, np.float64)
        if w.shape != (len(labels), len(self.values)) or not np.isfinite(w).all():
            raise ParameterError(
                "weights",
                f"shape {w.shape}",
                f"finite, of shape ({len(labels)}, {len(self.values)}): one row per label",
            )
        return replace(
            self,
            labels=tuple(labels),
            values=w @ self.values + plus,
            covariance=w @ self.joint_covariance @ w.T,
            limits=tuple(limits or (limits_of_sum(self.limits, row) for row in w)),
            answers=None if self.answers is None else _fewest(self.answers, w),
        )

    def contrast(
        self, weights: ArrayLike, label: str = "contrast", limits: Limits | None = None
    ) -> Quantity:
        """Return the estimate of a weighted sum of the means, Σ wᵢ mᵢ.

        Args:
            weights: (m,).
            limits: the range of the sum for one person's answers, and for their means; by default,
                the widest that the limits of the questions permit.
        """
        row = np.asarray(weights, np.float64)[None]
        made = self.combined(row, [label], None if limits is None else [limits])
        interval = made.interval(0)
        error = float(made.standard_errors[0])
        return self._quantity(label, float(made.values[0]), error, interval.low, interval.high)

    def difference(self, a: str | int, b: str | int, label: str = "") -> Quantity:
        """Return the estimate of the mean of one question minus that of another."""
        i, j = self.index(a), self.index(b)
        each = np.eye(len(self.labels))
        return self.contrast(each[i] - each[j], label or f"{self.labels[i]} − {self.labels[j]}")

    def ratio(self, a: str | int, b: str | int, label: str = "") -> Quantity:
        """Return the estimate of the mean of one question divided by that of another.

        Its interval contains all r for which that of a − r·b contains 0, like Fieller's, so it is
        as valid as an interval of one mean if few reports differ: the whole line if the reports
        cannot distinguish the denominator from 0.
        """
        i, j = self.index(a), self.index(b)
        made = self._quantity(label or f"{self.labels[i]} / {self.labels[j]}", 0.0, 0.0, 0.0, 0.0)
        top, bottom = float(self.values[i]), float(self.values[j])
        covariance = self.joint_covariance[np.ix_([i, j], [i, j])]
        ratio = ratio_of(top, bottom, covariance, made)
        limits = self.limits[i], self.limits[j]
        n = self.n if self.answers is None else min(self.answers[i], self.answers[j])

        def contrast(r: float) -> tuple[float, float]:
            row = np.array([1.0, -r])
            variance = max(float(row @ covariance @ row), 0.0) * (n - 1)
            of_sum = limits_of_sum(limits, row)
            value = top - r * bottom
            margins = margins_of_mean(n, value, variance, self.confidence, of_sum)
            honest = Interval(value - margins[0], value + margins[1], IntervalMethod.WEIGHTED_ENDS)
            interval = with_liars(honest, self.contamination, of_sum)
            return interval.low, interval.high

        denominator = self.interval(j)
        low, high = -math.inf, math.inf
        if not denominator.low <= 0 <= denominator.high:
            shares = min(self.limits[i].means[0], self.limits[j].means[0]) >= 0
            least = 0.0 if shares else -math.inf
            low, high = ratios_within(contrast, ratio, falls=bottom > 0, least=least)
        return replace(ratio, ci_low=low, ci_high=high)

    def _quantity(
        self, label: str, value: float, error: float, low: float, high: float
    ) -> Quantity:
        return Quantity(
            label=label,
            value=value,
            standard_error=error,
            ci_low=low,
            ci_high=high,
            **self.common,
            about=(*self.about, *self.assumes),
        )


def with_liars(found: Interval, contamination: float, limits: Limits) -> Interval:
    """Return an interval of the mean over honest people, given a fraction of false reports."""
    if not contamination:
        return found
    low, high = limits.reports
    liars = Contamination(contamination, high - low, limits.means)
    return Interval(*liars.widened(found.low, found.high), found.method)


def notes_of_ends(limits: Sequence[Limits]) -> Sequence[str]:
    """Return the note on Student's intervals, if nothing bounds reports or means."""
    if all(limit.bounded or all(map(math.isfinite, limit.means)) for limit in limits):
        return ()
    return (
        "Nothing bounds the reports: the intervals are Student's, and cover once so many answered"
        " that means are nearly normal.",
    )


def notes_of_liars(contamination: float) -> Sequence[str]:
    """Return notes on intervals that are valid with a fraction of false reports."""
    if not contamination:
        return ()
    return (f"{LIARS} {100 * contamination:.4g} % of the reports say anything.",)


def _fewest(answers: Sequence[int], weights: Array) -> tuple[int, ...]:
    """Return the fewest answers behind each weighted sum."""
    counts = np.where(weights != 0, np.asarray(answers), np.iinfo(np.int64).max)
    return tuple(np.minimum(counts.min(axis=1), max(answers)).tolist())


def limits_of_sum(limits: Sequence[Limits], weights: Array) -> Limits:
    """Return the widest limits that a weighted sum of answers can have."""

    def ends(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
        low = high = 0.0
        for weight, pair in zip(weights.tolist(), pairs, strict=True):
            if weight:
                low += min(weight * pair[0], weight * pair[1])
                high += max(weight * pair[0], weight * pair[1])
        return (low, high) if low < high else (-math.inf, math.inf)

    return Limits(
        ends([limit.reports for limit in limits]),
        ends([limit.means for limit in limits]),
        imagined=ends([limit.unseen for limit in limits]),
    )
