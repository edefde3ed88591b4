"""Whole servers as a campaign fills to 10 million reports: their speed and their memory.

It runs one server on SQLite, then one and two replicas on PostgreSQL, each with one connection for
inserts.
"""

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.serve_load import BATCH, BATCHES_AT_ONCE, Measured, measure
from benchmarks.serving import SUBMIT, counted, postgres, publish, served

FILLED = (0, 1_000_000, 2_500_000, 5_000_000, 7_500_000, 10_000_000)


def table() -> None:
    """Print reports per second and resident memory as the number of reports grows."""
    with tempfile.TemporaryDirectory() as folder:
        _fill("SQLite", str(Path(folder) / "reports.db"))
    for replicas in (1, 2):
        with postgres() as (url, process):
            _fill(f"PostgreSQL, replicas: {replicas}", url, process, replicas)


def _fill(
    name: str, database: str, process: psutil.Process | None = None, replicas: int = 1
) -> None:
    print(f"{name}, batches of {BATCH:,} (load average):")
    with ExitStack() as stack:
        servers = [stack.enter_context(served("aggregator", database)) for _ in range(replicas)]
        pool = stack.enter_context(ThreadPoolExecutor(replicas))
        campaign = publish(servers[0].address)
        sent = 0
        for low, high in pairwise(FILLED):
            calls = (high - low) // BATCH // replicas
            running = [
                pool.submit(
                    measure,
                    server,
                    SUBMIT,
                    campaign,
                    reports=BATCH,
                    calls=calls,
                    concurrency=BATCHES_AT_ONCE // replicas,
                    database=process,
                )
                for server in servers
            ]
            each = [one.result() for one in running]
            sent += replicas * BATCH * (calls + 1)  # one of each to begin with
            _print(low, high, each, max(server.resident_mb() for server in servers))
        assert counted(servers[0].address) == sent


def _print(low: int, high: int, each: Sequence[Measured], resident_mb: float) -> None:
    """Print a line; rates add up, while each replica sees the database's whole processor time."""
    rate = sum(one.rate for one in each)
    server_us = sum(one.server_us for one in each) / len(each)
    database_us = sum(one.database_us for one in each) / len(each) ** 2
    print(
        f"  {low:>10,} to {high:>10,}: {rate:>9,.0f}/s,"
        f" {server_us:.2f} + {database_us:.2f} µs of processors per report,"
        f" {resident_mb:.0f} MB ({os.getloadavg()[0]:.1f})",
        flush=True,
    )
