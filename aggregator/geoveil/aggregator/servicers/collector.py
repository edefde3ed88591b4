"""What devices talk to."""

from typing import Any

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
        standing = await self._service.get_campaign(request.campaign_id)
        return pb.GetCampaignResponse(
            envelope=envelope(standing.record), state=STATES[standing.state]
        )

    async def SubmitReports(  # noqa: N802 - the wire contract names it
        self, request: pb.SubmitReportsRequest, context: Any
    ) -> pb.SubmitReportsResponse:
        """See collector.proto."""
        reports = [
            Report(report.report_id, [(a.query_index, a.value) for a in report.answers])
            for report in request.reports
        ]
        of_reports = await self._service.submit(
            request.campaign_id, request.campaign_digest, reports
        )
        return pb.SubmitReportsResponse(results=results(of_reports))
