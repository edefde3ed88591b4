"""Quantiles of perturbed numbers, by inverting the intervals of their distribution function.

The interval of a quantile has all thresholds at which the interval of the share contains its level
(Woodruff 1952). It needs no density, and no end is farther out than the reports show.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.results import Answer, Series, amount_answer, rows_of, what_holds
from geoveil.analyst.simultaneous import confidence_at, critical_value_of_one
from geoveil.analyst.statistics.distribution import (
    blurred_less,
    checked_levels,
    inverse,
    rising_shares,
)
from geoveil.analyst.statistics.joint import JointEstimates, Quantity
from geoveil.analyst.statistics.statistic import (
    MOST_QUESTIONS,
    Statistic,
    Steps,
    band_width,
    ends,
    octaves,
    shares_above,
)
from geoveil.campaign import AttributeCampaign
from geoveil.gp import Array, LogScale, ParameterError

_MOST_LEVELS = 20
_STEPS = 144
"""Thresholds around a quantile in each round, unless there are many quantiles."""
_ROUNDS = 7
_SAME = 1e-6
"""Thresholds closer than this, in widths, are merged."""
_ROUNDED = 1e-13
"""Thresholds closer than this, relative to their size, are merged; labels have 15 digits."""
_NONE = np.zeros(1)
_SPANS = 6
"""The most spans of thresholds for a quantile in one round."""
_NODES = np.linspace(0.0, 2.0, 33)
"""Reaches of intervals between which margins are interpolated, in that of the confidence."""
_SUREST = 1 - 1e-9
"""The highest confidence at which intervals of shares are sought, beyond that asked for."""
_DIRECTIONS = 17
"""Pairs of errors tried of two quantiles."""
_CLOSE = 16
"""Steps in which an interval of a share may change at least between precise thresholds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantileEstimates(Series):
    """Quantiles, each with a separate interval.

    A standard error is the length of the interval, divided by that of a normal one in errors.
    """

    levels: Array
    """(m,), increasing, in (0, 1)."""
    correlations: Array
    """(m, m), of the estimates."""
    width: float
    """The width of the soft thresholds, in units of the attribute."""
    moved: Array
    """(2, m): how far false reports can move each, down and up; 0 without contamination."""
    ends: Callable[[float], tuple[Array, Array]] = field(repr=False)
    """Confidence → ends of intervals if no report is false, not yet on the scale."""
    scale: LogScale | None = None
    """The scale of values compared by ratio; None if compared by difference."""

    @property
    def title(self) -> str:
        return f"Quantiles, from {self.n:,} reports"

    @cached_property
    def _margins(self) -> Array:
        """Margins if no report is false, (nodes, 2, m)."""
        made = [np.zeros((2, len(self.levels)))]
        for node in _NODES[1:].tolist():
            ends = self.ends(_wider(self.confidence, node))
            low, high = ends if self.scale is None else map(self.scale.from_log, ends)
            made.append(np.stack([self.values - low, high - self.values]))
        return np.maximum.accumulate(made)

    def margins_at(self, confidence: float) -> Array:
        """Return lower and upper margins if no report is false, (2, m).

        Beyond twice the reach of the estimates they grow like those of a normal error.
        """
        reach = critical_value_of_one(self.confidence) * _NODES[-1]
        share, margins = critical_value_of_one(confidence) / reach, self._margins
        last = len(margins) - 1
        if share >= 1:
            return grown(margins[last], reach, confidence)
        k, part = int(share * last), share * last % 1
        return np.asarray(
            margins[k] if not part else (1 - part) * margins[k] + part * margins[k + 1]
        )

    @property
    def sentences(self) -> Sequence[Answer]:
        said = []
        columns = (self.levels, self.values, self.low, self.high)
        for level, value, low, high in zip(*(column.tolist() for column in columns), strict=True):
            rest = "is the median"
            if level != 0.5:
                rest = f"is what {100 * level:.4g} % of people do not exceed"
            if math.isfinite(value):
                said.append(amount_answer(value, low, high, self.value_unit, rest))
        return said

    @property
    def notes(self) -> Sequence[str]:
        soft, away = f"{self.width:,.6g}", f"{self.width / 2:,.6g}"
        if self.scale is not None:
            soft, away = (f"a factor of {math.exp(w * self.width):,.6g}" for w in (1, 0.5))
        return (
            *super().notes,
            f"Thresholds are soft over {soft}: a quantile of the values themselves is at most"
            f" {away} away from that of the blurred values, which is estimated (see any_crowd).",
        )

    @property
    def axis_label(self) -> str:
        return super().axis_label + (f", {self.value_unit}" if self.value_unit else "")

    def held(self, scale: LogScale) -> Self:
        values, low, high = (scale.from_log(x) for x in (self.values, self.low, self.high))
        down, up = self.moved
        with np.errstate(invalid="ignore"):  # an end at infinity, moved there
            down = np.where(down > 0, scale.from_log(np.nan_to_num(self.low + down)) - low, 0.0)
            up = np.where(up > 0, high - scale.from_log(np.nan_to_num(self.high - up)), 0.0)
        return replace(
            self,
            values=values,
            low=low,
            high=high,
            moved=np.stack([down, up]),
            standard_errors=self.standard_errors * values,  # to first order
            scale=scale,
        )

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {"level": self.levels, **self.columns, **what_holds(len(self.levels), self.any_crowd)}
        )

    @property
    def any_crowd(self) -> tuple[Array, Array]:
        """Ends of intervals of quantiles of the values themselves, valid however people crowd."""
        return blurred_less(self.low, self.high, self.width, self.scale)

    def difference(self, low: float, high: float) -> Quantity:
        """Return the difference of two quantiles, with an interval from the ends of theirs.

        Where nobody is near, small errors of shares move both quantiles far.

        Raises:
            ParameterError: if they are not among the levels.
        """
        for level in (low, high):
            if level not in self.levels:
                raise ParameterError("level", level, f"one of {self.levels.tolist()}")
        i, j = (int(np.flatnonzero(self.levels == level)[0]) for level in (low, high))
        value, rho = float(self.values[j] - self.values[i]), float(self.correlations[i, j])
        a, b = float(self.standard_errors[i]), float(self.standard_errors[j])
        below, above = farthest_of_two(
            lambda confidence: self.margins_at(confidence)[:, j],
            lambda confidence: self.margins_at(confidence)[::-1, i],
            self.confidence,
            -rho,
        )
        down, up = (self.moved[:, j] + self.moved[::-1, i]).tolist()
        return Quantity(
            label=f"quantile {high:g} − quantile {low:g}",
            value=value,
            standard_error=math.sqrt(max(a * a + b * b - 2 * a * b * rho, 0.0)),
            ci_low=value - float(below) - down,
            ci_high=value + float(above) + up,
            **self.common,
            about=tuple(self.notes[2:]),
        )

    @property
    def interquartile_range(self) -> Quantity:
        """The difference of the quartiles, if both are among the levels."""
        return replace(self.difference(0.25, 0.75), label="interquartile range")


@dataclass(frozen=True, kw_only=True)
class Quantiles(Statistic[QuantileEstimates]):
    """The values that given shares of the people do not exceed.

    Example:
        >>> Quantiles(levels=(0.5,)).levels
        (0.5,)
    """

    levels: Sequence[float] = (0.25, 0.5, 0.75)
    """Increasing, in (0, 1), at most 20."""
    width: float | None = None
    """The width of the soft thresholds, in the attribute's unit; three noise scales by default."""

    def __post_init__(self) -> None:
        if len(checked_levels(self.levels)) > _MOST_LEVELS:
            raise ParameterError("levels", len(self.levels), f"at most {_MOST_LEVELS}")

    def on_scale(self, scale: LogScale) -> "Quantiles":
        return replace(self, width=scale.width(self.width))

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[QuantileEstimates]:
        width = band_width(campaign, self.width)
        levels = checked_levels(self.levels)
        steps = min(_STEPS, MOST_QUESTIONS // len(levels) - _SPANS)
        at, above = yield from octaves(campaign, width)
        for _ in range(_ROUNDS):
            less = replace(above, confidence=confidence).less(1 - levels)
            # Where the reports set no end, use the thresholds beyond which there is nobody.
            wide = replace(above, confidence=_wider(confidence)).less(1 - levels)
            low, high, first, last = (
                np.clip(limits, *ends(at, above, 0.0))
                for of in (less, wide)
                for limits in _inverted(at, of)
            )
            values = np.clip(inverse(at, rising_shares(above), levels), low, high)
            if all(_closely(at, less, places).all() for places in (low, values, high)):
                break
            spans = [
                span
                for ends_of_one in zip(low, values, high, first, last, strict=True)
                for span in _spans(at, *ends_of_one, width)
            ]
            count = steps * len(levels) // len(spans) + 1
            grids = np.sort(np.concatenate([np.linspace(a, b, count) for a, b in spans]))
            same = np.maximum(_SAME * width, _ROUNDED * np.abs(grids))
            apart = np.diff(grids, prepend=-np.inf) > same
            at, above = yield from shares_above(grids[apart], width)
        return _estimates(at, replace(above, confidence=confidence), levels, width)


def _estimates(at: Array, above: JointEstimates, levels: Array, width: float) -> QuantileEstimates:
    values = inverse(at, rising_shares(above), levels)
    low, high = _intervals(at, above, levels)
    honest = replace(above, contamination=0.0)
    of_honest = _intervals(at, honest, levels) if above.contamination else (low, high)
    nearest = [int(np.abs(at - value).argmin()) if np.isfinite(value) else 0 for value in values]
    return QuantileEstimates(
        levels=levels,
        values=values,
        standard_errors=(of_honest[1] - of_honest[0])
        / (2 * critical_value_of_one(above.confidence)),
        low=low,
        high=high,
        moved=np.stack(
            [
                np.subtract(a, b, out=np.zeros_like(a), where=a != b)
                for a, b in ((of_honest[0], low), (high, of_honest[1]))
            ]
        ),
        correlations=above.correlations[np.ix_(nearest, nearest)],
        ends=partial(_ends_at, at, honest, levels, of_honest),
        width=width,
        **above.common,
    )


def grown(margins: Array, reach: float, confidence: float) -> Array:
    """Return margins at a confidence, given those at a reach of so many standard errors."""
    share = critical_value_of_one(confidence) / reach
    # A margin without an end has none at any confidence; 0 times infinity is not a number.
    return np.asarray(np.where(np.isinf(margins), margins, share * np.minimum(margins, 1e300)))


def farthest_of_two(
    one: Callable[[float], Array],
    other: Callable[[float], Array],
    confidence: float,
    rho: float = 0,
) -> Array:
    """Return how far two errors of a correlation move a sum, given how far each does.

    The pairs of errors are on the ellipse that reaches as far as one error at the confidence: if
    they move it in proportion, as far as their joint error does [ZD08]. Small errors move quantiles
    across gaps.
    """
    reach, turned = critical_value_of_one(confidence), math.sqrt(max(1 - rho * rho, 0.0))
    a, b = one(confidence), other(confidence)
    with np.errstate(invalid="ignore"):  # where one has no end
        far = [a, b, np.sqrt(np.maximum(a * a + b * b + 2 * rho * a * b, 0.0))]
    for angle in np.linspace(-math.asin(rho), math.pi / 2, _DIRECTIONS).tolist():
        x, y = math.cos(angle), max(rho * math.cos(angle) + turned * math.sin(angle), 0.0)
        far.append(one(confidence_at(reach * x)) + other(confidence_at(reach * y)))
    return np.asarray(np.fmax.reduce(far))


def _ends_at(
    at: Array,
    above: JointEstimates,
    levels: Array,
    estimated: tuple[Array, Array],
    confidence: float,
) -> tuple[Array, Array]:
    """Return the ends at a confidence, at thresholds outside, within those that are estimated."""
    low, high = _outside(at, *_intervals(at, replace(above, confidence=confidence), levels))
    if confidence > above.confidence + _ROUNDED:
        return low, high
    return np.maximum(low, estimated[0]), np.minimum(high, estimated[1])


def _intervals(at: Array, above: JointEstimates, levels: Array) -> tuple[Array, Array]:
    """Return the ends of the thresholds at which the interval of the share contains a level.

    Where thresholds are still far apart, the ends are the next ones outside.
    """
    less = above.less(1 - levels)
    low, high = _inverted(at, less)
    left, right = _outside(at, low, high)
    return (
        np.where(_closely(at, less, low), low, left),
        np.where(_closely(at, less, high), high, right),
    )


def _outside(at: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the nearest thresholds outside intervals, or their ends if there is none."""
    left = np.maximum(np.searchsorted(at, low, "right") - 1, 0)
    right = np.minimum(np.searchsorted(at, high), len(at) - 1)
    return np.minimum(at[left], low), np.maximum(at[right], high)


def _inverted(at: Array, less: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the ends of the thresholds at which intervals contain 0, (levels, thresholds)."""
    # The first threshold whose upper end reaches a level, and the last whose lower end is below.
    ends = [
        (
            inverse(at, np.maximum.accumulate(-least), _NONE)[0],
            inverse(at, np.minimum.accumulate(-most[::-1])[::-1], _NONE, last=True)[0],
        )
        for least, most in zip(*less, strict=True)
    ]
    first, last = np.array(ends).T
    return np.minimum(first, at[-1]), np.maximum(last, at[0])


def _spans(
    at: Array, low: float, value: float, high: float, first: float, last: float, closely: float
) -> list[tuple[float, float]]:
    """Return the next thresholds' spans: all of an interval or, if it is longer, its ends, too.

    Also what a wider interval has on either side.
    """
    whole, *beyond = (_around(at, *of) for of in ((low, high), (first, low), (high, last)))
    if whole[1] - whole[0] <= closely:
        return [whole, *beyond]
    return [whole, *beyond, *(_around(at, place, place) for place in (low, value, high))]


def _wider(confidence: float, times: float = _NODES[-1]) -> float:
    """Return the confidence of intervals that reach so many times as far, if shares have them."""
    wider = confidence_at(times * critical_value_of_one(confidence))
    return min(wider, max(confidence, _SUREST))


def _around(at: Array, low: float, high: float) -> tuple[float, float]:
    """Return the thresholds on both sides of an interval, and the next ones if there are any."""
    first = max(int(np.searchsorted(at, low, "right")) - 2, 0)
    last = min(int(np.searchsorted(at, high, "left")) + 1, len(at) - 1)
    return float(at[first]), float(at[last])


def _closely(at: Array, less: tuple[Array, Array], places: Array) -> NDArray[np.bool_]:
    """Return whether the share hardly changes between the thresholds around each level's place.

    Between them a share may be bent, as at an end of a gap.
    """
    right = np.clip(np.searchsorted(at, places), 1, len(at) - 1)[:, None]
    (low, above), (least, most) = (
        [np.take_along_axis(end, right - before, axis=1) for end in less] for before in (1, 0)
    )
    with np.errstate(invalid="ignore"):
        far = _CLOSE * np.maximum(np.abs(low - least), np.abs(above - most)) > most - least
    return np.asarray(~far.any(axis=1))
