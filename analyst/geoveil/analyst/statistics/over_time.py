"""A curve over time, from a recurring campaign that reads values once an epoch [MATH §13].

Every period has its own estimate, with the same people behind all of them. If devices reveal in
which part of an epoch they read (`Readings.cohorts`), people are in disjoint cohorts: each cohort's
curve is independent of the others, however its periods are correlated. So the cohorts show how
certain a change is; and comparing those who have just read with the others shows whether the value
has jumped.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import pictures
from geoveil.analyst.labelled_estimate import LabelledEstimate
from geoveil.analyst.pictures import Axes
from geoveil.analyst.results import Series, counted, estimated, rows_of
from geoveil.analyst.simultaneous import critical_value_of_many, critical_value_of_one
from geoveil.analyst.statistics.joint import Quantity, limits_of_sum, notes_of_ends
from geoveil.campaign import ORIGIN, AttributeCampaign
from geoveil.gp import (
    UNLIMITED,
    Accumulator,
    Array,
    Estimate,
    Limits,
    ParameterError,
    estimate,
    interval_of_weighted_mean,
    margins_of_mean,
    validation,
)

FALSE_ALARMS = 0.01
"""The probability of any flag until a campaign closes, while the drift of its mean stays."""
_WINDOWS = (1, 2, 4, 8, 13, 26, 52)
Margins = Callable[[float, int, int], tuple[float, float]]


def windows(epoch: int) -> tuple[int, ...]:
    """Return the numbers of cohorts to pool, of those in an epoch."""
    return tuple(length for length in _WINDOWS if length <= epoch)


def flagged(
    changes: Array,
    margins: Margins,
    epoch: int,
    false_alarms: float = FALSE_ALARMS,
    *,
    looks: int,
    moved: float = 0.0,
) -> Array:
    """Return whether the newest cohorts changed differently from those of the epoch before.

    Each cohort reveals how much its mean changed since its last epoch, in which differences between
    people cancel. The mean change of the last cohorts is compared with that of the epoch before
    them, for several numbers of cohorts, with limits recovered from those of both [ZD08], at
    Bonferroni's level for all comparisons. The epoch before has earlier changes of the same people,
    whose later changes begin where the earlier ones end: the two have a correlation of −1/2 at
    worst, unless people go back and forth, so its square counts twice; for extrapolated answers,
    up to 16/7 times [MATH §13].

    Args:
        changes: mean changes of successive cohorts, in order of time.
        margins: (confidence, first, end) → how far the limits of the mean change of the cohorts
            from the first to before the end are below and above it.
        epoch: how many cohorts there are in an epoch, 2 or more.
        false_alarms: the probability of any flag while the mean drifts as before, in (0, 1).
        looks: the number of cohorts that this probability covers.
        moved: r of (1 + r)y − ry', the answers whose changes these are, in [0, 1].

    Returns:
        An array like `changes`: NaN after too few cohorts, else 0 or 1.
    """
    confidence = 1 - 2 * _share(epoch, false_alarms, looks)
    counts = math.sqrt(1 + (1 + 2 * moved) ** 2 / (1 + 3 * moved + 3 * moved**2))
    exceeded = np.full(len(changes), np.nan)
    for end in range(epoch + 1, len(changes) + 1):
        beyond = False
        for length in windows(min(epoch, end - epoch)):
            start = end - length
            first = start - epoch
            shift = changes[start:end].mean() - changes[first:start].mean()
            recent, before = margins(confidence, start, end), margins(confidence, first, start)
            side = int(shift < 0)
            beyond |= abs(shift) > math.hypot(recent[side], counts * before[1 - side])
        exceeded[end - 1] = beyond
    return exceeded


def _share(epoch: int, false_alarms: float, looks: int) -> float:
    if epoch < 2:
        raise ParameterError("epoch", epoch, "two or more cohorts")
    validation.require_count("looks", looks)
    rate = validation.between("false_alarms", false_alarms, 0, 1, low_open=True, high_open=True)
    return rate / (2 * looks * len(windows(epoch)))


_COHORT_COLOR, _FLAG_COLOR = "#b5651d", "#b00020"


@dataclass(frozen=True, kw_only=True, eq=False)
class Cohorts:
    """The mean of each cohort in each period; cohorts are disjoint."""

    values: Array
    """(periods, cohorts); NaN where a cohort has too few reports."""
    standard_errors: Array
    """(periods, cohorts)"""
    n: Array
    """(periods, cohorts)"""
    latest: NDArray[np.int64]
    """(periods,), the last cohort that has finished its readings by this period; −1 without one."""

    def of_latest(self, columns: Array) -> Array:
        """Return the numbers of the latest cohort in each period; NaN without one."""
        numbers = columns[np.arange(len(self.latest)), np.maximum(self.latest, 0)]
        return np.asarray(np.where(self.latest >= 0, numbers, np.nan))


@dataclass(frozen=True, kw_only=True, eq=False)
class Change(Quantity):
    """How far a mean moved between two periods of the same people.

    The error is from the variation between cohorts; with fewer than three, the largest possible.
    """

    cohorts: int
    """The number of cohorts behind the error; 0 with fewer than three."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OverTime(Series):
    """The mean of one question in each period, with simultaneous intervals."""

    coverage = (
        "The intervals hold all means at once at {of.percent}, however the reports of the same "
        "people are correlated (Šidák)."
    )
    question: str
    """Its label."""
    periods: tuple[int, ...]
    """The periods that have an estimate, from 0."""
    begins: tuple[datetime, ...]
    """When they began."""
    counts: tuple[int, ...]
    """Reports in each."""
    extrapolated: bool
    """Whether answers are extrapolated from two readings; otherwise they are carried."""
    epoch: float
    """The length of an epoch, in periods; 0 if every report is drawn anew."""
    cohorts: Cohorts | None = None
    """None if devices do not reveal when they read."""
    cohort_low: Array = field(default_factory=lambda: np.empty(0))
    """(periods,), lower ends of simultaneous intervals for the newest cohort's mean."""
    cohort_high: Array = field(default_factory=lambda: np.empty(0))
    """(periods,)"""
    flags: Array = field(default_factory=lambda: np.empty(0))
    """(periods,): 1 if the newest cohort changed differently from those before, otherwise 0; NaN if
    too few came before."""
    false_alarms: float = FALSE_ALARMS
    """The probability of any flag until the campaign closes, while the mean's drift stays."""
    limits_of_change: Limits = UNLIMITED
    """The ranges of the change of one person's report and of its mean between two periods."""

    @property
    def title(self) -> str:
        return f"{self.question}, {counted(len(self.periods), 'period')}"

    @property
    def cohort(self) -> Array:
        """The means of the newest cohort, (periods,); NaN where unknown."""
        if self.cohorts is None:
            return np.full(len(self.periods), np.nan)
        return self.cohorts.of_latest(self.cohorts.values)

    @property
    def notes(self) -> Sequence[str]:
        said = [*super().notes, *notes_of_ends([self.limits_of_change])]
        if self.epoch:
            how = (
                "go on as two readings of each device did, for at most as long as lay between"
                " them: right for a mean that drifts, if clocks were right at readings. Devices"
                " without such readings answer only when they read, as most in the first two epochs"
                if self.extrapolated
                else "are as old as the last reading of each device"
            )
            said.append(f"Answers {how}. A reading costs {self.privacy}, once.")
        else:
            said.append(f"Every answer has noise of its own, and costs {self.privacy} each time.")
        if self.cohorts is None and self.epoch:
            said.append("Devices do not say when they read, so no shock shows before it is old.")
        elif self.cohorts is not None:
            said.append(
                "Cohort: only those whose epoch began in the last part of an epoch that was over"
                " when the period began. " + self._of_flags()
            )
        return tuple(said)

    def _of_flags(self) -> str:
        """Return a sentence on flags, or the reason why there are none yet."""
        if np.isnan(self.flags).all():
            return (
                "No period can be flagged yet: it takes epochs of two or more whole periods, and "
                "two reports of each cohort in more than two epochs."
            )
        raised = [p for p, flag in zip(self.periods, self.flags, strict=True) if flag == 1]
        which = f"periods {', '.join(map(str, raised))}" if raised else "no period"
        together = "" if self.extrapolated else ", devices do not begin or pause together"
        return (
            f"Flagged, because they changed differently from those before: {which}; any flag in "
            f"the campaign has a probability of {self.false_alarms:.2g} at most while the mean "
            f"drifts as it did{together} and people do not go back and forth from epoch to epoch. "
            "From the first flag on, trust the cohort."
        )

    def rows(self) -> list[dict[str, Any]]:
        columns: dict[str, Any] = {
            "period": self.periods,
            "begins": [f"{when:%Y-%m-%d %H:%M}" for when in self.begins],
            **estimated(self.values, self.standard_errors, self.low, self.high),
            "n": self.counts,
        }
        if self.cohorts is not None:
            columns |= {
                "cohort": np.clip(self.cohort, self.cohort_low, self.cohort_high),
                "cohort_low": self.cohort_low,
                "cohort_high": self.cohort_high,
                "flag": [None if math.isnan(flag) else bool(flag) for flag in self.flags],
            }
        return rows_of(columns)

    def change(self, first: int, last: int, confidence: float | None = None) -> Change:
        """Return how far the mean moved between two periods.

        It is the mean change of the cohorts that answer in both, if there are three. It may differ
        from that of the curve's two values, for which other people may have answered.

        Args:
            confidence: of its interval, in (0, 1); by default that of the curve.

        Raises:
            ParameterError: if there is no estimate of one, or they are not in order.
        """
        level = self.confidence if confidence is None else confidence
        validation.between("confidence", level, 0, 1, low_open=True, high_open=True)
        for name, period in (("first", first), ("last", last)):
            if period not in self.periods:
                ends = f"{self.periods[0]} to {self.periods[-1]}"
                expected = f"one of the {len(self.periods)} periods from {ends} with an estimate"
                raise ParameterError(name, period, expected)
        if first >= last:
            raise ParameterError("last", last, f"more than first={first}")
        a, b = self.periods.index(first), self.periods.index(last)
        count, n, value, error, (below, above) = self._change(a, b, level)
        said = (
            f"The change is the mean of those of {count} cohorts, which have nobody in common: each"
            " is compared with itself at both times. The error is that between cohorts."
            if count
            else "Without three cohorts that answer at both times, the error is the largest "
            "possible for people whose answers at two times are not negatively correlated."
        )
        return Change(
            label=f"change of “{self.question}” from period {first} to period {last}",
            value=value,
            standard_error=error,
            ci_low=value - below,
            ci_high=value + above,
            confidence=level,
            n=n,
            privacy=self.privacy,
            about=(said, *notes_of_ends([self.limits_of_change])),
            cohorts=count,
        )

    def _change(self, a: int, b: int, level: float) -> tuple[int, int, float, float, Array]:
        """Return the numbers of cohorts and of reports, a change, its error, and its margins.

        A later extrapolated answer may subtract a reading that the earlier one adds: (1 + r)y − ry'
        and (1 + s)z − sy have noise with a correlation of −1/√5 or more, for r and s in [0, 1].
        """
        if self.cohorts is not None:
            moved = self.cohorts.values[b] - self.cohorts.values[a]
            finite = np.isfinite(moved)
            count = int(finite.sum())
            if count > 2:
                from scipy.special import stdtrit

                n = self.cohorts.n[[a, b]][:, finite]
                weights = 1 / (1 / n).sum(axis=0)  # noise has variances as the sums of 1/n
                weights /= weights.sum()
                mean, odds = float(weights @ moved[finite]), weights / (1 - weights)
                error = math.sqrt(odds**2 @ (moved[finite] - mean) ** 2)  # HC3
                spread = odds @ odds * (1 + odds @ odds) - (odds**4).sum()
                freedom = float(odds.sum() ** 2 / spread)  # Satterthwaite's: count − 1 if equal
                limits, largest = self.limits_of_change, float((weights / n.min(axis=0)).max())
                ends = interval_of_weighted_mean(
                    mean, error**2, level, limits, largest=largest, skewness=0.0, freedom=freedom
                )
                margins = np.array([mean - ends.low, ends.high - mean])
                least = float(stdtrit(freedom, (1 + level) / 2)) * error
                return count, int(n.sum()), mean, error, np.maximum(margins, least)
        earlier, other = self.standard_errors[[a, b]].tolist()
        together = 2 / math.sqrt(5) if self.extrapolated else 0.0
        scale = critical_value_of_one(level) / critical_value_of_many(
            len(self.periods), self.confidence
        )
        down, up = scale * np.maximum([self.values - self.low, self.high - self.values], 0.0)
        before, after = np.array([up[a], down[a]]), np.array([down[b], up[b]])
        margins = np.sqrt(before**2 + after**2 + together * before * after)
        error = math.sqrt(earlier**2 + other**2 + together * earlier * other)
        value = float(self.values[b] - self.values[a])
        margins = np.maximum(margins, critical_value_of_one(level) * error)
        return 0, self.counts[a] + self.counts[b], value, error, margins

    def plot(self, ax: Axes | None = None) -> Axes:
        at = np.array([when.timestamp() / 86_400 for when in self.begins])
        at -= at[0]
        ax = pictures.draw_curve(
            ax, self.title, ("days", "mean"), at, self.values, (self.low, self.high)
        )
        if self.cohorts is not None:
            cohort = np.clip(self.cohort, self.cohort_low, self.cohort_high)
            ends = np.array([cohort - self.cohort_low, self.cohort_high - cohort])
            ax.errorbar(
                at,
                cohort,
                yerr=ends,
                fmt="o",
                ms=3,
                lw=0.8,
                alpha=0.8,
                color=_COHORT_COLOR,
                label="those who have just read",
            )
            raised = self.flags == 1
            ax.plot(at[raised], self.cohort[raised], "v", ms=8, color=_FLAG_COLOR, label="flagged")
            # Below the picture: the bars of the cohorts fill it.
            ax.legend(frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.14))
        return ax


def over_time(
    campaign: AttributeCampaign,
    estimates: Sequence[LabelledEstimate],
    of_cohorts: Sequence[LabelledEstimate] = (),
    question: str | None = None,
    *,
    confidence: float = 0.95,
    false_alarms: float = FALSE_ALARMS,
) -> OverTime:
    """Return the curve of one question: see `CampaignEstimates.over_time`."""
    validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    validation.between("false_alarms", false_alarms, 0, 1, low_open=True, high_open=True)
    if campaign.period is None:
        raise ParameterError("campaign", campaign.campaign_id, "one that recurs (period)")
    labels = tuple(dict.fromkeys(row.label for row in estimates))
    if question is None and len(labels) == 1:
        question = labels[0]
    if question is None or question not in labels:
        raise ParameterError("question", question, f"one of {', '.join(labels) or 'none yet'}")
    rows = sorted((r for r in estimates if r.label == question and r.n > 1), key=lambda r: r.period)
    if not rows:
        raise ParameterError("estimates", "none", "at least one period with two reports")
    level = confidence ** (1 / len(rows))
    ends = [_at(row, level) for row in rows]
    readings = campaign.readings
    curve = OverTime(
        question=question,
        periods=tuple(row.period for row in rows),
        begins=tuple(campaign.opens + row.period * campaign.period for row in rows),
        values=np.array([row.value for row in rows], np.float64),
        standard_errors=np.array([row.standard_error for row in rows], np.float64),
        low=np.array([end.ci_low for end in ends], np.float64),
        high=np.array([end.ci_high for end in ends], np.float64),
        n=sum(row.n for row in rows),
        counts=tuple(row.n for row in rows),
        confidence=confidence,
        privacy=campaign.report_privacy,
        extrapolated=readings is not None and readings.extrapolated,
        epoch=0.0 if readings is None else readings.every / campaign.period,
        false_alarms=false_alarms,
        limits_of_change=limits_of_sum([rows[0].limits] * 2, np.array([1.0, -1.0])),
    )
    if campaign.cohorts == 1:
        return curve
    rows = [r for r in of_cohorts if r.label == question and r.n > 1 and r.period in curve.periods]
    return _with_cohorts(campaign, curve, rows)


def _at(row: LabelledEstimate, confidence: float) -> Estimate:
    """Return an estimate at another confidence."""
    sums = Accumulator(row.n, *row.sums)
    return estimate(sums, row.step_exponent, confidence, row.limits, row.method)


def _with_cohorts(
    campaign: AttributeCampaign, curve: OverTime, rows: Sequence[LabelledEstimate]
) -> OverTime:
    """Return a curve with the estimates of its cohorts."""
    readings, period, count = campaign.readings, campaign.period, campaign.cohorts
    assert readings is not None and period is not None  # noqa: PT018
    places = np.array([(curve.periods.index(row.period), row.cohort) for row in rows], np.intp)

    def table(numbers: Iterable[float | None]) -> Array:
        filled = np.full((len(curve.periods), count), np.nan)
        filled[tuple(places.reshape(-1, 2).T)] = np.array([*numbers], np.float64)
        return filled

    every, since = readings.every, campaign.opens - ORIGIN
    # The parts of an epoch that began after it opened and were over when the period began: the
    # devices of the last of them have read since.
    first = -(-since * count // every)
    over = np.array([(since + place * period) * count // every for place in curve.periods]) - first
    latest = np.where(over > 0, (first + over - 1) % count, -1)
    cohorts = Cohorts(
        values=table(row.value for row in rows),
        standard_errors=table(row.standard_error for row in rows),
        n=np.nan_to_num(table(row.n for row in rows)),
        latest=latest,
    )
    curve = replace(curve, cohorts=cohorts)
    limits = rows[0].limits if rows else UNLIMITED
    level = curve.confidence ** (1 / max(int((latest >= 0).sum()), 1))
    at_level = [_at(row, level) for row in rows]
    return replace(
        curve,
        cohort_low=cohorts.of_latest(table(each.ci_low for each in at_level)),
        cohort_high=cohorts.of_latest(table(each.ci_high for each in at_level)),
        flags=_flags(curve, cohorts, limits, over.astype(int), first, campaign.periods),
    )


def _flags(
    curve: OverTime,
    cohorts: Cohorts,
    limits: Limits,
    over: NDArray[np.int64],
    origin: int,
    periods: int,
) -> Array:
    """Return the flag of each period, comparing the newest cohort with those before it.

    Args:
        curve: without flags.
        limits: the ranges of a report and of a mean of reports.
        over: for each period of the curve, the parts of epochs that passed since the opening.
        origin: the number of the first of them.
        periods: of the whole campaign.
    """
    count, lag = cohorts.values.shape[1], int(curve.epoch)
    places = {period: row for row, period in enumerate(curve.periods)}
    newer = (row for row in range(1, len(over)) if over[row] > max(over[row - 1], count))
    now = np.array([row for row in newer if curve.periods[row] - lag in places], np.intp)
    then = np.array([places[curve.periods[row] - lag] for row in now], np.intp)
    who = (origin + over[now] - 1) % count
    changes = cohorts.values[now, who] - cohorts.values[then, who]
    both = np.isfinite(changes)
    now, then, who, changes = now[both], then[both], who[both], changes[both]

    moved = _moved_on(curve.epoch, count) if curve.extrapolated else 0.0
    together = 2 * moved * (1 + moved) / ((1 + moved) ** 2 + moved**2)

    def difference(one: float, other: float) -> float:
        return math.sqrt(one**2 + other**2 + together * one * other)

    def margins(confidence: float, begin: int, end: int) -> tuple[float, float]:
        def of(rows: NDArray[np.intp]) -> tuple[float, float]:
            """Return the margins of several cohorts' mean, as if all had the smallest size."""
            at = rows[begin:end], who[begin:end]
            n = float(len(at[0]) * cohorts.n[at].min())
            square = float((cohorts.standard_errors[at] ** 2).mean()) / len(at[0])
            mean = float(cohorts.values[at].mean())
            return margins_of_mean(n, mean, square * (n - 1), confidence, limits)

        (later_down, later_up), (down, up) = of(now), of(then)
        return difference(later_down, up), difference(later_up, down)

    flags = np.full(len(curve.periods), np.nan)
    each = min(count, lag)  # as many cohorts are the newest of a period in an epoch
    # Without whole periods, changes would be over unequal times, and differ where the mean drifts.
    if lag == curve.epoch and 2 <= each < len(now):
        # All of the campaign's, so that later periods take no flag back.
        looks, alarms = math.ceil(each * (periods / lag - 2)), curve.false_alarms
        flags[now] = flagged(changes, margins, each, alarms, looks=looks, moved=moved)
    return flags


def _moved_on(epoch: float, count: int) -> float:
    """Return the newest cohort's mean r of answers (1 + r)y − ry', at most, for gaps of an epoch.

    They are at most one and a half of `count` parts and half a period old; `epoch` is in periods.
    """
    return min(1.5 / count + 0.5 / epoch, 1.0)
