"""Statistics as generators of questions, which any holder of reports can answer.

A statistic yields the questions that it needs, receives their joint estimates, and finally returns
a result; it does no input or output. Many ask for shares above thresholds. A soft threshold of
width w at T gives the share above T of values blurred by at most w/2: the share above T + w/2 is at
most that, and the share above T − w/2 is at least that.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

import numpy as np

from geoveil.analyst.errors import code_of_packages, package_of
from geoveil.analyst.questions import Softness
from geoveil.analyst.results import Estimates, Result, counted
from geoveil.analyst.statistics.joint import JointEstimates, notes_of_liars
from geoveil.campaign import AttributeCampaign, Campaign, PointQuestion, ValueCampaign
from geoveil.gp import (
    Array,
    IntervalMethod,
    LogScale,
    ParameterError,
    Threshold,
    UnsupportedError,
    log_nearest,
    validation,
)

Found = TypeVar("Found", bound=Result)
Wanted = TypeVar("Wanted")


@dataclass(frozen=True, eq=False)
class Separately:
    """Questions without covariances; a server answers more of them at a time."""

    questions: Sequence[PointQuestion]


Asked: TypeAlias = Sequence[PointQuestion] | Separately
Steps = Generator[Asked, Any, Found]
ONE_LOOK = (
    "This interval is for one look, at a date or a number of reports set before the first: looked"
    " at again and again while reports come in, it is missed far more often."
)
MOST_QUESTIONS = 900
"""The most questions for which a server returns covariances."""


class Statistic(ABC, Generic[Found]):
    """A statistic of the people behind reports.

    Example:
        >>> from geoveil.gp import Threshold
        >>> shares = Means([PointQuestion("adults", Threshold(18.0, 6.0, "smoothstep"))])
        >>> isinstance(shares, Statistic)
        True
    """

    @abstractmethod
    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[Found]:
        """Yield questions, receive their estimates, and return the result.

        Args:
            campaign: whose reports answer.
            confidence: of the result, in (0, 1).

        Raises:
            GeoVeilError: if the statistic can't be estimated from such a campaign.
        """

    def on_scale(self, scale: LogScale) -> "Statistic[Found]":
        """Return the statistic of logarithms, for values compared by ratio.

        Raises:
            ParameterError: if there is none, as the statistic has no meaning for ratios.
        """
        raise ParameterError("statistic", type(self).__name__, self._by_ratio)

    _by_ratio: ClassVar[str] = (
        "a share, Quantiles, DistributionFunction, Histogram or GeometricMean (--quantile, --curve,"
        " --histogram, --geometric-mean) where values are compared by ratio"
    )
    """The statistic to use instead for values compared by ratio."""


@dataclass(frozen=True)
class Means(Statistic[JointEstimates]):
    """The means of several questions, with all covariances."""

    questions: Sequence[PointQuestion]

    def __post_init__(self) -> None:
        validation.items("questions", self.questions, PointQuestion)

    def on_scale(self, scale: LogScale) -> "Means":
        return self  # questions are in the campaign's coordinates

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[JointEstimates]:
        estimates: JointEstimates = yield self.questions
        return estimates


@dataclass(frozen=True)
class Contaminated(Statistic[Found]):
    """A statistic whose intervals are valid even if a fraction of the reports is false.

    Raises:
        ParameterError: when it is asked, if the effect of false reports on it is unbounded.

    Example:
        >>> from geoveil.analyst import Quantiles
        >>> Contaminated(Quantiles(), 0.01).fraction
        0.01
    """

    of: Statistic[Found]
    fraction: float
    """The fraction of the reports that may be arbitrary, in [0, 1)."""

    def __post_init__(self) -> None:
        validation.require_kind("of", self.of, Statistic)
        validation.between("contamination", self.fraction, 0, 1, high_open=True)

    def on_scale(self, scale: LogScale) -> "Contaminated[Found]":
        return replace(self, of=self.of.on_scale(scale))

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[Found]:
        result: Any = yield from passed_on(
            _guarded(self.of, campaign, confidence),
            answer=lambda answered: replace(answered, contamination=self.fraction),
        )
        if isinstance(result, JointEstimates):  # these have such notes already
            return cast(Found, result)
        return cast(Found, noted(result, notes_of_liars(self.fraction)))


def noted(result: Any, sentences: Sequence[str]) -> Any:
    """Return a result with more notes; a result of another family is unchanged."""
    if not isinstance(result, Estimates):
        return result
    return replace(result, about=(*result.about, *sentences))


def method_of_looks(campaign: AttributeCampaign, period: int) -> IntervalMethod | None:
    """Return the method of a period's intervals while reports come in; None for one look."""
    now = datetime.now(UTC)
    running = now < campaign.closes and period >= campaign.period_at(now)
    return IntervalMethod.SEQUENCE if running else None


def steps_of(
    asked: Statistic[Found], campaign: AttributeCampaign, confidence: float
) -> Steps[Found]:
    """Yield a statistic's questions to a campaign, receive answers, and return the result."""
    scale = campaign.attribute.scale
    with code_of_packages(type(asked)):
        on_scale = asked if scale is None else asked.on_scale(scale)
    made = yield from _guarded(on_scale, campaign, confidence)
    looks = (ONE_LOOK,) if datetime.now(UTC) < campaign.closes else ()
    with code_of_packages(type(made)):
        result: Found = noted(made, looks)
        return result if scale is None else result.held(scale)


def _guarded(
    asked: Statistic[Found], campaign: AttributeCampaign, confidence: float
) -> Steps[Found]:
    """Yield a statistic's questions, receive answers, and return the result.

    A result of another package is read once, so that an error in its rows names the statistic.
    """
    with code_of_packages(type(asked)):
        result = yield from passed_on(asked.steps(campaign, confidence), _only_questions)
        if package_of(type(result)) is not None:
            json.dumps(result.to_dict(), allow_nan=False)
        return result


def _only_questions(asked: Asked) -> Asked:
    """Return what a statistic yields, if it is questions."""
    questions: object = asked.questions if isinstance(asked, Separately) else asked
    if not isinstance(questions, Sequence) or not all(
        isinstance(question, PointQuestion) for question in questions
    ):
        raise TypeError("a statistic yields sequences of PointQuestion")
    return asked


def passed_on(
    steps: Generator[Any, Any, Found],
    question: Callable[[Any], Any] = lambda question: question,
    answer: Callable[[Any], Any] = lambda answer: answer,
) -> Generator[Any, Any, Found]:
    """Yield what `question` makes of a statistic's questions, and pass on what `answer` makes."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(answer((yield question(wanted))))
    except StopIteration as end:
        return cast(Found, end.value)


def driven(steps: Generator[Wanted, Any, Found], answer: Callable[[Wanted], Any]) -> Found:
    """Return the result of steps whose questions are answered one after another."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(answer(wanted))
    except StopIteration as end:
        return cast(Found, end.value)


async def driven_async(
    steps: Generator[Wanted, Any, Found], answer: Callable[[Wanted], Awaitable[Any]]
) -> Found:
    """Return the result of `driven`, for awaited answers."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(await answer(wanted))
    except StopIteration as end:
        return cast(Found, end.value)


def noise_scale(campaign: AttributeCampaign, dimension: int = 1) -> float:
    """Return PER/ε of a value campaign's points of a dimension, in the coordinates of queries."""
    if not isinstance(campaign, ValueCampaign) or campaign.dimension != dimension:
        kind = "numbers" if dimension == 1 else f"points of {dimension} coordinates"
        raise ParameterError(
            "campaign", campaign.campaign_id, f"a value campaign of {kind} (--points)"
        )
    return 1 / campaign.point_mechanism.privacy.rate


def period_of(campaign: Campaign, period: int | None) -> int:
    """Return the requested period, or the only one if the campaign does not recur."""
    if period is None and campaign.periods > 1:
        raise ParameterError("period", None, "named, as the campaign recurs: from 0")
    return period or 0


def too_few(campaign: AttributeCampaign, n: int, period: int) -> UnsupportedError:
    """Return the error for fewer than two reports."""
    when = "" if campaign.period is None else f" in period {period}"
    return UnsupportedError(f"{counted(n, 'report')}{when}: a standard error needs two or more")


Asking = Generator[Sequence[PointQuestion], JointEstimates, tuple[Array, JointEstimates]]
"""A generator that yields questions and returns thresholds with joint estimates of the shares
above."""

_OCTAVES = 48
"""Powers of 2 times the noise scale at which the search for values begins."""
_STEPS = 64
_SPARSE = 0.005
"""The share of people on either side for which thresholds are farther apart."""
_NEAR, _FAR = 400, 100
"""Thresholds where most people are, and on either side of these."""
_PARTS = 8
"""Parts of an octave that few people's values are searched in."""
_NOBODY = 1e-9
"""A share below this counts as 0, since values of reports are rounded to it."""


def band_width(campaign: AttributeCampaign, width: float | None) -> float:
    """Return the width of soft thresholds, by default three noise scales."""
    scale = noise_scale(campaign)
    if width is not None:
        validation.positive("width", width)
    return Softness(scale, width).band()


def shares_above(at: Array, width: float) -> Asking:
    """Query the shares above increasing thresholds."""
    questions = [
        PointQuestion(f"above {t:,.15g}", Threshold(t, width, "smoothstep")) for t in at.tolist()
    ]
    return at, (yield questions)


def grid(count: int, low: float | None, high: float | None, at: Sequence[float] | None) -> Array:
    """Return checked thresholds, or none if they are still to be located."""
    if at is not None:
        return increasing("at", at, MOST_QUESTIONS)
    validation.require_count("points", count, 2, MOST_QUESTIONS)
    if (low is None) != (high is None):
        raise ParameterError("low and high", (low, high), "both, or neither")
    if low is None or high is None:
        return np.empty(0)
    low, high = validation.real("low", low), validation.real("high", high)
    if not low < high:
        raise ParameterError("low and high", (low, high), "low < high")
    return np.linspace(low, high, count)


def increasing(name: str, values: Sequence[float], most: int) -> Array:
    """Return public numbers that increase, at most so many; an error names the parameter."""
    numbers = np.array(validation.numbers(name, values))
    if not 1 <= len(numbers) <= most or not (np.diff(numbers) > 0).all():
        expected = f"1 to {most} finite, increasing numbers"
        raise ParameterError(name, numbers.tolist(), expected)
    return numbers


def logarithms(name: str, values: Sequence[float]) -> list[float]:
    """Return the logarithms of public values; an error names the parameter."""
    return [log_nearest(validation.positive(name, value)) for value in values]


def octaves(campaign: AttributeCampaign, width: float) -> Asking:
    """Query the shares above powers of 2 of the noise scale, of both signs, and 0."""
    powers = noise_scale(campaign) * 2.0 ** np.arange(_OCTAVES + 1)
    return (yield from shares_above(np.concatenate([-powers[::-1], [0.0], powers]), width))


def located(campaign: AttributeCampaign, width: float, tail: float) -> Asking:
    """Locate most values, except a share on either side.

    Args:
        tail: the share on each side that may be left out, in [0, 1/2).

    Returns:
        The two ends, and the results of the last search.
    """
    at, above = yield from octaves(campaign, width)
    low, high = ends(at, above, tail)
    at, above = yield from shares_above(np.linspace(low, high, _STEPS + 1), width)
    return np.array(ends(at, above, tail)), above


def everywhere(campaign: AttributeCampaign, width: float) -> Asking:
    """Query the shares above thresholds from below everybody's value to above everybody's.

    They are close together where 99 % of the people are, and beyond where the others are.
    """
    at, shares = yield from octaves(campaign, width)
    (least, most), (low, high) = span(at, shares), ends(at, shares, _SPARSE)
    beyond = [_split(at[(at >= a) & (at <= b)]) for a, b in ((least, low), (high, most))]
    between = np.linspace(low, high, _STEPS + 1)
    at, shares = yield from shares_above(np.unique(np.concatenate([between, *beyond])), width)
    low, high = ends(at, shares, _SPARSE)
    near = np.linspace(low, high, _NEAR + 1)
    below, above = (_placed(at, shares.values, *part) for part in ((least, low), (high, most)))
    return (yield from shares_above(np.unique(np.concatenate([below, near, above])), width))


def _split(at: Array) -> Array:
    """Return thresholds with others between them, evenly."""
    places = np.arange(_PARTS * max(len(at) - 1, 0) + 1) / _PARTS
    return np.interp(places, np.arange(len(at)), at) if len(at) else at


def _placed(at: Array, shares: Array, start: float, stop: float) -> Array:
    """Return `_FAR` thresholds that make a sum of S nearly its integral from `start` to `stop`.

    The error in a gap is at most half its length times the fall of S, and the sum of these is
    least where gaps are as the inverse root of the density. A tenth is spread over all gaps.
    """
    if start >= stop:
        return np.array([start])
    edges = np.unique(np.clip(at, start, stop))
    share = np.sqrt(np.abs(np.diff(np.interp(edges, at, shares))) * np.diff(edges))
    share += share.mean() / 9 or 1.0
    sums = np.append(0.0, np.cumsum(share))
    return np.interp(np.linspace(0.0, sums[-1], _FAR), sums, edges)


def span(at: Array, found: JointEstimates) -> tuple[float, float]:
    """Return the innermost thresholds between which every report lies.

    Noise may bring a share to 0 far below the greatest values. Below all reports it is exactly 1.
    """
    (fewer,) = np.nonzero(np.abs(found.values - 1) > _NOBODY)
    (someone,) = np.nonzero(np.abs(found.values) > _NOBODY)
    first, last = max(int(fewer[0]) - 1, 0), min(int(someone[-1]) + 1, len(at) - 1)
    return float(at[first]), float(at[last])


def ends(at: Array, found: JointEstimates, tail: float) -> tuple[float, float]:
    """Return the innermost thresholds that leave at most a tail on either side."""
    least = max(tail, _NOBODY)
    (below,) = np.nonzero(found.values >= 1 - least)
    (above,) = np.nonzero(found.values <= least)
    first = int(below[-1]) if len(below) else 0
    beyond = above[above > first]
    return float(at[first]), float(at[int(beyond[0]) if len(beyond) else -1])
