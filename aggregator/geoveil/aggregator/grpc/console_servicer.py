"""The gRPC service Console: it only translates messages."""

from pathlib import Path
from typing import Any

from geoveil.aggregator.domain.errors import ServiceError
from geoveil.aggregator.domain.service import Service
from geoveil.aggregator.grpc.servicers import STATES, envelope
from geoveil.aggregator.ops.authorizer import TOKEN
from geoveil.aggregator.ops.metrics import Metrics
from geoveil.aggregator.ops.settings import Settings
from geoveil.aggregator.ops.tokens import Scope
from geoveil.gp import validation
from geoveil.proto.v1 import console_pb2 as pb
from geoveil.proto.v1.console_pb2_grpc import ConsoleServicer as WireConsoleServicer

_MOST_CAMPAIGNS, _MOST_PEOPLE = 1_000, 10**10


class ConsoleServicer(WireConsoleServicer):
    """Answers the console's calls that the service Analyst lacks."""

    def __init__(self, service: Service, metrics: Metrics, settings: Settings) -> None:
        self._service = service
        self._metrics = metrics
        self._settings = settings

    async def GetCaller(  # noqa: N802 - the wire contract names it
        self, request: pb.GetCallerRequest, context: Any
    ) -> pb.GetCallerResponse:
        token = TOKEN.get()
        return pb.GetCallerResponse(
            name="" if token is None else token.name,
            scopes=sorted(scope.value for scope in (Scope if token is None else token.scopes)),
        )

    async def GetProgress(  # noqa: N802 - the wire contract names it
        self, request: pb.GetProgressRequest, context: Any
    ) -> pb.GetProgressResponse:
        ids = [*dict.fromkeys(request.campaign_ids)]
        validation.between("number of campaign_ids", len(ids), 0, _MOST_CAMPAIGNS)
        by_campaign = await self._service.progress(ids)
        response = pb.GetProgressResponse()
        for campaign_id, progress in by_campaign.items():
            status = await self._service.get_campaign(campaign_id)
            response.campaigns.add(
                campaign_id=campaign_id,
                envelope=envelope(status.record),
                state=STATES[status.state],
                reports=status.record.reports,
                planned=progress.planned,
                days=[pb.ReportsOfDay(day=day, reports=count) for day, count in progress.days],
            )
        return response

    async def PlanParticipants(  # noqa: N802 - the wire contract names it
        self, request: pb.PlanParticipantsRequest, context: Any
    ) -> pb.PlanParticipantsResponse:
        planned = request.participants if request.HasField("participants") else None
        if planned is not None:
            validation.between("participants", planned, 1, _MOST_PEOPLE)
        await self._service.plan_participants(request.campaign_id, planned)
        return pb.PlanParticipantsResponse()

    async def GetStatus(  # noqa: N802 - the wire contract names it
        self, request: pb.GetStatusRequest, context: Any
    ) -> pb.GetStatusResponse:
        try:
            extent = await self._service.extent()
        except ServiceError:
            extent = None  # geoveil_ready shows that the database can't be reached
        settings = self._settings
        return pb.GetStatusResponse(
            samples=[
                pb.MetricSample(name=sample.name, labels=sample.labels, value=sample.value)
                for family in self._metrics.registry.collect()
                for sample in family.samples
            ],
            queue_limit=settings.queue_limit,
            database="SQLite" if isinstance(settings.database, Path) else "PostgreSQL",
            database_bytes=None if extent is None else extent.size_bytes,
            writers=None if extent is None else extent.writers,
            on_loopback=settings.on_loopback,
        )
