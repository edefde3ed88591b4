"""A collector in the app's own process, for the tests of apps: no network, nothing on disk.

A handler around the collector brings any fault about:

    >>> from geoveil.proto.v1.collector_pb2 import GetCampaignRequest, SubmitReportsRequest
    >>> collector = InMemoryCollector()

A server that is down for the first two calls:

    >>> down = iter([True, True])
    >>> def down_at_first(request):
    ...     if next(down, False):
    ...         raise TransportError("UNAVAILABLE", "down", retry_after_s=0.5)
    ...     return collector(request)

One whose first answer to reports is lost after they were counted:

    >>> lost = iter([True])
    >>> def losing_an_answer(request):
    ...     response = collector(request)
    ...     if isinstance(request, SubmitReportsRequest) and next(lost, False):
    ...         raise TransportError("DEADLINE_EXCEEDED", "no answer")
    ...     return response

One that refuses every other report of a batch:

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

And one whose answers are no messages:

    >>> transport = InMemoryTransport(lambda request: b"<html>")
    >>> transport.get_campaign(GetCampaignRequest(campaign_id="income"), timeout_s=1.0)
    Traceback (most recent call last):
    geoveil.client.errors.TransportError: INTERNAL: the server's answer can't be parsed
"""

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from geoveil.campaign import Campaign, SigningKey, State, digest, encode, seal
from geoveil.campaign.admission import MOST_REPORTS
from geoveil.client.errors import TransportError
from geoveil.client.in_memory_campaign import HeldCampaign
from geoveil.proto.v1 import campaign_pb2, collector_pb2, report_pb2

Handler: TypeAlias = Callable[[Any], Any]
"""Takes a GetCampaignRequest or SubmitReportsRequest; returns the response that belongs to it, or
raises TransportError."""

_Response = TypeVar("_Response")
_STATES = {
    State.PENDING: campaign_pb2.CAMPAIGN_STATE_PENDING,
    State.OPEN: campaign_pb2.CAMPAIGN_STATE_OPEN,
    State.CLOSED: campaign_pb2.CAMPAIGN_STATE_CLOSED,
}


class InMemoryTransport:
    """Hands every request to a callable; the `Transport` of tests.

    Args:
        handler: for example an `InMemoryCollector`, or a function around one that fails at times.

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
        """See `Transport.get_campaign`."""
        return _answer(self._handler, request, collector_pb2.GetCampaignResponse)

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        return _answer(self._handler, request, collector_pb2.SubmitReportsResponse)

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
        return _answer(self._handler, request, collector_pb2.GetCampaignResponse)

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        return _answer(self._handler, request, collector_pb2.SubmitReportsResponse)


def _answer(handler: Handler, request: Any, kind: type[_Response]) -> _Response:
    response = handler(request)
    if not isinstance(response, kind):
        raise TransportError("INTERNAL", "the server's answer can't be parsed")
    return response


class InMemoryCollector:
    """Answers as the real collector does, from memory. Shared by threads.

    Args:
        campaigns: what it offers.
        key: signs them.
        clock: tells the time, with a time zone. None: whatever their dates, campaigns are open
            until they are closed, and all periods have begun.
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
        self._held: dict[str, HeldCampaign] = {}
        for campaign in campaigns:
            self.add(campaign)

    def add(self, campaign: Campaign) -> None:
        """Offer a campaign, in place of any with the same id and its reports."""
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(encode(campaign), self._key))
        with self._lock:
            self._held[campaign.campaign_id] = HeldCampaign(campaign, envelope)

    def close(self, campaign_id: str) -> None:
        """Take no more reports to a campaign.

        Raises:
            KeyError: if there is no such campaign.
        """
        with self._lock:
            self._held[campaign_id].closed = True

    def reports(self, campaign_id: str) -> tuple[report_pb2.Report, ...]:
        """Return the reports counted, in the order in which they came.

        Raises:
            KeyError: if there is no such campaign.
        """
        with self._lock:
            return tuple(self._held[campaign_id].reports.values())

    def __call__(self, request: Any) -> Any:
        """Answer a request.

        Raises:
            TransportError: INVALID_ARGUMENT, NOT_FOUND or FAILED_PRECONDITION, as collector.proto
                has it; nothing was counted.
        """
        now = None if self._clock is None else self._clock()
        with self._lock:
            return _ANSWERS[type(request)](self._held, request, now)


def _get_campaign(
    campaigns: dict[str, HeldCampaign],
    request: collector_pb2.GetCampaignRequest,
    now: datetime | None,
) -> collector_pb2.GetCampaignResponse:
    held = _find(campaigns, request.campaign_id)
    return collector_pb2.GetCampaignResponse(envelope=held.envelope, state=_STATES[held.state(now)])


def _submit_reports(
    campaigns: dict[str, HeldCampaign],
    request: collector_pb2.SubmitReportsRequest,
    now: datetime | None,
) -> collector_pb2.SubmitReportsResponse:
    if not 1 <= len(request.reports) <= MOST_REPORTS:
        raise TransportError("INVALID_ARGUMENT", f"a batch has 1 to {MOST_REPORTS:,} reports")
    held = _find(campaigns, request.campaign_id)
    if request.campaign_digest != digest(held.envelope.campaign):
        raise TransportError("FAILED_PRECONDITION", "the campaign has another digest")
    results = [held.admit(report, now) for report in request.reports]
    return collector_pb2.SubmitReportsResponse(results=results)


_ANSWERS: dict[type, Callable[[dict[str, HeldCampaign], Any, datetime | None], Any]] = {
    collector_pb2.GetCampaignRequest: _get_campaign,
    collector_pb2.SubmitReportsRequest: _submit_reports,
}


def _find(campaigns: dict[str, HeldCampaign], campaign_id: str) -> HeldCampaign:
    try:
        return campaigns[campaign_id]
    except KeyError:
        raise TransportError("NOT_FOUND", "there is no such campaign") from None
