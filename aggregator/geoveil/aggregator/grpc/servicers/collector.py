"""What devices talk to."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any

import grpc

from geoveil.aggregator.domain.service import Service
from geoveil.aggregator.grpc.servicers.translation import (
    serialized_campaign,
    serialized_page,
    serialized_results,
    takes_little,
)
from geoveil.aggregator.grpc.unpacking import is_packed, unpacked
from geoveil.aggregator.grpc.wire_batch import read_at_once, read_batch
from geoveil.aggregator.grpc.wire_columns import LEAST_BYTES
from geoveil.proto.v1 import collector_pb2 as pb
from geoveil.proto.v1.collector_pb2_grpc import CollectorServicer as WireServicer
from geoveil.proto.v1.collector_pb2_grpc import add_CollectorServicer_to_server


class CollectorServicer(WireServicer):
    """Translates; errors are mapped by `geoveil.aggregator.grpc.middleware.guard`.

    Args:
        service: that does what is asked.
        longest: the most bytes that a compressed request may unpack to.
    """

    def __init__(self, service: Service, longest: int) -> None:
        self._service = service
        self._longest = longest

    async def GetCampaign(  # noqa: N802 - the wire contract names it
        self, request: pb.GetCampaignRequest, context: Any
    ) -> Any:
        return serialized_campaign(
            await self._service.get_campaign(request.campaign_id, peer=context.peer())
        )

    async def BrowseCampaigns(  # noqa: N802 - the wire contract names it
        self, request: pb.BrowseCampaignsRequest, context: Any
    ) -> Any:
        return serialized_page(
            await self._service.browse_campaigns(
                request.page_size, request.page_token, peer=context.peer()
            )
        )

    async def SubmitReports(  # noqa: N802 - the wire contract names it
        self, request: Any, context: Any
    ) -> Any:
        message: bytes = request
        service, peer = self._service, context.peer()
        if is_packed(message):
            message = await service.batches.run(unpacked, message, self._longest)
        paid = 0 if len(message) < LEAST_BYTES else service.admit_size(peer, len(message))
        batch = read_at_once(message)
        if batch is None:
            batch = await service.batches.run(read_batch, message)
        results = await service.submit(*batch, peer, paid=paid)
        if takes_little(results):
            return serialized_results(results)
        return await service.batches.run(serialized_results, results)

    async def SubmitReportStream(  # noqa: N802 - the wire contract names it
        self, request_iterator: AsyncIterable[Any], context: Any
    ) -> AsyncIterator[Any]:
        # One at a time: a sender that is faster than the disk is held back by HTTP/2 flow control.
        async for request in request_iterator:
            yield await self.SubmitReports(request, context)


def add_collector(servicer: CollectorServicer, server: Any) -> None:
    """Let a server, or what takes services in place of one, answer the calls of devices.

    Requests with reports come to the servicer as bytes, to be counted before they are read.
    Responses leave it as bytes: of thousands of results most are alike, and campaigns need not be
    read to be sent.
    """
    in_bytes: Any = _InBytes(servicer, server)
    add_CollectorServicer_to_server(servicer, in_bytes)


class _InBytes:
    """Takes methods as generated code adds them, and hands them on with those for raw bytes."""

    def __init__(self, servicer: CollectorServicer, server: Any) -> None:
        self._server = server
        self._in_bytes: dict[str, Any] = {
            "GetCampaign": grpc.unary_unary_rpc_method_handler(
                servicer.GetCampaign, request_deserializer=pb.GetCampaignRequest.FromString
            ),
            "BrowseCampaigns": grpc.unary_unary_rpc_method_handler(
                servicer.BrowseCampaigns, request_deserializer=pb.BrowseCampaignsRequest.FromString
            ),
            "SubmitReports": grpc.unary_unary_rpc_method_handler(
                servicer.SubmitReports, request_deserializer=bytes
            ),
            "SubmitReportStream": grpc.stream_stream_rpc_method_handler(
                servicer.SubmitReportStream, request_deserializer=bytes
            ),
        }

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self._server.add_registered_method_handlers(service, {**handlers, **self._in_bytes})

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Pass over: the same come by name."""
