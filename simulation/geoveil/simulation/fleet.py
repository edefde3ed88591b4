"""A fleet of simulated devices: each one draws, releases and submits through the real SDK."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from geoveil.campaign import Value
from geoveil.client import AsyncClient, AsyncTransport, Policy
from geoveil.gp import GeoVeilError, validation
from geoveil.proto.v1 import collector_pb2


def simulated_people_are_forgotten() -> None:
    """Keep quiet what the client says of devices that remember nothing: these are not to."""
    logging.getLogger("geoveil.client.setup").setLevel(logging.ERROR)


class FetchOnce:
    """An `AsyncTransport` that asks for each campaign once; the rest goes through."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._known: dict[str, asyncio.Future[collector_pb2.GetCampaignResponse]] = {}

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `AsyncTransport.get_campaign`."""
        task = self._known.get(request.campaign_id)
        if task is None or (task.done() and task.exception() is not None):
            fetch = self._transport.get_campaign(request, timeout_s)
            task = self._known[request.campaign_id] = asyncio.ensure_future(fetch)
        return await asyncio.shield(task)

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `AsyncTransport.submit_reports`."""
        return await self._transport.submit_reports(request, timeout_s)


async def run_fleet(
    campaign_id: str,
    values: Iterable[Value],
    *,
    transport: AsyncTransport,
    policy: Policy,
    concurrency: int = 64,
    on_report: Callable[[], None] = lambda: None,
) -> int:
    """Let one device per value contribute once, and return how many were acknowledged.

    Every device is an `AsyncClient` of its own, with its own memory, and sends one request with its
    one report. As they share a machine, they share the transport, and fetch the campaign once.

    Args:
        campaign_id: of the campaign.
        values: what the devices hold.
        transport: to the aggregator.
        policy: of every device.
        concurrency: devices that contribute at the same time, > 0.
        on_report: called after each acknowledgement.

    Raises:
        GeoVeilError: whatever stops a device; the others are stopped too.
    """
    validation.positive("concurrency", concurrency)
    simulated_people_are_forgotten()
    shared = FetchOnce(transport)
    waiting = iter(values)
    acknowledged = 0

    async def worker() -> None:
        nonlocal acknowledged
        for value in waiting:
            async with AsyncClient(
                policy=policy,
                transport=shared,
                timeout_s=60.0,
                background=False,
                release_floor_s=0,  # nobody's value
            ) as device:
                await device.fetch(campaign_id)
                await device.contribute(campaign_id, value)
                delivered = (await device.flush()).acknowledged
            acknowledged += delivered  # not in the line above: others count while it waits
            on_report()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(int(concurrency)):
                group.create_task(worker())
    except* GeoVeilError as errors:
        raise first(errors) from None
    return acknowledged


def first(error: BaseException) -> BaseException:
    """Return the first error of a group: all have one cause, as a rule, and the first says it."""
    return first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
