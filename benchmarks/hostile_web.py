"""Sustained attacks on the gateway by HTTP/1.1 clients."""

import asyncio
import gzip
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from benchmarks.hostile_messages import FETCH, SUBMIT
from benchmarks.web import Connection
from geoveil.campaign import digest
from geoveil.proto.v1 import collector_pb2

_WHOLE = 4 << 20
"""Size of the largest request, in bytes."""
_LARGEST_JSON = 64 << 10
_PIECE = 16_000
_SIGN_IN = "/console/sign-in"
_BACKSLASHES = "\\" * 15_000

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What to do on a connection; when that ends, a new one is opened."""


def _repeated(script: Script, web: str, seconds: float, *, count: int) -> None:
    """Run a script on this many connections, again and again."""
    until = time.monotonic() + seconds
    host, _, port = web.rpartition(":")

    async def one() -> None:
        while time.monotonic() < until:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 12)
                try:
                    async with asyncio.timeout(until - time.monotonic()):
                        await script(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.001)

    async def all_of_them() -> None:
        await asyncio.gather(*(one() for _ in range(count)))

    asyncio.run(all_of_them())


def _head(size: int, kind: str = "proto", more: str = "") -> bytes:
    return (
        f"POST {SUBMIT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/{kind}\r\n"
        f"content-length: {size}\r\n{more}\r\n"
    ).encode()


def _posted(
    make: Callable[[str], Callable[[], bytes]],
    web: str,
    seconds: float,
    *,
    kind: str = "proto",
    more: str = "",
) -> None:
    """Send requests, and wait for each answer, whatever it may be."""
    draw = make(web)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            content = draw()
            writer.write(_head(len(content), kind, more) + content)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            _, _, rest = head.partition(b"content-length: ")
            await reader.readexactly(int(rest.partition(b"\r\n")[0]))
            if b"connection: close" in head:
                return

    _repeated(script, web, seconds, count=32)


def _empty_reports(web: str) -> Callable[[], bytes]:
    """Return a function that packs two million reports without content into a request."""

    async def fetched() -> bytes:
        connection = await Connection.opened(web)
        request = collector_pb2.GetCampaignRequest(campaign_id="load").SerializeToString()
        answer = await connection.call(FETCH, request)
        connection.close()
        return collector_pb2.GetCampaignResponse.FromString(answer).envelope.campaign

    named = collector_pb2.SubmitReportsRequest(
        campaign_id="load", campaign_digest=digest(asyncio.run(fetched()))
    )
    head, report = named.SerializeToString(), b"\x1a\x00"
    packed = gzip.compress(head + report * ((_WHOLE - len(head) - 64) // len(report)))
    return lambda: packed


def _json(web: str) -> Callable[[], bytes]:
    report = '{"reportId": "AAAAAAAAAAAAAAAAAAAAAA==", "answers": [{"value": "1"}]}'
    reports = ", ".join([report] * (_LARGEST_JSON // (len(report) + 2) - 2))
    content = f'{{"campaignId": "load", "reports": [{reports}]}}'.encode()
    return lambda: content


async def _unread_files(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Request files again and again, and read none."""
    reader._transport.pause_reading()  # type: ignore[attr-defined]  # asyncio would read ahead
    while True:
        writer.write(100 * _got("/pages/take-part.js"))
        await writer.drain()


async def _unfinished(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_head(_WHOLE))
    for _ in range(_WHOLE // _PIECE):
        writer.write(bytes(_PIECE))
        await writer.drain()
    await reader.read()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a header slowly, one byte at a time."""
    writer.write(b"POST / HTTP/1.1\r\nx-y: ")
    while not writer.is_closing():
        await asyncio.sleep(2)
        writer.write(b"z")
        await writer.drain()


async def _nested_parts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a megabyte of nested parts to the page where analysts sign in."""
    kind = "multipart/mixed; boundary=a"
    parts = f"--a\r\ncontent-type: {kind}\r\n\r\n".encode()
    content = parts * ((1 << 20) // len(parts))
    head = f"POST {_SIGN_IN} HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\n"
    sent = f"content-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write((head + sent).encode() + content)
    await writer.drain()
    await reader.read()


async def _chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = f"POST {SUBMIT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/proto\r\n"
    writer.write((head + "transfer-encoding: chunked\r\n\r\n").encode())
    while not writer.is_closing():
        writer.write(b"1\r\n0\r\n" * 2_000)
        await writer.drain()


async def _pipelined(
    head: bytes, count: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send requests without waiting, and read some of the answers."""
    while not writer.is_closing():
        writer.write(head * count)
        await writer.drain()
        if not await reader.read(1 << 16):
            return


async def _signing_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Try to sign in with unknown tokens, in forms of the greatest permitted length."""
    content = b"token=" + b"a=%25&" * 670
    head = f"POST {_SIGN_IN} HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\n"
    form = "content-type: application/x-www-form-urlencoded\r\n"
    request = f"{head}{form}content-length: {len(content)}\r\n\r\n".encode() + content
    await _pipelined(request, 1, reader, writer)


def _handshakes(web: str, seconds: float) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = web.rpartition(":")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=2) as one:
            context.wrap_socket(one).close()


def _got(path: str, *more: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: localhost", *more, "", ""]).encode()


WEB_ATTACKS: Mapping[str, Callable[[str, float], None]] = MappingProxyType(
    {
        "web: empty reports": partial(_posted, _empty_reports, more="content-encoding: gzip\r\n"),
        "web: JSON": partial(_posted, _json, kind="json"),
        "web: requests without an end": partial(_repeated, _unfinished, count=1_000),
        "web: slow headers": partial(_repeated, _dripping, count=5_000),
        "web: judged, nested parts": partial(_repeated, _nested_parts, count=4),
        "web: judged, bare connections to TLS": partial(_repeated, _silent, count=5_000),
        "web: judged, chunks of a byte": partial(_repeated, _chunks, count=5),
        "web: judged, pages at once": partial(
            _repeated, partial(_pipelined, _got("/take-part/"), 99), count=20
        ),
        "web: judged, cookies of backslashes": partial(
            _repeated,
            partial(_pipelined, _got("/console/", f'cookie: a="{_BACKSLASHES}"'), 1),
            count=8,
        ),
        "web: judged, files not read": partial(_repeated, _unread_files, count=5_500),
        "web: judged, long headers": partial(
            _repeated, partial(_pipelined, _got("/", f"x: {'z' * 15_800}"), 1), count=8
        ),
        "web: judged, handshakes of TLS": _handshakes,
        "web: judged, signing in": partial(_repeated, _signing_in, count=32),
    }
)
"""Name → attack on the gateway at "host:port", for a number of seconds."""
