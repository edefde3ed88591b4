"""Differences between periods and campaigns in one test, and trends over periods.

Different people have independent errors: variances add up. The same people do not, and reports that
nobody can link do not tell how their errors go together: the standard error of a difference is then
at most the sum of both, which is what is stated.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst.results import Result, rows_of
from geoveil.analyst.statistics.joint import POPULATION, JointEstimates, notes_of_liars
from geoveil.analyst.statistics.simultaneous import critical_value
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.gp.shown import member

__all__ = ["Changes", "People", "Trends", "compare", "holm", "trend"]

Array = NDArray[np.float64]


class People(StrEnum):
    """Whether those behind two estimates are the same."""

    __repr__ = member

    DIFFERENT = "different"
    """Nobody is behind both, or only by chance: two samples drawn independently."""
    SAME = "same"
    """Some may be behind both, as in a campaign that recurs."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes(Result):
    """How several means changed, with intervals that cover all at once and one test of all."""

    labels: tuple[str, ...]
    values: Array
    """(m,)"""
    standard_errors: Array
    """(m,); of the same people, the most that they can be."""
    low: Array
    """(m,), lower ends of intervals that cover all differences at once."""
    high: Array
    """(m,), upper ends."""
    p_values: Array
    """(m,), of each difference by itself, two-sided: the confidence at which its interval would
    just hold 0, less 1."""
    adjusted: Array
    """(m,), by Holm's rule: whoever calls differences with at most α other than 0 is wrong about
    any of them with probability α or less."""
    people: People
    """The people behind the estimates."""
    confidence: float
    """The confidence that all intervals hold at once, in (0, 1)."""
    n: tuple[int, ...]
    """People, in each of what is compared."""
    privacy: GeoPrivacy
    """What a whole report promises."""
    about: tuple[str, ...] = ()
    """Further sentences."""

    @property
    def title(self) -> str:
        return f"{len(self.labels)} differences, between {len(self.n)} sets of reports"

    @property
    def notes(self) -> Sequence[str]:
        said = {
            People.DIFFERENT: "The people are taken as different ones: their variances add up.",
            People.SAME: "The people may be the same: reports can't be linked, so that each"
            " standard error is at most what is stated.",
        }
        return (
            POPULATION,
            said[self.people],
            f"The intervals hold all differences at once at {self.confidence:.4g}; adjusted p is by"
            " Holm's rule.",
            *self.about,
        )

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {
                "name": self.labels,
                "estimate": self.values,
                "standard_error": self.standard_errors,
                "ci_low": self.low,
                "ci_high": self.high,
                "p": self.p_values,
                "p_adjusted": self.adjusted,
            }
        )


def compare(
    *estimates: JointEstimates,
    people: People | str,
    names: Sequence[str] = (),
    to_first: bool = False,
) -> Changes:
    """Return how estimates of the same questions differ: each from the one before it.

    Args:
        estimates: two or more, of the same labels and confidence: periods, campaigns or groups.
        people: whether those behind them are different, or may be the same.
        names: of what is compared; "1", "2", … by default.
        to_first: whether all are compared to the first, not to the one before.

    Raises:
        ParameterError: if they are of different questions or confidences, or an argument is none.
    """
    _check(estimates, names)
    kind = _people(people)
    names = tuple(names) or tuple(str(i + 1) for i in range(len(estimates)))
    pairs = [(0 if to_first else i - 1, i) for i in range(1, len(estimates))]
    m = len(estimates[0].labels)
    errors = np.array([one.standard_errors for one in estimates])
    values = np.concatenate([estimates[b].values - estimates[a].values for a, b in pairs])
    if kind is People.SAME:
        spread = np.concatenate([errors[a] + errors[b] for a, b in pairs])
        critical = _bonferroni(len(values), estimates[0].confidence)
    else:
        spread = np.concatenate([np.hypot(errors[a], errors[b]) for a, b in pairs])
        critical = critical_value(_correlations(estimates, pairs, spread), estimates[0].confidence)
    level = math.erf(critical / math.sqrt(2))
    ends = [_honest(one).intervals(level) for one in estimates]
    moved = np.concatenate([estimates[a].moved + estimates[b].moved for a, b in pairs])
    below, above = (
        np.concatenate(
            [
                _together(
                    kind,
                    np.abs(estimates[b].values - ends[b][side]),
                    np.abs(ends[a][1 - side] - estimates[a].values),
                )
                for a, b in pairs
            ]
        )
        for side in (0, 1)
    )
    left = np.sign(values) * np.maximum(np.abs(values) - moved, 0.0)  # what liars can't have done
    p_values = _p_values(left, np.where(values > 0, below, above) / critical)
    single = m == 1 and estimates[0].labels[0]
    return Changes(
        labels=tuple(
            f"{names[b]} − {names[a]}" + ("" if single else f": {label}")
            for a, b in pairs
            for label in estimates[0].labels
        ),
        values=values,
        standard_errors=spread,
        low=values - below - moved,
        high=values + above + moved,
        p_values=p_values,
        adjusted=holm(p_values),
        people=kind,
        confidence=estimates[0].confidence,
        n=tuple(one.n for one in estimates),
        privacy=estimates[0].privacy,
        about=_of_liars(estimates),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Trends(Result):
    """The change of means in a unit of time: the slope of the line of weighted least squares."""

    labels: tuple[str, ...]
    slopes: Array
    """(m,), in a unit of time."""
    standard_errors: Array
    """(m,); of the same people, the most that they can be."""
    low: Array
    """(m,), lower ends of intervals that cover all slopes at once."""
    high: Array
    """(m,), upper ends."""
    adjusted: Array
    """(m,), p of each slope being 0, by Holm's rule."""
    bent: Array
    """(m,), p of all means lying on a line (Cochran's Q); NaN for two times or the same people."""
    people: People
    """The people behind the estimates."""
    confidence: float
    """The confidence that all intervals hold at once, in (0, 1)."""
    n: tuple[int, ...]
    """People at each time."""
    privacy: GeoPrivacy
    """What a whole report promises."""
    about: tuple[str, ...] = ()
    """Further sentences."""

    @property
    def title(self) -> str:
        return f"{len(self.labels)} trends over {len(self.n)} times"

    @property
    def notes(self) -> Sequence[str]:
        told = "independent" if self.people is People.DIFFERENT else "dependent at worst"
        return (
            POPULATION,
            f"Errors of different times are taken as {told}.",
            f"The intervals hold all slopes at once at {self.confidence:.4g}.",
            *self.about,
        )

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {
                "name": self.labels,
                "slope": self.slopes,
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
    """Return how means change over time, as slopes with intervals that cover all at once.

    Args:
        estimates: two or more, of the same labels and confidence, one a time.
        people: whether those behind them are different, or may be the same.
        times: increasing, one of each; 0, 1, … by default.

    Raises:
        ParameterError: if they are of different questions or confidences, or an argument is none.
    """
    from scipy.special import chdtrc

    _check(estimates, ())
    kind = _people(people)
    t = np.arange(len(estimates), dtype=np.float64) if times is None else np.asarray(times, float)
    if t.shape != (len(estimates),) or not (np.diff(t) > 0).all():
        raise ParameterError("times", t.tolist(), f"{len(estimates)} increasing numbers")
    values = np.array([one.values for one in estimates])
    variances = np.array([one.standard_errors for one in estimates]) ** 2
    weights = 1 / np.maximum(variances, variances.max(axis=0) * 1e-6 + 1e-300)
    middle = (weights * t[:, None]).sum(axis=0) / weights.sum(axis=0)
    away = t[:, None] - middle
    c = weights * away / (weights * away**2).sum(axis=0)  # (times, m)
    slopes = (c * values).sum(axis=0)
    if kind is People.SAME:
        errors = (np.abs(c) * np.sqrt(variances)).sum(axis=0)
        critical = _bonferroni(len(slopes), estimates[0].confidence)
    else:
        covariance = sum(
            one.covariance * np.outer(row, row) for one, row in zip(estimates, c, strict=True)
        )
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        scale = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0)
        critical = critical_value(covariance * np.outer(scale, scale), estimates[0].confidence)
    level = math.erf(critical / math.sqrt(2))
    ends = np.array([_honest(one).intervals(level) for one in estimates])  # (times, 2, m)
    moved = (np.abs(c) * [one.moved for one in estimates]).sum(axis=0)
    margins = np.abs(ends - values[:, None])
    rising = np.where((c > 0)[:, None], margins, margins[:, ::-1])
    parts = np.abs(c)[:, None] * rising
    below, above = parts.sum(axis=0) if kind is People.SAME else np.sqrt((parts**2).sum(axis=0))
    left = np.sign(slopes) * np.maximum(np.abs(slopes) - moved, 0.0)
    p_values = _p_values(left, np.where(slopes > 0, below, above) / critical)
    mean = (weights * values).sum(axis=0) / weights.sum(axis=0)
    q = (weights * (values - mean - slopes * away) ** 2).sum(axis=0)
    freedom = len(t) - 2
    told = kind is People.DIFFERENT and freedom > 0
    return Trends(
        labels=estimates[0].labels,
        slopes=slopes,
        standard_errors=errors,
        low=slopes - below - moved,
        high=slopes + above + moved,
        adjusted=holm(p_values),
        bent=np.asarray(chdtrc(freedom, q)) if told else np.full(len(q), np.nan),
        people=kind,
        confidence=estimates[0].confidence,
        n=tuple(one.n for one in estimates),
        privacy=estimates[0].privacy,
        about=_of_liars(estimates),
    )


def holm(p_values: ArrayLike) -> Array:
    """Return p-values that may be compared to α all together, by Holm's rule (1979).

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    found = np.empty_like(p)
    found[order] = np.minimum(stepped, 1.0)
    return found


def _check(estimates: Sequence[JointEstimates], names: Sequence[str]) -> None:
    if len(estimates) < 2:
        raise ParameterError("estimates", len(estimates), "two or more")
    if names and len(names) != len(estimates):
        raise ParameterError("names", list(names), f"{len(estimates)} of them")
    first = estimates[0]
    for one in estimates[1:]:
        if one.labels != first.labels:
            raise ParameterError("labels", one.labels[:5], f"as of the first: {first.labels[:5]}")
        if one.confidence != first.confidence:
            raise ParameterError("confidence", one.confidence, f"{first.confidence}")


def _honest(estimates: JointEstimates) -> JointEstimates:
    """Return the same, as if no report were false."""
    return replace(estimates, contamination=0.0)


def _of_liars(estimates: Sequence[JointEstimates]) -> tuple[str, ...]:
    """Return what to say of false reports, of which there may be most in any of the estimates."""
    worst = max(estimates, key=lambda one: one.contamination)
    return tuple(notes_of_liars(worst.contamination, worst.weights))


def _people(people: People | str) -> People:
    try:
        return People(people)
    except ValueError:
        raise ParameterError("people", people, "'different' or 'same'") from None


def _correlations(
    estimates: Sequence[JointEstimates], pairs: Sequence[tuple[int, int]], spread: Array
) -> Array:
    """Return the correlations of all differences, of different people."""
    m = len(estimates[0].labels)
    signs = np.zeros((len(pairs), len(estimates)))
    for row, (a, b) in enumerate(pairs):
        signs[row, a] -= 1
        signs[row, b] += 1
    found = np.zeros((len(pairs) * m,) * 2)
    for column, one in zip(signs.T, estimates, strict=True):
        found += np.kron(np.outer(column, column), one.covariance)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    found *= np.outer(scale, scale)
    np.fill_diagonal(found, 1.0)
    return found


def _together(kind: People, one: Array, other: Array) -> Array:
    """Return the margin of a difference from those of both (Zou and Donner 2008), or the most."""
    return one + other if kind is People.SAME else np.hypot(one, other)


def _bonferroni(count: int, confidence: float) -> float:
    """Return a critical value that holds whatever the correlations are."""
    from scipy.special import ndtri

    return float(-ndtri((1 - confidence) / (2 * count)))


def _p_values(values: Array, errors: Array) -> Array:
    from scipy.special import ndtr

    far = np.divide(
        np.abs(values), errors, out=np.where(values == 0, 0.0, np.inf), where=errors > 0
    )
    return np.asarray(2 * ndtr(-far))
