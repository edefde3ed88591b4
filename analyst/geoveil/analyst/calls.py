"""The calls of an analyst: each builds a request and parses its answer.

Clients send them, whether they wait for the answer or not.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from geoveil.analyst.estimates import CampaignEstimates, joint_of
from geoveil.analyst.labelled_estimate import LabelledEstimate, RobustInterval
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.statistics.statistic import (
    Separately,
    Statistic,
    passed_on,
    period_of,
    steps_of,
    too_few,
)
from geoveil.campaign import (
    AttributeCampaign,
    Campaign,
    PointQuestion,
    SigningKey,
    StatisticCampaign,
    ValueCampaign,
    decode,
    decode_attribute_campaign,
    decode_privacy,
    encode,
    encode_point_question,
    open_envelope,
    require_attribute,
    seal,
)
from geoveil.gp import (
    UNLIMITED,
    Basis,
    ForgedShare,
    GeoPrivacy,
    IntervalMethod,
    Limits,
    NoiseVariance,
    ParameterError,
    ReportMoments,
    UnsupportedError,
)
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2

_STATES: dict[int, str] = {
    number: name.removeprefix("CAMPAIGN_STATE_").lower()
    for name, number in campaign_pb2.CampaignState.items()
}
_METHODS: dict[int, IntervalMethod] = {
    analyst_pb2.IntervalMethod.Value(f"INTERVAL_METHOD_{method.name}"): method
    for method in IntervalMethod
}
POINTS_EXPONENT = -30
"""Estimates from points are rounded to 2 to this power, as the protocol says."""


@dataclass(frozen=True, slots=True)
class PublishedCampaign:
    """A campaign as a server lists it."""

    envelope: campaign_pb2.CampaignEnvelope
    """Its bytes and their signature: see `geoveil.campaign.signer`."""
    state: str
    """pending, open or closed."""
    reports: int
    """The number of reports counted so far, over all queries and periods."""

    @property
    def campaign(self) -> Campaign:
        """The campaign, of any kind.

        Raises:
            GeoVeilError: if the bytes are not a valid campaign.
        """
        return decode(self.envelope.campaign)


def published(message: analyst_pb2.CampaignSummary) -> PublishedCampaign:
    """Return the campaign of a message."""
    return PublishedCampaign(message.envelope, _state(message.state), message.reports)


def estimates_in(
    message: analyst_pb2.GetEstimateResponse, *, of_points: bool = False
) -> CampaignEstimates:
    """Return the estimates of a message, whose queries may have been asked of points."""
    campaign = decode_attribute_campaign(message.envelope.campaign)
    rows: dict[bool, list[LabelledEstimate]] = {False: [], True: []}
    for shown in message.estimates:  # period after period, in each all people and cohorts
        of = rows[shown.HasField("cohort")]
        of.append(_estimate(campaign, len(of) % campaign.columns, shown, of_points))
    return CampaignEstimates(
        campaign,
        _state(message.state),
        tuple(rows[False]),
        message.unbiased_for,
        _privacy(campaign, message.privacy),
        _privacy(campaign, message.privacy_at_most),
        of_cohorts=tuple(rows[True]),
    )


def joint_in(message: analyst_pb2.GetEstimateResponse, *, together: bool) -> JointEstimates:
    """Return two or more answers about the points of one period, with covariances if `together`."""
    estimates = estimates_in(message, of_points=True)
    size = len(estimates.estimates)
    covariance = np.array([row.standard_error or 0.0 for row in estimates.estimates]) ** 2
    if together:
        if not message.covariances:
            raise UnsupportedError("the estimates came without covariances: an old server")
        covariance = np.zeros((size, size))
        covariance[np.tril_indices(size)] = message.covariances[0].lower_triangle
        covariance += np.tril(covariance, -1).T
    return joint_of(estimates.campaign, estimates.estimates, covariance)


def rows_in(message: analyst_pb2.ExportReportsResponse) -> ReportRows:
    """Return the rows of a message."""
    return ReportRows(
        np.fromiter(message.periods, np.uint32),
        np.fromiter(message.query_indices, np.uint32) if message.query_indices else None,
        tuple(np.fromiter(column.values, np.int64) for column in message.columns),
        np.fromiter(message.cohorts, np.uint32) if message.cohorts else None,
    )


def _estimate(
    campaign: AttributeCampaign, column: int, shown: analyst_pb2.Estimate, of_points: bool
) -> LabelledEstimate:
    several = shown.HasField("standard_error")
    weight = math.inf if of_points else campaign.most_from_one(column)
    robust = shown.median_of_means
    return LabelledEstimate(
        label=shown.label,
        value=shown.value if shown.HasField("value") else None,
        standard_error=shown.standard_error if several else None,
        ci_low=shown.ci_low if several else None,
        ci_high=shown.ci_high if several else None,
        method=_METHODS.get(shown.interval_method),
        confidence=shown.confidence,
        n=shown.n,
        one_report=weight / shown.n if shown.n > 0 and math.isfinite(weight) else None,
        privacy=campaign.report_privacy,
        period=shown.period,
        cohort=shown.cohort if shown.HasField("cohort") else None,
        forged=(
            ForgedShare(shown.forged_share_at_least)
            if shown.HasField("forged_share_at_least")
            else None
        ),
        robust=(
            RobustInterval(robust.value, robust.ci_low, robust.ci_high, robust.blocks)
            if shown.HasField("median_of_means")
            else None
        ),
        sums=(int(shown.sum or 0), int(shown.sum_of_squares or 0)),
        step_exponent=POINTS_EXPONENT if of_points else campaign.grid_exponent,
        limits=_limits(campaign, shown, of_points),
        softness=(
            campaign.questions[column].softness
            if isinstance(campaign, StatisticCampaign) and not of_points
            else None
        ),
        noise=_noise(campaign, column, shown, of_points),
        mechanism=campaign.mechanisms[column] if isinstance(campaign, StatisticCampaign) else None,
    )


def _limits(campaign: AttributeCampaign, shown: analyst_pb2.Estimate, of_points: bool) -> Limits:
    """Return the server's limits, with the mechanism's law from the campaign."""
    if not shown.HasField("limits"):
        return UNLIMITED
    limits, own = shown.limits, UNLIMITED
    if not of_points:
        own = campaign.limits[campaign.labels.index(shown.label)]
    return replace(
        own,
        reports=(limits.least_answer, limits.greatest_answer),
        means=(limits.least_mean, limits.greatest_mean),
    )


def _noise(
    campaign: AttributeCampaign, column: int, shown: analyst_pb2.Estimate, of_points: bool
) -> NoiseVariance | None:
    """Return the noise variance of the server or the campaign."""
    if shown.HasField("noise_variance"):
        noise = shown.noise_variance
        return NoiseVariance(noise.value, noise.ci_low, noise.ci_high, Basis.ESTIMATED)
    if of_points or (isinstance(campaign, StatisticCampaign) and not campaign.extrapolated):
        return None
    if isinstance(campaign, StatisticCampaign):
        most = campaign.noise_factor * campaign.mechanisms[column].largest_variance
        return NoiseVariance(None, 0.0, most, Basis.BOUNDED)  # whoever is far away has none
    assert isinstance(campaign, ValueCampaign)  # there are no others
    mechanism = campaign.point_mechanism
    of_point = np.ravel(mechanism.variance(np.zeros((1, mechanism.dimension))))
    exact = float(of_point[column])
    return NoiseVariance(exact, exact, exact, Basis.EXACT)


def _privacy(campaign: AttributeCampaign, message: campaign_pb2.Privacy) -> GeoPrivacy:
    return decode_privacy(message, campaign.privacy.unit)


def _state(number: int) -> str:
    return _STATES.get(number, f"state {number}")


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
    """Ask questions of the points of a value campaign."""
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

    Each law is computed at its first use, which few reports need.
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
    return Call(
        "ExportReports",
        request,
        lambda a: a.envelope.campaign if a.HasField("envelope") else rows_in(a),
        timeout_s,
    )


def checked(period: int | None) -> int | None:
    """Return a period, if a request can name it."""
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
            raise ParameterError(
                "cohorts", cohorts, "left out for a statistic: only questions take it"
            )
        campaign = yield read_campaign
        of = period_of(campaign, checked(period))
        return (
            yield from passed_on(
                steps_of(asked, campaign, confidence),
                lambda questions: ask_for(campaign, questions, confidence, of, timeout_s),
            )
        )
    of_all = yield ask(campaign_id, asked, confidence, period, timeout_s)
    rows: list[LabelledEstimate] = []
    for cohort in range(of_all.campaign.cohorts if cohorts else 0):
        of_one = yield ask(campaign_id, asked, confidence, period, timeout_s, cohort)
        questions = [asked[i % len(asked)] for i in range(len(of_one.estimates))]
        laws = with_laws(of_all.campaign, questions, [row.limits for row in of_one.estimates])
        rows += [
            replace(row, cohort=cohort, limits=limits)
            for row, limits in zip(of_one.estimates, laws, strict=True)
        ]
    return replace(of_all, of_cohorts=tuple(rows))
