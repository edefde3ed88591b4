"""Test when gRPC is loaded, which blocks all threads of an app for a tenth of a second."""

import subprocess
import sys
import threading

import pytest

from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Policy
from geoveil.client.report_sender import MOST_UNQUIET, QUIET_S
from geoveil.client.sync_client import _until_quiet
from geoveil.gp import GeoPrivacy


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


SCRIPT = """
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
        [sys.executable, "-c", SCRIPT, kind, str(tmp_path / "s"), "127.0.0.1:1"],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
