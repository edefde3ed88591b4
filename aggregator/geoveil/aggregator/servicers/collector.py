"""What devices talk to."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from geoveil.aggregator.library import CampaignStanding
from geoveil.aggregator.reports import Report
from geoveil.aggregator.service import Service
from geoveil.aggregator.servicers.translation import STATES, envelope, results
from geoveil.proto.v1 import collector_pb2 as pb
from geoveil.proto.v1.collector_pb2_grpc import CollectorServicer as WireServicer


class CollectorServicer(WireServicer):
    """Translates; errors are mapped by `ErrorInterceptor`."""

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
        reports = [
            Report(r.report_id, [(a.query_index, a.value) for a in r.answers], r.period)
            for r in request.reports
        ]
        of_reports = await self._service.submit(
            request.campaign_id, request.campaign_digest, reports, context.peer()
        )
        return pb.SubmitReportsResponse(results=results(of_reports))

    async def SubmitReportStream(  # noqa: N802 - the wire contract names it
        self, request_iterator: AsyncIterable[pb.SubmitReportsRequest], context: Any
    ) -> AsyncIterator[pb.SubmitReportsResponse]:
        """See collector.proto."""
        # One at a time: a sender that is faster than the disk is held back by HTTP/2 flow control.
        async for request in request_iterator:
            yield await self.SubmitReports(request, context)


def _campaign(standing: CampaignStanding) -> pb.GetCampaignResponse:
    return pb.GetCampaignResponse(envelope=envelope(standing.record), state=STATES[standing.state])
