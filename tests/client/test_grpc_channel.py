"""Test the gRPC transports' channels: closing, reconnecting, many callers, fork, cleanup."""

import asyncio
import json
import subprocess
import sys
import threading
from typing import Any

import grpc
import pytest

from geoveil.client import GrpcAioTransport, GrpcTransport, TransportError
from geoveil.proto.v1 import collector_pb2
from tests.client.conftest import in_threads
from tests.client.grpc_servers import (
    REQUEST,
    either,
    empty,
    failure,
    opened,
    outcome,
    run_script,
    serving,
)


@either
async def test_close_ends_calls_under_way(kind):
    started = asyncio.Event()

    async def hang_and_say_so(request: Any, context: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    async with serving(hang_and_say_so) as (target, _), opened(kind, target) as transport:
        calls = [asyncio.create_task(failure(transport, 600.0)) for _ in range(3)]
        await started.wait()
        await transport.aclose()
        async with asyncio.timeout(5):
            assert {error.code for error in await asyncio.gather(*calls)} == {"CANCELLED"}


@either
async def test_a_call_that_meets_a_closed_channel_is_cancelled(kind):
    """This is what a call meets when another thread closes the transport at that moment."""
    async with serving(empty) as (target, _), opened(kind, target) as transport:
        await transport.get_campaign(REQUEST, 10.0)
        transport._channel.close()
        assert (await failure(transport)).code == "CANCELLED"


@either
async def test_a_transport_can_be_used_again_after_close(kind):
    async with serving(empty) as (target, _), opened(kind, target) as transport:
        for _ in range(3):
            await transport.get_campaign(REQUEST, 10.0)
            await transport.aclose()


@either
async def test_a_server_that_comes_back_is_found_again(kind, tmp_path):
    address = f"unix:{tmp_path}/collector.sock"
    async with opened(kind, address) as transport:
        for _ in range(2):
            assert (await failure(transport)).code == "UNAVAILABLE"
            async with serving(empty, address), asyncio.timeout(30):
                while (code := await outcome(transport)) != "OK":
                    assert code == "UNAVAILABLE"


@either
async def test_no_thread_or_task_is_left_after_close(kind):
    await asyncio.to_thread(lambda: None)  # the loop's own executor has its thread now
    tasks = asyncio.all_tasks()
    async with serving(empty) as (target, _):
        before = set(threading.enumerate())
        async with opened(kind, target) as transport:
            await transport.get_campaign(REQUEST, 10.0)

        left = [t for t in set(threading.enumerate()) - before if "asyncio_" not in t.name]
        for thread in left:  # gRPC's own ends a moment after its last call
            await asyncio.to_thread(thread.join, 10.0)
        assert [thread.name for thread in left if thread.is_alive()] == []
    of_server = asyncio.all_tasks() - tasks  # whose last call ends a moment after its answer
    if of_server:
        await asyncio.wait(of_server, timeout=10.0)
    assert asyncio.all_tasks() == tasks


async def test_an_awaiting_call_can_be_cancelled():
    """The app's cancellation stays one, and the server hears of it."""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang_until_stopped(request: Any, context: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with (
        serving(hang_until_stopped) as (target, _),
        opened(GrpcAioTransport, target) as transport,
    ):
        task = asyncio.create_task(transport.get_campaign(REQUEST, 600.0))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            await stopped.wait()


def test_one_asyncio_transport_serves_loop_after_loop():
    """Even if a loop ends with a call under way."""
    transport = GrpcAioTransport("127.0.0.1:1")

    async def abandoned() -> None:
        task = asyncio.create_task(transport.get_campaign(REQUEST, 600.0))
        await asyncio.sleep(0)
        task.cancel()

    for _ in range(3):
        asyncio.run(abandoned())
        assert asyncio.run(failure(transport)).code == "UNAVAILABLE"
    asyncio.run(transport.aclose())


async def test_one_transport_serves_many_callers():
    async with serving(empty) as (target, servicer), opened(GrpcAioTransport, target) as transport:
        await asyncio.gather(*(transport.get_campaign(REQUEST, 30.0) for _ in range(200)))
    assert len(servicer.time_left) == 200


def test_many_threads_make_one_channel(monkeypatch):
    made: list[Any] = []
    genuine = grpc.insecure_channel

    def counted(*args: Any, **more: Any) -> Any:
        made.append(genuine(*args, **more))
        return made[-1]

    monkeypatch.setattr(grpc, "insecure_channel", counted)
    transport = GrpcTransport("127.0.0.1:1")

    def call(number: int) -> None:
        with pytest.raises(TransportError):
            transport.get_campaign(REQUEST, 5.0)

    in_threads(8, call)
    transport.close()
    assert len(made) == 1


FORK = """
import asyncio, os, sys
from geoveil.client import GrpcAioTransport, GrpcTransport
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest

kind, target = sys.argv[1:]
request = GetCampaignRequest(campaign_id="income")
transport = {"blocking": GrpcTransport, "aio": GrpcAioTransport}[kind](target)

def call():
    answer = transport.get_campaign(request, 20.0)
    if kind == "aio":
        answer = asyncio.run(asyncio.wait_for(answer, 20.0))
    assert answer.state == 1

def close():
    if kind == "aio":
        asyncio.run(transport.aclose())
    else:
        transport.close()

def child(generations):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        transport.forget()
        call()
        if generations > 1:
            assert child(generations - 1) == 0
            call()
        close()
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
    os._exit(0)

call()
for _ in range(3):
    assert child(2) == 0
    call()
close()
print("done")
"""


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["blocking", "aio"])
async def test_a_forked_child_makes_its_own_channel_and_the_parent_goes_on(kind):
    def open_campaign(request: Any, context: Any) -> Any:
        return collector_pb2.GetCampaignResponse(state=1)

    async with serving(open_campaign) as (target, servicer):
        await run_script(FORK, kind, target)
    # The parent's first call; three times child, grandchild, child again and parent again.
    assert len(servicer.time_left) == 1 + 3 * 4


def test_forget_does_not_wait_for_a_lock_that_nobody_will_open():
    """Another thread of the parent may have been making the channel during the fork."""
    transport = GrpcTransport("127.0.0.1:1")
    transport._lock.acquire()
    transport.forget()
    with pytest.raises(TransportError, match="UNAVAILABLE"):
        transport.get_campaign(REQUEST, 5.0)
    transport.close()


LAZY = """
import json, sys
from geoveil.client import GrpcAioTransport, GrpcTransport, TransportError
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest

def loaded():
    return sorted({"grpc", "google.rpc", "asyncio", "scipy", "cryptography"} & set(sys.modules))

made = GrpcTransport("127.0.0.1:1"), GrpcAioTransport("127.0.0.1:1")
before = loaded()
try:
    made[0].get_campaign(GetCampaignRequest(), 5.0)
except TransportError:
    pass
print(json.dumps([before, "google.rpc" in loaded(), "scipy" in loaded()]))
"""


@pytest.mark.deep(keep=0)
def test_a_transport_loads_what_it_needs_when_it_needs_it():
    """Nothing before the first call; the types of details only for an error that has details."""
    done = subprocess.run(
        [sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(done.stdout) == [[], False, False]
