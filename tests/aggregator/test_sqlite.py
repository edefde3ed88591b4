"""What is particular to the SQLite store: its file, its failures, its privacy."""

import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from sqlalchemy.exc import IntegrityError

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.aggregator.store.schema import METADATA
from geoveil.gp.estimation import Accumulator

CAMPAIGN = CampaignRecord(campaign_id="a", published=b"a", queries=1)


def batch(first: int, count: int) -> list[Submission]:
    """Return `count` reports with ids in random order."""
    ids = Random(first)
    reports = [PackedReport(ids.randbytes(16), pack([(0, first + i)])) for i in range(count)]
    return [Submission("a", reports, True)]


def unusable(path: Path) -> str:
    with pytest.raises(ServiceError) as caught:
        SQLiteStore(path)
    assert caught.value.code is Code.DATABASE_UNUSABLE
    return str(caught.value)


def test_the_file_is_durable_and_checked(store: SQLiteStore, database: Path) -> None:
    def pragma(name: str) -> object:
        with store._engine.connect().execution_options(geoveil_begin="DEFERRED") as connection:
            return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == 2  # FULL
    assert pragma("foreign_keys") == 1
    assert pragma("busy_timeout") == 5000
    store.create_campaign(CAMPAIGN)
    store.commit(batch(0, 100))
    with sqlite3.connect(database) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert other.execute("PRAGMA foreign_key_check").fetchall() == []
    other.close()


def test_other_schema_versions_are_refused(database: Path) -> None:
    SQLiteStore(database).close()
    with sqlite3.connect(database) as other:
        other.execute("UPDATE geoveil_schema SET version = 99")
    other.close()
    assert "version 99, this version of geoveil needs 1" in unusable(database)


def test_databases_of_something_else_are_refused_and_left_alone(database: Path) -> None:
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE diary (page TEXT)")
    assert "something else" in unusable(database)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("diary",)]
    other.close()


def test_files_that_are_no_database_are_refused(database: Path, tmp_path: Path) -> None:
    database.write_bytes(b"Dear diary, " * 1000)
    assert "not a database" in unusable(database)
    assert "unable to open" in unusable(tmp_path / "missing" / "reports.sqlite")


def test_no_column_could_tell_who_sent_a_report_or_when(store: SQLiteStore, database: Path) -> None:
    columns = {t.name: {c.name for c in t.columns} for t in METADATA.tables.values()}
    assert columns == {
        "geoveil_schema": {"version"},
        "campaign": {"campaign_key", "campaign_id", "published", "queries", "closed", "reports"},
        "report": {"campaign_key", "report_id", "answers"},
        "query_sum": {"campaign_key", "query_index", "n", "total", "total_of_squares"},
    }
    # Nor does a hidden row number keep the order of arrival.
    other = sqlite3.connect(database)
    with pytest.raises(sqlite3.OperationalError, match="no such column: rowid"):
        other.execute("SELECT rowid FROM report")
    store.create_campaign(CAMPAIGN)
    (submission,) = batch(0, 50)
    store.commit([submission])
    stored = [row[0] for row in other.execute("SELECT report_id FROM report")]
    other.close()
    assert stored == sorted(r.report_id for r in submission.reports)
    assert stored != [r.report_id for r in submission.reports]


def test_a_full_disk_changes_nothing_and_heals(store: SQLiteStore) -> None:
    store.create_campaign(CAMPAIGN)
    store.commit(batch(0, 10))

    def limit(pages: int) -> None:
        with store._engine.connect().execution_options(geoveil_begin="DEFERRED") as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    limit(20)
    with pytest.raises(ServiceError) as caught:
        store.commit(batch(1000, 5000))
    assert caught.value.code is Code.STORE_UNAVAILABLE
    assert "full" in caught.value.detail
    assert store.totals("a") == [Accumulator.of(range(10))]
    assert store.get_campaign("a").reports == 10
    limit(1 << 30)
    assert set(store.commit(batch(1000, 5000))[0]) == {Outcome.ACCEPTED}
    assert store.totals("a") == [Accumulator.of([*range(10), *range(1000, 6000)])]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Submission

def batch(first, count):
    numbers = range(first, first + count)
    reports = [PackedReport(n.to_bytes(16, "big"), pack([(0, n)])) for n in numbers]
    return [Submission("a", reports, True)]

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing beyond the limit fails instead
with SQLiteStore(Path(sys.argv[1])) as store:
    store.create_campaign(CampaignRecord(campaign_id="a", published=b"a", queries=1))
    store.commit(batch(0, 10))
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        store.commit(batch(1000, 20_000))
    except ServiceError as error:
        assert error.code is Code.STORE_UNAVAILABLE
    else:
        raise AssertionError("the write did not fail")
    assert store.totals("a")[0].n == 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert len(store.commit(batch(1000, 20_000))[0]) == 20_000
    sums = store.totals("a")[0]
    assert (sums.n, sums.total) == (20_010, sum(range(10)) + sum(range(1000, 21_000)))
"""


def test_writes_that_the_operating_system_refuses(database: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(database)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(command, env=environment, check=True)


def test_a_database_locked_for_too_long_is_unavailable_and_heals(database: Path) -> None:
    with SQLiteStore(database, busy_timeout_s=0.01) as store:
        store.create_campaign(CAMPAIGN)
        other = sqlite3.connect(database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            with pytest.raises(ServiceError) as caught:
                store.commit(batch(0, 10))
            assert caught.value.code is Code.STORE_UNAVAILABLE
        assert store.totals("a") == [Accumulator()]  # readers don't wait
        other.execute("ROLLBACK")
        other.close()
        assert store.commit(batch(0, 10)) == [[Outcome.ACCEPTED] * 10]


def test_errors_and_logs_hide_reports(
    store: SQLiteStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "geoveil.aggregator.store.sqlite_counting._FIND", "SELECT NULL"
    )  # a store that fails to recognise what it has
    store.create_campaign(CAMPAIGN)
    secret = PackedReport(b"secret id secret", pack([(0, 4711)]))
    store.commit([Submission("a", [secret], True)])
    with caplog.at_level(logging.DEBUG), pytest.raises(ServiceError) as caught:
        store.commit([Submission("a", [secret], True)])
    cause = caught.value.__cause__
    assert isinstance(cause, IntegrityError)
    for text in (str(cause), repr(cause), str(caught.value), caplog.text):
        assert "secret" not in text
        assert "4711" not in text
    assert "UNIQUE constraint failed" in caplog.text
    assert store.totals("a") == [Accumulator(1, 4711, 4711**2)]


WRONG_THREAD = """
import sys, threading
from pathlib import Path
from geoveil.aggregator import ServiceError, SQLiteStore

store = SQLiteStore(Path(sys.argv[1]))

def use():
    try:
        store.list_campaigns()
    except ServiceError as error:
        print(error.code.name)

thread = threading.Thread(target=use)
thread.start()
thread.join()
"""


def test_a_store_stays_on_the_thread_that_opened_it(database: Path) -> None:
    """In a process of its own: the wrong thread spoils the connection, and nobody can close it."""
    command = [sys.executable, "-c", WRONG_THREAD, str(database)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "STORE_UNAVAILABLE\n"
