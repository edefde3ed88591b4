"""Hostile messages against a live server: none may crash it, change its state or fill its memory.

`python -m benchmarks.hostile MESSAGES SEED` sends that many and exits with 1 on any fault; `python
-m benchmarks hostile` sends 100,000, and then attacks as `benchmarks.hostile_load` does.
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio

from benchmarks import hostile_load
from benchmarks.hostile_messages import WATCH, Known, draw
from benchmarks.serving import SUBMIT, Requests, Served, publish, served
from geoveil.campaign import (
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    SigningKey,
    ValueCampaign,
    digest,
    encode,
    seal,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import (
    analyst_pb2,
    analyst_pb2_grpc,
    campaign_pb2,
    collector_pb2,
    report_pb2,
)

MESSAGES = 100_000
REFUSALS = frozenset(
    {
        "OK",  # reports were duplicates or rejected, or an estimate was returned
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "FAILED_PRECONDITION",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
    }
)
MOST_GROWTH_MB = 48.0
"""The most that resident memory may grow after the first fifth of the messages."""
_WARMING = 2_000
"""Messages to send before memory is first measured, so that caches fill and modules are loaded."""
_CONCURRENCY = 32
_STORED = 500
_DEADLINE_S = 60


@dataclass(frozen=True)
class Found:
    """The result of an attack."""

    statuses: Mapping[str, int]
    resident_mb: tuple[float, float]
    """Resident memory of the server after a fifth of the messages and after all."""
    seconds: float
    same_state: bool
    """Whether every row of every table and every estimate are as before."""
    alive: bool
    """Whether the server still counts a report."""

    @property
    def faults(self) -> list[str]:
        """Descriptions of the faults."""
        told = [f"status {name}" for name in sorted(set(self.statuses) - REFUSALS)]
        told += [] if self.same_state else ["the state was changed"]
        told += [] if self.alive else ["the server does not serve any more"]
        grown = self.resident_mb[1] - self.resident_mb[0]
        return told + ([f"memory grew by {grown:.0f} MB"] if grown > MOST_GROWTH_MB else [])


def attack(messages: int, seed: int) -> Found:
    key = SigningKey.generate()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "reports.db"
        with served("aggregator", str(database), str(key.public)) as server:
            campaign = publish(server.address, key)
            requests = Requests(campaign, _STORED)
            stored = requests.draw()
            _submit(server.address, stored)
            reports = collector_pb2.SubmitReportsRequest.FromString(stored).reports
            known = Known(campaign, _publish_points(server.address, key), key, reports)
            before = _state(server, database)
            rng = Random(seed)
            start = time.perf_counter()
            first = min(max(messages // 5, _WARMING), messages)
            statuses = asyncio.run(_send(server.address, known, rng, first))
            warm = server.resident_mb()
            statuses += asyncio.run(_send(server.address, known, rng, messages - first))
            seconds, full = time.perf_counter() - start, server.resident_mb()
            same = _state(server, database) == before
            results = _submit(server.address, requests.draw())
            alive = all(r.status == report_pb2.REPORT_STATUS_ACCEPTED for r in results)
    return Found(statuses, (warm, full), seconds, same, alive)


def table() -> None:
    """Print the number of messages by status, the faults, and the cost of attacks for a device."""
    _show(attack(MESSAGES, seed=1))
    hostile_load.table()


def _show(found: Found) -> None:
    print(f"{sum(found.statuses.values()):,} hostile messages in {found.seconds:.0f} s:")
    for name, count in sorted(found.statuses.items()):
        print(f"  {name:20} {count:>8,}")
    print(f"resident: {found.resident_mb[0]:.0f} MB, then {found.resident_mb[1]:.0f} MB")
    print("; ".join(found.faults) or "no crash, no INTERNAL, no change of state, memory flat")


async def _send(address: str, known: Known, rng: Random, messages: int) -> Counter[str]:
    statuses: Counter[str] = Counter()
    left = messages
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(address, options) as channel:

        async def client() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                method, requests = draw(known, rng)
                try:
                    await _call(channel, method, requests)
                    statuses["OK"] += 1
                except grpc.aio.AioRpcError as error:
                    statuses[error.code().name] += 1

        await asyncio.gather(*(client() for _ in range(_CONCURRENCY)))
    return statuses


async def _call(channel: grpc.aio.Channel, method: str, requests: Sequence[bytes]) -> None:
    """Send the requests of a call of any kind, and read the answers."""
    call: Any
    if len(requests) == 1:
        # On the wire, calls of one request and any number of responses look the same.
        call = channel.unary_stream(method)(requests[0], timeout=_DEADLINE_S)
        try:
            # Watching an estimate never ends: the first answer is enough.
            while await call.read() is not grpc.aio.EOF and method != WATCH:
                pass
        finally:
            call.cancel()
        return
    call = channel.stream_stream(method)(timeout=_DEADLINE_S)
    try:
        for request in requests:
            # One at a time: the library reports INTERNAL for a write after the end of the call.
            await call.write(request)
            if await call.read() is grpc.aio.EOF:
                return
        await call.done_writing()
        await call.read()
    finally:
        call.cancel()


def _publish_points(address: str, key: SigningKey) -> Campaign:
    """Create a value campaign with some points, for later queries."""
    now = datetime.now(UTC)
    campaign = ValueCampaign(
        campaign_id="points",
        title="Points",
        attribute=Attribute(name="place", unit="metre"),
        privacy=GeoPrivacy(1.0, 500.0, "metre"),
        mechanism=PlanarLaplaceSpec(2),
        opens=now,
        closes=now + timedelta(days=1),
    )
    content, rng = encode(campaign), Random(0)
    reports = [
        report_pb2.Report(
            report_id=rng.randbytes(16),
            answers=[
                report_pb2.Answer(query_index=q, value=rng.randrange(-(10**7), 10**7))
                for q in range(2)
            ],
        )
        for _ in range(_STORED)
    ]
    submission = collector_pb2.SubmitReportsRequest(
        campaign_id="points", campaign_digest=digest(content), reports=reports
    )
    with grpc.insecure_channel(address) as channel:
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(content, key))
        request = analyst_pb2.CreateCampaignRequest(envelope=envelope)
        analyst_pb2_grpc.AnalystStub(channel).CreateCampaign(request)
    _submit(address, submission.SerializeToString())
    return campaign


def _submit(address: str, request: bytes) -> list[report_pb2.ReportResult]:
    with grpc.insecure_channel(address) as channel:
        answer = channel.unary_unary(SUBMIT)(request, timeout=_DEADLINE_S)
    return list(collector_pb2.SubmitReportsResponse.FromString(answer).results)


def _state(server: Served, database: Path) -> object:
    """Return all stored data, and all disclosed estimates.

    Left out are notes that the server takes by its own clock of the counts compared here.
    """
    with closing(sqlite3.connect(database)) as connection:
        find = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in connection.execute(find).fetchall() if name != "report_day"]
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    with grpc.insecure_channel(server.address) as channel:
        analyst = analyst_pb2_grpc.AnalystStub(channel)
        campaigns = analyst.ListCampaigns(analyst_pb2.ListCampaignsRequest())
        estimates = [
            analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id=name))
            for name in ("load", "points")
        ]
    return rows, [shown.SerializeToString() for shown in (campaigns, *estimates)]


if __name__ == "__main__":
    found = attack(int(sys.argv[1]), int(sys.argv[2]))
    _show(found)
    sys.exit(bool(found.faults))
