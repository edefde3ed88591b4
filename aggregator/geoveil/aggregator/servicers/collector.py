"""What devices talk to."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import Any

import grpc

from geoveil.aggregator.library import CampaignStanding
from geoveil.aggregator.reports import Report, Result
from geoveil.aggregator.service import Service
from geoveil.aggregator.servicers.translation import STATES, envelope, results, serialized_results
from geoveil.aggregator.wire_columns import Columns, read_columns
from geoveil.proto.v1 import collector_pb2 as pb
from geoveil.proto.v1.collector_pb2_grpc import CollectorServicer as WireServicer
from geoveil.proto.v1.collector_pb2_grpc import add_CollectorServicer_to_server

_Submission = Columns | pb.SubmitReportsRequest
_MANY = 1_000
"""Reports that are translated off the event loop."""


class CollectorServicer(WireServicer):
    """Translates; errors are mapped by `geoveil.aggregator.edge.guard`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def GetCampaign(  # noqa: N802 - the wire contract names it
        self, request: pb.GetCampaignRequest, context: Any
    ) -> pb.GetCampaignResponse:
        """See collector.proto."""
        return _campaign(await self._service.get_campaign(request.campaign_id, peer=context.peer()))

    async def BrowseCampaigns(  # noqa: N802 - the wire contract names it
        self, request: pb.BrowseCampaignsRequest, context: Any
    ) -> pb.BrowseCampaignsResponse:
        """See collector.proto."""
        page = await self._service.browse_campaigns(
            request.page_size, request.page_token, peer=context.peer()
        )
        return pb.BrowseCampaignsResponse(
            campaigns=[_campaign(standing) for standing in page.standings],
            next_page_token=page.next_token,
        )

    async def SubmitReports(  # noqa: N802 - the wire contract names it
        self, request: pb.SubmitReportsRequest, context: Any
    ) -> pb.SubmitReportsResponse:
        """See collector.proto."""
        return pb.SubmitReportsResponse(results=results(await self._submit(request, context)))

    async def SubmitReportStream(  # noqa: N802 - the wire contract names it
        self, request_iterator: AsyncIterable[pb.SubmitReportsRequest], context: Any
    ) -> AsyncIterator[pb.SubmitReportsResponse]:
        """See collector.proto."""
        # One at a time: a sender that is faster than the disk is held back by HTTP/2 flow control.
        async for request in request_iterator:
            yield await self.SubmitReports(request, context)

    async def submit(self, submission: _Submission, context: Any) -> bytes:
        """SubmitReports, with a response that is serialised: of thousands, most are alike."""
        return serialized_results(await self._submit(submission, context))

    async def submit_stream(
        self, submissions: AsyncIterable[_Submission], context: Any
    ) -> AsyncIterator[bytes]:
        """SubmitReportStream, likewise."""
        async for submission in submissions:
            yield await self.submit(submission, context)

    async def _submit(self, submission: _Submission, context: Any) -> Sequence[Result]:
        reports: Sequence[Report]
        if isinstance(submission, Columns):
            reports = submission.reports
        elif len(submission.reports) < _MANY:
            reports = _reports(submission)
        else:
            reports = await asyncio.to_thread(_reports, submission)
        return await self._service.submit(
            submission.campaign_id, submission.campaign_digest, reports, context.peer()
        )


def add_collector(servicer: CollectorServicer, server: Any) -> None:
    """Let a server, or what takes services in place of one, answer the calls of devices."""
    faster: Any = _Faster(servicer, server)
    add_CollectorServicer_to_server(servicer, faster)


class _Faster:
    """Takes methods as generated code adds them, and hands them on with those for raw bytes."""

    def __init__(self, servicer: CollectorServicer, server: Any) -> None:
        self._server = server
        self._faster: dict[str, Any] = {
            "SubmitReports": grpc.unary_unary_rpc_method_handler(
                servicer.submit, request_deserializer=_read
            ),
            "SubmitReportStream": grpc.stream_stream_rpc_method_handler(
                servicer.submit_stream, request_deserializer=_read
            ),
        }

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._server.add_registered_method_handlers(service, {**handlers, **self._faster})

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Pass over: the same come by name."""


def _read(message: bytes) -> _Submission:
    return read_columns(message) or pb.SubmitReportsRequest.FromString(message)


def _reports(request: pb.SubmitReportsRequest) -> list[Report]:
    return [
        Report(r.report_id, [(a.query_index, a.value) for a in r.answers], r.period)
        for r in request.reports
    ]


def _campaign(standing: CampaignStanding) -> pb.GetCampaignResponse:
    return pb.GetCampaignResponse(envelope=envelope(standing.record), state=STATES[standing.state])
