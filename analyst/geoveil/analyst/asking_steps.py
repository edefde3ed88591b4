"""What an analyst's client does, call after call: the blocking client and that of asyncio alike.

Each generator yields calls, receives their answers and returns the result; who drives it waits for
the network as it likes.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from geoveil.analyst import calls
from geoveil.analyst.calls import Call
from geoveil.analyst.statistics.cells import Counts
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.statistics.reports import counter_for, points_in
from geoveil.analyst.statistics.statistic import Answered, Statistic, period_of
from geoveil.analyst.statistics.strata import Part, asked_by_group, asked_of, whose
from geoveil.campaign import AttributeCampaign, PointQuestion
from geoveil.gp import UnsupportedError

Asked: TypeAlias = Sequence[PointQuestion] | Statistic[Any]
Steps: TypeAlias = Generator[Call[Any], Any, Any]


def of_people(
    read_campaign: Call[AttributeCampaign],
    asked: Asked,
    confidence: float,
    period: int | None,
    stratum: str | None,
    sizes: Mapping[str, float] | None,
    timeout_s: float,
) -> Steps:
    """Ask of all people, of one stratum, or of strata at known sizes: see `Analyst.ask`."""
    campaign_id, group = read_campaign.request.campaign_id, None
    if isinstance(asked, Statistic) or stratum is not None or sizes is not None:
        campaign = yield read_campaign
        people = whose(campaign, asked, stratum, sizes)
        if isinstance(asked, Statistic):
            parts = asked_of(people, asked, campaign, confidence)
            return (yield from _answered(parts, campaign, confidence, period, timeout_s))
        (group,) = people.labels
    return (yield calls.ask(campaign_id, asked, confidence, period, timeout_s, group))


def of_groups(
    read_campaign: Call[AttributeCampaign],
    asked: Asked,
    confidence: float,
    period: int | None,
    timeout_s: float,
) -> Steps:
    """Ask of each group of people: see `Analyst.ask_by_group`."""
    campaign = yield read_campaign
    if isinstance(asked, Statistic):
        parts = asked_by_group(asked, campaign, confidence)
        return (yield from _answered(parts, campaign, confidence, period, timeout_s))
    answers = []
    for call in calls.ask_labels(campaign, asked, confidence, period, timeout_s):
        answers.append((yield call))  # noqa: PERF401 - a comprehension can't yield
    return calls.by_group(campaign, asked, answers)


def _answered(
    parts: Generator[Part, Answered, Any],
    campaign: AttributeCampaign,
    confidence: float,
    period: int | None,
    timeout_s: float,
) -> Steps:
    """Answer what a statistic asks, part after part."""
    of = period_of(campaign, calls.checked(period))
    try:
        part = next(parts)
        while True:
            try:
                answer = yield from _part(part, campaign, confidence, of, timeout_s)
            except UnsupportedError as error:  # of one group: others may have an answer
                part = parts.throw(error)
            else:
                part = parts.send(answer)
    except StopIteration as end:
        return end.value


def _part(
    part: Part, campaign: AttributeCampaign, confidence: float, period: int, timeout_s: float
) -> Steps:
    group, queries = part
    if not isinstance(queries, Counts):
        return (yield calls.ask_for(campaign, queries, confidence, period, timeout_s, group))
    counter = counter_for(campaign, queries)

    def count(rows: bytes | ReportRows) -> None:
        if isinstance(rows, ReportRows):
            counter.add(points_in(rows, period, group))

    yield replace(calls.export(campaign.campaign_id, period, timeout_s), take=count)
    return counter.found(campaign, period)
