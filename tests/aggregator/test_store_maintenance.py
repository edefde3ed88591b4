"""Schema versions, checks and copies of databases of either kind."""

import importlib
import os
import pkgutil
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission, open_store
from geoveil.aggregator.store.maintenance import Upgrade, backup, check, upgrade
from geoveil.aggregator.store.migrate import VERSION_TABLE
from geoveil.aggregator.store.migrations import versions
from geoveil.aggregator.store.private_file import make_private_database
from geoveil.aggregator.store.schema import METADATA, SCHEMA_VERSION, tables_of
from geoveil.aggregator.store.sql import SQLStore
from geoveil.campaign import seal
from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator

from .postgres import PostgresServer

# As SQLAlchemy wrote them for version 1.
VERSION_1 = """
CREATE TABLE geoveil_schema (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE campaign (
    campaign_key INTEGER NOT NULL, campaign_id VARCHAR(64) NOT NULL, published BLOB NOT NULL,
    queries INTEGER NOT NULL, closed BOOLEAN NOT NULL, reports BIGINT NOT NULL,
    PRIMARY KEY (campaign_key), UNIQUE (campaign_id));
CREATE TABLE query_sum (
    campaign_key INTEGER NOT NULL, query_index INTEGER NOT NULL, n BIGINT NOT NULL,
    total TEXT NOT NULL, total_of_squares TEXT NOT NULL, PRIMARY KEY (campaign_key, query_index),
    FOREIGN KEY(campaign_key) REFERENCES campaign (campaign_key)) WITHOUT ROWID;
CREATE TABLE report (
    campaign_key INTEGER NOT NULL, report_id BLOB NOT NULL, answers BLOB NOT NULL,
    PRIMARY KEY (campaign_key, report_id),
    FOREIGN KEY(campaign_key) REFERENCES campaign (campaign_key)) WITHOUT ROWID;
INSERT INTO geoveil_schema VALUES (1);
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest) -> Path | str:
    """A database of each kind, empty."""
    fixture = {"sqlite": "database", "postgresql": "postgres_url"}[request.param]
    value: Path | str = request.getfixturevalue(fixture)
    return value


@pytest.fixture
def execute(target: Path | str) -> Callable[..., list[tuple[Any, ...]]]:
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
    with pytest.raises(ServiceError) as caught:
        open_store(target)
    assert caught.value.code is Code.DATABASE_UNUSABLE
    return str(caught.value)


def test_the_migrations_make_the_tables_that_the_store_reads(target: Path | str) -> None:
    def differences(connection: Any) -> Any:
        tables = {table.name for table in tables_of(connection.dialect.name)}
        context = MigrationContext.configure(
            connection,
            opts={
                "include_name": lambda name, kind, _: kind != "table" or name in tables,
                "include_object": lambda item, name, kind, reflected, other: (
                    kind != "table" or name in tables
                ),
            },
        )
        return compare_metadata(context, METADATA)

    with open_store(target) as store:
        assert store.run(differences) == []


def test_the_last_migration_is_the_version_of_this_package() -> None:
    names = [module.name for module in pkgutil.iter_modules(versions.__path__)]
    newest = importlib.import_module(f"{versions.__name__}.{max(names)}")
    assert newest.revision == f"{SCHEMA_VERSION:04}"


def test_later_versions_are_refused(
    target: Path | str, execute: Callable[..., list[tuple[Any, ...]]]
) -> None:
    open_store(target).close()
    execute(f"UPDATE {VERSION_TABLE} SET version_num = '0099'")
    assert "version 99, this version of geoveil needs 6: install a later geoveil" in refusal(target)
    for function in (upgrade, check):
        with pytest.raises(ServiceError, match="install a later geoveil"):
            function(target)
    assert execute(f"SELECT version_num FROM {VERSION_TABLE}") == [("0099",)]


def test_databases_of_something_else_are_refused_and_left_alone(
    target: Path | str, execute: Callable[..., list[tuple[Any, ...]]]
) -> None:
    execute("CREATE TABLE diary (page TEXT)")
    execute("INSERT INTO diary VALUES ('dear diary')")
    assert "something else" in refusal(target)
    for function in (upgrade, check):
        with pytest.raises(ServiceError, match="something else"):
            function(target)
    assert execute("SELECT page FROM diary") == [("dear diary",)]
    with pytest.raises(Exception, match="campaign"):
        execute("SELECT 1 FROM campaign")


def test_an_upgrade_of_a_current_database_changes_nothing(target: Path | str) -> None:
    assert upgrade(target) == Upgrade(before=0, after=SCHEMA_VERSION)
    with open_store(target) as store:
        batch = fill(store)
        assert upgrade(target) == Upgrade(before=SCHEMA_VERSION, after=SCHEMA_VERSION)
        assert {o for of_one in store.commit(batch) for o in of_one} == {Outcome.DUPLICATE}


def test_stores_opened_at_the_same_moment_make_the_tables_once(target: Path | str) -> None:
    start = threading.Barrier(6)

    def work() -> None:
        start.wait(30)
        open_store(target, busy_timeout_s=30).close()

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work) for _ in range(6)]:
            future.result(60)
    assert check(target).faults == ()


def test_a_new_file_has_its_log_before_it_has_its_name(tmp_path: Path) -> None:
    make_private_database(tmp_path / "reports.sqlite")
    header = (tmp_path / "reports.sqlite").read_bytes()[:20]
    assert header[18:] == b"\x02\x02"  # a write-ahead log, says the format of SQLite's files
    assert [file.name for file in tmp_path.iterdir()] == ["reports.sqlite"]


@pytest.fixture
def old(database: Path) -> dict[str, dict[bytes, list[tuple[int, int]]]]:
    """A database of version 1, and what it holds: answers by id by campaign."""
    rng = Random(1)
    held: dict[str, dict[bytes, list[tuple[int, int]]]] = {}
    with closing(sqlite3.connect(database)) as other, other:
        other.executescript(VERSION_1)
        other.execute("PRAGMA journal_mode = WAL")
        # Keys with a gap; answers of several sizes; a campaign without reports.
        for key, name, count in [(1, "z", 2000), (3, "b", 1), (4, "empty", 0)]:
            held[name] = {
                rng.randbytes(16): [
                    (q, rng.randrange(-(2**63), 2**63)) for q in range(rng.randint(1, 3))
                ]
                for _ in range(count)
            }
            other.execute(
                "INSERT INTO campaign VALUES (?, ?, ?, 3, ?, ?)",
                (key, name, b"bytes of " + name.encode(), name == "b", count),
            )
            rows = [(key, report_id, pack(answers)) for report_id, answers in held[name].items()]
            other.executemany("INSERT INTO report VALUES (?, ?, ?)", rows)
            for query, sums in expected(held[name]).items():
                other.execute(
                    "INSERT INTO query_sum VALUES (?, ?, ?, ?, ?)",
                    (key, query, sums.n, str(sums.total), str(sums.total_of_squares)),
                )
    return held


def expected(reports: dict[bytes, list[tuple[int, int]]]) -> dict[int, Accumulator]:
    answers = [answer for of_one in reports.values() for answer in of_one]
    return {q: Accumulator.of(v for i, v in answers if i == q) for q in {q for q, _ in answers}}


def test_version_1_is_upgraded_without_loss(
    database: Path, old: dict[str, dict[bytes, list[tuple[int, int]]]], tmp_path: Path
) -> None:
    backup(database, tmp_path / "copy")
    assert "version 1, this version of geoveil needs 6: run `geoveil db upgrade`" in refusal(
        database
    )
    assert upgrade(database) == Upgrade(before=1, after=6)
    assert upgrade(tmp_path / "copy") == Upgrade(before=1, after=6)
    assert check(database).faults == ()
    assert check(database).reports == 2001
    with open_store(database) as store:
        records = store.list_campaigns()
        # A report that is sent again must find its block where it was.
        assert [record.block_key is not None for record in records] == [False, False, True]
        assert records == [
            CampaignRecord(
                campaign_id=name,
                published=seal(b"bytes of " + name.encode()),
                queries=3,
                block_key=record.block_key,
                closed=name == "b",
                reports=len(reports),
            )
            for record, (name, reports) in zip(records, old.items(), strict=True)
        ]
        for name, reports in old.items():
            sums = expected(reports)
            assert store.totals(name) == [sums.get(q, Accumulator()) for q in range(3)]
            again = [PackedReport(i, pack(answers)) for i, answers in reports.items()]
            other = [PackedReport(i, pack([*answers, (0, 1)])) for i, answers in reports.items()]
            submissions = [Submission(name, again, True), Submission(name, other, True)]
            for of_one, outcome in zip(
                store.commit(submissions), (Outcome.DUPLICATE, Outcome.ID_CONFLICT), strict=True
            ):
                assert of_one == [outcome] * len(reports)
        new = Submission("z", [PackedReport(b"n" * 16, pack([(0, 1)]))], True)
        assert store.commit([new]) == [[Outcome.ACCEPTED]]
    assert check(database).faults == ()
    with closing(sqlite3.connect(database)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
        assert not names & {"geoveil_schema", "report", "old_campaign", "old_query_sum"}


_OLD_REPORTS = (
    "CREATE TABLE old AS SELECT (slot >> 44)::int AS campaign_key, report_id, answers FROM report"
    " UNION ALL SELECT * FROM report_beside",
    "DROP TABLE report, report_beside",
    "DROP FUNCTION insert_new_reports",
    "ALTER TABLE old RENAME TO report",
    "ALTER TABLE report ADD PRIMARY KEY (campaign_key, report_id)",
)


def test_version_2_is_upgraded_without_loss(
    target: Path | str, execute: Callable[..., list[tuple[Any, ...]]]
) -> None:
    with open_store(target) as store:
        batch = fill(store)
        # Ids of one word, for which PostgreSQL had the same slot; of two it has.
        ids = [bytes([0, 0, 0, 7]).rjust(size, b"\0").ljust(16, b"\0") for size in (4, 8, 16)]
        batch.append(Submission("a", [PackedReport(one, pack([(0, 5)])) for one in ids], True))
        store.commit(batch)
        store.create_campaign(CampaignRecord(campaign_id="new", published=b"n", queries=32))
        before = [store.totals(name) for name in ("a", "new")]
    execute("ALTER TABLE campaign DROP COLUMN block_key")
    for later in ("report_day", "campaign_plan"):
        execute(f"DROP TABLE {later}")
    if isinstance(target, str):
        for statement in _OLD_REPORTS:
            execute(statement)
    execute(f"UPDATE {VERSION_TABLE} SET version_num = '0002'")
    assert "version 2, this version of geoveil needs 6" in refusal(target)
    assert upgrade(target) == Upgrade(before=2, after=6)
    assert check(target).faults == ()
    with open_store(target) as store:
        assert [store.totals(name) for name in ("a", "new")] == before
        assert store.get_campaign("a").block_key is None
        assert len(store.get_campaign("new").block_key or b"") == 16
        again = [outcome for of_one in store.commit(batch) for outcome in of_one]
        assert set(again) == {Outcome.DUPLICATE}


def test_an_upgrade_that_fails_leaves_the_old_database(
    database: Path,
    old: dict[str, dict[bytes, list[tuple[int, int]]]],
) -> None:
    with closing(sqlite3.connect(database)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ServiceError) as caught:
            upgrade(database, busy_timeout_s=0.01)
        assert caught.value.code is Code.STORE_UNAVAILABLE
        other.rollback()
        # Found to be missing only when the tables were made and the campaigns moved.
        other.execute("DROP TABLE query_sum")
        other.commit()
        before = list(other.iterdump())
        with pytest.raises(ServiceError):
            upgrade(database)
        assert list(other.iterdump()) == before


def test_a_sound_database_has_no_faults(target: Path | str) -> None:
    with open_store(target) as store:
        fill(store)
    found = check(target)
    assert (found.campaigns, found.reports, found.faults) == (2, 2000, ())


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("UPDATE report_count SET reports = 999 WHERE campaign_key = 1", "999 reports are counted"),
        ("UPDATE query_sum SET n = n + 1 WHERE query_index = 1 AND campaign_key = 1", "1 queries"),
        ("DELETE FROM query_sum WHERE campaign_key = 1", "the sums of 2 queries"),
        ("DELETE FROM report_count WHERE campaign_key = 1", "0 reports are counted, 1,000 are st"),
    ],
)
def test_counters_that_are_not_those_of_the_reports_are_found(
    target: Path | str, execute: Callable[..., list[tuple[Any, ...]]], damage: str, fault: str
) -> None:
    with open_store(target) as store:
        fill(store)
    execute(damage)
    (line,) = check(target).faults
    assert line.startswith("campaign a: ")
    assert fault in line


def test_reports_stored_twice_are_found(database: Path) -> None:
    with open_store(database) as store:
        fill(store)
    with closing(sqlite3.connect(database)) as other, other:
        other.execute(
            "INSERT INTO report_page SELECT campaign_key, first + 5000, ids, answers"
            " FROM report_page WHERE campaign_key = 1 AND first = 0"
        )
    assert "campaign a: 256 reports are stored twice" in check(database).faults


def test_a_copy_is_complete(
    target: Path | str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    postgres_server: PostgresServer,
) -> None:
    monkeypatch.setenv("PATH", str(postgres_server.programs), prepend=":")
    copy = tmp_path / "copy"
    with open_store(target) as store:
        batch = fill(store)
        totals = store.totals("a")
    backup(target, copy)
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy"]
    with pytest.raises(ParameterError, match="a new file"):
        backup(target, copy)
    restore = nullcontext if isinstance(target, Path) else postgres_server.restored
    with restore(copy) as restored:
        assert check(restored).reports == 2000
        assert check(restored).faults == ()
        with open_store(restored) as store:
            assert store.totals("a") == totals
            assert {o for of_one in store.commit(batch) for o in of_one} == {Outcome.DUPLICATE}


def test_without_pg_dump_there_is_no_copy_of_postgresql(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(postgres_url).close()
    monkeypatch.setenv("PATH", str(tmp_path))
    with psycopg.connect(postgres_url) as connection:
        needed = connection.info.server_version // 10_000
    program = tmp_path / "pg_dump"
    expected = f"takes pg_dump of PostgreSQL {needed} or later on the PATH, and "
    for said, found in [
        (None, "there is none"),
        (f"pg_dump (PostgreSQL) {needed - 1}.9 (Debian)", f"{program} is of version {needed - 1}"),
        ("something else", f"{program} is of no version it tells"),
    ]:
        if said is not None:
            program.write_text(f"#!/bin/sh\necho '{said}'\n")
            program.chmod(0o755)
        with pytest.raises(ServiceError, match=re.escape(expected + found)):
            backup(postgres_url, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == [program]


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_databases_their_logs_and_copies_are_their_owners_alone(tmp_path: Path) -> None:
    """Whatever the mask of the process; also one that was wider, and one that is upgraded."""
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
            backup(database, tmp_path / "copy")
            assert modes(tmp_path) == {**everything, "copy": 0o600}
        (tmp_path / "copy").chmod(0o644)
        upgrade(tmp_path / "copy")
        upgrade(tmp_path / "new")
        assert set(modes(tmp_path).values()) == {0o600}
    finally:
        os.umask(before)


def test_what_is_no_database_of_ours_keeps_its_mode(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a database, and none of ours")
    other.chmod(0o644)
    for use in (open_store, upgrade, check, lambda path: backup(path, tmp_path / "copy")):
        with pytest.raises(ServiceError):
            use(other)
    assert modes(tmp_path) == {"notes.txt": 0o644}


def test_opening_a_database_again_keeps_its_locks(database: Path) -> None:
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


def test_what_is_not_there_is_neither_made_nor_copied(tmp_path: Path) -> None:
    missing = tmp_path / "missing.sqlite"
    with pytest.raises(ParameterError, match="a file that exists"):
        check(missing)
    with pytest.raises(ParameterError, match="a file that exists"):
        backup(missing, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []
    shutil.copy(__file__, missing)
    with pytest.raises(ServiceError, match="not a database"):
        backup(missing, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == [missing]
