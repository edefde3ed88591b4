"""How `geoveil estimate` compares two sets of reports: periods, or campaigns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from geoveil.analyst import (
    Analyst,
    AnalystQuestion,
    Contaminated,
    Means,
    People,
    Result,
    Softness,
    Statistic,
    ask_changes,
    asked_of_points,
    compare,
)
from geoveil.campaign import AttributeCampaign, ValueCampaign
from geoveil.cli.sources import Source, source_of
from geoveil.gp import ParameterError, UnsupportedError


def compared(
    connect: Callable[[], Analyst],
    campaign_id: str,
    against: str | None,
    change: tuple[int, int] | None,
    period: int | None,
    confidence: float,
    timeout_s: float,
) -> Sequence[Source]:
    """Return the two sets of reports to compare, the later one last.

    Args:
        connect: returns an analyst's client; not called if files are asked alone.
        against: the other campaign, or file; None: periods of one are compared.
        change: these periods.
        period: of both campaigns, if they recur.
        timeout_s: seconds for each time that every report is read.
    """
    if against is not None and change is not None:
        raise ParameterError("change", change, "left out beside --against")
    if change is not None and (min(change) < 0 or change[0] == change[1]):
        raise ParameterError("change", f"{change[0]},{change[1]}", "two different periods, from 0")
    if change is not None and period is not None:
        raise ParameterError("period", period, "left out beside --change, which names two")

    def one(name: str, of: int | None) -> Source:
        return _named(source_of(name, connect, confidence, of, timeout_s), change)

    if change is not None:
        return [one(campaign_id, of) for of in change]
    assert against is not None  # else nothing is compared
    return [one(against, period), one(campaign_id, period)]


def _named(one: Source, change: tuple[int, int] | None) -> Source:
    """Return the source, named by the first day of its period if two periods are compared."""
    if change is None or one.period is None:
        return one
    campaign = one.campaign()
    if campaign.period is None:
        expected = "left out: the campaign does not recur; --against compares it with another"
        raise ParameterError("change", f"{change[0]},{change[1]}", expected)
    began = campaign.opens + one.period * campaign.period
    return replace(one, name=f"{began:%Y-%m-%d}")


def changes(
    sets: Sequence[Source],
    asked: Sequence[AnalystQuestion],
    softness: Callable[[ValueCampaign], Softness],
    wanted: Sequence[Statistic[Any]],
    contamination: float | None,
    people: People,
) -> Iterator[Result]:
    """Yield the differences of the results between sets of reports.

    Args:
        asked: questions to points; if there is nothing else, fixed questions are compared.
        softness: how softly points of a campaign are asked.
        contamination: the fraction of false reports with which intervals hold.
        people: whether those behind the reports are different.
    """
    names = [source.name for source in sets]
    if asked:
        of = [value_campaign(source.campaign()) for source in sets]
        widest = max((softness(campaign) for campaign in of), key=lambda one: one.noise_scale)
        answers = [
            source.ask(_doubted(Means(asked_of_points(campaign, asked, widest)), contamination))
            for source, campaign in zip(sets, of, strict=True)
        ]
        yield compare(*answers, people=people, names=names)
    for statistic in wanted:
        campaigns = [source.campaign() for source in sets]
        asking = [source.ask for source in sets]
        yield ask_changes(asking, statistic, campaigns, people=people, names=names)
    if not asked and not wanted:
        yield from _of_fixed_questions(sets, contamination, people)


def _of_fixed_questions(
    sets: Sequence[Source], contamination: float | None, people: People
) -> Iterator[Result]:
    estimates = []
    for source in sets:
        if source.estimate is None or isinstance(source.campaign(), ValueCampaign):
            expected = "at least one, as --threshold, --mean or --quantile, for points"
            raise ParameterError("questions", "none", expected)
        estimates.append(source.estimate())

    def joints(labels: Sequence[str] | None) -> Result:
        joint_answers = [
            replace(of.joint(labels, source.period), contamination=contamination or 0.0)
            for source, of in zip(sets, estimates, strict=True)
        ]
        return compare(*joint_answers, people=people, names=[source.name for source in sets])

    try:
        together = joints(None)
    except UnsupportedError:  # how the errors of one person's answers go together is not known
        for label in sets[0].campaign().labels:
            yield joints([label])
    else:
        yield together


def _doubted(statistic: Statistic[Any], contamination: float | None) -> Statistic[Any]:
    return statistic if contamination is None else Contaminated(statistic, contamination)


def value_campaign(campaign: AttributeCampaign) -> ValueCampaign:
    """Return a value campaign; raise an error if it is not one."""
    if not isinstance(campaign, ValueCampaign):
        raise ParameterError("campaign", campaign.campaign_id, "a value campaign")
    return campaign
