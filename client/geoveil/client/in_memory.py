"""A collector in the app's own process, for the tests of apps: no network, nothing on disk."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from geoveil.campaign import Campaign, digest, encode
from geoveil.client.errors import TransportError
from geoveil.proto.v1 import campaign_pb2, collector_pb2, report_pb2

Handler: TypeAlias = Callable[[Any], Any]
"""Takes a GetCampaignRequest or SubmitReportsRequest; returns the response that belongs to it, or
raises TransportError."""


class InMemoryTransport:
    """Hands every request to a callable; the `Transport` of tests.

    Args:
        handler: for example an `InMemoryCollector`, or a function around one that fails at times.

    Example:
        >>> from geoveil.client import Client, InMemoryCollector, Policy
        >>> collector = InMemoryCollector()
        >>> client = Client(policy=Policy({}), transport=InMemoryTransport(collector))
        >>> client.contribute("no-such-campaign", 1.0)
        Traceback (most recent call last):
        ...
        geoveil.client.errors.CampaignNotFound: the server knows no campaign 'no-such-campaign'
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        response: collector_pb2.GetCampaignResponse = self._handler(request)
        return response

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        response: collector_pb2.SubmitReportsResponse = self._handler(request)
        return response

    @property
    def aio(self) -> "InMemoryAsyncTransport":
        """The same, as an `AsyncTransport`."""
        return InMemoryAsyncTransport(self._handler)


class InMemoryAsyncTransport:
    """See `InMemoryTransport`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        response: collector_pb2.GetCampaignResponse = self._handler(request)
        return response

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        response: collector_pb2.SubmitReportsResponse = self._handler(request)
        return response


@dataclass(slots=True)
class _Held:
    """A campaign, and the reports it has counted."""

    campaign: Campaign
    envelope: campaign_pb2.CampaignEnvelope
    state: campaign_pb2.CampaignState.ValueType = campaign_pb2.CAMPAIGN_STATE_OPEN
    reports: dict[bytes, report_pb2.Report] = field(default_factory=dict)

    def admit(self, report: report_pb2.Report) -> report_pb2.ReportResult:
        before = self.reports.get(report.report_id)
        if before is not None and before == report:
            return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_DUPLICATE)
        indices = [a.query_index for a in report.answers]
        checks = {
            report_pb2.REJECTION_REASON_MALFORMED_ID: len(report.report_id) == 16,
            report_pb2.REJECTION_REASON_ID_CONFLICT: before is None,
            report_pb2.REJECTION_REASON_NOT_OPEN: self.state == campaign_pb2.CAMPAIGN_STATE_OPEN,
            report_pb2.REJECTION_REASON_WRONG_ANSWERS: self.campaign.allocation.admits(
                indices, len(self.campaign.questions)
            ),
            report_pb2.REJECTION_REASON_OUT_OF_RANGE: all(map(self._in_range, report.answers)),
        }
        for reason, holds in checks.items():
            if not holds:
                return report_pb2.ReportResult(
                    status=report_pb2.REPORT_STATUS_REJECTED, reason=reason
                )
        self.reports[report.report_id] = report
        return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_ACCEPTED)

    def _in_range(self, answer: report_pb2.Answer) -> bool:
        if answer.query_index >= len(self.campaign.mechanisms):
            return False
        low, high = self.campaign.mechanisms[answer.query_index].grid_range
        return low <= answer.value <= high


class InMemoryCollector:
    """Answers as the real collector does; every campaign is open until it is closed.

    Args:
        campaigns: what it offers, whatever their dates.
    """

    def __init__(self, campaigns: Iterable[Campaign] = ()) -> None:
        self._held: dict[str, _Held] = {}
        for campaign in campaigns:
            self.add(campaign)

    def add(self, campaign: Campaign) -> None:
        """Offer a campaign, in place of any with the same id."""
        envelope = campaign_pb2.CampaignEnvelope(campaign=encode(campaign))
        self._held[campaign.campaign_id] = _Held(campaign, envelope)

    def close(self, campaign_id: str) -> None:
        """Take no more reports to a campaign."""
        self._held[campaign_id].state = campaign_pb2.CAMPAIGN_STATE_CLOSED

    def reports(self, campaign_id: str) -> tuple[report_pb2.Report, ...]:
        """Return the reports counted, in the order in which they came."""
        return tuple(self._held[campaign_id].reports.values())

    def __call__(self, request: Any) -> Any:
        """Answer a request."""
        held = self._held.get(request.campaign_id)
        if held is None:
            raise TransportError("NOT_FOUND", "no such campaign")
        return _ANSWERS[type(request)](held, request)


def _get_campaign(
    held: _Held, request: collector_pb2.GetCampaignRequest
) -> collector_pb2.GetCampaignResponse:
    return collector_pb2.GetCampaignResponse(envelope=held.envelope, state=held.state)


def _submit_reports(
    held: _Held, request: collector_pb2.SubmitReportsRequest
) -> collector_pb2.SubmitReportsResponse:
    if request.campaign_digest != digest(held.envelope.campaign):
        raise TransportError("FAILED_PRECONDITION", "the campaign has another digest")
    return collector_pb2.SubmitReportsResponse(results=[held.admit(r) for r in request.reports])


_ANSWERS: dict[type, Callable[[_Held, Any], Any]] = {
    collector_pb2.GetCampaignRequest: _get_campaign,
    collector_pb2.SubmitReportsRequest: _submit_reports,
}
