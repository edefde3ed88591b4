"""Words of the domain in the words of the wire."""

from collections.abc import Sequence
from types import MappingProxyType

from geoveil.aggregator.reports import Reason, Result, Status
from geoveil.aggregator.store import CampaignRecord
from geoveil.campaign import State
from geoveil.proto.v1 import campaign_pb2, report_pb2

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
    }
)


def envelope(record: CampaignRecord) -> campaign_pb2.CampaignEnvelope:
    """Return a campaign as it was published."""
    return campaign_pb2.CampaignEnvelope(campaign=record.published)


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
