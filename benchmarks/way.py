"""The path of one report: the functions of geoveil that it calls, and their files.

A device and a server in one process: a client that keeps its state on disk draws a report and sends
it over gRPC to an aggregator that commits it to SQLite, both with the settings that they have by
default. They have done so often before, so that nothing is loaded, opened or prepared any more. A
profile of all threads notes every call: on the thread of the device, in `contribute` and in
`flush`, and elsewhere, on the event loop of the server and on the thread that writes its database.
A comprehension or a generator expression belongs to the function that it stands in; a lambda is a
function. What protoc generates would be counted as any other file, but runs no Python.

`python -m benchmarks.way` also lists the functions, in the order in which they are first called.
"""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import NamedTuple

import grpc
from rich.console import Console
from rich.table import Table

import geoveil
from benchmarks.device import PERIOD, POLICY, START, campaign
from geoveil.aggregator import Aggregator, Settings
from geoveil.aggregator.grpc.loop_tuning import serving_loop
from geoveil.campaign import encode
from geoveil.client import Client, Timing
from geoveil.proto.v1 import analyst_pb2, analyst_pb2_grpc, campaign_pb2

REPORTS, TRACED = 50, 10
"""Reports, and how many of the last of them are looked at: what is called now and then, or by a
timer, is not called by each."""
_END_S = 0.02
"""Until the server has ended a call whose answer has come."""
_NAME = "way"
_INNER = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})


class Function(NamedTuple):
    """A function that was called."""

    stage: str
    file: str
    name: str


class _Trace:
    """What is called while a stage of the device is set, on its thread and on all others."""

    def __init__(self) -> None:
        self.stage = ""
        """The stage of the device; nothing is noted while it is empty."""
        self.called: dict[Function, None] = {}
        """The functions, in the order of their first calls."""
        self._device = threading.get_ident()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; a function for `sys.setprofile`."""
        code = frame.f_code
        if not self.stage or event != "call" or code.co_name in _INNER:
            return
        file = file_of_geoveil(code.co_filename)
        if file is None:
            return
        of_device = threading.get_ident() == self._device
        stage = self.stage if of_device else f"server: {threading.current_thread().name}"
        self.called.setdefault(Function(stage, file, code.co_qualname))


@lru_cache(maxsize=4_096)
def file_of_geoveil(filename: str) -> str | None:
    """Return the path below the namespace `geoveil`; None for the code of other packages.

    A clone may be called geoveil and hold its virtual environment, so the name of a folder tells
    nothing: a file belongs to the namespace where one of its roots holds it.
    """
    root = next((p for p in geoveil.__path__ if filename.startswith(f"{p}/")), None)
    return None if root is None else filename[len(root) + 1 :]


def trace() -> list[Function]:
    """Return the functions that every report calls, in the order in which the first does."""
    found, now = _Trace(), START
    traces: list[dict[Function, None]] = []
    threading.setprofile(found.note)
    with (
        tempfile.TemporaryDirectory() as folder,
        _server(Path(folder) / "reports.sqlite", lambda: now) as address,
        Client(
            address,
            policy=POLICY,
            state_dir=Path(folder) / "device",
            background=False,
            timing=Timing(now=lambda: now),
        ) as client,
    ):
        _publish(address)
        client.fetch(_NAME)
        sys.setprofile(found.note)
        for _ in range(REPORTS):
            found.stage = "device: contribute"
            client.contribute(_NAME, 52_000.0)
            found.stage = "device: flush"
            assert client.flush().acknowledged == 1
            time.sleep(_END_S)
            found.stage = ""
            traces.append(found.called)
            found.called = {}
            now += PERIOD
        sys.setprofile(None)
    threading.setprofile(None)
    return [one for one in traces[-TRACED] if all(one in others for others in traces[-TRACED:])]


@contextmanager
def _server(database: Path, clock: Callable[[], datetime]) -> Iterator[str]:
    """Serve on a thread of its own; yield the address."""
    addresses: SimpleQueue[str] = SimpleQueue()
    ended = asyncio.Event()

    async def serve() -> None:
        settings = Settings(host="127.0.0.1", port=0, database=database)
        async with Aggregator(settings, clock=clock) as aggregator:
            addresses.put(aggregator.address)
            await ended.wait()

    with asyncio.Runner(loop_factory=serving_loop) as runner:
        thread = threading.Thread(target=runner.run, args=(serve(),), name="event loop")
        thread.start()
        yield addresses.get()
        runner.get_loop().call_soon_threadsafe(ended.set)
        thread.join()


def _publish(address: str) -> None:
    envelope = campaign_pb2.CampaignEnvelope(campaign=encode(campaign(_NAME)))
    with grpc.insecure_channel(address) as channel:
        request = analyst_pb2.CreateCampaignRequest(envelope=envelope)
        analyst_pb2_grpc.AnalystStub(channel).CreateCampaign(request)


def table() -> None:
    """Print how many functions and files there are in each stage, on each side and in all."""
    found = trace()
    stages = dict.fromkeys(one.stage for one in found)
    shown = Table("", "functions", "files", title="the way of one report", title_justify="left")
    for name in [*stages, "device", "server", ""]:
        called = {(one.file, one.name) for one in found if one.stage.startswith(name)}
        files = {file for file, _ in called}
        shown.add_row(name or "in all", str(len(called)), str(len(files)))
    Console().print(shown)


if __name__ == "__main__":
    for one in trace():
        print(*one, sep="\t")
