"""Schema versions, checks and copies of databases of either kind."""

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission, open_store
from geoveil.aggregator.store.maintenance import back_up_database, check_database
from geoveil.aggregator.store.private_file import make_private_database
from geoveil.aggregator.store.schema import VERSION
from geoveil.aggregator.store.sql import SQLStore
from geoveil.gp import ParameterError

from .refusals import refuses


@pytest.fixture
def execute(target):
    """Runs SQL past the store."""

    def run(statement: str) -> list[tuple[Any, ...]]:
        if isinstance(target, str):
            with psycopg.connect(target) as connection:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(target)) as other, other:
            return other.execute(statement).fetchall()

    return run


def fill(store: SQLStore, count: int = 1000) -> list[Submission]:
    rng = Random(count)
    batch = []
    for name in ("a", "b"):
        store.create_campaign(CampaignRecord(campaign_id=name, published=b"x", queries=2))
        reports = [
            PackedReport(rng.randbytes(16), pack([(rng.randrange(2), rng.getrandbits(60))]))
            for _ in range(count)
        ]
        batch.append(Submission(name, reports, True))
    assert {o for of_one in store.commit(batch) for o in of_one} == {Outcome.ACCEPTED}
    return batch


def refusal(target: Path | str) -> str:
    with refuses(Code.DATABASE_UNUSABLE) as caught:
        open_store(target)
    return str(caught.value)


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("0099", "version 99, this version of geoveil needs 10: install a later geoveil"),
        (
            "0006",
            "version 6, this version of geoveil needs 10: use the version of geoveil that made it",
        ),
    ],
)
def test_other_versions_are_refused_by_number_and_left_alone(target, execute, version, advice):
    open_store(target).close()
    execute(f"UPDATE {VERSION.name} SET version_num = '{version}'")
    assert advice in refusal(target)
    with pytest.raises(ServiceError, match=advice):
        check_database(target)
    assert execute(f"SELECT version_num FROM {VERSION.name}") == [(version,)]


def test_databases_of_something_else_are_refused_and_left_alone(target, execute):
    execute("CREATE TABLE diary (page TEXT)")
    execute("INSERT INTO diary VALUES ('dear diary')")
    assert "another program" in refusal(target)
    with pytest.raises(ServiceError, match="another program"):
        check_database(target)
    assert execute("SELECT page FROM diary") == [("dear diary",)]
    with pytest.raises(Exception, match="campaign"):
        execute("SELECT 1 FROM campaign")


def test_stores_opened_at_the_same_moment_make_the_tables_once(target):
    start = threading.Barrier(6)

    def work() -> None:
        start.wait(30)
        open_store(target, busy_timeout_s=30).close()

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work) for _ in range(6)]:
            future.result(60)
    assert check_database(target).faults == ()


def test_a_new_file_has_its_log_before_it_has_its_name(tmp_path):
    make_private_database(tmp_path / "reports.sqlite")
    header = (tmp_path / "reports.sqlite").read_bytes()[:20]
    assert header[18:] == b"\x02\x02"  # a write-ahead log, says the format of SQLite's files
    assert [file.name for file in tmp_path.iterdir()] == ["reports.sqlite"]


def test_a_sound_database_has_no_faults(target):
    with open_store(target) as store:
        fill(store)
    found = check_database(target)
    assert (found.campaigns, found.reports, found.faults) == (2, 2000, ())


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE report_count SET reports = 999 WHERE campaign_key = 1", "999 reports are counted"),
        ("UPDATE query_sum SET n = n + 1 WHERE query_index = 1 AND campaign_key = 1", "1 queries"),
        ("DELETE FROM query_sum WHERE campaign_key = 1", "the sums of 2 queries"),
        ("DELETE FROM report_count WHERE campaign_key = 1", "0 reports are counted, 1,000 are st"),
    ],
)
def test_counters_that_are_not_those_of_the_reports_are_found(target, execute, damage, fault):
    with open_store(target) as store:
        fill(store)
    execute(damage)
    (line,) = check_database(target).faults
    assert line.startswith("campaign a: ")
    assert fault in line


def test_reports_stored_twice_are_found(database):
    with open_store(database) as store:
        fill(store)
    with closing(sqlite3.connect(database)) as other, other:
        other.execute(
            "INSERT INTO report_page SELECT campaign_key, first + 5000, ids, answers"
            " FROM report_page WHERE campaign_key = 1 AND first = 0"
        )
    assert "campaign a: 256 reports are stored twice" in check_database(database).faults


@pytest.mark.deep(keep=1)
def test_a_copy_is_complete(target, tmp_path, monkeypatch, postgres_server):
    monkeypatch.setenv("PATH", str(postgres_server.programs), prepend=":")
    copy = tmp_path / "copy"
    with open_store(target) as store:
        batch = fill(store)
        totals = store.totals("a")
    back_up_database(target, copy)
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy"]
    with pytest.raises(ParameterError, match="a new file"):
        back_up_database(target, copy)
    restore = nullcontext if isinstance(target, Path) else postgres_server.restored
    with restore(copy) as restored:
        assert check_database(restored).reports == 2000
        assert check_database(restored).faults == ()
        with open_store(restored) as store:
            assert store.totals("a") == totals
            assert {o for of_one in store.commit(batch) for o in of_one} == {Outcome.DUPLICATE}


def test_without_pg_dump_there_is_no_copy_of_postgresql(postgres_url, tmp_path, monkeypatch):
    open_store(postgres_url).close()
    monkeypatch.setenv("PATH", str(tmp_path))
    with psycopg.connect(postgres_url) as connection:
        needed = connection.info.server_version // 10_000
    program = tmp_path / "pg_dump"
    expected = f"takes pg_dump of PostgreSQL {needed} or later on the PATH, and "
    for said, found in [
        (None, "there is none"),
        (f"pg_dump (PostgreSQL) {needed - 1}.9 (Debian)", f"{program} is of version {needed - 1}"),
        ("something else", f"{program} is of an unknown version"),
    ]:
        if said is not None:
            program.write_text(f"#!/bin/sh\necho '{said}'\n")
            program.chmod(0o755)
        with pytest.raises(ServiceError, match=re.escape(expected + found)):
            back_up_database(postgres_url, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == [program]


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_databases_their_logs_and_copies_are_their_owners_alone(tmp_path):
    """Whatever the mask of the process; also one that was wider."""
    database, before = tmp_path / "a.db", os.umask(0)
    everything = dict.fromkeys(("a.db", "a.db-wal", "a.db-shm"), 0o600)
    try:
        with open_store(database) as store:
            fill(store)
            assert modes(tmp_path) == everything
            for path in tmp_path.iterdir():
                path.chmod(0o664)
            with open_store(database):
                assert modes(tmp_path) == everything
                fill(store, 5)
                assert modes(tmp_path) == everything
            back_up_database(database, tmp_path / "copy")
            assert modes(tmp_path) == {**everything, "copy": 0o600}
        (tmp_path / "copy").chmod(0o644)
        for name in ("copy", "new"):
            open_store(tmp_path / name).close()
        assert set(modes(tmp_path).values()) == {0o600}
    finally:
        os.umask(before)


def test_what_is_no_database_of_ours_keeps_its_mode(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("not a database, and none of ours")
    other.chmod(0o644)
    for use in (open_store, check_database, lambda path: back_up_database(path, tmp_path / "copy")):
        with pytest.raises(ServiceError):
            use(other)
    assert modes(tmp_path) == {"notes.txt": 0o644}


def test_opening_a_database_again_keeps_its_locks(database):
    """A file that is opened and closed beside SQLite would lose those of the whole process."""
    with open_store(database), closing(sqlite3.connect(database)) as writing:
        writing.execute("BEGIN EXCLUSIVE")
        open_store(database, busy_timeout_s=0.01).close()
        attempt = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0.01);"
            "c.execute('BEGIN IMMEDIATE')"
        )
        done = subprocess.run(
            [sys.executable, "-c", attempt, str(database)], capture_output=True, text=True
        )
        assert "database is locked" in done.stderr


def test_what_is_not_there_is_neither_made_nor_copied(tmp_path):
    missing = tmp_path / "missing.sqlite"
    with pytest.raises(ParameterError, match="a file that exists"):
        check_database(missing)
    with pytest.raises(ParameterError, match="a file that exists"):
        back_up_database(missing, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
    shutil.copy(__file__, missing)
    with pytest.raises(ServiceError, match="not a database"):
        back_up_database(missing, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == [missing]
