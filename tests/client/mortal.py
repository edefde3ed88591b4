"""Devices that can be killed anywhere: processes forked from this one, their server.

A device runs a scenario on a state directory and talks to a collector in the parent over a pair of
sockets. Everything that it does outside its own memory is a numbered point: each SQL statement that
does more than read, each flush to the disk, each request and each answer. `Lab.run(kill_at=n)`
kills it with SIGKILL at the n-th, so that all points can be tried one after the other.

The parent makes no threads, as it forks.
"""

import faulthandler
import gc
import os
import pickle
import random
import select
import signal
import socket
import struct
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from geoveil.campaign import Attribute, Campaign, Question, StatisticCampaign
from geoveil.client import (
    InMemoryCollector,
    Limit,
    Policy,
    Timing,
    TransportError,
    state_file,
)
from geoveil.client.state_file import Mark
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import collector_pb2

PRIVACY = GeoPrivacy(1, 8000, "dollar")
POLICY = Policy({"income": Limit(campaign=GeoPrivacy(100, 8000, "dollar"))})
_LENGTH = struct.Struct("<I")
_PATIENCE_S = 60
_KINDS = {
    "GetCampaignRequest": collector_pb2.GetCampaignRequest,
    "SubmitReportsRequest": collector_pb2.SubmitReportsRequest,
}


def campaign(campaign_id: str, **more: Any) -> Campaign:
    """Return a campaign that is open now."""
    now = datetime.now(UTC)
    return StatisticCampaign(
        campaign_id=campaign_id,
        title="Income above 100,000",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=PRIVACY,
        questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
        opens=now - timedelta(days=1),
        closes=now + timedelta(days=30),
        **more,
    )


def unhurried() -> Timing:
    """Return clocks on which only waiting takes time, and takes none."""
    waited = [0.0]

    def sleep(seconds: float) -> None:
        waited[0] += seconds

    return Timing(clock=lambda: waited[0], sleep=sleep)


@dataclass
class Lab:
    """A collector, what it ever saw, and the means to make devices that talk to it."""

    collector: InMemoryCollector
    answer: Callable[[Callable[[Any], Any], Any], Any] = lambda collector, request: collector(
        request
    )
    """How the server behaves: is given the sound one and a request."""
    seen: dict[tuple[str, int], set[bytes]] = field(default_factory=dict)
    """(campaign, period) → every distinct report that ever arrived, counted or not."""

    def run(
        self,
        scenario: Callable[["WireTransport"], Any],
        *,
        kill_at: int | None = None,
        processes: int = 1,
        setup: Callable[[], None] = lambda: None,
    ) -> list["Ended"]:
        """Fork devices, serve them until all have ended, and return how each did."""
        devices = [self._fork(scenario, kill_at, setup) for _ in range(processes)]
        sockets = {device.socket: device for device in devices}
        while sockets:
            ready, _, _ = select.select(list(sockets), [], [], 2 * _PATIENCE_S)
            assert ready, "a device hangs"
            for one in ready:
                message = _receive(one)
                if message is None:
                    del sockets[one]
                elif message[0] == "result":
                    sockets[one].result = message[1]
                else:
                    with suppress(OSError):  # it may be dead by now
                        _send(one, self._serve(*message))
        for device in devices:
            device.socket.close()
            _, device.status = os.waitpid(device.process, 0)
        return devices

    def _fork(
        self, scenario: Callable[["WireTransport"], Any], kill_at: int | None, setup: Any
    ) -> "Ended":
        ours, theirs = socket.socketpair()
        # What gRPC left in this process can't be freed in a child, where its threads are not. What
        # is left is frozen, here as well: the next device is not to go through it again, which in
        # a process that holds all tests takes longer than a life.
        gc.collect()
        gc.freeze()
        process = os.fork()
        if process == 0:
            ours.close()
            die_when_it_hangs()
            try:
                setup()
                points = Points(kill_at)
                points.instrument()
                result = scenario(WireTransport(theirs, points))
                _send(theirs, ("result", (result, points.passed)))
            except BaseException:  # noqa: BLE001 - told to the test
                with suppress(OSError):
                    _send(theirs, ("result", (traceback.format_exc(), None)))
            finally:
                os._exit(0)
        theirs.close()
        return Ended(process, ours)

    def _serve(self, kind: str, data: bytes) -> tuple[str, Any]:
        request = _KINDS[kind].FromString(data)
        if kind == "SubmitReportsRequest":
            for report in request.reports:
                key = (request.campaign_id, report.period)
                found = self.seen.setdefault(key, set())
                found.add(report.SerializeToString(deterministic=True))
        try:
            return "answer", self.answer(self.collector, request).SerializeToString()
        except TransportError as error:
            return "error", (error.code, error.detail)


@dataclass
class Ended:
    """A device, and how it ended."""

    process: int
    socket: socket.socket
    result: Any = None
    """What the scenario returned and how many points it passed; or a traceback and None."""
    status: int = 0

    @property
    def killed(self) -> bool:
        """Whether it was killed at a point, and not done."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    def returned(self) -> Any:
        """Return what the scenario did; fail with its traceback if it raised."""
        assert self.result is not None, f"ended with status {self.status}"
        value, points = self.result
        assert points is not None, value
        return value


class Points:
    """Counts what a process does outside its memory, and kills it at one of these points."""

    def __init__(self, kill_at: int | None) -> None:
        self.passed = 0
        self._kill_at = kill_at

    def reach(self, *_: object) -> None:
        """Pass a point, or die at it."""
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed += 1

    def instrument(self) -> None:
        """Make points of what the client does on the disk: statements, flushes and marks.

        Not of what only reads: it leaves the disk as the statement before it did.
        """
        connect, sync, note = state_file._connect, state_file._sync, Mark.note

        def execute(statement: str) -> None:
            if statement.split()[0] not in ("SELECT", "END") and statement != "BEGIN":
                self.reach()

        def traced(path: Path) -> Any:
            connection = connect(path)
            connection.set_trace_callback(execute)
            return connection

        def noted(mark: Mark, commits: int, *, flushed: bool = False) -> None:
            note(mark, commits, flushed=flushed)
            self.reach()

        def synced(path: Path) -> None:
            self.reach()
            sync(path)
            self.reach()

        state_file._connect = traced
        state_file._sync = synced
        Mark.note = noted  # type: ignore[method-assign]


class WireTransport:
    """The `Transport` of a device: asks the process that made it."""

    def __init__(self, wire: socket.socket, points: Points) -> None:
        self._wire = wire
        self._points = points
        import threading

        self._lock = threading.Lock()

    def get_campaign(self, request: Any, timeout_s: float) -> Any:
        return self._ask(request, collector_pb2.GetCampaignResponse)

    def submit_reports(self, request: Any, timeout_s: float) -> Any:
        return self._ask(request, collector_pb2.SubmitReportsResponse)

    def _ask(self, request: Any, kind: Any) -> Any:
        with self._lock:
            self._points.reach()
            _send(self._wire, (type(request).__name__, request.SerializeToString()))
            message = _receive(self._wire)
            assert message is not None, "the server went away"
            self._points.reach()
        outcome, value = message
        if outcome == "error":
            raise TransportError(*value)
        return kind.FromString(value)


def die_when_it_hangs() -> None:
    """Let this process, which was forked, show its stacks and end if it takes too long."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.register(signal.SIGALRM, file=2, chain=True)
    signal.alarm(_PATIENCE_S)


def every_point(run: Callable[[int], bool], stride: int = 1, first: int = 0) -> Iterator[int]:
    """Yield n = first, first + stride, ... after run(n) was killed, until one is not.

    That was past the end.
    """
    for point in range(first, 10_000, stride):
        if not run(point):
            return
        yield point
    raise AssertionError("the scenario never ends")


def shuffled(seed: int, things: list[Any]) -> list[Any]:
    """Return things in a random order."""
    things = list(things)
    random.Random(seed).shuffle(things)
    return things


def _send(wire: socket.socket, message: Any) -> None:
    data = pickle.dumps(message)
    wire.sendall(_LENGTH.pack(len(data)) + data)


def _receive(wire: socket.socket) -> Any:
    head = _read(wire, _LENGTH.size)
    if head is None:
        return None
    data = _read(wire, _LENGTH.unpack(head)[0])
    return None if data is None else pickle.loads(data)


def _read(wire: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        try:
            part = wire.recv(size - len(data))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return data
