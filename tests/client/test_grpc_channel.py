"""Test the channels of gRPC transports: loading, closing, reconnecting, many callers, forks."""

import asyncio
import json
import subprocess
import sys
import threading
from typing import Any

import grpc
import pytest

from geoveil.client import (
    Client,
    GrpcAioTransport,
    GrpcTransport,
    InMemoryCollector,
    InMemoryTransport,
    Policy,
    TransportError,
)
from geoveil.client.report_sender import MOST_UNQUIET, QUIET_S
from geoveil.client.sync_client import _until_quiet
from geoveil.gp import GeoPrivacy
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


class Stop(threading.Event):
    """Waits for nobody, and lets the app call in so many of its waits."""

    def __init__(self, called: threading.Event, busy: int, stopped: int = 10**6) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self._called, self._busy, self._stopped = called, busy, stopped

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if len(self.waits) <= self._busy:
            self._called.set()
        return len(self.waits) >= self._stopped


@pytest.mark.parametrize("busy", [0, 1, 7, MOST_UNQUIET - 1])
def test_the_background_waits_until_the_app_is_quiet(busy):
    called = threading.Event()
    stop = Stop(called, busy)
    _until_quiet(called, stop)
    assert stop.waits == [QUIET_S] * (busy + 1)


def test_the_background_waits_for_ten_seconds_at_most():
    called = threading.Event()
    stop = Stop(called, busy=10**6)
    _until_quiet(called, stop)
    assert stop.waits == [QUIET_S] * MOST_UNQUIET
    assert round(MOST_UNQUIET * QUIET_S, 9) == 10


def test_a_client_that_ends_waits_no_longer():
    called = threading.Event()
    stop = Stop(called, busy=10**6, stopped=3)
    _until_quiet(called, stop)
    assert len(stop.waits) == 3


QUIET_SCRIPT = """
import asyncio, socket, sys, threading, time
from geoveil.client import AsyncClient, Client, Policy
from geoveil.gp import GeoPrivacy

loaded_by = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            loaded_by.append(threading.current_thread())

sys.meta_path.insert(0, Watch())
kind, state, target = sys.argv[1:]
policy = Policy({"household income": GeoPrivacy(1, 8000, "dollar")})
PAUSE_S, CALLS = 0.005, 60  # for three times as long as it has to be quiet

def check(times):
    quiet = max(b - a for a, b in zip(times, times[1:])) > 0.05  # on a busy machine
    assert quiet or not loaded_by, "while the app calls"

def blocking():
    client = Client(target, policy=policy, state_dir=state)
    times = [time.monotonic()]
    for _ in range(CALLS):
        client.contribute("income", 52_000)
        time.sleep(PAUSE_S)
        times.append(time.monotonic())
    check(times)
    ends = time.monotonic() + 30
    while not loaded_by and time.monotonic() < ends:
        time.sleep(0.05)
    client.close(0)

async def awaited():
    client = AsyncClient(target, policy=policy, state_dir=state)
    times = [time.monotonic()]
    for _ in range(CALLS):
        await client.contribute("income", 52_000)
        await asyncio.sleep(PAUSE_S)
        times.append(time.monotonic())
    check(times)
    ends = time.monotonic() + 30
    while not loaded_by and time.monotonic() < ends:
        await asyncio.sleep(0.05)
    await client.aclose(0)

blocking() if kind == "blocking" else asyncio.run(awaited())
(thread,) = loaded_by
assert thread is not threading.main_thread(), "the app's own thread"
print("done")
"""


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_grpc_is_loaded_when_the_app_is_quiet_and_on_another_thread(kind, tmp_path, campaign):
    policy = Policy({"household income": GeoPrivacy(1, 8000, "dollar")})
    transport = InMemoryTransport(InMemoryCollector([campaign]))
    with Client(policy=policy, state_dir=tmp_path / "s", transport=transport) as client:
        client.fetch("income")
    done = subprocess.run(
        [sys.executable, "-c", QUIET_SCRIPT, kind, str(tmp_path / "s"), "127.0.0.1:1"],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
