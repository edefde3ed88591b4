"""Words of the domain in the words of the wire."""

from collections.abc import Sequence
from functools import cache
from types import MappingProxyType

from geoveil.aggregator.domain.browsing import Page
from geoveil.aggregator.domain.campaign_cache import CampaignStatus
from geoveil.aggregator.domain.exporting import Rows
from geoveil.aggregator.domain.reports import Result, Status
from geoveil.aggregator.domain.values import MOST_QUESTIONS
from geoveil.aggregator.store import CampaignRecord
from geoveil.campaign import PointQuestion, State, decode_point_question
from geoveil.campaign.admission import Reason
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2

_FEW, _MODERATE = 200, 2_500
"""Results that are each serialised, and results in all."""
STATES = MappingProxyType(
    {
        State.PENDING: campaign_pb2.CAMPAIGN_STATE_PENDING,
        State.OPEN: campaign_pb2.CAMPAIGN_STATE_OPEN,
        State.CLOSED: campaign_pb2.CAMPAIGN_STATE_CLOSED,
    }
)
STATUSES = MappingProxyType(
    {
        Status.ACCEPTED: report_pb2.REPORT_STATUS_ACCEPTED,
        Status.DUPLICATE: report_pb2.REPORT_STATUS_DUPLICATE,
        Status.REJECTED: report_pb2.REPORT_STATUS_REJECTED,
    }
)
REASONS = MappingProxyType(
    {
        None: report_pb2.REJECTION_REASON_UNSPECIFIED,
        Reason.MALFORMED_ID: report_pb2.REJECTION_REASON_MALFORMED_ID,
        Reason.ID_CONFLICT: report_pb2.REJECTION_REASON_ID_CONFLICT,
        Reason.WRONG_ANSWERS: report_pb2.REJECTION_REASON_WRONG_ANSWERS,
        Reason.OUT_OF_RANGE: report_pb2.REJECTION_REASON_OUT_OF_RANGE,
        Reason.NOT_OPEN: report_pb2.REJECTION_REASON_NOT_OPEN,
        Reason.WRONG_PERIOD: report_pb2.REJECTION_REASON_WRONG_PERIOD,
    }
)


def envelope(record: CampaignRecord) -> campaign_pb2.CampaignEnvelope:
    """Return a campaign as it was published."""
    return campaign_pb2.CampaignEnvelope.FromString(record.published)


def serialized_campaign(standing: CampaignStatus) -> bytes:
    """Return a GetCampaignResponse, serialised: the envelope is copied, not read."""
    of_state = collector_pb2.GetCampaignResponse(state=STATES[standing.state])
    return _field(1, standing.record.published) + of_state.SerializeToString()


def serialized_page(page: Page) -> bytes:
    """Return a BrowseCampaignsResponse, likewise."""
    rest = collector_pb2.BrowseCampaignsResponse(next_page_token=page.next_token)
    campaigns = [_field(1, serialized_campaign(standing)) for standing in page.standings]
    return b"".join([*campaigns, rest.SerializeToString()])


def _field(number: int, content: bytes) -> bytes:
    """Return a field of bytes, as it stands in any message."""
    length, prefix = len(content), bytearray([number << 3 | 2])
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(prefix) + bytes([length]) + content


def privacy(guarantee: GeoPrivacy) -> campaign_pb2.Privacy:
    """Return a guarantee; its unit is that of the campaign's attribute."""
    return campaign_pb2.Privacy(epsilon=guarantee.epsilon, per=guarantee.per)


def results(of_reports: Sequence[Result]) -> list[report_pb2.ReportResult]:
    """Return what became of each report."""
    # Most reports of a batch share one Result object; a message for each would be the slowest step.
    messages: dict[int, report_pb2.ReportResult] = {}
    for of_report in of_reports:
        if id(of_report) not in messages:
            messages[id(of_report)] = report_pb2.ReportResult(
                status=STATUSES[of_report.status],
                reason=REASONS[of_report.reason],
                detail=of_report.detail,
            )
    return [messages[id(of_report)] for of_report in of_reports]


def takes_little(of_reports: Sequence[Result]) -> bool:
    """Return whether to serialise results takes no more than about a millisecond."""
    return len(of_reports) < _MODERATE and len(set(map(id, of_reports))) < _FEW


def serialized_results(of_reports: Sequence[Result]) -> bytes:
    """Return a SubmitReportsResponse with what became of each report, serialised.

    Example:
        >>> from geoveil.proto.v1.collector_pb2 import SubmitReportsResponse
        >>> accepted = Result(Status.ACCEPTED)
        >>> response = SubmitReportsResponse(results=results([accepted, accepted]))
        >>> serialized_results([accepted, accepted]) == response.SerializeToString()
        True
    """
    # A message of one element per distinct result; joined messages are one with all elements.
    pieces: dict[int, bytes] = {}
    for of_report in of_reports:
        if id(of_report) not in pieces:
            pieces[id(of_report)] = _serialized(of_report)
    return b"".join([pieces[id(of_report)] for of_report in of_reports])


def _serialized(result: Result) -> bytes:
    # What has a detail is not kept: it may quote a report.
    if result.detail or result.reason is not None:
        return _serialize(result)
    return _without_reason(result.status)


@cache
def _without_reason(status: Status) -> bytes:
    return _serialize(Result(status))


def _serialize(result: Result) -> bytes:
    one = collector_pb2.SubmitReportsResponse(results=results([result]))
    return one.SerializeToString()


def point_questions(request: analyst_pb2.EstimateQueriesRequest) -> list[PointQuestion]:
    """Return the queries of a request.

    Raises:
        ParameterError: if there are too many, or naming what is wrong with one.
    """
    if len(request.queries) > MOST_QUESTIONS:
        raise ParameterError("number of queries", len(request.queries), f"1 to {MOST_QUESTIONS:,}")
    return [decode_point_question(index, query) for index, query in enumerate(request.queries)]


def exported(rows: Rows) -> analyst_pb2.ExportReportsResponse:
    """Return rows as they are exported."""
    return analyst_pb2.ExportReportsResponse(
        periods=rows.periods.tolist(),
        query_indices=None if rows.indices is None else rows.indices.tolist(),
        columns=[analyst_pb2.ExportedColumn(values=column.tolist()) for column in rows.columns],
    )
