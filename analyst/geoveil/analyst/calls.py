"""The calls of an analyst: each builds a request and parses its answer.

Clients send them, whether they wait for the answer or not.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Generic, TypeAlias, TypeVar

from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.labelled_estimate import LabelledEstimate
from geoveil.analyst.messages import (
    PublishedCampaign,
    estimates_in,
    joint_in,
    published,
    rows_in,
)
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.statistics.statistic import Separately, Statistic, period_of, steps_of, too_few
from geoveil.campaign import (
    AttributeCampaign,
    Campaign,
    PointQuestion,
    SigningKey,
    ValueCampaign,
    decode,
    encode,
    encode_point_question,
    open_envelope,
    require_attribute,
    seal,
)
from geoveil.gp import Limits, ParameterError, ReportMoments
from geoveil.proto.v1 import analyst_pb2, collector_pb2

LAST_PERIOD = 2**32 - 1
"""The last period that a request can name."""
_ON_PAGE = 500
"""Campaigns on one page of a list."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One call: its request, and a parser of the answer."""

    method: str
    request: Any
    read: Callable[[Any], Result]
    timeout_s: float | None
    """Seconds; None for a stream that lasts as long as somebody reads it."""


def create(campaign: Campaign, key: SigningKey | None, timeout_s: float) -> Call[bytes]:
    """Publish a campaign, signed if there is a key, and return its digest."""
    return publish(seal(encode(campaign), key), timeout_s)


def publish(envelope: bytes, timeout_s: float) -> Call[bytes]:
    """Publish the campaign of an envelope unchanged, and return its digest."""
    request = analyst_pb2.CreateCampaignRequest(envelope=open_envelope(envelope))
    return Call("CreateCampaign", request, lambda answer: bytes(answer.campaign_digest), timeout_s)


def page(token: str, timeout_s: float) -> Call[tuple[list[PublishedCampaign], str]]:
    """List a page of campaigns, and return the token of the next page."""
    request = analyst_pb2.ListCampaignsRequest(page_size=_ON_PAGE, page_token=token)
    return Call(
        "ListCampaigns",
        request,
        lambda answer: (list(map(published, answer.campaigns)), answer.next_page_token),
        timeout_s,
    )


def campaign(campaign_id: str, timeout_s: float) -> Call[AttributeCampaign]:
    """Read a campaign about one attribute, as devices do."""
    read = published_campaign(campaign_id, timeout_s)
    return Call(read.method, read.request, lambda a: require_attribute(read.read(a)), timeout_s)


def published_campaign(campaign_id: str, timeout_s: float) -> Call[Campaign]:
    """Read a campaign of any kind, as devices do."""
    request = collector_pb2.GetCampaignRequest(campaign_id=campaign_id)
    return Call("GetCampaign", request, lambda a: decode(a.envelope.campaign), timeout_s)


def close(campaign_id: str, timeout_s: float) -> Call[None]:
    """Stop a campaign from taking reports."""
    request = analyst_pb2.CloseCampaignRequest(campaign_id=campaign_id)
    return Call("CloseCampaign", request, lambda answer: None, timeout_s)


def estimate(
    campaign_id: str, confidence: float, period: int | None, timeout_s: float
) -> Call[CampaignEstimates]:
    """Read the estimates of a campaign."""
    request = analyst_pb2.GetEstimateRequest(
        campaign_id=campaign_id, confidence=confidence, period=checked(period)
    )
    return Call("GetEstimate", request, estimates_in, timeout_s)


def watch(campaign_id: str, confidence: float, period: int | None) -> Call[CampaignEstimates]:
    """Read the estimates of a campaign whenever they have changed."""
    request = analyst_pb2.WatchEstimateRequest(
        campaign_id=campaign_id, confidence=confidence, period=checked(period)
    )
    return Call("WatchEstimate", request, estimates_in, None)


def ask(
    campaign_id: str,
    questions: Sequence[PointQuestion],
    confidence: float,
    period: int | None,
    timeout_s: float,
    cohort: int | None = None,
) -> Call[CampaignEstimates]:
    """Ask questions of the points of a value campaign.

    Raises:
        ParameterError: if `questions` are none.
    """
    given: object = questions  # as a caller without types may
    if not isinstance(given, Sequence) or not all(isinstance(q, PointQuestion) for q in given):
        expected = "one statistic, or a sequence of questions as asked_of_points makes them"
        raise ParameterError("asked", given, expected)
    request = analyst_pb2.EstimateQueriesRequest(
        cohort=cohort,
        campaign_id=campaign_id,
        queries=[encode_point_question(question) for question in questions],
        confidence=confidence,
        period=checked(period),
    )
    return Call(
        "EstimateQueries", request, lambda answer: estimates_in(answer, of_points=True), timeout_s
    )


def ask_for(
    campaign: AttributeCampaign,
    asked: Sequence[PointQuestion] | Separately,
    confidence: float,
    period: int,
    timeout_s: float,
) -> Call[Any]:
    """Return the call that asks the questions of a statistic."""
    questions = asked.questions if isinstance(asked, Separately) else asked
    call = ask(campaign.campaign_id, questions, confidence, period, timeout_s)
    call.request.joint = not isinstance(asked, Separately)

    def read(answer: analyst_pb2.GetEstimateResponse) -> JointEstimates:
        n = max((row.n for row in answer.estimates), default=0)
        if n < 2:
            raise too_few(campaign, n, period)
        estimates = joint_in(answer, together=call.request.joint)
        return replace(estimates, limits=tuple(with_laws(campaign, questions, estimates.limits)))

    return Call(call.method, call.request, read, timeout_s)


def with_laws(
    campaign: AttributeCampaign, questions: Sequence[PointQuestion], limits: Sequence[Limits]
) -> Iterator[Limits]:
    """Yield a server's estimates, with the law of answers from campaign and questions.

    It is found when it is first needed: where there are few reports.
    """
    for question, limit in zip(questions, limits, strict=True):
        yield replace(limit, moments=cache(partial(_moments, campaign, question)))


def _moments(campaign: AttributeCampaign, question: PointQuestion) -> ReportMoments | None:
    if not isinstance(campaign, ValueCampaign):
        return None
    return campaign.point_mechanism.estimator(question.query, debias=True).limits.moments()


def export(campaign_id: str, period: int | None, timeout_s: float) -> Call[bytes | ReportRows]:
    """Read the bytes of a campaign, then its reports."""
    request = analyst_pb2.ExportReportsRequest(campaign_id=campaign_id, period=checked(period))

    def read(answer: analyst_pb2.ExportReportsResponse) -> bytes | ReportRows:
        return answer.envelope.campaign if answer.HasField("envelope") else rows_in(answer)

    return Call("ExportReports", request, read, timeout_s)


def checked(period: int | None) -> int | None:
    """Return a period, if a request can name it.

    Raises:
        ParameterError: if it is none.
    """
    if period is not None and not 0 <= period <= LAST_PERIOD:
        raise ParameterError("period", period, f"a whole number from 0 to {LAST_PERIOD}")
    return period


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
    of_all = yield ask(campaign_id, asked, confidence, period, timeout_s)
    rows: list[LabelledEstimate] = []
    for cohort in range(of_all.campaign.cohorts if cohorts else 0):
        of_one = yield ask(campaign_id, asked, confidence, period, timeout_s, cohort)
        of = [asked[i % len(asked)] for i in range(len(of_one.estimates))]
        laws = with_laws(of_all.campaign, of, [row.limits for row in of_one.estimates])
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
    of = period_of(campaign, checked(period))
    steps = steps_of(asked, campaign, confidence)
    try:
        questions = next(steps)
        while True:
            answer = yield ask_for(campaign, questions, confidence, of, timeout_s)
            questions = steps.send(answer)
    except StopIteration as end:
        return end.value
