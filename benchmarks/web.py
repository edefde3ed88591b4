"""The web door beside gRPC: what a report costs the server, and what idle browsers cost it.

One server serves all; the client is a process of its own. The roads take turns, each with the same
requests of one report, so many at once; the first round is not counted. The client of the web door
is asyncio and a few lines of HTTP/1.1 or 2, that of gRPC is grpc.aio. Then many connections are
opened that fetch a campaign once and stay, while reports come at a steady rate: once over HTTP/1.1,
once over HTTP/2 with TLS, as browsers speak it.
"""

import asyncio
import multiprocessing
import os
import ssl
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.table import Table

from benchmarks.hostile_frames import END_HEADERS, END_STREAM, PREFACE, FrameKind, fields, frame
from benchmarks.load_client import Load, run
from benchmarks.serving import SUBMIT, Requests, Served, publish, served_to_browsers
from geoveil.aggregator.grpc.connections import allow
from geoveil.aggregator.ops.authority import Authority
from geoveil.campaign import Campaign
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest, SubmitReportsResponse
from geoveil.proto.v1.report_pb2 import REPORT_STATUS_ACCEPTED

ROUNDS = 5
CALLS, CONCURRENCY = 4_000, 64
BROWSERS, RATE, SECONDS = 5_000, 200.0, 20.0
_GET = "/geoveil.proto.v1.Collector/GetCampaign"


@dataclass(frozen=True)
class Crowd:
    """What browsers that are open, and reports beside them, cost.

    Args:
        resident_mb: the most memory that the server held.
        p99_s: within which 99 % of the reports were acknowledged.
        processor: part of a processor that the server used.
        open: connections that were still there at the end.
    """

    resident_mb: float
    p99_s: float
    processor: float
    open: int


def table() -> None:
    """Print both."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served_to_browsers("web", f"{folder}/web.db") as (server, web),
    ):
        campaign = publish(server.address)
        spent: dict[str, list[float]] = {"gRPC": [], "HTTP/1.1": [], "HTTP/2": []}
        for _ in range(1 + ROUNDS):
            for name, costs in spent.items():
                costs.append(_cost_us(name, server, web, campaign))
    shown = Table("", "processor of the server, µs a report", title="single reports")
    for name, costs in spent.items():
        shown.add_row(name, f"{statistics.median(costs[1:]):,.0f}")
    Console().print(shown)
    for name in ("HTTP/1.1", "HTTP/2"):
        ratios = [a / b for a, b in zip(spent["gRPC"][1:], spent[name][1:], strict=True)]
        median, least, most = statistics.median(ratios), min(ratios), max(ratios)
        print(f"gRPC / {name}: {median:.2f} ({least:.2f} to {most:.2f})")
    for http2 in (False, True):
        found = crowd(http2=http2)
        print(
            f"{found.open:,} idle browsers over {'HTTP/2 with TLS' if http2 else 'HTTP/1.1'}"
            f" and {RATE:g} reports/s: {found.resident_mb:.0f} MB, 99 % of the reports within"
            f" {1e3 * found.p99_s:.0f} ms, {found.processor:.2f} of a processor"
            f" (load average {os.getloadavg()[0]:.1f})"
        )


def crowd(
    browsers: int = BROWSERS, rate: float = RATE, seconds: float = SECONDS, *, http2: bool = False
) -> Crowd:
    """Open so many browsers, and report beside them; over HTTP/2 with TLS, or HTTP/1.1 without."""
    allow(browsers)
    with tempfile.TemporaryDirectory() as folder:
        authority, *files = _certificate(Path(folder)) if http2 else [None]
        with served_to_browsers("web", f"{folder}/web.db", *map(str, files)) as (server, web):
            campaign = publish(server.address, authority=authority and authority.read_bytes())
            return asyncio.run(_crowd(server, web, campaign, browsers, rate, seconds, http2))


def _certificate(folder: Path) -> list[Path]:
    """Return the files of a new authority, of a certificate of its own, and of its key."""
    issued = Authority.create("benchmark", timedelta(days=2))
    server = Authority(issued).issue("server", timedelta(days=1), ["127.0.0.1"])
    files = [folder / name for name in ("authority.pem", "server.pem", "server-key.pem")]
    contents = (issued.certificate, server.certificate, server.key)
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return files


async def _crowd(
    server: Served,
    web: str,
    campaign: Campaign,
    browsers: int,
    rate: float,
    seconds: float,
    http2: bool,
) -> Crowd:
    idle = []
    kind = Http2Connection if http2 else Connection
    asking = GetCampaignRequest(campaign_id=campaign.campaign_id).SerializeToString()
    for _ in range(browsers):
        connection = await kind.opened(web, tls=http2)
        await connection.call(_GET, asking)
        idle.append(connection)
    requests = Requests(campaign, 1)
    took: list[float] = []

    async def report(by: Connection, due: float) -> None:
        _check(await by.call(SUBMIT, requests.draw()))
        took.append(time.monotonic() - due)

    resident, under_way = server.resident_mb(), []
    started, before = time.monotonic(), server.processor_s()
    for number in range(round(rate * seconds)):
        due = started + number / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        under_way.append(asyncio.create_task(report(idle[number % browsers], due)))
        resident = max(resident, server.resident_mb()) if number % 100 == 0 else resident
    await asyncio.gather(*under_way)
    spent = server.processor_s() - before
    resident = max(resident, server.resident_mb())
    stayed = sum(not one.gone for one in idle)
    for one in idle:
        one.close()
    took.sort()
    return Crowd(
        resident, took[int(0.99 * len(took))], spent / (time.monotonic() - started), stayed
    )


def _cost_us(name: str, server: Served, web: str, campaign: Campaign) -> float:
    before = server.processor_s()
    if name == "gRPC":
        run(Load(server.address, SUBMIT, campaign, 1, CALLS, CONCURRENCY))
    else:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(_load, (name, web, campaign))
    return 1e6 * (server.processor_s() - before) / CALLS


def _load(name: str, web: str, campaign: Campaign) -> None:
    asyncio.run(_send(Http2Connection if name == "HTTP/2" else Connection, web, campaign))


async def _send(kind: "type[Connection]", web: str, campaign: Campaign) -> None:
    requests = Requests(campaign, 1)
    drawn = iter([requests.draw() for _ in range(CALLS)])

    async def one_browser() -> None:
        connection = await kind.opened(web)
        for request in drawn:
            _check(await connection.call(SUBMIT, request))
        connection.close()

    await asyncio.gather(*(one_browser() for _ in range(CONCURRENCY)))


def _check(answer: bytes) -> None:
    (result,) = SubmitReportsResponse.FromString(answer).results
    if result.status != REPORT_STATUS_ACCEPTED:
        raise AssertionError(result)


class Connection:
    """As much of a browser as calls take: Connect with binary messages on a connection that stays.

    Args:
        reader: what comes.
        writer: what goes.
    """

    speaks = "http/1.1"

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def opened(cls, web: str, *, tls: bool = False) -> Self:
        """Return a new connection to "host:port"; whose certificate it is does not matter."""
        host, _, port = web.rpartition(":")
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols([cls.speaks])
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 14, ssl=context))

    @property
    def gone(self) -> bool:
        """Whether the server closed it."""
        return self._reader.at_eof()

    async def call(self, path: str, message: bytes) -> bytes:
        """Return the answer to a call."""
        self._writer.write(
            b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/proto\r\n"
            b"content-length: %d\r\n\r\n%b" % (path.encode(), len(message), message)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(one[15:]) for one in lines if one.startswith(b"content-length:"))
        content = await self._reader.readexactly(length)
        if b" 200 " not in lines[0]:
            raise AssertionError(head + content)
        return content

    def close(self) -> None:
        """Close it."""
        self._writer.close()


class Http2Connection(Connection):
    """The same over HTTP/2, one call at a time."""

    speaks = "h2"

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._next = 1
        writer.write(PREFACE + frame(FrameKind.SETTINGS))

    async def call(self, path: str, message: bytes) -> bytes:
        stream, self._next = self._next, self._next + 2
        headers = fields(
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/proto"),
        )
        self._writer.write(
            frame(FrameKind.HEADERS, stream, headers, END_HEADERS)
            + frame(FrameKind.DATA, stream, message, END_STREAM)
        )
        content = b""
        while True:
            head = await self._reader.readexactly(9)
            payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
            kind, flags = head[3], head[4]
            if kind == FrameKind.SETTINGS and not flags:
                self._writer.write(frame(FrameKind.SETTINGS, flags=1))
            elif kind == FrameKind.DATA:
                content += payload
                if payload:
                    room = frame(FrameKind.WINDOW_UPDATE, 0, len(payload).to_bytes(4, "big"))
                    self._writer.write(room)
                if flags & END_STREAM:
                    return content
            elif kind in (FrameKind.RST_STREAM, FrameKind.GOAWAY):
                raise AssertionError(payload)
