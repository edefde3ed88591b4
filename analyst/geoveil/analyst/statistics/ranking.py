"""Which of several estimates are the greatest, and how surely [MATH §8].

Choosing from estimates costs no privacy, but what was chosen for being great is on average
estimated too high, and may not be the greatest at all. So a ranking states a *set* that holds all
of the true top k, ranks as intervals, and intervals that stay valid after choosing. All are
computed from the normal law of the estimates' errors with its covariances: n people answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.campaigns import asked_of_points, softness_of_points
from geoveil.analyst.questions import AnalystQuestion
from geoveil.analyst.results import Result
from geoveil.analyst.statistics.joint import JointEstimates, with_liars
from geoveil.analyst.statistics.simultaneous import normal_draws
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS, Statistic, Steps
from geoveil.campaign import Campaign, ValueCampaign
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.gp.intervals import Interval, Limits, interval_of_mean

__all__ = ["Ranking", "Top", "ranking_of"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

_DRAWS = 20_000
"""Draws of the errors of all estimates: the 95 % quantile among them is one of 94.7 to 95.3 %."""
_MOST_NUMBERS = 1 << 28
"""Draws times pairs, beyond which fewer are drawn."""
_FEWEST_DRAWS = 2_000
_ON_LOCATING = 0.1
"""Part of the error probability that is spent on which estimates are far from each other."""


@dataclass(frozen=True, kw_only=True)
class Ranking(Result):
    """Estimates from the greatest to the least, and how surely that is their order.

    Three statements, each true with the stated confidence in repeated campaigns:

    * all of the true top k are among `may_be_top`, and all of `surely_top` are in the top k;
    * every true rank is in its interval in `ranks`;
    * the true values of those in `top` are in their intervals in `chosen`, though they were chosen.
    """

    labels: tuple[str, ...]
    """From the greatest estimate to the least."""
    values: tuple[float, ...]
    standard_errors: tuple[float, ...]
    count: int
    """k, how many are the top."""
    may_be_top: tuple[str, ...]
    """The confidence set of the true top k: it holds them all."""
    surely_top: tuple[str, ...]
    """Those that every set of k holds which the reports do not rule out."""
    ranks: tuple[tuple[int, int], ...]
    """Simultaneous intervals of the true ranks, 1 the greatest, as of `labels`."""
    chosen: tuple[Interval, ...]
    """Simultaneous intervals for the first k, valid though they were chosen."""
    contenders: int
    """Among how many the choice may have been: these intervals are simultaneous for all of them."""
    confidence: float
    n: int
    """People whose reports it is from."""
    privacy: GeoPrivacy
    """What a whole report promises."""
    about: tuple[str, ...] = ()
    """Further sentences on what was assumed."""

    @property
    def top(self) -> tuple[str, ...]:
        """The k with the greatest estimates."""
        return self.labels[: self.count]

    @property
    def title(self) -> str:
        return f"The top {self.count} of {len(self.labels)}"

    @property
    def notes(self) -> Sequence[str]:
        often = f"{100 * self.confidence:g} %"
        named = ", ".join(self.surely_top) or "none"
        return (
            f"The true top {self.count} are all among these, with {often} confidence:"
            f" {', '.join(self.may_be_top)}. Surely in the top {self.count}: {named}.",
            f"All true ranks are within their intervals with {often} confidence.",
            f"The intervals of the top {self.count} hold their true values, all at once, with"
            f" {often} confidence, although they were chosen for being great: they are simultaneous"
            f" for the {self.contenders} among which the choice may have been.",
            f"All of the population of which the {self.n:,} participants are a random sample.",
            *self.about,
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": label,
                "estimate": value,
                "standard_error": error,
                "ci_low": self.chosen[i].low if i < self.count else None,
                "ci_high": self.chosen[i].high if i < self.count else None,
                "rank_low": self.ranks[i][0],
                "rank_high": self.ranks[i][1],
                "may_be_top": label in self.may_be_top,
                "surely_top": label in self.surely_top,
            }
            for i, (label, value, error) in enumerate(
                zip(self.labels, self.values, self.standard_errors, strict=True)
            )
        ]


@dataclass(frozen=True)
class Top(Statistic[Ranking]):
    """Which k of several questions have the greatest answers, for example the densest places.

    Args:
        count: k, less than the number of questions.
        questions: asked of points.
        bandwidth: of the bells at places, and of smoothed edges; three noise scales by default.
        width: of the soft band around a threshold or an end; three noise scales by default.
    """

    count: int
    questions: Sequence[AnalystQuestion]
    bandwidth: float | None = None
    width: float | None = None

    def steps(self, campaign: Campaign, confidence: float) -> Steps[Ranking]:
        _check(len(self.questions), self.count)
        if not isinstance(campaign, ValueCampaign):
            raise ParameterError("campaign", campaign.campaign_id, "a value campaign")
        softness = softness_of_points(campaign, self.width, self.bandwidth)
        asked = asked_of_points(campaign, self.questions, softness)
        return ranking_of((yield asked), self.count)


def ranking_of(estimates: JointEstimates, count: int) -> Ranking:
    """Return which estimates are the greatest, and how surely.

    Args:
        estimates: of at least two questions.
        count: k, how many are the top; less than the number of estimates.

    Raises:
        ParameterError: if k is out of range.

    Example:
        >>> found = JointEstimates(labels=("a", "b", "c"), values=[0.30, 0.29, 0.1],
        ...     covariance=np.eye(3) * 1e-4, n=10_000, confidence=0.95,
        ...     limits=(Limits((-1.0, 2.0), (0.0, 1.0)),) * 3,
        ...     privacy=GeoPrivacy(1.0, per=500.0, unit="metre"))
        >>> ranking = ranking_of(found, 1)
        >>> ranking.top, ranking.may_be_top, ranking.ranks
        (('a',), ('a', 'b'), ((1, 2), (1, 2), (3, 3)))
    """
    _check(len(estimates.labels), count)
    error = 1 - estimates.confidence
    found = _Comparisons(estimates, _ON_LOCATING * error)
    rest = (1 - _ON_LOCATING) * error
    within, without = _of_the_top(found, count, rest)
    ranks = _ranks(found, rest)
    # With fewer than k truly larger by c errors go fewer than k found larger by 2c.
    contenders = found.far.sum(axis=0) < count
    chosen = found.intervals(contenders, rest)
    order = [int(i) for i in np.argsort(-estimates.values, kind="stable")]
    names = estimates.labels
    return Ranking(
        labels=tuple(names[i] for i in order),
        values=tuple(float(estimates.values[i]) for i in order),
        standard_errors=tuple(float(estimates.standard_errors[i]) for i in order),
        count=count,
        may_be_top=tuple(names[i] for i in order if within[i]),
        surely_top=tuple(names[i] for i in order if not without[i]),
        ranks=tuple(ranks[i] for i in order),
        chosen=tuple(chosen[i] for i in order[:count]),
        contenders=int(contenders.sum()),
        confidence=estimates.confidence,
        n=estimates.n,
        privacy=estimates.privacy,
    )


def _check(m: int, count: int) -> None:
    if not 2 <= m <= MOST_QUESTIONS:
        raise ParameterError("questions", f"{m} of them", f"2 to {MOST_QUESTIONS}")
    if not 1 <= count < m:
        raise ParameterError("count", count, f"from 1 to {m - 1}, for {m} questions")


class _Comparisons:
    """Estimates, the errors of their differences, and draws of these errors.

    But for the probability `error`, all differences are within c of their errors of the truth. Then
    one that is found larger than 2c is truly larger than c; and if its truth is below −c, it is not
    found larger than 0. So only pairs that are `near` each other can be mistaken.

    Args:
        estimates: with their covariances.
        error: probability of a difference that is farther from the truth.
    """

    def __init__(self, estimates: JointEstimates, error: float) -> None:
        self._estimates = estimates
        covariance, variances = estimates.covariance, np.diag(estimates.covariance)
        squares = variances[:, None] + variances[None, :] - 2 * covariance
        self._of_differences = np.sqrt(np.maximum(squares, 0.0))
        m = self.number
        draws = int(max(min(_DRAWS, _MOST_NUMBERS // m**2), _FEWEST_DRAWS))
        self._deviations = normal_draws(covariance, draws)
        others = ~np.eye(m, dtype=np.bool_)
        self.far = self.surely_larger(2 * self.critical(others, error))
        """Which i are found larger than which j by 2c."""
        self.near = others & ~self.far.T
        """Which i might, if they are not truly larger than j, be found larger."""

    @property
    def number(self) -> int:
        """How many estimates there are."""
        return len(self._estimates.labels)

    def critical(self, family: Flags, probability: float) -> float:
        """Return what the largest of some differences exceeds, in its errors, so seldom.

        Args:
            family: which i − j are looked at, (m, m).
            probability: of a larger one, where all are 0.
        """
        largest = np.full(len(self._deviations), -np.inf)
        for j in np.flatnonzero(family.any(axis=0)):
            np.maximum(largest, self._largest(family[:, j], int(j)), out=largest)
        return _quantile(largest, probability)

    def critical_of_each(self, family: Flags, probability: float) -> Array:
        """Return the same for the differences from each j by itself, shape (m,)."""
        return np.array(
            [_quantile(self._largest(family[:, j], j), probability) for j in range(self.number)]
        )

    def surely_larger(self, critical: Array | float) -> Flags:
        """Return which i are larger than which j, by so many errors of their difference.

        Where nearly all reports are equal, that is too little to go by: so the lower limit of the
        difference, with its imagined reports, is to be above 0, too.

        Args:
            critical: of each j, or of all of them.
        """
        limits = np.broadcast_to(critical, self.number)
        values = self._estimates.values
        differences = values[:, None] - values[None, :]
        with np.errstate(invalid="ignore"):
            found = differences > limits * self._of_differences
        found &= self._of_differences > 0
        for i, j in np.argwhere(found):
            found[i, j] = self._difference(i, j, float(limits[j])).low > 0
        return np.asarray(found)

    def intervals(self, family: Flags, probability: float) -> dict[int, Interval]:
        """Return intervals of some estimates which miss any of them so seldom."""
        members = [int(i) for i in np.flatnonzero(family)]
        errors = self._estimates.standard_errors[members]
        errors = np.where(errors > 0, errors, np.inf)
        largest = np.abs(self._deviations[:, members] / errors).max(axis=1)
        confidence = _two_sided(_quantile(largest, probability))
        return {i: self._estimates.interval(i, confidence) for i in members}

    def _largest(self, among: Flags, j: int) -> Array:
        """Return the largest of some differences from j, in their errors, in each draw."""
        others = among & (self._of_differences[:, j] > 0)
        if not others.any():
            return np.full(len(self._deviations), -np.inf)
        differences = self._deviations[:, others] - self._deviations[:, [j]]
        return np.asarray((differences / self._of_differences[others, j]).max(axis=1))

    def _difference(self, i: int, j: int, critical: float) -> Interval:
        limits, n = self._estimates.limits, min(self._estimates.answers or (self._estimates.n,))
        (a, b), (c, d) = limits[i].reports, limits[j].reports
        (e, f), (g, h) = limits[i].means, limits[j].means
        of_difference = Limits((a - d, b - c), (e - h, f - g))
        found = interval_of_mean(
            n,
            float(self._estimates.values[i] - self._estimates.values[j]),
            float(self._of_differences[i, j] ** 2 * (n - 1)),
            _two_sided(critical),
            of_difference,
        )
        return with_liars(found, self._estimates.contamination, of_difference)


def _of_the_top(found: _Comparisons, count: int, error: float) -> tuple[Flags, Flags]:
    """Return which may be among the true top k, and which may be outside.

    Nobody outside the top k is larger than a j within, so that but for the error probability nobody
    outside is *found* larger than it. An equal part of the error is given to each j within for
    which some outside are near; and where nobody is, the top k hold, with a j, all found larger.
    """
    m = found.number
    within = without = np.ones(m, np.bool_)
    while True:
        family = without[:, None] & found.near
        at_risk = count - int((~without & ~family.any(axis=0)).sum())
        critical = found.critical_of_each(family, error / max(at_risk, 1))
        larger = _and_through_others(found.surely_larger(critical))
        before, within = without, larger.sum(axis=0) < count
        without = without & (larger.sum(axis=1) < m - count)
        if (without == before).all():
            return within, without


def _ranks(found: _Comparisons, error: float) -> list[tuple[int, int]]:
    """Return simultaneous intervals of all ranks: Romano and Wolf's step-down over all pairs."""
    m = found.number
    larger = np.zeros((m, m), np.bool_)
    while True:
        family = found.near & ~larger
        news = found.surely_larger(found.critical(family, error)) & ~larger
        if not news.any():
            above, below = larger.sum(axis=0), larger.sum(axis=1)
            return [(int(1 + a), int(m - b)) for a, b in zip(above, below, strict=True)]
        larger |= news


def _and_through_others(larger: Flags) -> Flags:
    """Return the relation with what follows from it: who is larger than one that is larger."""
    while True:
        more = larger | (larger.astype(np.float32) @ larger.astype(np.float32) > 0)
        if (more == larger).all():
            return larger
        larger = more


def _quantile(largest: Array, probability: float) -> float:
    """Return what numbers exceed with a probability, at least 0."""
    return max(float(np.quantile(largest, 1 - probability, method="higher")), 0.0)


def _two_sided(critical: float) -> float:
    from scipy.special import ndtr

    return float(2 * ndtr(critical) - 1)
