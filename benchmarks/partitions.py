"""The last of 10⁸ ids beside the first, in ten campaigns of a day whose reports are deleted.

Each day has a campaign of 10⁷ reports: in PostgreSQL a partition of its own, in SQLite its pages.
With PostgreSQL the whole server takes the first and the last million of all, and the first of the
last day; in between, statements of SQL fill the partitions, days before the last in order of slots,
which is quicker and leaves them as large. SQLite is filled by the store alone. Time is that of the
processors of the server, and of PostgreSQL's connections. At the end the reports of one day are
deleted.
"""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import psycopg

from benchmarks.serve_load import measure
from benchmarks.serving import SUBMIT, Served, postgres, publish, served
from benchmarks.store import BATCH, commit_new
from benchmarks.timing import Figure, show
from geoveil.aggregator.store import CampaignRecord, open_store
from geoveil.aggregator.store.schema import SLOT_BITS
from geoveil.campaign import Campaign

DAYS, A_DAY, MEASURED = 10, 10_000_000, 1_000_000
_SINGLE, _AT_ONCE = 6_000, 128
_FILL = f"""
    INSERT INTO report SELECT %s + {(1 << SLOT_BITS) // A_DAY} * {{order}} + (random() * 1000)::int,
        gen_random_uuid(), '\\x000000000000000000000001'
    FROM generate_series(1, %s) AS i
"""
_IN_ORDER = "i::bigint"
_SCATTERED = f"(i::bigint * 7919999 %% {A_DAY})"
"""Each once, since 7,919,999 and the number of a day's reports have no common divisor."""


def table() -> list[Figure]:
    """Print microseconds per report at the beginning, in between and at the end."""
    with postgres() as (url, database), served("aggregator", url) as server:
        figures = _postgres(url, server, database)
    with tempfile.TemporaryDirectory() as folder:
        return figures + _sqlite(Path(folder) / "days.db")


def _postgres(url: str, server: Served, database: psutil.Process) -> list[Figure]:
    days = [
        publish(server.address, campaign_id=f"day-{day}", deleted=True)
        for day in range(1, DAYS + 1)
    ]
    costs = {"the first million": _cost(server, days[0], database)}
    single = {"the first": _cost_of_one(server, days[0], database)}
    with psycopg.connect(url, autocommit=True) as connection:
        for day in range(1, DAYS):
            _fill(connection, day, A_DAY - (MEASURED if day == 1 else 0), _IN_ORDER)
        connection.execute("CHECKPOINT")
        costs["the first million of the last day"] = _cost(server, days[-1], database)
        _fill(connection, DAYS, A_DAY - 2 * MEASURED, _SCATTERED)
        connection.execute("CHECKPOINT")
        costs["the last million"] = _cost(server, days[-1], database)
        single["the last"] = _cost_of_one(server, days[-1], database)
        count, size = connection.execute(
            "SELECT (SELECT count(*) FROM report), pg_database_size(current_database())"
        ).fetchone() or (0, 0)
    title = f"{count:,} ids, {DAYS} days, PostgreSQL"
    reference = "the first million"
    figures = show(f"{title}: batches of {BATCH:,}", "µs per report", 1, costs, reference)
    figures += show(f"{title}: {_AT_ONCE} at once", "µs per report", 1, single, "the first")
    print(f"{size / count:.0f} bytes a report")
    with open_store(url) as store:
        started = time.perf_counter()
        assert not store.delete_reports("day-2")
        print(f"{A_DAY:,} reports dropped in {time.perf_counter() - started:.2f} s")
    return figures


def _fill(connection: psycopg.Connection, day: int, reports: int, order: str) -> None:
    started = time.perf_counter()
    first = (day - (1 << 63 - SLOT_BITS)) << SLOT_BITS
    connection.execute(_FILL.format(order=order).encode(), (first, reports))
    print(f"day {day} filled in {time.perf_counter() - started:.0f} s", flush=True)


def _cost(server: Served, campaign: Campaign, database: psutil.Process) -> float:
    run = measure(
        server,
        SUBMIT,
        campaign,
        reports=BATCH,
        calls=MEASURED // BATCH,
        concurrency=8,
        database=database,
    )
    return run.server_us + run.database_us


def _cost_of_one(server: Served, campaign: Campaign, database: psutil.Process) -> float:
    run = measure(server, SUBMIT, campaign, calls=_SINGLE, concurrency=_AT_ONCE, database=database)
    return run.server_us + run.database_us


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
