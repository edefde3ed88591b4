"""Test that health follows whether reports can be counted, also for watchers."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.grpc.health import Readiness

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
