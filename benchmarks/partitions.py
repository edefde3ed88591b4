"""The last of 10⁸ ids against the first, in ten one-day campaigns whose reports are deleted.

Each day has a campaign of 10⁷ reports, with its own partition in PostgreSQL and its own pages in
SQLite. In PostgreSQL, SQL statements fill the partitions, for days before the last in the order of
slots, which is quicker. Then two servers alternately receive the last million there and the first
million of a fresh database in the same PostgreSQL, so that other work on the machine affects both.
Neither run has a checkpoint, after which PostgreSQL logs each page in full once, or a vacuum; both
are measured at the end. SQLite is filled by the store alone. Times are
processor times of the server and of PostgreSQL's processes. Finally, the reports of one day are
deleted.
"""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg

from benchmarks.serve_load import measure
from benchmarks.serving import SUBMIT, Served, postgres, processor_s, publish, served
from benchmarks.store import BATCH, commit_new
from benchmarks.timing import Figure, show
from geoveil.aggregator.store import CampaignRecord, open_store
from geoveil.aggregator.store.schema import SLOT_BITS

DAYS, A_DAY, MEASURED = 10, 10_000_000, 1_000_000
_SINGLE, _AT_ONCE, ROUNDS = 2_000, 128, 5
FIRST = "the first"
_FILL = f"""
    INSERT INTO report_{{day}} SELECT
        %s + {(1 << SLOT_BITS) // A_DAY} * {{order}} + (random() * 1000)::int,
        '{UUID(int=1)}', '\\x000000000000000000000001'
    FROM generate_series(1, %s) AS i
"""
_IN_ORDER = "i::bigint"
_SCATTERED = f"(i::bigint * 7919999 %% {A_DAY})"
"""Each value once, since 7,919,999 and the number of a day's reports have no common divisor."""


def table() -> list[Figure]:
    """Print microseconds per report for the first ids and for the last."""
    with postgres() as (url, database), served("aggregator", url) as filled:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE fresh")
            connection.execute("ALTER SYSTEM SET autovacuum = off")
            connection.execute("SELECT pg_reload_conf()")
        with served("aggregator", url.replace("/postgres?", "/fresh?")) as fresh:
            figures = _postgres(url, filled, fresh, database)
    with tempfile.TemporaryDirectory() as folder:
        return figures + _sqlite(Path(folder) / "days.db")


def _postgres(url: str, filled: Served, fresh: Served, database: psutil.Process) -> list[Figure]:
    names = [f"day-{day}" for day in range(1, DAYS + 1)]
    *_, last = [publish(filled.address, campaign_id=name, deleted=True) for name in names]
    contestants = {
        FIRST: (fresh, publish(fresh.address, deleted=True)),
        "the last": (filled, last),
    }
    with psycopg.connect(url, autocommit=True) as connection:
        for day in range(1, DAYS):
            _fill(connection, day, A_DAY, _IN_ORDER)
        connection.execute("CHECKPOINT")
        _fill(connection, DAYS, A_DAY - MEASURED, _SCATTERED)
        shapes = {
            f"batches of {BATCH:,}": {
                "reports": BATCH, "calls": MEASURED // ROUNDS // BATCH, "concurrency": 8,
            },
            f"{_AT_ONCE} at once": {"calls": _SINGLE, "concurrency": _AT_ONCE},
        }  # fmt: skip
        figures: list[Figure] = []
        for shape, load in shapes.items():
            spent = dict.fromkeys(contestants, 0.0)
            for _ in range(ROUNDS):
                for name, (server, campaign) in contestants.items():
                    run = measure(server, SUBMIT, campaign, database=database, **load)
                    spent[name] += (run.server_us + run.database_us) / ROUNDS
            title = f"{DAYS * A_DAY:,} ids, {DAYS} days, PostgreSQL: {shape}"
            figures += show(title, "µs per report", 1, spent, FIRST)
        count, size = connection.execute(
            "SELECT (SELECT count(*) FROM report), pg_database_size(current_database())"
        ).fetchone() or (0, 0)
        print(f"{count:,} reports, {size / count:.0f} bytes each")
        connection.execute("CHECKPOINT")
        batches, *_ = shapes.values()
        run = measure(filled, SUBMIT, last, database=database, **batches)
        print(f"after a checkpoint {run.server_us + run.database_us:.2f} µs per report, in batches")
        worker = psutil.Process(connection.info.backend_pid)
        before = processor_s(worker)
        connection.execute(f"VACUUM report_{DAYS}")
        print(f"vacuum: {1e6 * (processor_s(worker) - before) / A_DAY:.2f} µs per report")
    with open_store(url) as store:
        started = time.perf_counter()
        assert not store.delete_reports("day-2")
        print(f"{A_DAY:,} reports dropped in {time.perf_counter() - started:.2f} s")
    return figures


def _fill(
    connection: psycopg.Connection[tuple[Any, ...]], day: int, reports: int, order: str
) -> None:
    started = time.perf_counter()
    first = (day - (1 << 63 - SLOT_BITS)) << SLOT_BITS
    connection.execute(_FILL.format(order=order, day=day).encode(), (first, reports))
    print(f"day {day} filled in {time.perf_counter() - started:.0f} s", flush=True)


def _sqlite(file: Path) -> list[Figure]:
    costs = {}
    until = datetime.now(UTC) + timedelta(days=1)
    with open_store(file) as store:
        for day in range(1, DAYS + 1):
            name = f"day-{day}"
            record = CampaignRecord(campaign_id=name, published=b"", queries=3, delete_after=until)
            store.create_campaign(record)
            for million in range(A_DAY // MEASURED):
                before = time.process_time()
                for _ in range(MEASURED // BATCH):
                    commit_new(store, name)
                spent = (time.process_time() - before) / (MEASURED // BATCH * BATCH)
                if million in (0, A_DAY // MEASURED - 1) and day in (1, DAYS):
                    costs[f"million {million + 1} of day {day}"] = spent
        memory = psutil.Process().memory_info().rss >> 20
        figures = show(
            f"{DAYS * A_DAY:,} ids, {DAYS} days, SQLite's store alone",
            "µs per report",
            1e6,
            costs,
            "million 1 of day 1",
        )
        print(f"{file.stat().st_size / DAYS / A_DAY:.0f} bytes a report, memory {memory:,} MB")
        started, longest = time.perf_counter(), 0.0
        left = True
        while left:
            begun = time.perf_counter()
            left = store.delete_reports("day-2")
            longest = max(longest, time.perf_counter() - begun)
        print(
            f"{A_DAY:,} reports deleted in {time.perf_counter() - started:.1f} s, in pieces of"
            f" {longest:.2f} s at most"
        )
    return figures
