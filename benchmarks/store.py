"""Batches of reports counted once, durably, by a store alone: one thread, and as the store fills.

The reference is SQLite itself: the same rows, inserted by executemany into an empty table with the
same key and durability, without dedupe and sums. PostgreSQL runs as a separate server on this
machine, with default settings except three (see `benchmarks.serving`); it uses huge pages if the
machine has some set aside (vm.nr_hugepages), which the output tells. As the stores fill, the
processor times of this process and of PostgreSQL's connections are printed beside elapsed time;
other work on the machine affects them less. PostgreSQL's floor is the same rows in a table without
an index.
"""

import itertools
import secrets
import sqlite3
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil

from benchmarks.serving import postgres
from benchmarks.timing import Figure, seconds_of, show
from geoveil.aggregator.domain.reports import ANSWER_BYTES, PackedColumns, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Store, Submission, open_store
from geoveil.aggregator.store.postgres_counting import BytesArray, UuidArray, register

BATCH, BATCHES, QUERIES = 4_096, 10, 3
FILLED = (0, 1_000_000, 4_000_000, 10_000_000)
_REFERENCE = "sqlite3 executemany"
_ANSWERS = b"".join([pack([(i % QUERIES, i * 1_234_567)]) for i in range(BATCH)])


def table() -> list[Figure]:
    """Print microseconds per report, in empty and filled stores, and the memory used."""
    with tempfile.TemporaryDirectory() as folder, postgres(shared_buffers="1GB") as (url, server):
        with open_store(Path(folder) / "a.db") as file, open_store(url) as remote:
            runs = itertools.count()
            contestants = {_REFERENCE: lambda: _plain(Path(folder) / f"plain-{next(runs)}.db")}
            for name, store in (("SQLite", file), ("PostgreSQL", remote)):
                store.create_campaign(_campaign("short"))
                contestants[name] = partial(_commit_all, store)
            times = seconds_of(contestants, clock=time.perf_counter)
        found = show(
            f"{BATCH * BATCHES:,} new reports in batches of {BATCH:,}",
            "µs per report",
            1e6 / (BATCH * BATCHES),
            times,
            _REFERENCE,
        )
        for name, database in (("SQLite", Path(folder) / "filled.db"), ("PostgreSQL", url)):
            _print_filling(name, database, None if name == "SQLite" else server)
    return found


def _print_filling(name: str, database: Path | str, server: psutil.Process | None) -> None:
    print(f"{name}, µs per report between these many reports (of processors: ours + its):")
    process = psutil.Process()
    with open_store(database) as store:
        store.create_campaign(_campaign("filling"))
        for low, high in itertools.pairwise(FILLED):
            count = (high - low) // BATCH
            before = _processors(process, server)
            seconds = sum(commit_new(store, "filling") for _ in range(count))
            after = _processors(process, server)
            ours, its = (1e6 * (b - a) / count / BATCH for a, b in zip(before, after, strict=True))
            print(
                f"  {low:>10,} to {high:>10,}: {1e6 * seconds / count / BATCH:.1f}"
                f" ({ours:.2f} + {its:.2f}), our memory {process.memory_info().rss >> 20} MB",
                flush=True,
            )
    if server is not None:
        _print_floor(str(database), process, server)


def _print_floor(url: str, process: psutil.Process, server: psutil.Process) -> None:
    """Print the size of the index, and the time of rows without an index, dedupe and sums."""
    import psycopg

    with psycopg.connect(url) as connection:
        register(connection)
        (width,) = connection.execute(
            "SELECT pg_indexes_size('report_kept') / count(*)::float FROM report"
        ).fetchone() or (0,)
        (huge,) = connection.execute("SHOW huge_pages_status").fetchone() or ("",)
        connection.execute("CREATE TABLE floor (report_id UUID, answers BYTEA)")
        connection.commit()
        count = FILLED[1] // BATCH
        _, before = _processors(process, server)
        for _ in range(count):
            rows = (
                UuidArray.of(secrets.token_bytes(16 * BATCH), 16),
                BytesArray.of(_ANSWERS, ANSWER_BYTES),
            )
            connection.execute("INSERT INTO floor SELECT * FROM unnest(%s, %s)", rows)
            connection.commit()
        spent = _processors(process, server)[1] - before
        connection.execute("DROP TABLE floor")
    print(f"  {width:.1f} bytes of index per report, huge pages: {huge}")
    print(f"  floor, the same rows without an index: (+ {1e6 * spent / count / BATCH:.2f})")


def _processors(process: psutil.Process, server: psutil.Process | None) -> tuple[float, float]:
    """Return the processor times, in seconds, of this process and of PostgreSQL's connections."""
    others = server.children() if server is not None else []
    return sum(process.cpu_times()[:2]), sum(sum(one.cpu_times()[:2]) for one in others)


def _commit_all(store: Store) -> None:
    for _ in range(BATCHES):
        commit_new(store, "short")


def commit_new(store: Store, campaign: str) -> float:
    """Count one new batch; return the seconds that it took, once made."""
    reports = PackedColumns(secrets.token_bytes(16 * BATCH), _ANSWERS)  # as a server makes of them
    start = time.perf_counter()
    (outcomes,) = store.commit([Submission(campaign, reports, True)])
    seconds = time.perf_counter() - start
    assert set(outcomes) == {Outcome.ACCEPTED}
    return seconds


def _campaign(campaign_id: str) -> CampaignRecord:
    return CampaignRecord(campaign_id=campaign_id, published=b"", queries=QUERIES)


def _plain(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE report (campaign INTEGER, id BLOB, answers BLOB,"
        " PRIMARY KEY (campaign, id)) WITHOUT ROWID"
    )
    for _ in range(BATCHES):
        rows = [(1, secrets.token_bytes(16), bytes(12)) for _ in range(BATCH)]
        with connection:
            connection.executemany("INSERT INTO report VALUES (?, ?, ?)", rows)
    connection.close()
