"""What the people who ask questions talk to."""

from typing import Any

from geoveil.aggregator.service import QueryEstimate, Service
from geoveil.aggregator.servicers.translation import STATES, envelope
from geoveil.proto.v1 import analyst_pb2 as pb
from geoveil.proto.v1.analyst_pb2_grpc import AnalystServicer as WireServicer


class AnalystServicer(WireServicer):
    """Translates; errors are mapped by `ErrorInterceptor`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def CreateCampaign(  # noqa: N802 - the wire contract names it
        self, request: pb.CreateCampaignRequest, context: Any
    ) -> pb.CreateCampaignResponse:
        """See analyst.proto."""
        digest = await self._service.create_campaign(request.envelope.campaign)
        return pb.CreateCampaignResponse(campaign_digest=digest)

    async def CloseCampaign(  # noqa: N802 - the wire contract names it
        self, request: pb.CloseCampaignRequest, context: Any
    ) -> pb.CloseCampaignResponse:
        """See analyst.proto."""
        await self._service.close_campaign(request.campaign_id)
        return pb.CloseCampaignResponse()

    async def ListCampaigns(  # noqa: N802 - the wire contract names it
        self, request: pb.ListCampaignsRequest, context: Any
    ) -> pb.ListCampaignsResponse:
        """See analyst.proto."""
        standings = await self._service.list_campaigns()
        return pb.ListCampaignsResponse(
            campaigns=[
                pb.CampaignSummary(
                    envelope=envelope(standing.record),
                    state=STATES[standing.state],
                    reports=standing.record.reports,
                )
                for standing in standings
            ]
        )

    async def GetEstimate(  # noqa: N802 - the wire contract names it
        self, request: pb.GetEstimateRequest, context: Any
    ) -> pb.GetEstimateResponse:
        """See analyst.proto."""
        confidence = request.confidence if request.HasField("confidence") else 0.95
        standing, estimates = await self._service.estimate(request.campaign_id, confidence)
        return pb.GetEstimateResponse(
            envelope=envelope(standing.record),
            state=STATES[standing.state],
            estimates=[_estimate(e) for e in estimates],
        )


def _estimate(of_query: QueryEstimate) -> pb.Estimate:
    numbers, sums = of_query.estimate, of_query.sums
    return pb.Estimate(
        label=of_query.label,
        n=numbers.n,
        value=numbers.value,
        standard_error=numbers.standard_error,
        confidence=numbers.confidence,
        ci_low=numbers.ci_low,
        ci_high=numbers.ci_high,
        sum=str(sums.total),
        sum_of_squares=str(sums.total_of_squares),
    )
