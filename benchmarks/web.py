"""Idle browsers: the gateway's memory and processor time, and how soon reports beside them count.

Browsers connect, fetch a campaign once and stay connected, while reports arrive at a steady rate.
The client is asyncio with a few lines of HTTP/1.1. `capacity` has the cost of a report.
"""

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass
from typing import Self

import psutil

from benchmarks.serving import (
    SUBMIT,
    Requests,
    Served,
    processor_s,
    publish,
    served_to_browsers,
)
from geoveil.aggregator.grpc.connections import allow
from geoveil.campaign import Campaign
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest, SubmitReportsResponse
from geoveil.proto.v1.report_pb2 import REPORT_STATUS_ACCEPTED

BROWSERS, RATE, SECONDS = 500, 50.0, 20.0
_GET = "/geoveil.proto.v1.Collector/GetCampaign"


@dataclass(frozen=True)
class Crowd:
    """The cost of open browsers, and of reports beside them.

    Args:
        resident_mb: the gateway's peak memory.
        p99_s: the time within which 99 % of the reports were acknowledged.
        processor: the fraction of a processor that the gateway used.
        open: the number of connections still open at the end.
    """

    resident_mb: float
    p99_s: float
    processor: float
    open: int


def table() -> None:
    found = crowd()
    print(
        f"{found.open:,} idle browsers and {RATE:g} reports/s: {found.resident_mb:.0f} MB, 99 % of"
        f" the reports within {1e3 * found.p99_s:.0f} ms, {found.processor:.2f} of a processor"
        f" (load average {os.getloadavg()[0]:.1f})"
    )


def crowd(browsers: int = BROWSERS, rate: float = RATE, seconds: float = SECONDS) -> Crowd:
    """Open a number of browsers, and report beside them."""
    allow(browsers)
    with (
        tempfile.TemporaryDirectory() as folder,
        served_to_browsers("web", f"{folder}/web.db") as (server, web),
    ):
        campaign = publish(server.address)
        return asyncio.run(_crowd(server, web, campaign, browsers, rate, seconds))


async def _crowd(
    server: Served,
    web: str,
    campaign: Campaign,
    browsers: int,
    rate: float,
    seconds: float,
) -> Crowd:
    idle = []
    gateway = server.gateway
    asking = GetCampaignRequest(campaign_id=campaign.campaign_id).SerializeToString()
    for _ in range(browsers):
        connection = await Connection.opened(web)
        await connection.call(_GET, asking)
        idle.append(connection)
    requests = Requests(campaign, 1)
    took: list[float] = []

    async def report(by: Connection, due: float) -> None:
        _check(await by.call(SUBMIT, requests.draw()))
        took.append(time.monotonic() - due)

    resident, under_way = _resident_mb(gateway), []
    started, before = time.monotonic(), processor_s(gateway)
    for number in range(round(rate * seconds)):
        due = started + number / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        under_way.append(asyncio.create_task(report(idle[number % browsers], due)))
        resident = max(resident, _resident_mb(gateway)) if number % 100 == 0 else resident
    await asyncio.gather(*under_way)
    spent = processor_s(gateway) - before
    resident = max(resident, _resident_mb(gateway))
    stayed = sum(not one.gone for one in idle)
    for one in idle:
        one.close()
    took.sort()
    return Crowd(
        resident, took[int(0.99 * len(took))], spent / (time.monotonic() - started), stayed
    )


def _check(answer: bytes) -> None:
    (result,) = SubmitReportsResponse.FromString(answer).results
    if result.status != REPORT_STATUS_ACCEPTED:
        raise AssertionError(result)


def _resident_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 2**20)


class Connection:
    """A minimal browser: it makes Connect calls with binary messages on a lasting connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def opened(cls, web: str) -> Self:
        """Return a new connection to "host:port"."""
        host, _, port = web.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 14))

    @property
    def gone(self) -> bool:
        """Whether the server closed the connection."""
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
        """Close the connection."""
        self._writer.close()
