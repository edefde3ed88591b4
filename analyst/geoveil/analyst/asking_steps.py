"""The sequences of calls that the blocking client and the asyncio client share.

Each generator yields calls, receives their answers and returns the result; its caller does the
waiting.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from geoveil.analyst import calls
from geoveil.analyst.calls import Call
from geoveil.analyst.labelled_estimate import LabelledEstimate
from geoveil.analyst.statistics.statistic import Statistic, period_of, steps_of
from geoveil.campaign import AttributeCampaign, PointQuestion
from geoveil.gp import ParameterError

Asked: TypeAlias = Sequence[PointQuestion] | Statistic[Any]
Steps: TypeAlias = Generator[Call[Any], Any, Any]


def of_people(
    read_campaign: Call[AttributeCampaign],
    asked: Asked,
    confidence: float,
    period: int | None,
    timeout_s: float,
    *,
    cohorts: bool = False,
) -> Steps:
    """Query all people, and each cohort separately: see `Analyst.ask`."""
    campaign_id = read_campaign.request.campaign_id
    if isinstance(asked, Statistic):
        if cohorts:
            raise ParameterError("cohorts", cohorts, "left out of a statistic: questions have it")
        campaign = yield read_campaign
        return (yield from _answered(asked, campaign, confidence, period, timeout_s))
    of_all = yield calls.ask(campaign_id, asked, confidence, period, timeout_s)
    rows: list[LabelledEstimate] = []
    for cohort in range(of_all.campaign.cohorts if cohorts else 0):
        of_one = yield calls.ask(campaign_id, asked, confidence, period, timeout_s, cohort)
        of = [asked[i % len(asked)] for i in range(len(of_one.estimates))]
        laws = calls.with_laws(of_all.campaign, of, [row.limits for row in of_one.estimates])
        rows += [
            replace(row, cohort=cohort, limits=limits)
            for row, limits in zip(of_one.estimates, laws, strict=True)
        ]
    return replace(of_all, of_cohorts=tuple(rows))


def _answered(
    asked: Statistic[Any],
    campaign: AttributeCampaign,
    confidence: float,
    period: int | None,
    timeout_s: float,
) -> Steps:
    """Answer the queries of a statistic, one part after another."""
    of = period_of(campaign, calls.checked(period))
    steps = steps_of(asked, campaign, confidence)
    try:
        questions = next(steps)
        while True:
            answer = yield calls.ask_for(campaign, questions, confidence, of, timeout_s)
            questions = steps.send(answer)
    except StopIteration as end:
        return end.value
