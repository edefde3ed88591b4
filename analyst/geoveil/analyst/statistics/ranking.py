"""Find the greatest of several estimates, with a confidence set [MATH §8].

Choosing from estimates costs no privacy, but an estimate chosen for being great is too high on
average, and may not be of the greatest value at all. So a ranking states a *set* that contains all
of the true top k, and intervals that stay valid after the choice. Both are computed from the normal
law of the estimates' errors with its covariances, as n people answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.campaigns import asked_of_points, softness_of_points
from geoveil.analyst.questions import AnalystQuestion
from geoveil.analyst.results import Estimates, estimated
from geoveil.analyst.simultaneous import confidence_at, normal_draws
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS, Statistic, Steps
from geoveil.campaign import AttributeCampaign, ValueCampaign
from geoveil.gp import Array, Interval, LogScale, ParameterError, validation

Flags = NDArray[np.bool_]

_DRAWS = 20_000
"""Draws of the errors of all estimates; their 95 % quantile is a true 94.7 to 95.3 % one."""
_MOST_NUMBERS = 1 << 28
"""The most draws times pairs; with more pairs, there are fewer draws."""
_FEWEST_DRAWS = 2_000
_HALVINGS = 40
_ON_LOCATING = 0.1
"""Part of the error probability spent on finding estimates that are far apart."""


@dataclass(frozen=True, kw_only=True)
class Ranking(Estimates):
    """Estimates from the greatest to the least, with a confidence set of the top.

    Two statements, each true with the stated confidence in repeated campaigns:

    * all of the true top k are among `may_be_top`, and all of `surely_top` are in the top k;
    * the true values of those in `top` are in their intervals in `chosen`, though they were chosen.
    """

    labels: tuple[str, ...]
    """From the greatest estimate to the least."""
    values: tuple[float, ...]
    standard_errors: tuple[float, ...]
    count: int
    """k, how many are the top."""
    may_be_top: tuple[str, ...]
    """The confidence set of the true top k: it contains all of them."""
    surely_top: tuple[str, ...]
    """The members of every set of k that the reports do not rule out."""
    chosen: tuple[Interval, ...]
    """Simultaneous intervals for the first k, valid after the choice."""
    contenders: int
    """How many candidates the choice may have had; the intervals are simultaneous for all of
    them."""

    @property
    def top(self) -> tuple[str, ...]:
        """The k with the greatest estimates."""
        return self.labels[: self.count]

    @property
    def title(self) -> str:
        return f"The top {self.count} of {len(self.labels)}"

    @property
    def notes(self) -> Sequence[str]:
        often = self.percent
        named = ", ".join(self.surely_top) or "none"
        return (
            f"The true top {self.count} are all among these, with {often} confidence:"
            f" {', '.join(self.may_be_top)}. Surely in the top {self.count}: {named}.",
            f"The intervals of the top {self.count} hold their true values, all at once, with"
            f" {often} confidence, although they were chosen for being great: they are simultaneous"
            f" for the {self.contenders} among which the choice may have been.",
            f"All for the population of which the {self.n:,} participants are a random sample.",
            *self.about,
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "name": label,
                **estimated(value, error, low, high),
                "may_be_top": label in self.may_be_top,
                "surely_top": label in self.surely_top,
            }
            for i, (label, value, error) in enumerate(
                zip(self.labels, self.values, self.standard_errors, strict=True)
            )
            for low, high in [
                (self.chosen[i].low, self.chosen[i].high) if i < self.count else (None, None)
            ]
        ]


@dataclass(frozen=True)
class Top(Statistic[Ranking]):
    """The k of several questions with the greatest answers, for example the densest places.

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

    def __post_init__(self) -> None:
        validation.require_count("count", self.count)
        _check(len(validation.items("questions", self.questions, AnalystQuestion)), self.count)

    def on_scale(self, scale: LogScale) -> "Top":
        return self  # its questions take the scale when they are asked

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[Ranking]:
        if not isinstance(campaign, ValueCampaign):
            raise ParameterError("campaign", campaign.campaign_id, "a value campaign")
        softness = softness_of_points(campaign, self.width, self.bandwidth)
        questions = asked_of_points(campaign, self.questions, softness)
        return ranking_of((yield questions), self.count)


def ranking_of(estimates: JointEstimates, count: int) -> Ranking:
    """Return the greatest estimates, with a confidence set.

    Args:
        estimates: of at least two questions.
        count: k, how many are the top; less than the number of estimates.

    Raises:
        ParameterError: if k is out of range.

    Example:
        >>> from geoveil.gp import GeoPrivacy
        >>> from geoveil.gp.limits import Limits
        >>> found = JointEstimates(labels=("a", "b", "c"), values=[0.30, 0.29, 0.1],
        ...     covariance=np.eye(3) * 1e-4, n=10_000, confidence=0.95,
        ...     limits=(Limits((-1.0, 2.0), (0.0, 1.0)),) * 3,
        ...     privacy=GeoPrivacy(1.0, per=500.0, unit="metre"))
        >>> ranking = ranking_of(found, 1)
        >>> ranking.top, ranking.may_be_top
        (('a',), ('a', 'b'))
    """
    _check(len(estimates.labels), count)
    error = 1 - estimates.confidence
    comparisons = _Comparisons(estimates, _ON_LOCATING * error)
    rest = (1 - _ON_LOCATING) * error
    within, without = _of_the_top(comparisons, count, rest)
    # If fewer than k are truly larger by c errors, fewer than k are found larger by 2c.
    contenders = comparisons.far.sum(axis=0) < count
    chosen = comparisons.intervals(contenders, rest)
    order = [int(i) for i in np.argsort(-estimates.values, kind="stable")]
    names = estimates.labels
    return Ranking(
        labels=tuple(names[i] for i in order),
        values=tuple(float(estimates.values[i]) for i in order),
        standard_errors=tuple(float(estimates.standard_errors[i]) for i in order),
        count=count,
        may_be_top=tuple(names[i] for i in order if within[i]),
        surely_top=tuple(names[i] for i in order if not without[i]),
        chosen=tuple(chosen[i] for i in order[:count]),
        contenders=int(contenders.sum()),
        **estimates.common,
    )


def _check(m: int, count: int) -> None:
    validation.require_count("number of questions", m, 2, MOST_QUESTIONS)
    validation.require_count("count", count, 1, m - 1)


class _Comparisons:
    """Estimates, the errors of their differences, and draws of these errors.

    Except with probability `error`, all differences are within c errors of the truth. Then a j that
    is found larger than i by d errors is truly larger by at least d − c, its head start (`heads`),
    which errors must exceed before i is found larger than j. For d above 2c, that cannot happen, so
    only pairs that are `near` each other are compared.

    Args:
        estimates: with their covariances.
        error: the probability of a difference farther from the truth.
    """

    def __init__(self, estimates: JointEstimates, error: float) -> None:
        self._estimates = estimates
        covariance, variances = estimates.covariance, np.diag(estimates.covariance)
        squares = variances[:, None] + variances[None, :] - 2 * covariance
        self._of_differences = np.sqrt(np.maximum(squares, 0.0))
        m = self.number
        draws = int(max(min(_DRAWS, _MOST_NUMBERS // m**2), _FEWEST_DRAWS))
        self._deviations = np.ascontiguousarray(normal_draws(covariance, draws).T)
        self._heads = np.zeros((m, m))
        others = ~np.eye(m, dtype=np.bool_)
        largest = [self._largest(others[:, j], j) for j in range(m)]
        c = _quantile(np.max(largest, axis=0), error)
        self.far = self.surely_larger(2 * c)
        """Which i are estimated larger than which j by 2c."""
        self.near = others & ~self.far.T
        """Which i could be declared larger than j without being truly larger."""
        self.larger = self.surely_larger(c)
        """Which i are truly larger than which j, except with probability `error`."""
        surplus = estimates.values[:, None] - estimates.values - self._lower_margins(c)
        scale = np.where(self._of_differences > 0, self._of_differences, np.inf)
        self._heads = np.maximum((surplus - self._moved_by_liars) / scale, 0.0).T

    @property
    def number(self) -> int:
        """How many estimates there are."""
        return len(self._estimates.labels)

    def critical_of_some(
        self, family: Flags, sure: Flags, possible: Flags, more: int, probability: float
    ) -> float:
        """Return the value that differences from sure members and from others rarely exceed.

        Args:
            family: the compared pairs i − j, (m, m).
            sure: those j all of which count, (m,).
            possible: others, some of which count, (m,).
            more: how many of these count; which ones is unknown.
            probability: of a larger difference, from any that counts.
        """
        largest = np.stack([self._largest(family[:, j], j) for j in range(self.number)])
        low, high = 0.0, max(float(largest.max()), 0.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            risks = (largest > middle).mean(axis=1)
            if risks[sure].sum() + np.sort(risks[possible])[::-1][:more].sum() > probability:
                low = middle
            else:
                high = middle
        return high

    def surely_larger(self, critical: float) -> Flags:
        """Return which i are larger than which j by a number of errors of their difference.

        If few reports differ, that is not enough: the lower limit of the difference recovered from
        the intervals of both must be above 0, too [ZD08].

        Args:
            critical: the number of errors.
        """
        values = self._estimates.values
        differences = values[:, None] - values
        larger = (differences > critical * self._of_differences) & (self._of_differences > 0)
        if larger.any():
            larger &= differences > self._lower_margins(critical) + self._moved_by_liars
        return np.asarray(larger)

    def _lower_margins(self, critical: float) -> Array:
        """Return the lower margins of all differences i − j, (m, m)."""
        honest = replace(self._estimates, contamination=0.0)
        low, high = honest.intervals(confidence_at(critical))
        least = critical * honest.standard_errors  # where what no mean can be was cut off
        down = np.maximum(honest.values - low, least)
        up = np.maximum(high - honest.values, least)
        both = honest.correlations * np.outer(down, up)
        return np.asarray(np.sqrt(np.maximum(down[:, None] ** 2 + up**2 - 2 * both, 0.0)))

    @cached_property
    def _moved_by_liars(self) -> Array:
        """How far false reports can move each difference, (m, m)."""
        moved = self._estimates.moved
        return np.asarray(moved[:, None] + moved)

    def intervals(self, family: Flags, probability: float) -> dict[int, Interval]:
        """Return intervals of several estimates that rarely miss any of them."""
        members = [int(i) for i in np.flatnonzero(family)]
        errors = self._estimates.standard_errors[members]
        errors = np.where(errors > 0, errors, np.inf)
        largest = np.abs(self._deviations[members] / errors[:, None]).max(axis=0)
        confidence = confidence_at(_quantile(largest, probability))
        return {i: self._estimates.interval(i, confidence) for i in members}

    def _largest(self, among: Flags, j: int) -> Array:
        """Return the largest of several scaled differences from j, in each draw."""
        others = among & (self._of_differences[:, j] > 0)
        if not others.any():
            return np.full(self._deviations.shape[1], -np.inf)
        scores = self._deviations[others]
        scores -= self._deviations[j]
        scores *= (1 / self._of_differences[others, j])[:, None]
        scores -= self._heads[others, j][:, None]
        return np.asarray(scores.max(axis=0))


def _of_the_top(found: _Comparisons, count: int, error: float) -> tuple[Flags, Flags]:
    """Return the estimates that may be among the true top k, and those that may be outside.

    Nothing outside the top k is larger than a j within, so except with the error probability,
    nothing outside is *found* larger than it. Those j that are surely within share the error with
    as many others as complete the top k: of those not surely outside, the likeliest to be mistaken.
    """
    m = found.number
    within = without = np.ones(m, np.bool_)
    sure = found.larger.sum(axis=1) >= m - count
    possible = ~sure & (found.larger.sum(axis=0) < count)
    more = count - int(sure.sum())
    while True:
        family = without[:, None] & found.near
        critical = found.critical_of_some(family, sure, possible, more, error)
        larger = _and_through_others(found.surely_larger(critical))
        before, within = without, larger.sum(axis=0) < count
        without = without & (larger.sum(axis=1) < m - count)
        if (without == before).all():
            return within, without


def _and_through_others(larger: Flags) -> Flags:
    """Return the transitive closure of the relation."""
    while True:
        more = larger | (larger.astype(np.float32) @ larger.astype(np.float32) > 0)
        if (more == larger).all():
            return larger
        larger = more


def _quantile(largest: Array, probability: float) -> float:
    """Return the value, at least 0, that numbers exceed with a given probability."""
    return max(float(np.quantile(largest, 1 - probability, method="higher")), 0.0)
