"""Health follows whether reports can be counted, and a stop loses none that was acknowledged.

Fails if an acknowledged report is not in the database after the stop, if any report is counted
twice, if a request in progress is cut off within the grace, or if the server takes requests while
it says that it does not serve.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.grpc.health import Readiness
from geoveil.gp.estimation import Accumulator
from geoveil.proto.v1 import report_pb2

from .refusals import refuses

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = ("", "geoveil.proto.v1.Collector", "geoveil.proto.v1.Analyst")


@pytest.fixture
def moody(database):
    """A store whose database goes away and comes back."""

    class Moody(SQLiteStore):
        gone = False
        full = False

        def __init__(self) -> None:
            super().__init__(database)

        def probe(self) -> None:
            if Moody.gone:
                raise ServiceError(Code.STORE_UNAVAILABLE)
            super().probe()

        def commit(self, batch: Any) -> Any:
            if Moody.full:
                raise ServiceError(Code.STORE_UNAVAILABLE)
            return super().commit(batch)

    return Moody


def watch_all(channel: grpc.aio.Channel) -> list[Any]:
    health = health_pb2_grpc.HealthStub(channel)
    return [health.Watch(health_pb2.HealthCheckRequest(service=name)) for name in SERVICES]


async def statuses(watches: list[Any]) -> set[int]:
    return {(await asyncio.wait_for(watch.read(), 20)).status for watch in watches}


async def test_health_follows_the_database(start_server, moody):
    server = await start_server(moody, health_interval_s=0.05)
    watches = watch_all(server.wire.channel)
    assert await statuses(watches) == {SERVING}
    for _ in range(2):
        moody.gone = True
        assert await statuses(watches) == {NOT_SERVING}
        moody.gone = False
        assert await statuses(watches) == {SERVING}


async def test_a_failed_transaction_is_told_at_once_and_tried_again_later(
    start_server, moody, publish, wire_report
):
    server = await start_server(moody, health_interval_s=0.3)
    campaign = publish()
    await server.wire.create(campaign)
    watches = watch_all(server.wire.channel)
    assert await statuses(watches) == {SERVING}
    moody.full = True
    with pytest.raises(grpc.aio.AioRpcError):
        await server.wire.submit(campaign, wire_report(1, (0, 1)))
    assert await statuses(watches) == {NOT_SERVING}
    moody.full = False
    assert await statuses(watches) == {SERVING}
    assert len(await server.wire.submit(campaign, wire_report(1, (0, 1)))) == 1


async def test_a_watcher_that_does_not_read_holds_up_nobody(start_server):
    server = await start_server(grace_s=60)
    health = health_pb2_grpc.HealthStub(server.wire.channel)
    unread = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(50)]
    (reader,) = watch_all(server.wire.channel)[:1]
    assert await statuses([reader]) == {SERVING}
    stopping = asyncio.create_task(server.aggregator.stop())
    assert await statuses([reader]) == {NOT_SERVING}
    assert await asyncio.wait_for(reader.read(), 20) is grpc.aio.EOF
    await asyncio.wait_for(stopping, 20)
    for call in unread:
        call.cancel()


async def test_services_are_listed_and_unknown_ones_are_said_to_be(start_server):
    health = health_pb2_grpc.HealthStub((await start_server()).wire.channel)
    listed = await health.List(health_pb2.HealthListRequest())
    assert {name: answer.status for name, answer in listed.statuses.items()} == dict.fromkeys(
        SERVICES, SERVING
    )
    watch = health.Watch(health_pb2.HealthCheckRequest(service="x"))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


async def test_probes_and_failures_in_their_order():
    """With an interval that never ends, only a failure changes anything."""
    told: list[bool] = []
    changed = asyncio.Event()

    async def probe() -> bool:
        return True

    def tell(ready: bool) -> None:
        told.append(ready)
        changed.set()

    async def next_told() -> None:
        await asyncio.wait_for(changed.wait(), 20)
        changed.clear()

    readiness = Readiness(probe, tell, 3600)
    readiness.commit_failed()  # before it began: nobody to tell
    readiness.start()
    await next_told()
    await asyncio.to_thread(readiness.commit_failed)
    await next_told()
    assert told == [True, False]
    await readiness.stop()
    await readiness.stop()
    readiness.commit_failed()
    assert told == [True, False]


ACCEPTED = report_pb2.REPORT_STATUS_ACCEPTED
PATIENCE_S = 60
"""After which a test that hangs fails."""


class HeldStore(SQLiteStore):
    """Commits when the test lets it."""

    entered = threading.Event()
    released = threading.Event()

    def commit(self, batch: Any) -> Any:
        self.entered.set()
        assert self.released.wait(PATIENCE_S)
        return super().commit(batch)


@pytest.fixture
def held(database):
    class Held(HeldStore):
        entered = threading.Event()
        released = threading.Event()

        def __init__(self) -> None:
            super().__init__(database)

    return Held


class Load:
    """Clients that send one report after the other, report n with the answer n, until refused."""

    def __init__(self, wire: Any, campaign: Any, wire_report: Callable[..., Any]) -> None:
        self._wire = wire
        self._campaign = campaign
        self._report = wire_report
        self._numbers = iter(range(1_000_000))
        self.sent: set[int] = set()
        self.acknowledged: set[int] = set()
        self.refusals: set[grpc.StatusCode] = set()
        self._progress = asyncio.Condition()

    async def client(self) -> None:
        for number in self._numbers:
            self.sent.add(number)
            try:
                (result,) = await self._wire.submit(
                    self._campaign, self._report(number, (0, number))
                )
            except grpc.aio.AioRpcError as error:
                self.refusals.add(error.code())
                return
            assert result.status == ACCEPTED
            self.acknowledged.add(number)
            async with self._progress:
                self._progress.notify_all()

    async def until(self, acknowledged: int) -> None:
        async with self._progress:
            await asyncio.wait_for(
                self._progress.wait_for(lambda: len(self.acknowledged) >= acknowledged), PATIENCE_S
            )


async def test_every_service_is_healthy_until_the_stop_and_requests_in_progress_finish(
    start_server, publish, wire_report, held
):
    server = await start_server(held, grace_s=PATIENCE_S)
    wire, campaign = server.wire, publish()
    await wire.create(campaign)
    health = health_pb2_grpc.HealthStub(wire.channel)
    for name in SERVICES:
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == SERVING
    with refuses(grpc.StatusCode.NOT_FOUND):
        await health.Check(health_pb2.HealthCheckRequest(service="unknown"))
    watches = [health.Watch(health_pb2.HealthCheckRequest(service=name)) for name in SERVICES]
    assert [(await watch.read()).status for watch in watches] == [SERVING] * 3

    in_progress = asyncio.create_task(wire.submit(campaign, wire_report(1, (0, 5))))
    assert await asyncio.to_thread(held.entered.wait, PATIENCE_S)
    stopping = asyncio.create_task(server.aggregator.stop())
    assert [(await watch.read()).status for watch in watches] == [NOT_SERVING] * 3
    for watch in watches:
        watch.cancel()
    async with grpc.aio.insecure_channel(server.address) as late:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health_pb2_grpc.HealthStub(late).Check(health_pb2.HealthCheckRequest(), timeout=5)
        # A connection that was accepted just before the listener closed is never served.
        assert caught.value.code() in {
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.DEADLINE_EXCEEDED,
        }
    assert not in_progress.done()
    held.released.set()
    (result,) = await asyncio.wait_for(in_progress, PATIENCE_S)
    assert result.status == ACCEPTED
    await asyncio.wait_for(stopping, PATIENCE_S)
    await server.aggregator.stop()


async def test_what_waits_is_written_even_if_its_client_lost_patience(
    start_server, publish, wire_report, held, store
):
    server = await start_server(held, grace_s=0)
    wire, campaign = server.wire, publish()
    await wire.create(campaign)
    first = asyncio.create_task(wire.submit(campaign, wire_report(1, (0, 5))))
    assert await asyncio.to_thread(held.entered.wait, PATIENCE_S)
    stopping = asyncio.create_task(server.aggregator.stop())
    with pytest.raises(grpc.aio.AioRpcError):
        await first
    held.released.set()
    await asyncio.wait_for(stopping, PATIENCE_S)
    assert store.totals("income")[0] == Accumulator.of([5])


async def test_a_graceful_stop_under_load_loses_nothing(start_server, publish, wire_report):
    first, campaign = await start_server(grace_s=PATIENCE_S), publish()
    await first.wire.create(campaign)
    load = Load(first.wire, campaign, wire_report)
    clients = [asyncio.create_task(load.client()) for _ in range(20)]
    await load.until(acknowledged=300)
    await first.aggregator.stop()
    await asyncio.wait_for(asyncio.gather(*clients), PATIENCE_S)
    # gRPC cancels what it had received but not begun, or, seldom, leaves it to the deadline of the
    # client. Clients send again after each of these.
    assert load.refusals <= {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }

    second = await start_server()
    counted, total, squares = (await second.wire.sums(campaign))[0]
    # Refused before they were begun, so nothing that was not acknowledged was counted.
    assert counted == len(load.acknowledged)
    assert total == sum(load.acknowledged)
    assert squares == sum(n * n for n in load.acknowledged)
    everything = [wire_report(n, (0, n)) for n in load.sent]
    await second.wire.submit(campaign, *everything)
    assert (await second.wire.sums(campaign))[0][:2] == (len(load.sent), sum(load.sent))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_stop_a_process_that_then_ends_well(
    start_process, publish, wire_report, wire_of, store, number
):
    server, campaign = await start_process(), publish()
    async with grpc.aio.insecure_channel(server.address) as channel:
        wire = wire_of(channel)
        await wire.create(campaign)
        load = Load(wire, campaign, wire_report)
        clients = [asyncio.create_task(load.client()) for _ in range(5)]
        await load.until(acknowledged=50)
        server.process.send_signal(number)
        await asyncio.wait_for(asyncio.gather(*clients), PATIENCE_S)
    assert await asyncio.wait_for(server.process.wait(), PATIENCE_S) == 0
    assert store.totals("income")[0] == Accumulator.of(load.acknowledged)


async def test_requests_are_taken_while_load_balancers_notice(start_server, publish, wire_report):
    server, campaign = await start_server(drain_s=0.5), publish()
    await server.wire.create(campaign)
    health = health_pb2_grpc.HealthStub(server.wire.channel)
    watch = health.Watch(health_pb2.HealthCheckRequest())
    assert (await watch.read()).status == SERVING
    stopping = asyncio.create_task(server.aggregator.stop())
    assert (await watch.read()).status == NOT_SERVING
    (result,) = await server.wire.submit(campaign, wire_report(1, (0, 5)))
    assert result.status == ACCEPTED
    await asyncio.wait_for(stopping, PATIENCE_S)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_process_at_once(
    start_process, publish, wire_report, wire_of, store, second
):
    server, campaign = await start_process(), publish()
    async with grpc.aio.insecure_channel(server.address) as channel:
        wire = wire_of(channel)
        await wire.create(campaign)
        (result,) = await wire.submit(campaign, wire_report(1, (0, 5)))
        assert result.status == ACCEPTED
        # A stream that its client holds open keeps the server from ending within its grace.
        stream = wire.collector.SubmitReportStream()
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        await stream.wait_for_connection()
        assert (await watch.read()).status == SERVING
        server.process.send_signal(signal.SIGTERM)
        assert (await watch.read()).status == NOT_SERVING
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(server.process.wait(), 0.5)
        server.process.send_signal(second)
        assert await asyncio.wait_for(server.process.wait(), PATIENCE_S) == -second
        stream.cancel()
    assert store.totals("income")[0] == Accumulator.of([5])
