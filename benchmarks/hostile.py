"""Hostile messages against a live server: none may crash it, change its state or fill its memory.

`python -m benchmarks.hostile MESSAGES SEED` sends so many and ends with 1 if something is wrong;
`python -m benchmarks hostile` sends 100,000.
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import grpc
import grpc.aio

from benchmarks.hostile_messages import Known, draw
from benchmarks.serving import SUBMIT, Requests, Served, publish, served
from geoveil.campaign import SigningKey
from geoveil.proto.v1 import analyst_pb2, analyst_pb2_grpc, collector_pb2, report_pb2

MESSAGES = 100_000
REFUSALS = frozenset(
    {
        "OK",  # with reports that are duplicates or rejected, or an estimate
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "FAILED_PRECONDITION",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
    }
)
MOST_GROWTH_MB = 48.0
"""Of the resident memory after the first fifth of the messages."""
_CONCURRENCY = 32
_STORED = 500


@dataclass(frozen=True)
class Found:
    """What came of it."""

    statuses: Mapping[str, int]
    resident_mb: tuple[float, float]
    """Of the server, after a fifth of the messages and after all."""
    seconds: float
    same_state: bool
    """Whether every row of every table and every estimate is as before."""
    alive: bool
    """Whether the server still counts a report."""

    @property
    def faults(self) -> list[str]:
        """What is wrong, in words."""
        told = [f"status {name}" for name in sorted(set(self.statuses) - REFUSALS)]
        told += [] if self.same_state else ["the state was changed"]
        told += [] if self.alive else ["the server does not serve any more"]
        grown = self.resident_mb[1] - self.resident_mb[0]
        return told + ([f"memory grew by {grown:.0f} MB"] if grown > MOST_GROWTH_MB else [])


def attack(messages: int, seed: int) -> Found:
    """Send messages to a server of its own."""
    key = SigningKey.generate()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "reports.db"
        with served("aggregator", str(database), str(key.public)) as server:
            campaign = publish(server.address, key)
            requests = Requests(campaign, _STORED)
            stored = requests.draw()
            _submit(server.address, stored)
            known = Known(
                campaign, key, collector_pb2.SubmitReportsRequest.FromString(stored).reports
            )
            before = _state(server, database)
            rng = Random(seed)
            start = time.perf_counter()
            statuses = asyncio.run(_send(server.address, known, rng, messages // 5))
            warm = server.resident_mb()
            statuses += asyncio.run(_send(server.address, known, rng, messages - messages // 5))
            seconds, full = time.perf_counter() - start, server.resident_mb()
            same = _state(server, database) == before
            results = _submit(server.address, requests.draw())
            alive = all(r.status == report_pb2.REPORT_STATUS_ACCEPTED for r in results)
    return Found(statuses, (warm, full), seconds, same, alive)


def table() -> None:
    """Print how many messages got which status, and what is wrong."""
    _show(attack(MESSAGES, seed=1))


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
                method, data = draw(known, rng)
                try:
                    await channel.unary_unary(method)(data, timeout=60)
                    statuses["OK"] += 1
                except grpc.aio.AioRpcError as error:
                    statuses[error.code().name] += 1

        await asyncio.gather(*(client() for _ in range(_CONCURRENCY)))
    return statuses


def _submit(address: str, request: bytes) -> list[report_pb2.ReportResult]:
    with grpc.insecure_channel(address) as channel:
        answer = channel.unary_unary(SUBMIT)(request, timeout=60)
    return list(collector_pb2.SubmitReportsResponse.FromString(answer).results)


def _state(server: Served, database: Path) -> object:
    """Return all that is stored, and all that is shown of it."""
    with closing(sqlite3.connect(database)) as connection:
        find = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in connection.execute(find).fetchall()]
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    with grpc.insecure_channel(server.address) as channel:
        analyst = analyst_pb2_grpc.AnalystStub(channel)
        campaigns = analyst.ListCampaigns(analyst_pb2.ListCampaignsRequest())
        estimate = analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id="load"))
    return rows, campaigns.SerializeToString(), estimate.SerializeToString()


if __name__ == "__main__":
    found = attack(int(sys.argv[1]), int(sys.argv[2]))
    _show(found)
    sys.exit(bool(found.faults))
