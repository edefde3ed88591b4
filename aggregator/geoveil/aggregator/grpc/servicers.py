"""Translation of wire messages to the service and back, without logic.

Reports are counted before they are parsed, and results leave as bytes, since most are equal.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import numpy as np

from geoveil.aggregator.domain.campaign_cache import CampaignStatus
from geoveil.aggregator.domain.errors import ServiceError
from geoveil.aggregator.domain.estimates import QueryEstimate
from geoveil.aggregator.domain.reports import ReportResult, Status
from geoveil.aggregator.domain.rows import Rows
from geoveil.aggregator.domain.service import Service, Snapshot
from geoveil.aggregator.domain.store_contract import CampaignRecord
from geoveil.aggregator.domain.values import MOST_QUESTIONS
from geoveil.aggregator.grpc.submissions import GZIP, read_at_once, read_batch, unpacked
from geoveil.aggregator.grpc.wire_columns import LEAST_BYTES
from geoveil.aggregator.ops.authorizer import TOKEN
from geoveil.aggregator.ops.metrics import Metrics
from geoveil.aggregator.ops.settings import Settings
from geoveil.aggregator.ops.tokens import Scope
from geoveil.campaign import PointQuestion, Reason, State, decode_point_question, encode_privacy
from geoveil.gp import IntervalMethod, validation
from geoveil.proto.v1 import (
    analyst_pb2 as pb,
    campaign_pb2,
    collector_pb2,
    console_pb2,
    report_pb2,
)
from geoveil.proto.v1.analyst_pb2_grpc import AnalystServicer as WireAnalystServicer
from geoveil.proto.v1.collector_pb2_grpc import CollectorServicer as WireCollectorServicer
from geoveil.proto.v1.console_pb2_grpc import ConsoleServicer as WireConsoleServicer

_DEFAULT_CONFIDENCE = 0.95
_DEFAULT_INTERVAL_S = 10.0
_METHODS = MappingProxyType(
    {method: pb.IntervalMethod.Value(f"INTERVAL_METHOD_{method.name}") for method in IntervalMethod}
    | {None: pb.INTERVAL_METHOD_UNSPECIFIED}
)
_MOST_CAMPAIGNS, _MOST_PEOPLE = 1_000, 10**10
_FEW = 200
"""The most results that can be serialised one by one within a millisecond."""
STATES = MappingProxyType(
    {state: campaign_pb2.CampaignState.Value(f"CAMPAIGN_STATE_{state.name}") for state in State}
)
_STATUSES = MappingProxyType(
    {status: report_pb2.ReportStatus.Value(f"REPORT_STATUS_{status.name}") for status in Status}
)
_REASONS = MappingProxyType(
    {
        reason: report_pb2.RejectionReason.Value(f"REJECTION_REASON_{reason.name}")
        for reason in Reason
    }
    | {None: report_pb2.REJECTION_REASON_UNSPECIFIED}
)


class CollectorServicer(WireCollectorServicer):
    """Translates devices' calls; `middleware` maps errors.

    A compressed request may unpack to at most `longest` bytes. `count` gets each request's results.
    """

    def __init__(
        self,
        service: Service,
        longest: int,
        count: Callable[[Sequence[ReportResult]], object] = len,
    ) -> None:
        self._service = service
        self._longest = longest
        self._count = count

    async def GetCampaign(  # noqa: N802 - the wire contract names it
        self, request: collector_pb2.GetCampaignRequest, context: Any
    ) -> collector_pb2.GetCampaignResponse:
        return _campaign(await self._service.get_campaign(request.campaign_id, peer=context.peer()))

    async def BrowseCampaigns(  # noqa: N802 - the wire contract names it
        self, request: collector_pb2.BrowseCampaignsRequest, context: Any
    ) -> collector_pb2.BrowseCampaignsResponse:
        page = await self._service.browse_campaigns(
            request.page_size, request.page_token, peer=context.peer()
        )
        return collector_pb2.BrowseCampaignsResponse(
            campaigns=map(_campaign, page.statuses), next_page_token=page.next_token
        )

    async def SubmitReports(  # noqa: N802 - the wire contract names it
        self, request: Any, context: Any
    ) -> Any:
        message: bytes = request
        service, peer = self._service, context.peer()
        if message.startswith(GZIP):
            message = await service.batches.run(unpacked, message, self._longest)
        paid = 0 if len(message) < LEAST_BYTES else service.admit_size(peer, len(message))
        batch = read_at_once(message)
        if batch is None:
            batch = await service.batches.run(read_batch, message)
        results = await service.submit(*batch, peer, paid=paid)
        self._count(results)
        # Equal results are usually one object, serialised once.
        if len(results) < _FEW or len(set(map(id, results))) < _FEW:
            return serialized_results(results)
        return await service.batches.run(serialized_results, results)

    async def SubmitReportStream(  # noqa: N802 - the wire contract names it
        self, request_iterator: AsyncIterable[Any], context: Any
    ) -> AsyncIterator[Any]:
        # One at a time, so that HTTP/2 flow control slows senders that are faster than the disk.
        async for request in request_iterator:
            yield await self.SubmitReports(request, context)


class AnalystServicer(WireAnalystServicer):
    """Translates analysts' calls; `middleware` maps errors."""

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
                    envelope=envelope(status.record),
                    state=STATES[status.state],
                    reports=status.record.reports,
                )
                for status in page.statuses
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
        interval_s = _DEFAULT_INTERVAL_S
        if request.HasField("interval"):
            interval_s = request.interval.seconds + request.interval.nanos * 1e-9
        async for response in self._service.watch(
            request.campaign_id, confidence, period, interval_s, _shown
        ):
            yield response

    async def EstimateQueries(  # noqa: N802 - the wire contract names it
        self, request: pb.EstimateQueriesRequest, context: Any
    ) -> pb.GetEstimateResponse:
        confidence, period = _asked(request)
        # Checking polygons with many corners takes long.
        questions = await self._service.analyses.run(point_questions, request)
        shown = await self._service.estimate_queries(
            request.campaign_id,
            questions,
            confidence,
            period,
            joint=request.joint,
            cohort=request.cohort if request.HasField("cohort") else None,
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


class ConsoleServicer(WireConsoleServicer):
    """Answers the console's calls that the service Analyst lacks."""

    def __init__(self, service: Service, metrics: Metrics, settings: Settings) -> None:
        self._service = service
        self._metrics = metrics
        self._settings = settings

    async def GetCaller(  # noqa: N802 - the wire contract names it
        self, request: console_pb2.GetCallerRequest, context: Any
    ) -> console_pb2.GetCallerResponse:
        token = TOKEN.get()
        return console_pb2.GetCallerResponse(
            name="" if token is None else token.name,
            scopes=sorted(scope.value for scope in (Scope if token is None else token.scopes)),
        )

    async def GetProgress(  # noqa: N802 - the wire contract names it
        self, request: console_pb2.GetProgressRequest, context: Any
    ) -> console_pb2.GetProgressResponse:
        ids = [*dict.fromkeys(request.campaign_ids)]
        validation.between("number of campaign_ids", len(ids), 0, _MOST_CAMPAIGNS)
        by_campaign = await self._service.progress(ids)
        response = console_pb2.GetProgressResponse()
        for campaign_id, progress in by_campaign.items():
            status = await self._service.get_campaign(campaign_id)
            response.campaigns.add(
                campaign_id=campaign_id,
                envelope=envelope(status.record),
                state=STATES[status.state],
                reports=status.record.reports,
                planned=progress.planned,
                days=[
                    console_pb2.ReportsOfDay(day=day, reports=count) for day, count in progress.days
                ],
            )
        return response

    async def PlanParticipants(  # noqa: N802 - the wire contract names it
        self, request: console_pb2.PlanParticipantsRequest, context: Any
    ) -> console_pb2.PlanParticipantsResponse:
        planned = request.participants if request.HasField("participants") else None
        if planned is not None:
            validation.between("participants", planned, 1, _MOST_PEOPLE)
        await self._service.plan_participants(request.campaign_id, planned)
        return console_pb2.PlanParticipantsResponse()

    async def GetStatus(  # noqa: N802 - the wire contract names it
        self, request: console_pb2.GetStatusRequest, context: Any
    ) -> console_pb2.GetStatusResponse:
        try:
            extent = await self._service.extent()
        except ServiceError:
            extent = None  # geoveil_ready shows that the database can't be reached
        settings = self._settings
        return console_pb2.GetStatusResponse(
            samples=[
                console_pb2.MetricSample(name=sample.name, labels=sample.labels, value=sample.value)
                for family in self._metrics.registry.collect()
                for sample in family.samples
            ],
            queue_limit=settings.queue_limit,
            database="SQLite" if isinstance(settings.database, Path) else "PostgreSQL",
            database_bytes=None if extent is None else extent.size_bytes,
            writers=None if extent is None else extent.writers,
            on_loopback=settings.on_loopback,
        )


def _asked(
    request: pb.GetEstimateRequest | pb.WatchEstimateRequest | pb.EstimateQueriesRequest,
) -> tuple[float, int | None]:
    """Return confidence and period, or their defaults."""
    return (
        request.confidence if request.HasField("confidence") else _DEFAULT_CONFIDENCE,
        request.period if request.HasField("period") else None,
    )


def _shown(shown: Snapshot) -> pb.GetEstimateResponse:
    disclosure = shown.disclosure
    return pb.GetEstimateResponse(
        envelope=envelope(shown.status.record),
        state=STATES[shown.status.state],
        estimates=[_estimate(e) for e in disclosure.estimates],
        unbiased_for=disclosure.unbiased_for,
        privacy=encode_privacy(disclosure.privacy),
        privacy_at_most=encode_privacy(disclosure.privacy_at_most),
        covariances=[
            pb.Covariances(period=period, lower_triangle=matrix[np.tril_indices(len(matrix))])
            for period, matrix in disclosure.covariances.items()
        ],
    )


def _estimate(of_query: QueryEstimate) -> pb.Estimate:
    numbers, sums, robust = of_query.estimate, of_query.sums, of_query.median_of_means
    answers, means = of_query.limits.reports, of_query.limits.means
    noise = of_query.noise_variance
    return pb.Estimate(
        label=of_query.label,
        period=of_query.period,
        cohort=of_query.cohort,
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
        interval_method=_METHODS[numbers.method],
        limits=pb.AnswerLimits(
            least_answer=answers[0],
            greatest_answer=answers[1],
            least_mean=means[0],
            greatest_mean=means[1],
        ),
        noise_variance=None
        if noise is None or noise.value is None
        else pb.NoiseVariance(value=noise.value, ci_low=noise.low, ci_high=noise.high),
        forged_share_at_least=None if of_query.forged is None else of_query.forged.at_least,
    )


def add_collector(servicer: CollectorServicer, server: Any) -> None:
    """Register the devices' service with a server or a replacement of one."""
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
    server.add_registered_method_handlers(
        collector_pb2.DESCRIPTOR.services_by_name["Collector"].full_name,
        {
            "GetCampaign": unary(
                servicer.GetCampaign,
                collector_pb2.GetCampaignRequest.FromString,
                collector_pb2.GetCampaignResponse.SerializeToString,
            ),
            "BrowseCampaigns": unary(
                servicer.BrowseCampaigns,
                collector_pb2.BrowseCampaignsRequest.FromString,
                collector_pb2.BrowseCampaignsResponse.SerializeToString,
            ),
            "SubmitReports": unary(servicer.SubmitReports, bytes),
            "SubmitReportStream": stream(servicer.SubmitReportStream, bytes),
        },
    )


def envelope(record: CampaignRecord) -> campaign_pb2.CampaignEnvelope:
    """Return the published envelope of a campaign."""
    return campaign_pb2.CampaignEnvelope.FromString(record.published)


def _campaign(status: CampaignStatus) -> collector_pb2.GetCampaignResponse:
    return collector_pb2.GetCampaignResponse(
        envelope=envelope(status.record), state=STATES[status.state]
    )


def serialized_results(of_reports: Sequence[ReportResult]) -> bytes:
    """Return a serialised SubmitReportsResponse with the result of each report.

    Example:
        >>> accepted = ReportResult(Status.ACCEPTED)
        >>> response = serialized_results([accepted, accepted])
        >>> len(collector_pb2.SubmitReportsResponse.FromString(response).results)
        2
    """
    # One single-element message per distinct result, since most reports of a batch share one
    # object; concatenated messages are one message with all elements.
    if len(of_reports) == 1:
        return _SOUND.get(of_reports[0]) or _serialized(of_reports[0])
    distinct = dict(zip(map(id, of_reports), of_reports, strict=True))
    pieces = {key: _SOUND.get(result) or _serialized(result) for key, result in distinct.items()}
    return b"".join(map(pieces.__getitem__, map(id, of_reports)))


def _serialized(result: ReportResult) -> bytes:
    message = report_pb2.ReportResult(
        status=_STATUSES[result.status], reason=_REASONS[result.reason], detail=result.detail
    )
    return collector_pb2.SubmitReportsResponse(results=[message]).SerializeToString()


_SOUND = MappingProxyType({result: _serialized(result) for result in map(ReportResult, Status)})
"""The serialised results of most reports."""


def point_questions(request: pb.EstimateQueriesRequest) -> list[PointQuestion]:
    """Return a request's queries; ParameterError if there are too many or one is invalid."""
    validation.require_count("number of queries", len(request.queries), 1, MOST_QUESTIONS)
    return [decode_point_question(index, query) for index, query in enumerate(request.queries)]


def exported(rows: Rows) -> pb.ExportReportsResponse:
    """Return rows as an export message."""
    return pb.ExportReportsResponse(
        periods=rows.periods.tolist(),
        query_indices=None if rows.indices is None else rows.indices.tolist(),
        columns=[pb.ExportedColumn(values=column.tolist()) for column in rows.columns],
        cohorts=None if rows.cohorts is None else rows.cohorts.tolist(),
    )
