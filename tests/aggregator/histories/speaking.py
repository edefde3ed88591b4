"""Requests and answers by the wire contract alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from geoveil.campaign import PointQuestion, encode_point_question
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2

from .campaigns import KERNEL, POINTS, Row, Sums, published, require, wire_report
from .operations import Browse, Close, Create, Estimate, Export, Fetch, Request, Stream, Upload

METHODS = {
    Create: "CreateCampaign",
    Close: "CloseCampaign",
    Upload: "SubmitReports",
    Stream: "SubmitReportStream",
    Estimate: "GetEstimate",
    Export: "ExportReports",
    Fetch: "GetCampaign",
    Browse: "BrowseCampaigns",
}


@dataclass(frozen=True)
class Sent:
    """A request as it left, whether it arrived or not."""

    request: Request
    messages: tuple[bytes, ...]
    """One; of a stream one per part."""


@dataclass(frozen=True)
class Standing:
    """How a campaign is shown to devices."""

    variant: int | None
    """None: it is not shown."""
    state: int = campaign_pb2.CAMPAIGN_STATE_UNSPECIFIED


def uploads_of(request: Upload | Stream) -> list[Upload]:
    """Return the parts of a stream, each as the upload that it is equal to."""
    if isinstance(request, Upload):
        return [request]
    return [Upload(part, request.campaign, request.replica) for part in request.parts]


def sent(request: Request, tag: str) -> Sent:
    """Return a request as it is sent, to campaigns whose ids end in `tag`."""
    return Sent(request, tuple(m.SerializeToString() for m in _messages(request, tag)))


def _messages(request: Request, tag: str) -> Iterator[Any]:
    campaign = published(request.campaign, getattr(request, "variant", 0), tag)
    campaign_id = campaign.campaign_id
    match request:
        case Create():
            envelope = campaign_pb2.CampaignEnvelope.FromString(campaign.envelope)
            yield analyst_pb2.CreateCampaignRequest(envelope=envelope)
        case Close():
            yield analyst_pb2.CloseCampaignRequest(campaign_id=campaign_id)
        case Estimate():
            yield analyst_pb2.GetEstimateRequest(campaign_id=campaign_id)
        case Export():
            yield analyst_pb2.ExportReportsRequest(campaign_id=campaign_id)
        case Fetch():
            yield collector_pb2.GetCampaignRequest(campaign_id=campaign_id)
        case Browse():
            yield collector_pb2.BrowseCampaignsRequest(page_size=2)
        case Upload() | Stream():
            for upload in uploads_of(request):
                reports = [wire_report(request.campaign, key) for key in upload.reports]
                yield collector_pb2.SubmitReportsRequest(
                    campaign_id=campaign_id,
                    campaign_digest=campaign.digest,
                    reports=reports * upload.copies,
                )


def watching(name: str, tag: str) -> bytes:
    """Return a request for an estimate that is watched."""
    campaign_id = published(name, 0, tag).campaign_id
    request = analyst_pb2.WatchEstimateRequest(campaign_id=campaign_id)
    request.interval.FromSeconds(1)
    return bytes(request.SerializeToString())


def asking(tag: str) -> bytes:
    """Return a request for what points say of `KERNEL`."""
    query = encode_point_question(PointQuestion("kernel", KERNEL))
    campaign_id = published(POINTS, 0, tag).campaign_id
    request = analyst_pb2.EstimateQueriesRequest(campaign_id=campaign_id, queries=[query])
    return bytes(request.SerializeToString())


def read(request: Request, response: bytes, tag: str) -> Any:
    """Return what the response to a request says that is no stream."""
    match request:
        case Upload(reports=reports, copies=copies):
            results = collector_pb2.SubmitReportsResponse.FromString(response).results
            require(len(results) == len(reports) * copies, "a result per report", request, results)
            return list(results)
        case Estimate():
            return read_sums(response)
        case Fetch():
            return _status(collector_pb2.GetCampaignResponse.FromString(response), request, tag)
    return None


def read_sums(response: bytes) -> Sums:
    """Return the sums of an estimate."""
    shown = list(analyst_pb2.GetEstimateResponse.FromString(response).estimates)
    cohorts = [e for e in shown if e.HasField("cohort")]
    if cohorts:
        n = sum(e.n for e in shown if not e.HasField("cohort"))
        require(n == sum(e.n for e in cohorts), "all are all cohorts", shown)
        shown = cohorts
    labels = [(e.cohort, e.label) for e in shown if e.period == 0]
    return {
        (e.period, labels.index((e.cohort, e.label))): (e.n, int(e.sum), int(e.sum_of_squares))
        for e in shown
    }


def read_rows(request: Export, responses: Sequence[bytes], tag: str) -> list[Row]:
    """Return the rows of an export."""
    first, *rest = map(analyst_pb2.ExportReportsResponse.FromString, responses)
    require(first.envelope.campaign, "first the campaign", request)
    rows: list[Row] = []
    for message in rest:
        columns = zip(*(column.values for column in message.columns), strict=True)
        indices = (
            [None] * len(message.periods)
            if request.campaign == POINTS
            else [*(message.cohorts or message.query_indices)]
        )
        rows += zip(message.periods, indices, columns, strict=True)
    return rows


def listed(request: Browse, pages: Sequence[bytes], tag: str) -> Standing:
    """Return how a campaign is shown on pages."""
    found = [
        campaign
        for page in pages
        for campaign in collector_pb2.BrowseCampaignsResponse.FromString(page).campaigns
    ]
    statuses = [_status(campaign, request, tag) for campaign in found]
    known = [status for status in statuses if status.variant is not None]
    require(len(known) <= 1, "campaigns are listed once", request, known)
    return known[0] if known else Standing(None)


def _status(shown: collector_pb2.GetCampaignResponse, request: Any, tag: str) -> Standing:
    content = shown.envelope.campaign
    for variant in (0, 1):
        if content == content_of(request.campaign, variant, tag):
            return Standing(variant, shown.state)
    return Standing(None)


def content_of(name: str, variant: int, tag: str) -> bytes:
    """Return the bytes of a campaign within its envelope."""
    envelope = published(name, variant, tag).envelope
    return campaign_pb2.CampaignEnvelope.FromString(envelope).campaign
