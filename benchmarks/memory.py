"""The whole server as a campaign fills to 10 million reports: its speed and its memory."""

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks.serve_load import BATCH, BATCHES_AT_ONCE, measure
from benchmarks.serving import SUBMIT, counted, postgres, publish, served

FILLED = (0, 1_000_000, 2_500_000, 5_000_000, 7_500_000, 10_000_000)


def table() -> None:
    """Print reports per second and resident memory between so many reports."""
    with tempfile.TemporaryDirectory() as folder:
        _fill("SQLite", str(Path(folder) / "reports.db"))
    with postgres() as (url, process):
        _fill("PostgreSQL", url, process)


def _fill(name: str, database: str, process: psutil.Process | None = None) -> None:
    print(f"{name}, batches of {BATCH:,} (load average):")
    with served("aggregator", database) as server:
        campaign = publish(server.address)
        sent = 0
        for low, high in pairwise(FILLED):
            calls = (high - low) // BATCH
            one = measure(
                server,
                SUBMIT,
                campaign,
                reports=BATCH,
                calls=calls,
                concurrency=BATCHES_AT_ONCE,
                database=process,
            )
            sent += BATCH * (calls + 1)  # one to begin with
            print(
                f"  {low:>10,} to {high:>10,}: {one.rate:>9,.0f}/s,"
                f" {one.server_us:.2f} + {one.database_us:.2f} µs of processors per report,"
                f" {server.resident_mb():.0f} MB ({os.getloadavg()[0]:.1f})",
                flush=True,
            )
        assert counted(server.address) == sent
