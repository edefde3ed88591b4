"""Trends: the change of means in a unit of time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.results import Answer, chance_words, counted, rows_of
from geoveil.analyst.simultaneous import confidence_at
from geoveil.analyst.statistics.comparison import (
    Changes,
    People,
    check_comparable,
    compared_estimates,
    people_of,
    sums_over,
)
from geoveil.analyst.statistics.joint import JointEstimates, notes_of_liars
from geoveil.campaign import digits
from geoveil.gp import Array, ParameterError

_FAR = 3
"""Multiple of the usual spread of as many reports, beyond which a time counts for less."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trends(Changes):
    """The change of means in a unit of time: the slope of a weighted least-squares line."""

    coverage = "The intervals hold all slopes at once at {of.percent}."
    bent: Array
    """(m,), p of all means lying on a line (Cochran's Q), too small where a time has fewer than 30
    answers of yes or of no; NaN for two times or the same people."""
    first: Array
    """(m,), the means at the first time."""
    last: Array
    """(m,), the means at the last."""
    of_shares: tuple[bool, ...]
    """Whether each mean is a share."""

    @property
    def title(self) -> str:
        return f"{counted(len(self.labels), 'trend')} over {len(self.counts)} times"

    @property
    def sentences(self) -> Sequence[Answer]:
        said = []
        for at, label in enumerate(self.labels):
            factor, unit, points = (100, " %", " % points") if self.of_shares[at] else (1, "", "")
            slope, low, high, first, last = (
                digits(float(f"{factor * each[at]:.{figures}g}"))
                for each, figures in (
                    (self.values, 2), (self.low, 2), (self.high, 2), (self.first, 3), (self.last, 3)
                )
            )  # fmt: skip
            p = float(self.adjusted[at])
            moved = "went"
            if p <= 1 - self.confidence:
                moved = "rose" if self.values[at] > 0 else "fell"
            surely = chance_words(p) + ("" if moved != "went" else ", which may be chance")
            said.append(
                Answer(
                    float(self.values[at]),
                    "",
                    "",
                    f"“{label}” {moved} from {first}{unit} to {last}{unit} over {len(self.counts)}"
                    f" periods, by {slope}{points} a period ({low} to {high}; {surely})",
                )
            )
        return said

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {
                "name": self.labels,
                "slope": self.values,
                "standard_error": self.standard_errors,
                "ci_low": self.low,
                "ci_high": self.high,
                "p_adjusted": self.adjusted,
                "p_line": self.bent,
            }
        )


def trend(
    *estimates: JointEstimates, people: People | str, times: ArrayLike | None = None
) -> Trends:
    """Return slopes of means over time, with simultaneous intervals.

    Args:
        estimates: two or more, with the same labels and confidence, one for each time.
        people: whether the people behind them are different, or may be the same.
        times: increasing, one of each; 0, 1, … by default.

    Raises:
        ParameterError: if they have different questions or confidences, or an argument is invalid.
    """
    from scipy.special import chdtrc

    samples = [compared_estimates(estimate) for estimate in estimates]
    check_comparable(samples, ())
    kind = people_of(people)
    t = np.arange(len(estimates), dtype=np.float64) if times is None else np.asarray(times, float)
    if t.shape != (len(estimates),) or not (np.diff(t) > 0).all():
        raise ParameterError("times", t.tolist(), f"{len(estimates)} increasing numbers")
    values = np.array([sample.values for sample in samples])
    # Of the intervals: few equal answers have a variance of 0, and say little.
    spreads = np.array([sample.margins(confidence_at(1.0)).max(axis=0) for sample in samples])
    spreads[spreads == 0] = math.inf  # all are equal, and nothing bounds them
    spreads[:, np.isfinite(spreads).sum(axis=0) < 2] = 1.0
    # The usual spread of as many reports: weights by their own would follow the errors of shares.
    root = np.sqrt([[sample.of.n] for sample in samples])
    usual = np.nanmedian(np.where(np.isfinite(spreads), root * spreads, np.nan), axis=0) / root
    _, _, c = _lines(t, np.maximum(spreads / _FAR, usual))
    made = sums_over(samples, c[None], kind)
    spreads = np.maximum(spreads, usual)
    weights, away, slopes = _lines(t, spreads)
    line = (weights * values).sum(axis=0) + (slopes * values).sum(axis=0) * away
    q = (((values - line) / spreads) ** 2).sum(axis=0)
    freedom = len(t) - 2
    assumption = "independent" if kind is People.DIFFERENT else "dependent at worst"
    testable = kind is People.DIFFERENT and freedom > 0
    return Trends(
        labels=estimates[0].labels,
        first=values[0],
        last=values[-1],
        of_shares=tuple(limits.estimates == (0.0, 1.0) for limits in estimates[0].limits),
        bent=np.asarray(chdtrc(freedom, q)) if testable else np.full(len(q), np.nan),
        about=(
            f"Errors of different times are taken as {assumption}.",
            *estimates[0].assumes,
            *notes_of_liars(max(estimate.contamination for estimate in estimates)),
        ),
        **made,
    )


def _lines(t: Array, spreads: Array) -> tuple[Array, Array, Array]:
    """Return what times weigh in the middle of lines, how far they are from it, and in slopes."""
    weights = (spreads.min(axis=0) / spreads) ** 2
    weights = weights / weights.sum(axis=0)
    away = t[:, None] - (weights * t[:, None]).sum(axis=0)
    return weights, away, weights * away / (weights * away**2).sum(axis=0)  # each (times, m)
