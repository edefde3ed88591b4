"""A collector in the app's own process, for apps' tests, without network or disk.

A handler around the collector can simulate any fault:

    >>> from geoveil.proto.v1.collector_pb2 import GetCampaignRequest, SubmitReportsRequest
    >>> collector = InMemoryCollector()

A server that is down for the first two calls:

    >>> down = iter([True, True])
    >>> def down_at_first(request):
    ...     if next(down, False):
    ...         raise TransportError("UNAVAILABLE", "down", retry_after_s=0.5)
    ...     return collector(request)

A server whose first response is lost after it counted the reports:

    >>> lost = iter([True])
    >>> def losing_an_answer(request):
    ...     response = collector(request)
    ...     if isinstance(request, SubmitReportsRequest) and next(lost, False):
    ...         raise TransportError("DEADLINE_EXCEEDED", "no answer")
    ...     return response

A server that refuses every other report of a batch:

    >>> def refusing_half(request):
    ...     if not isinstance(request, SubmitReportsRequest):
    ...         return collector(request)
    ...     kept = SubmitReportsRequest.FromString(request.SerializeToString())
    ...     del kept.reports[1::2]
    ...     response = collector(kept)
    ...     for place in range(1, len(request.reports), 2):
    ...         refused = report_pb2.ReportResult(status="REPORT_STATUS_REJECTED")
    ...         response.results.insert(place, refused)
    ...     return response

And a server whose responses are not messages:

    >>> transport = InMemoryTransport(lambda request: b"<html>")
    >>> transport.get_campaign(GetCampaignRequest(campaign_id="income"), timeout_s=1.0)
    Traceback (most recent call last):
    geoveil.client.errors.TransportError: INTERNAL: the server's answer can't be parsed
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from geoveil.campaign import (
    MOST_REPORTS,
    Admission,
    Campaign,
    Reason,
    SigningKey,
    State,
    digest,
    encode,
    seal,
)
from geoveil.client.errors import TransportError
from geoveil.client.transport import AsyncTransport, Transport
from geoveil.proto.v1 import campaign_pb2, collector_pb2, report_pb2

Handler: TypeAlias = Callable[[Any], Any]
"""Takes a GetCampaignRequest or SubmitReportsRequest; returns its response or raises
TransportError."""

_CLOCK_SKEW = timedelta(minutes=1)
"""The permitted difference of device and server clocks, the real server's default."""
_Response = TypeVar("_Response")
_STATES = {
    State.PENDING: campaign_pb2.CAMPAIGN_STATE_PENDING,
    State.OPEN: campaign_pb2.CAMPAIGN_STATE_OPEN,
    State.CLOSED: campaign_pb2.CAMPAIGN_STATE_CLOSED,
}


class InMemoryTransport(Transport):
    """Passes every request to a callable, such as an `InMemoryCollector`; a `Transport` for tests.

    Example:
        >>> transport = InMemoryTransport(InMemoryCollector())
        >>> request = collector_pb2.GetCampaignRequest(campaign_id="no-such-campaign")
        >>> transport.get_campaign(request, timeout_s=1.0)
        Traceback (most recent call last):
        geoveil.client.errors.TransportError: NOT_FOUND: there is no such campaign
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        return _answer(self._handler, request, collector_pb2.GetCampaignResponse)

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        return _answer(self._handler, request, collector_pb2.SubmitReportsResponse)

    @property
    def aio(self) -> "InMemoryAsyncTransport":
        """The same handler, behind an `AsyncTransport`."""
        return InMemoryAsyncTransport(self._handler)


class InMemoryAsyncTransport(AsyncTransport):
    """Passes every request to a callable, such as an `InMemoryCollector`; for asyncio tests."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        return _answer(self._handler, request, collector_pb2.GetCampaignResponse)

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        return _answer(self._handler, request, collector_pb2.SubmitReportsResponse)


def _answer(handler: Handler, request: Any, kind: type[_Response]) -> _Response:
    response = handler(request)
    if not isinstance(response, kind):
        raise TransportError("INTERNAL", "the server's answer can't be parsed")
    return response


class InMemoryCollector:
    """Responds like the real collector, in memory, with campaigns signed by a key.

    Threads may share it. If the clock is None, campaigns with any dates are open until closed, and
    all periods have begun.
    """

    def __init__(
        self,
        campaigns: Iterable[Campaign] = (),
        *,
        key: SigningKey | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._key = key
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, _HeldCampaign] = {}
        for campaign in campaigns:
            self.add(campaign)

    def add(self, campaign: Campaign) -> None:
        """Offer a campaign, which replaces any campaign with the same id and its reports."""
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(encode(campaign), self._key))
        with self._lock:
            self._held[campaign.campaign_id] = _HeldCampaign(campaign, envelope)

    def close(self, campaign_id: str) -> None:
        """Take no more reports to a campaign; KeyError if it does not exist."""
        with self._lock:
            self._held[campaign_id].closed = True

    def reports(self, campaign_id: str) -> tuple[report_pb2.Report, ...]:
        """Return the counted reports in order of arrival; KeyError if there is no such campaign."""
        with self._lock:
            return tuple(self._held[campaign_id].reports.values())

    def __call__(self, request: Any) -> Any:
        """Answer a request.

        Raises:
            TransportError: INVALID_ARGUMENT, NOT_FOUND or FAILED_PRECONDITION, as in
                collector.proto; nothing was counted.
        """
        submitted = isinstance(request, collector_pb2.SubmitReportsRequest)
        if submitted and not 1 <= len(request.reports) <= MOST_REPORTS:
            raise TransportError("INVALID_ARGUMENT", f"a batch has 1 to {MOST_REPORTS:,} reports")
        now = None if self._clock is None else self._clock()
        with self._lock:
            held = self._held.get(request.campaign_id)
            if held is None:
                raise TransportError("NOT_FOUND", "there is no such campaign")
            if not submitted:
                return collector_pb2.GetCampaignResponse(
                    envelope=held.envelope, state=_STATES[held.state(now)]
                )
            if request.campaign_digest != digest(held.envelope.campaign):
                raise TransportError("FAILED_PRECONDITION", "the campaign has another digest")
            results = [held.admit(report, now) for report in request.reports]
            return collector_pb2.SubmitReportsResponse(results=results)


@dataclass(slots=True)
class _HeldCampaign:
    """A campaign and its counted reports."""

    campaign: Campaign
    envelope: campaign_pb2.CampaignEnvelope
    closed: bool = False
    reports: dict[bytes, report_pb2.Report] = field(default_factory=dict)
    _admission: Admission = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._admission = Admission(self.campaign)

    def state(self, now: datetime | None) -> State:
        """Return the state at a time; without a time, every campaign is open until closed."""
        return self.campaign.state(self.campaign.opens if now is None else now, closed=self.closed)

    def counted(self, report: report_pb2.Report) -> report_pb2.Report:
        """Return a valid report with its answers clipped to the ranges."""
        counted = report_pb2.Report()
        counted.CopyFrom(report)
        for answer in counted.answers:
            answer.value = self.campaign.counted(answer.query_index, answer.value)
        return counted

    def admit(self, report: report_pb2.Report, now: datetime | None) -> report_pb2.ReportResult:
        """Count a report, or return why not."""
        fault = self._admission.fault(
            report.report_id, _answers(report), report.period, report.token
        )
        reason = fault.reason if fault else self._untimely(report, now)
        if reason is not None:
            return report_pb2.ReportResult(
                status=report_pb2.REPORT_STATUS_REJECTED,
                reason=report_pb2.RejectionReason.Value(f"REJECTION_REASON_{reason.name}"),
                detail=f"refused: {reason.value}",
            )
        if report.report_id in self.reports:
            return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_DUPLICATE)
        self.reports[report.report_id] = self.counted(report)
        return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_ACCEPTED)

    def _untimely(self, report: report_pb2.Report, now: datetime | None) -> Reason | None:
        """Return why a valid report is not counted at a time, or None if it is."""
        held = self.reports.get(report.report_id)
        if held is not None:  # duplicates are recognised at any time and in any state
            same = _content(held) == _content(self.counted(report))
            return None if same else Reason.ID_CONFLICT
        if now is None:
            return Reason.NOT_OPEN if self.closed else None
        campaign = self.campaign
        if report.period > campaign.period_at(now + _CLOCK_SKEW):
            return Reason.WRONG_PERIOD
        opened = campaign.opens - now <= _CLOCK_SKEW and now - campaign.closes < _CLOCK_SKEW
        return None if opened and not self.closed else Reason.NOT_OPEN


def _answers(report: report_pb2.Report) -> list[tuple[int, int]]:
    return [(answer.query_index, answer.value) for answer in report.answers]


def _content(report: report_pb2.Report) -> tuple[int, list[tuple[int, int]]]:
    return report.period, _answers(report)
