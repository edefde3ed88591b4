"""Answer a campaign with simulated devices, and measure an aggregator's capacity.

`by_devices` runs the whole SDK for each device; exact draws take most of its time. `by_batches`
sends batches of reports drawn in advance (`prepared`) as fast as the aggregator takes them. Nobody
can distinguish or remove simulated reports later: use a campaign made for them.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TypeVar

import numpy as np

from geoveil.campaign import (
    MOST_REPORTS,
    Attribute,
    AttributeCampaign,
    Question,
    StatisticCampaign,
    Value,
    seal,
)
from geoveil.client import (
    AsyncClient,
    AsyncTransport,
    Policy,
    ReportBatch,
    ReportBuilder,
    Timing,
    TransportError,
    gather,
    pauses,
)
from geoveil.gp import GeoPrivacy, GeoVeilError, Threshold, UnsupportedError, validation
from geoveil.proto.v1 import collector_pb2, report_pb2
from geoveil.simulation.populations import (
    ParticipantSource,
    collisions,
    household_incomes,
    incomes_and_debts,
)

_Item = TypeVar("_Item")
_PUSHED_BACK = "RESOURCE_EXHAUSTED"
"""The status of an aggregator with a full queue; the load retries, to find the limit."""
SHARES = {"median": 0.5, "90 %": 0.9, "99 %": 0.99, "longest": 1.0}
"""Name → a share of the answered requests; reports state the latency that it stays within."""


def load_campaign() -> StatisticCampaign:
    """Return a campaign for a load test, open for a day from now, with a unique id."""
    now = datetime.now(UTC)
    return StatisticCampaign(
        campaign_id=f"load-test-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        title="Load test: simulated devices, no people",
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
        questions=(Question("above $100,000", Threshold(100_000, 24_000, "smoothstep")),),
        opens=now - timedelta(minutes=5),  # clocks differ
        closes=now + timedelta(days=1),
    )


def people_for(campaign: AttributeCampaign) -> ParticipantSource:
    """Return a population that fits a campaign's values; UnsupportedError if there is none."""
    if campaign.attribute.coordinates is not None:
        return collisions()
    if campaign.dimension > 2:
        raise UnsupportedError(
            "no population has that many numbers: load a campaign about one or two"
        )
    return household_incomes() if campaign.dimension == 1 else incomes_and_debts()


@dataclass(slots=True)
class Load:
    """The outcome of sent reports. Counts are of reports unless stated otherwise."""

    devices: int = 0
    """Reports to deliver."""
    acknowledged: int = 0
    """Reports that the aggregator has counted."""
    accepted: int = 0
    """Counted on arrival."""
    duplicates: int = 0
    """Counted before; their first acknowledgement was lost."""
    rejected: int = 0
    """Refused for good."""
    failures: Counter[str] = field(default_factory=Counter)
    """Failed requests by status code; most are retried."""
    latencies_s: list[float] = field(default_factory=list)
    """Seconds from request to response, for every answered request."""
    seconds: float = 0.0
    """Seconds from the first request to the last answer."""
    cpu_seconds: float = 0.0
    """Processor time of this process meanwhile."""

    @property
    def lost(self) -> int:
        """Unacknowledged reports."""
        return self.devices - self.acknowledged

    @property
    def throughput(self) -> float:
        """Acknowledged reports per second."""
        return self.acknowledged / self.seconds if self.seconds else 0.0

    @property
    def busy(self) -> float:
        """The share of one core that this process used."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0

    def missing(self, counted: int) -> int:
        """Return the number of acknowledged reports missing from the aggregator's count."""
        return max(self.accepted - counted, 0)

    def to_dict(self, counted: int) -> dict[str, object]:
        """Return JSON values; `counted` is the growth of the aggregator's count."""
        return {
            "devices": self.devices,
            "seconds": self.seconds,
            "reports_per_second": self.throughput,
            "latency_s": {name: self.latency_s(share) for name, share in SHARES.items()},
            "acknowledged": self.acknowledged,
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "rejected": self.rejected,
            "not_acknowledged": self.lost,
            "counted": counted,
            "missing_from_count": self.missing(counted),
            "failed_requests": dict(self.failures),
            "busy_share_of_one_core": self.busy,
        }

    def latency_s(self, share: float) -> float | None:
        """Return the latency that a share of the answered requests stayed within; None without any.

        Example:
            >>> Load(latencies_s=[0.3, 0.1, 0.2, 0.4]).latency_s(0.5)
            0.2
        """
        if not self.latencies_s:
            return None
        return float(np.quantile(self.latencies_s, share, method="inverted_cdf"))


@dataclass
class _Metered(AsyncTransport):
    """An `AsyncTransport` that fetches the campaign once, and counts and times requests."""

    transport: AsyncTransport
    load: Load = field(default_factory=Load)
    campaign: asyncio.Future[collector_pb2.GetCampaignResponse] | None = None

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        task = self.campaign
        if task is None or (task.done() and task.exception() is not None):
            fetch = self.transport.get_campaign(request, timeout_s)
            task = self.campaign = asyncio.ensure_future(fetch)
        return await asyncio.shield(task)

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        started = time.perf_counter()
        try:
            response = await self.transport.submit_reports(request, timeout_s)
        except TransportError as error:
            self.load.failures[error.code] += 1
            if error.code != _PUSHED_BACK:
                raise
            raise TransportError("UNAVAILABLE", retry_after_s=error.retry_after_s) from error
        self.load.latencies_s.append(time.perf_counter() - started)
        counts = Counter(result.status for result in response.results)
        self.load.accepted += counts[report_pb2.REPORT_STATUS_ACCEPTED]
        self.load.duplicates += counts[report_pb2.REPORT_STATUS_DUPLICATE]
        self.load.rejected += counts[report_pb2.REPORT_STATUS_REJECTED]
        return response


async def by_devices(
    campaign_id: str,
    values: Iterable[Value],
    *,
    transport: AsyncTransport,
    policy: Policy,
    concurrency: int = 64,
    timeout_s: float = 60.0,
    timing: Timing | None = None,
    on_reports: Callable[[int], None] = lambda reports: None,
) -> Load:
    """Let one device per value take part through the SDK, and return the outcome.

    Args:
        values: the devices' values.
        transport: to the aggregator; all devices share it.
        policy: every device's policy.
        concurrency: devices that take part at the same time, 1 to 10,000.
        timeout_s: seconds for which a device retries, > 0.
        timing: the clocks; by default the system's.
        on_reports: called with the number of finished reports, acknowledged or not.

    Raises:
        GeoVeilError: if the campaign can't be answered.
    """
    metered = _Metered(transport)

    async def take_part(value: Value) -> int:
        async with AsyncClient(
            policy=policy,
            transport=metered,
            timeout_s=timeout_s,
            background=False,
            release_floor_s=0,  # simulated values need no protection of their timing
            timing=timing,
        ) as device:
            await device.fetch(campaign_id)
            await device.contribute(campaign_id, value)
            return (await device.flush()).acknowledged

    people = ((value, 1) for value in values)
    return await _run(metered.load, people, take_part, concurrency, timeout_s, on_reports)


def prepared(
    campaign_id: str,
    published: bytes,
    values: Iterable[Value],
    *,
    policy: Policy,
    batch_size: int = MOST_REPORTS,
    on_reports: Callable[[int], None] = lambda reports: None,
) -> Iterator[ReportBatch]:
    """Yield batches of 1 to 10,000 drawn reports on values, ready to send.

    Raises:
        GeoVeilError: if these values can't answer the published campaign.
    """
    validation.require_count("batch_size", batch_size, 1, MOST_REPORTS)
    builder = ReportBuilder(policy=policy)
    accepted = builder.accept(campaign_id, seal(published))
    waiting = iter(values)
    while part := list(islice(waiting, batch_size)):
        drawn = (builder.prepare(accepted, value) for value in part)
        for batch in gather(drawn):
            on_reports(len(batch.contributions))
            yield batch


async def by_batches(
    batches: Iterable[ReportBatch],
    *,
    transport: AsyncTransport,
    concurrency: int = 8,
    timeout_s: float = 60.0,
    timing: Timing | None = None,
    on_reports: Callable[[int], None] = lambda reports: None,
) -> Load:
    """Send batches as fast as the server takes them, and return the outcome.

    With a list of batches the measured time excludes drawing. See `by_devices`.
    """
    metered, clocks = _Metered(transport), timing or Timing()

    async def send(batch: ReportBatch) -> int:
        request, end = batch.request(), clocks.clock() + timeout_s
        for pause in pauses(clocks.jitter):
            if (left := end - clocks.clock()) <= 0:
                break
            try:
                response = await metered.submit_reports(request, left)
                return sum(outcome.rejection is None for outcome in batch.results(response))
            except TransportError as error:
                if not error.retryable:
                    break
            await clocks.sleep_async(min(pause, left))
        return 0

    sized = ((batch, len(batch.contributions)) for batch in batches)
    return await _run(metered.load, sized, send, concurrency, timeout_s, on_reports)


async def _run(
    load: Load,
    items: Iterable[tuple[_Item, int]],
    deliver: Callable[[_Item], Awaitable[int]],
    concurrency: int,
    timeout_s: float,
    on_reports: Callable[[int], None],
) -> Load:
    """Deliver items concurrently, and return the outcome of their reports."""
    validation.require_count("concurrency", concurrency, 1, 10_000)
    validation.positive("timeout_s", timeout_s, "seconds")
    # Silence the client's warning about devices without memory, which these lack on purpose.
    logging.getLogger("geoveil.client.device_session").setLevel(logging.ERROR)
    waiting = iter(items)

    async def worker() -> None:
        for item, reports in waiting:
            load.devices += reports
            delivered = await deliver(item)
            load.acknowledged += delivered  # not before `await`, during which other workers count
            on_reports(reports)

    wall, cpu = time.perf_counter(), time.process_time()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except* GeoVeilError as errors:
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):  # usually all have one cause
            error = error.exceptions[0]
        raise error from None
    load.seconds = time.perf_counter() - wall
    load.cpu_seconds = time.process_time() - cpu
    return load
