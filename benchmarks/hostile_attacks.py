"""Sustained attacks: clients that send, hold or abandon whatever the protocol permits.

They need no token. `python -m benchmarks.hostile_attacks NAME ADDRESS SECONDS` runs one against
a server on this machine to which `benchmarks.serving.publish` has published; attacks whose names
begin with "web:" target its gateway.
"""

import asyncio
import itertools
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType

import grpc
import grpc.aio

from benchmarks import hostile_frames as frames
from benchmarks.hostile_frames import Connections, FrameKind
from benchmarks.hostile_messages import BROWSE, FETCH, STREAM, SUBMIT, field
from benchmarks.hostile_web import WEB_ATTACKS
from benchmarks.serving import Requests
from geoveil.campaign import Campaign, decode, digest
from geoveil.proto.v1 import collector_pb2, collector_pb2_grpc

_HEALTH = "/grpc.health.v1.Health/Watch"
_WHOLE = 4 << 20
"""Size of the largest request, in bytes."""
_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
_ELSEWHERE = "127.0.0.2"
"""An address of this machine that devices don't use."""
_FLOODED = 1 << 16
"""Bytes sent at a time."""

Attack = Callable[[str, float], None]
"""Attacks a server for a number of seconds."""


def _campaign(address: str) -> tuple[Campaign, bytes]:
    """Return the campaign, and the beginning of a request that names it."""
    with grpc.insecure_channel(address) as channel:
        request = collector_pb2.GetCampaignRequest(campaign_id="load")
        content = collector_pb2_grpc.CollectorStub(channel).GetCampaign(request).envelope.campaign
    head = collector_pb2.SubmitReportsRequest(campaign_id="load", campaign_digest=digest(content))
    return decode(content), head.SerializeToString()


def _requests(
    make: Callable[[str], Callable[[], bytes]],
    method: str,
    address: str,
    seconds: float,
    *,
    at_once: int = 4,
    compressed: bool = False,
) -> None:
    """Send requests without a pause, whatever the answers."""
    until = time.monotonic() + seconds
    draw = make(address)
    compression = grpc.Compression.Gzip if compressed else None

    async def send(channel: grpc.aio.Channel) -> None:
        while time.monotonic() < until:
            with suppress(grpc.aio.AioRpcError):
                call = channel.stream_stream(method)(timeout=30, compression=compression)
                for _ in range(4 if method == STREAM else 1):
                    await call.write(draw())
                    if method == STREAM:
                        await call.read()
                await call.done_writing()
                await call.read()

    async def all_of_them() -> None:
        opened = [grpc.aio.insecure_channel(address, _OPTIONS) for _ in range(8)]
        await asyncio.gather(*(send(channel) for channel in opened for _ in range(at_once)))
        await asyncio.gather(*(channel.close() for channel in opened))

    asyncio.run(all_of_them())


def _valid(address: str) -> Callable[[], bytes]:
    return Requests(_campaign(address)[0], 10_000, templates=2).draw


def _padded(content: bytes, *, inside: bytes | None = None) -> Callable[[str], Callable[[], bytes]]:
    """Return a function that pads a request to the largest size by repeating a piece.

    Args:
        content: the piece to repeat.
        inside: the beginning of a report that contains it; None if the request does.
    """

    def make(address: str) -> Callable[[], bytes]:
        _, head = _campaign(address)
        room = _WHOLE - len(head) - 64 - len(inside or b"")
        repeated = content * (room // len(content))
        message = head + (repeated if inside is None else field(3, inside + repeated))
        return lambda: message

    return make


def _unread(
    method: str,
    request: bytes,
    address: str,
    seconds: float,
    *,
    count: int,
) -> None:
    """Make calls and never read the answers, on connections that are reopened when closed."""
    calls = b"".join(frames.call(2 * k + 1, method, [request]) for k in range(100))
    with Connections(address, count, window=0) as connections:
        for connection in connections.rounds(seconds):
            if connection.sent == 0:
                connection.send(calls)


def _unfinished(address: str, seconds: float, *, count: int) -> None:
    """Begin requests of 4 MiB and send as much as the server accepts, but never the end."""
    begun = b"\x00" + _WHOLE.to_bytes(4, "big")
    calls = b"".join(frames.call(2 * k + 1, SUBMIT, more=begun) for k in range(100))
    pieces = itertools.cycle(
        frames.frame(FrameKind.DATA, 2 * k + 1, bytes(16_000)) for k in range(100)
    )
    with Connections(address, count) as connections:
        for connection in connections.rounds(seconds):
            if connection.sent == 0:
                connection.send(calls)
            elif connection.granted() > 16_000:
                connection.send(next(pieces))


def _idle(address: str, seconds: float, *, preface: bool) -> None:
    """Open connections and send nothing on them, or only the HTTP/2 preface."""
    with Connections(address, 5_000, preface=preface) as connections:
        for _ in connections.rounds(seconds):
            pass


def _reset(
    address: str,
    seconds: float,
    *,
    count: int = 8,
    most: int | None = None,
    each: int = 100,
    source: str = "",
) -> None:
    """Make calls and cancel them at once.

    Args:
        seconds: how long.
        most: calls per connection before it is reopened; None: until the server closes it.
        each: calls at a time.
        source: the address that the connections come from; empty for the address of devices.
    """
    with Connections(address, count, source=source) as connections:
        calls = [0] * count
        for n, connection in zip(itertools.cycle(range(count)), connections.rounds(seconds)):
            if connection.sent == 0:
                calls[n] = 0
            few = range(2 * calls[n] + 1, 2 * (calls[n] + each) + 1, 2)
            calls[n] += len(few)
            connection.send(
                b"".join(frames.call(k, SUBMIT, more=b"\x00") + frames.reset(k) for k in few)
            )
            if most is not None and calls[n] >= most:
                connection.close()


def _flood(unit: bytes, address: str, seconds: float, *, first: bytes = b"") -> None:
    with Connections(address, 4) as connections:
        for connection in connections.rounds(seconds):
            if connection.sent == 0:
                connection.send(first)
            connection.send(unit * (_FLOODED // len(unit)))


def _pour(address: str, seconds: float) -> None:
    """Flood a server that only reads."""
    until, content = time.monotonic() + seconds, bytes(_FLOODED)
    host, _, port = address.rpartition(":")
    opened = [socket.create_connection((host, int(port))) for _ in range(8)]
    for one in itertools.cycle(opened):
        if time.monotonic() >= until:
            break
        one.sendall(content)


def _calls(address: str, seconds: float) -> None:
    def make(address: str) -> Callable[[], bytes]:
        request = collector_pb2.GetCampaignRequest(campaign_id="nobody").SerializeToString()
        return lambda: request

    _requests(make, FETCH, address, seconds, at_once=50)


_EMPTY, _UNKNOWN = b"\x1a\x00", b"\x78\x01"
_PAGE = collector_pb2.BrowseCampaignsRequest(page_size=1_000).SerializeToString()
_CONTINUED = frames.frame(FrameKind.CONTINUATION, 1, frames.fields(("x-a", "b" * 100)))
ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        "none": lambda address, seconds: time.sleep(seconds),
        "valid batches": partial(_requests, _valid, SUBMIT),
        "valid batches in streams": partial(_requests, _valid, STREAM),
        "empty reports": partial(_requests, _padded(_EMPTY), SUBMIT, compressed=True),
        "empty reports in streams": partial(_requests, _padded(_EMPTY), STREAM, compressed=True),
        "unknown fields": partial(_requests, _padded(_UNKNOWN), SUBMIT, compressed=True),
        "unknown fields of a report": partial(
            _requests, _padded(_UNKNOWN, inside=b"\x0a\x10" + bytes(16)), SUBMIT, compressed=True
        ),
        "empty answers": partial(
            _requests, _padded(b"\x12\x00", inside=b"\x0a\x10" + bytes(16)), SUBMIT, compressed=True
        ),
        "reports of many answers": partial(
            _requests, _padded(field(3, b"\x0a\x10" + bytes(16) + b"\x12\x00" * 8_000)), SUBMIT
        ),
        "calls": _calls,
        "pages not read": partial(_unread, BROWSE, _PAGE, count=30),
        "health not read": partial(_unread, _HEALTH, b"", count=100),
        "requests without an end": partial(_unfinished, count=30),
        "silent connections": partial(_idle, preface=False),
        "idle connections": partial(_idle, preface=True),
        "rapid reset": _reset,
        "rapid reset, many connections": partial(_reset, count=100),
        "rapid reset, new connections": partial(_reset, most=1_000, source=_ELSEWHERE),
        "rapid reset, 50 a connection": partial(
            _reset, count=50, most=50, each=50, source=_ELSEWHERE
        ),
        "pings": partial(_flood, frames.frame(FrameKind.PING, payload=bytes(8))),
        "settings": partial(_flood, frames.settings(window=65_535)),
        "headers without an end": partial(
            _flood, _CONTINUED, first=frames.frame(FrameKind.HEADERS, 1, frames.fields((":a", "b")))
        ),
        "sink": _pour,
        **WEB_ATTACKS,
    }
)
JUDGED = (
    *(name for name in WEB_ATTACKS if name.startswith("web: judged, ")),
    "rapid reset, 50 a connection",
)
"""Attacks that once took down a server that parsed HTTP itself, and two more."""


if __name__ == "__main__":
    print("begins", flush=True)
    ATTACKS[sys.argv[1]](sys.argv[2], float(sys.argv[3]))
