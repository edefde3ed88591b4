"""Statistics as generators of questions, which any holder of reports can answer.

A statistic yields the questions that it needs, receives their joint estimates, and finally returns
a result. It does no input or output: a server's client and local reports drive it in the same way.
Some ask twice: first for the rough place of a quantile, and then closely around it.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast

from geoveil.analyst.results import Estimates, Result
from geoveil.analyst.statistics.joint import JointEstimates, notes_of_liars
from geoveil.campaign import AttributeCampaign, Campaign, PointQuestion, ValueCampaign
from geoveil.gp import IntervalMethod, LogScale, ParameterError, UnsupportedError, validation

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
AT_ALL_LOOKS = "Reports still come in: intervals hold at all looks at once, from 100 reports on."
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
        inner = self.of.steps(campaign, confidence)
        queries = next(inner)
        while True:
            answered: JointEstimates = yield queries
            try:
                queries = inner.send(replace(answered, contamination=self.fraction))
            except StopIteration as end:
                result: Any = end.value
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


def notes_of_looks(
    campaign: AttributeCampaign, method: IntervalMethod | None = None
) -> Sequence[str]:
    """Return notes on intervals before the closing date of a campaign."""
    if method is IntervalMethod.SEQUENCE:
        return (AT_ALL_LOOKS,)
    return (ONE_LOOK,) if datetime.now(UTC) < campaign.closes else ()


def steps_of(
    asked: Statistic[Found], campaign: AttributeCampaign, confidence: float
) -> Steps[Found]:
    """Yield a statistic's questions to a campaign, receive answers, and return the result.

    Args:
        asked: the statistic.
        campaign: whose reports answer.
        confidence: of the result, in (0, 1).

    Raises:
        GeoVeilError: if the statistic can't be estimated from such a campaign.
    """
    scale = campaign.attribute.scale
    made = yield from (asked if scale is None else asked.on_scale(scale)).steps(
        campaign, confidence
    )
    result: Found = noted(made, notes_of_looks(campaign))
    return result if scale is None else result.held(scale)


def driven(steps: Generator[Wanted, Any, Found], answer: Callable[[Wanted], Any]) -> Found:
    """Return the result of steps whose questions are answered one after another."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(answer(wanted))
    except StopIteration as end:
        result: Found = end.value
        return result


async def driven_async(
    steps: Generator[Wanted, Any, Found], answer: Callable[[Wanted], Awaitable[Any]]
) -> Found:
    """Return the result of `driven`, for awaited answers."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(await answer(wanted))
    except StopIteration as end:
        result: Found = end.value
        return result


def noise_scale(campaign: AttributeCampaign, dimension: int = 1) -> float:
    """Return PER/ε of the points of a value campaign, in the coordinates of queries.

    Args:
        campaign: any.
        dimension: the number of coordinates that its points must have.

    Raises:
        ParameterError: if it is another kind of campaign.
    """
    if not isinstance(campaign, ValueCampaign) or campaign.dimension != dimension:
        kind = "numbers" if dimension == 1 else f"points of {dimension} coordinates"
        raise ParameterError(
            "campaign", campaign.campaign_id, f"a value campaign of {kind} (--points)"
        )
    return 1 / campaign.point_mechanism.privacy.rate


def period_of(campaign: Campaign, period: int | None) -> int:
    """Return the requested period, or the only one if the campaign does not recur.

    Raises:
        ParameterError: if it recurs and none is named.
    """
    if period is None and campaign.periods > 1:
        raise ParameterError("period", None, "named, as the campaign recurs: from 0")
    return period or 0


def too_few(campaign: AttributeCampaign, n: int, period: int) -> UnsupportedError:
    """Return the error for fewer than two reports.

    Args:
        campaign: the campaign of the reports.
        n: how many there are.
        period: the requested period.
    """
    when = "" if campaign.period is None else f" in period {period}"
    reports = "1 report" if n == 1 else f"{n} reports"
    return UnsupportedError(f"{reports}{when}: a standard error needs two or more")
