"""What the people who ask questions talk to."""

from collections.abc import AsyncIterator
from typing import Any

from geoveil.aggregator.domain.estimates import QueryEstimate
from geoveil.aggregator.domain.service import Service, Snapshot
from geoveil.aggregator.grpc.servicers.translation import (
    STATES,
    envelope,
    exported,
    point_questions,
    privacy,
)
from geoveil.aggregator.ops.authorizer import TOKEN
from geoveil.aggregator.store import CampaignRecord
from geoveil.proto.v1 import analyst_pb2 as pb
from geoveil.proto.v1.analyst_pb2_grpc import AnalystServicer as WireServicer

_DEFAULT_CONFIDENCE = 0.95
_DEFAULT_INTERVAL_S = 10.0


class AnalystServicer(WireServicer):
    """Translates; errors are mapped by `geoveil.aggregator.grpc.middleware.guard`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def CreateCampaign(  # noqa: N802 - the wire contract names it
        self, request: pb.CreateCampaignRequest, context: Any
    ) -> pb.CreateCampaignResponse:
        published = request.envelope.SerializeToString(deterministic=True)
        digest = await self._service.create_campaign(published)
        return pb.CreateCampaignResponse(campaign_digest=digest)

    async def CloseCampaign(  # noqa: N802 - the wire contract names it
        self, request: pb.CloseCampaignRequest, context: Any
    ) -> pb.CloseCampaignResponse:
        await self._service.close_campaign(request.campaign_id)
        return pb.CloseCampaignResponse()

    async def ListCampaigns(  # noqa: N802 - the wire contract names it
        self, request: pb.ListCampaignsRequest, context: Any
    ) -> pb.ListCampaignsResponse:
        token = TOKEN.get()
        page = await self._service.list_campaigns(
            request.page_size, request.page_token, only=None if token is None else token.campaigns
        )
        return pb.ListCampaignsResponse(
            campaigns=[
                pb.CampaignSummary(
                    envelope=envelope(standing.record),
                    state=STATES[standing.state],
                    reports=standing.record.reports,
                )
                for standing in page.standings
            ],
            next_page_token=page.next_token,
        )

    async def GetEstimate(  # noqa: N802 - the wire contract names it
        self, request: pb.GetEstimateRequest, context: Any
    ) -> pb.GetEstimateResponse:
        confidence, period = _asked(request)
        response: pb.GetEstimateResponse = await self._service.estimate(
            request.campaign_id, confidence, period, _shown
        )
        return response

    async def WatchEstimate(  # noqa: N802 - the wire contract names it
        self, request: pb.WatchEstimateRequest, context: Any
    ) -> AsyncIterator[pb.GetEstimateResponse]:
        confidence, period = _asked(request)
        interval_s = _interval_s(request)
        async for response in self._service.watch(
            request.campaign_id, confidence, period, interval_s, _shown
        ):
            yield response

    async def EstimateQueries(  # noqa: N802 - the wire contract names it
        self, request: pb.EstimateQueriesRequest, context: Any
    ) -> pb.GetEstimateResponse:
        confidence, period = _asked(request)
        # Polygons of many corners take long to check.
        questions = await self._service.analyses.run(point_questions, request)
        shown = await self._service.estimate_queries(
            request.campaign_id, questions, confidence, period
        )
        return await self._service.analyses.run(_shown, shown)

    async def ExportReports(  # noqa: N802 - the wire contract names it
        self, request: pb.ExportReportsRequest, context: Any
    ) -> AsyncIterator[pb.ExportReportsResponse]:
        period = request.period if request.HasField("period") else None
        async for part in self._service.export(request.campaign_id, period):
            if isinstance(part, CampaignRecord):
                yield pb.ExportReportsResponse(envelope=envelope(part))
            else:
                yield await self._service.analyses.run(exported, part)


def _asked(
    request: pb.GetEstimateRequest | pb.WatchEstimateRequest | pb.EstimateQueriesRequest,
) -> tuple[float, int | None]:
    """Return confidence and period, or what is meant where they are absent."""
    return (
        request.confidence if request.HasField("confidence") else _DEFAULT_CONFIDENCE,
        request.period if request.HasField("period") else None,
    )


def _interval_s(request: pb.WatchEstimateRequest) -> float:
    if not request.HasField("interval"):
        return _DEFAULT_INTERVAL_S
    return request.interval.seconds + request.interval.nanos * 1e-9


def _shown(shown: Snapshot) -> pb.GetEstimateResponse:
    disclosure = shown.disclosure
    return pb.GetEstimateResponse(
        envelope=envelope(shown.standing.record),
        state=STATES[shown.standing.state],
        estimates=[_estimate(e) for e in disclosure.estimates],
        unbiased_for=disclosure.unbiased_for,
        privacy=privacy(disclosure.privacy),
        privacy_at_most=privacy(disclosure.privacy_at_most),
    )


def _estimate(of_query: QueryEstimate) -> pb.Estimate:
    numbers, sums, robust = of_query.estimate, of_query.sums, of_query.median_of_means
    return pb.Estimate(
        label=of_query.label,
        period=of_query.period,
        n=numbers.n,
        value=numbers.value,
        standard_error=numbers.standard_error,
        confidence=numbers.confidence,
        ci_low=numbers.ci_low,
        ci_high=numbers.ci_high,
        sum=str(sums.total),
        sum_of_squares=str(sums.total_of_squares),
        median_of_means=None
        if robust is None
        else pb.MedianOfMeans(
            value=robust.value,
            ci_low=robust.ci_low,
            ci_high=robust.ci_high,
            blocks=robust.blocks,
        ),
    )
