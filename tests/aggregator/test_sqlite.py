"""The SQLite store: its file, failures and privacy; and its index of ids against a dict."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from sqlalchemy.exc import IntegrityError

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission, id_index
from geoveil.aggregator.store.id_index import IdIndex
from geoveil.aggregator.store.schema import METADATA
from geoveil.gp.estimation import Accumulator

from .refusals import refuses

CAMPAIGN = CampaignRecord(campaign_id="a", published=b"a", queries=1)


def batch(first: int, count: int) -> list[Submission]:
    """Return `count` reports with ids in random order."""
    ids = Random(first)
    reports = [PackedReport(ids.randbytes(16), pack([(0, first + i)])) for i in range(count)]
    return [Submission("a", reports, True)]


def unusable(path: Path) -> str:
    with refuses(Code.DATABASE_UNUSABLE) as caught:
        SQLiteStore(path)
    return str(caught.value)


def test_the_file_is_durable_and_checked(store, database):
    def pragma(name: str) -> object:
        with store._engine.connect() as connection:
            return connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == 2  # FULL
    assert pragma("busy_timeout") == 5000
    store.create_campaign(CAMPAIGN)
    store.commit(batch(0, 100))
    with sqlite3.connect(database) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    other.close()


def test_files_that_are_no_database_are_refused(database, tmp_path):
    database.write_bytes(b"Dear diary, " * 1000)
    assert "not a database" in unusable(database)
    missing = tmp_path / "missing" / "reports.sqlite"
    assert f"unable to open database file ({missing})" in unusable(missing)


def test_no_column_could_tell_who_sent_a_report_or_when(store, database):
    columns = {
        "campaign": {
            *("campaign_key", "campaign_id", "published", "queries", "block_key", "closed"),
            *("opens", "closes", "delete_after", "deleted"),
        },
        "geoveil_revision": {"version_num"},
        "query_sum": {
            *("campaign_key", "shard", "query_index", "n", "total", "total_of_squares"),
        },
        "report_count": {"campaign_key", "shard", "reports"},
        "report_day": {"campaign_key", "day", "reports"},  # in all, by the end of whole days
        "campaign_plan": {"campaign_key", "participants"},
        "report_page": {"campaign_key", "first", "ids", "answers"},
        "report": {"slot", "report_id", "answers"},  # in PostgreSQL, as the next
        "report_beside": {"campaign_key", "report_id", "answers"},
    }
    assert {t.name: {c.name for c in t.columns} for t in METADATA.tables.values()} == columns
    # Nor is the order of arrival kept within a page, not by a hidden row number either.
    store.create_campaign(CAMPAIGN)
    (submission,) = batch(0, 50)
    for report in submission.reports:
        store.commit([Submission("a", [report], True)])
    with closing(sqlite3.connect(database)) as other:
        with pytest.raises(sqlite3.OperationalError, match="no such column: rowid"):
            other.execute("SELECT rowid FROM report_page")
        ((ids, answers),) = other.execute("SELECT ids, answers FROM report_page").fetchall()
    assert ids == b"".join(sorted(r.report_id for r in submission.reports))
    assert answers == b"".join(r.answers for r in sorted(submission.reports))
    assert ids != b"".join(r.report_id for r in submission.reports)


def test_a_full_disk_changes_nothing_and_heals(store):
    store.create_campaign(CAMPAIGN)
    store.commit(batch(0, 10))

    def limit(pages: int) -> None:
        with store._engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    limit(20)
    with refuses(Code.STORE_UNAVAILABLE) as caught:
        store.commit(batch(1000, 5000))
    assert "full" in caught.value.detail
    assert store.totals("a") == [Accumulator.of(range(10))]
    assert store.get_campaign("a").reports == 10
    limit(1 << 30)
    assert set(store.commit(batch(1000, 5000))[0]) == {Outcome.ACCEPTED}
    assert store.totals("a") == [Accumulator.of([*range(10), *range(1000, 6000)])]


def test_a_database_locked_for_too_long_is_unavailable_and_heals(database):
    with SQLiteStore(database, busy_timeout_s=0.01) as store:
        store.create_campaign(CAMPAIGN)
        other = sqlite3.connect(database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            with refuses(Code.STORE_UNAVAILABLE):
                store.commit(batch(0, 10))
        assert store.totals("a") == [Accumulator()]  # readers don't wait
        other.execute("ROLLBACK")
        other.close()
        assert store.commit(batch(0, 10)) == [[Outcome.ACCEPTED] * 10]


def test_errors_and_logs_hide_reports(store, database, caplog):
    store.create_campaign(CAMPAIGN)
    with closing(sqlite3.connect(database)) as other:  # a database that refuses what it gets
        other.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON report_page"
            " BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
    secret = PackedReport(b"secret id secret", pack([(0, 4711)]))
    with caplog.at_level(logging.DEBUG), pytest.raises(ServiceError) as caught:
        store.commit([Submission("a", [secret], True)])
    cause = caught.value.__cause__
    assert isinstance(cause, IntegrityError)
    logged = " ".join(str(vars(record)) for record in caplog.records)  # fields included
    for told in (str(cause), repr(cause), str(caught.value), logged):
        assert "secret" not in told
        assert "4711" not in told
    assert "refused" in logged
    assert store.totals("a") == [Accumulator()]


def test_ids_whose_fingerprints_agree_are_told_apart(store, database, monkeypatch):
    def coarse(_: IdIndex, ids: bytes) -> Any:
        return np.frombuffer(ids, "<u8")[::2] % 3 << np.uint64(32)

    monkeypatch.setattr(IdIndex, "_fingerprints", coarse)
    store.create_campaign(CAMPAIGN)
    first, second = batch(0, 150), batch(1000, 150)
    for new in (first, second):
        assert set(store.commit(new)[0]) == {Outcome.ACCEPTED}
        assert set(store.commit(new)[0]) == {Outcome.DUPLICATE}
    with SQLiteStore(database) as reopened:
        assert set(reopened.commit([*first, *second])[0]) == {Outcome.DUPLICATE}
    assert store.totals("a") == [Accumulator.of([*range(150), *range(1000, 1150)])]


@pytest.mark.deep
def test_each_id_is_indexed_once_by_stores_that_take_turns(store, database):
    store.create_campaign(CAMPAIGN)
    with SQLiteStore(database) as other:
        for n in range(150):
            for writer in (store, other):
                assert writer.commit(batch(n, 3)) == [
                    [Outcome.ACCEPTED if writer is store else Outcome.DUPLICATE] * 3
                ]
            writer.commit(batch(1000 + n, 1))
        for writer in (store, other):
            writer.commit(batch(5000, 1))
            (index,) = writer._indices.values()
            entries = [entry for run in index._runs() for entry in run]
            assert len(entries) == len(set(entries)) == 150 * 4 + 1


@pytest.mark.deep
def test_pages_are_filled_and_bounded(store, database):
    wide = CampaignRecord(campaign_id="wide", published=b"", queries=1000)
    for record in (CAMPAIGN, wide):
        store.create_campaign(record)
    for n in range(700):
        store.commit(batch(n, 1))
    reports = [
        PackedReport(n.to_bytes(16, "big"), pack([(q, q) for q in range(1000)])) for n in range(3)
    ]
    store.commit([Submission("wide", reports, True)])
    with closing(sqlite3.connect(database)) as other:
        query = "SELECT campaign_key, first, length(ids) / 16 FROM report_page"
        assert other.execute(query).fetchall() == [
            *[(1, 0, 256), (1, 256, 256), (1, 512, 188)],
            *[(2, 0, 1), (2, 1, 1), (2, 2, 1)],
        ]


def test_a_file_with_a_broken_page_is_refused_before_it_is_served(database, tmp_path):
    with SQLiteStore(database) as store:
        store.verify()  # the control: as it was written it is sound
    content = database.read_bytes()
    damaged = tmp_path / "damaged.sqlite"
    refused = 0
    for page in range(1, len(content) // 4096):
        torn = bytearray(content)
        torn[page * 4096 : (page + 1) * 4096] = 4096 * b"\xaa"
        damaged.write_bytes(torn)
        with pytest.raises(ServiceError) as caught, SQLiteStore(damaged) as store:
            store.verify()
        assert caught.value.code is Code.DATABASE_UNUSABLE
        assert "malformed" in str(caught.value)
        refused += 1
    assert refused >= 7  # a table or an index each


@pytest.fixture
def seeded(monkeypatch):
    """Fix the secret, so that the same fingerprints agree by chance every time."""
    monkeypatch.setattr(id_index.secrets, "token_bytes", Random(3).randbytes)


def joined(ids: list[bytes]) -> bytes:
    return b"".join(ids)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    "sizes",
    [
        [1] * 700,
        [1, 256, 3, 4096] * 20,
        pytest.param([20_000] * 12, marks=pytest.mark.deep),
    ],
)
def test_every_id_is_found_with_its_page_and_hardly_another(monkeypatch, sizes):
    monkeypatch.setattr(id_index, "_LARGEST", 40_000)  # so that some runs are merged no more
    monkeypatch.setattr(id_index, "_MOST_BITS", 18)  # and the filter can't grow with them
    rng = Random(len(sizes))
    index = IdIndex()
    pages: dict[bytes, int] = {}
    for size in sizes:
        first = len(pages)
        ids = [rng.randbytes(16) for _ in range(size)]
        index.add([(first, joined(ids))], first + size)
        pages |= dict.fromkeys(ids, first)
    known = list(pages)
    rng.shuffle(known)
    strangers = [rng.randbytes(16) for _ in range(2000)]
    found = index.find(joined([*known, *strangers]))
    expected = {(position, pages[report_id]) for position, report_id in enumerate(known)}
    assert expected <= set(found)
    # Others by chance only: 13.5 of 57.6e9 + 0.5e9 pairs of 240,000 reports, and less of fewer.
    assert len(found) - len(expected) < 50
    assert sum(len(run) for run in index._runs()) == len(pages)
    for asked in (known[:200], strangers[:200]):  # one at a time as together
        alone = [(i, page) for i, one in enumerate(asked) for _, page in index.find(one)]
        assert alone == sorted(index.find(joined(asked)))


@pytest.mark.usefixtures("seeded")
def test_runs_stay_few():
    rng = Random(1)
    index = IdIndex()
    for n in range(5000):
        index.add([(n, rng.randbytes(16))], n + 1)
    assert len(list(index._runs())) < 5 * id_index._RUNS


@pytest.mark.usefixtures("seeded")
def test_ids_that_differ_in_one_byte_differ_in_fingerprint():
    ids = {bytes(16)} | {
        bytes(at) + bytes([b]) + bytes(15 - at) for at in range(16) for b in range(1, 256)
    }
    index = IdIndex()
    index.add([(0, joined(sorted(ids)))], len(ids))
    (run,) = index._runs()
    assert len(set(run.tolist())) == len(ids)
