"""Test the PostgreSQL store: many processes, transactions in flight, failures."""

import logging
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import psycopg
import pytest
from sqlalchemy import text

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport, pack, unpack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission, postgres_counting
from geoveil.aggregator.store.maintenance import check_database
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.aggregator.store.schema import SLOT_BITS, slots
from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator

from .refusals import refuses

ACCEPTED, DUPLICATE, NOT_OPEN = Outcome.ACCEPTED, Outcome.DUPLICATE, Outcome.NOT_OPEN
CONFLICT = Outcome.ID_CONFLICT
CAMPAIGN = CampaignRecord(campaign_id="a", published=b"a", queries=1)
PATIENCE_S = 30.0


def reports(*numbers: int, to: str = "a", value: int | None = None) -> Submission:
    packed = [
        PackedReport(n.to_bytes(16, "big"), pack([(0, n if value is None else value)]))
        for n in numbers
    ]
    return Submission(to, packed, True)


@pytest.fixture
def store(postgres_url):
    with PostgresStore(postgres_url) as opened:
        opened.create_campaign(CAMPAIGN)
        yield opened


@contextmanager
def transaction(url: str) -> Iterator[psycopg.Connection[Any]]:
    """Another process in the middle of a transaction."""
    connection = psycopg.connect(url)
    try:
        yield connection
    finally:
        connection.close()


INSERT = "INSERT INTO report VALUES ((1::bigint << 44) + 7, %s::uuid, %s)"
SEVEN = "00000000-0000-0000-0000-000000000007"


@pytest.mark.parametrize(
    ("value", "commits", "outcome"),
    [
        (7, True, Outcome.DUPLICATE),
        (8, True, Outcome.ID_CONFLICT),
        (7, False, Outcome.ACCEPTED),
        (8, False, Outcome.ACCEPTED),
    ],
)
def test_the_same_id_in_flight_elsewhere_is_waited_for(
    store, postgres_url, value, commits, outcome
):
    with transaction(postgres_url) as other:
        other.execute(INSERT, (SEVEN, pack([(0, value)])))
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(commit_apart, postgres_url, reports(6, 7, 8))
            wait_for_blocked(postgres_url, 1)
            other.commit() if commits else other.rollback()
            assert future.result(PATIENCE_S) == [[ACCEPTED, outcome, ACCEPTED]]


def commit_apart(url: str, submission: Submission) -> list[list[Outcome]]:
    with PostgresStore(url) as mine:
        return mine.commit([submission])


def close_apart(url: str) -> None:
    with PostgresStore(url) as mine:
        mine.close_campaign("a")


def test_closing_waits_for_commits_in_flight_and_later_ones_see_it(store, postgres_url):
    with transaction(postgres_url) as blocker, ThreadPoolExecutor(3) as pool:
        blocker.execute(INSERT, (SEVEN, pack([(0, 7)])))
        first = pool.submit(commit_apart, postgres_url, reports(7, 8))
        wait_for_blocked(postgres_url, 1)
        closing = pool.submit(close_apart, postgres_url)
        wait_for_blocked(postgres_url, 2)
        later = pool.submit(commit_apart, postgres_url, reports(9))
        wait_for_blocked(postgres_url, 3)
        assert not closing.done()
        blocker.rollback()
        assert first.result(PATIENCE_S) == [[ACCEPTED, ACCEPTED]]
        closing.result(PATIENCE_S)
        assert later.result(PATIENCE_S) == [[NOT_OPEN]]
    assert store.commit([reports(7, 9)]) == [[DUPLICATE, NOT_OPEN]]
    assert store.totals("a") == [Accumulator.of([7, 8])]


def wait_for_blocked(url: str, count: int) -> None:
    """Return once so many wait for a lock."""
    deadline = time.monotonic() + PATIENCE_S
    query = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(query).fetchone() != (count,):
            assert time.monotonic() < deadline
            time.sleep(0.005)


def test_a_lock_held_for_too_long_is_unavailable_and_heals(store, postgres_url):
    with (
        transaction(postgres_url) as other,
        PostgresStore(postgres_url, busy_timeout_s=0.05) as mine,
    ):
        other.execute(INSERT, (SEVEN, pack([(0, 7)])))
        for _ in range(2):
            with refuses(Code.STORE_UNAVAILABLE) as caught:
                mine.commit([reports(7, 8)])
            assert "lock timeout" in caught.value.detail
        assert mine.totals("a") == [Accumulator()]  # readers don't wait
        other.rollback()
        assert mine.commit([reports(7, 8)]) == [[ACCEPTED, ACCEPTED]]


def in_few_slots(key: int, ids: bytes) -> np.ndarray:
    return (key << SLOT_BITS) + slots(0, ids) % 1_000


@pytest.mark.deep
@pytest.mark.parametrize("slotted", [slots, in_few_slots])
def test_overlapping_batches_from_many_stores_at_once(postgres_url, slotted, monkeypatch):
    """Three replicas, each submitting most of 3,000 reports to two campaigns in random order."""
    monkeypatch.setattr(postgres_counting, "slots", slotted)
    writers, ids, rounds = 3, 3_000, 30
    start = threading.Barrier(writers)

    def write(seed: int) -> list[tuple[str, int, Outcome]]:
        rng = Random(seed)
        told = []
        start.wait(PATIENCE_S)
        with PostgresStore(postgres_url) as mine:  # of an empty database, all at once
            for name in ("a", "b"):
                campaign = CampaignRecord(campaign_id=name, published=b"x", queries=1)
                mine.create_campaign(campaign)
            for _ in range(rounds):
                names = rng.choices("ab", k=3)
                numbers = [rng.sample(range(1, ids), 100) for _ in names]
                batch = [reports(*n, to=name) for name, n in zip(names, numbers, strict=True)]
                for name, n, outcomes in zip(names, numbers, mine.commit(batch), strict=True):
                    told += zip([name] * len(n), n, outcomes, strict=True)
        return told

    with ThreadPoolExecutor(writers) as pool:
        futures = [pool.submit(write, seed) for seed in range(writers)]
        told = [entry for future in futures for entry in future.result(4 * PATIENCE_S)]
    accepted = [(name, n) for name, n, outcome in told if outcome is ACCEPTED]
    assert len(accepted) == len(set(accepted))
    assert set(accepted) == {(name, n) for name, n, _ in told}
    assert {outcome for _, _, outcome in told} == {ACCEPTED, DUPLICATE}
    with PostgresStore(postgres_url) as reader:
        for name in ("a", "b"):
            values = [n for campaign, n in accepted if campaign == name]
            assert reader.totals(name) == [Accumulator.of(values)]
            assert reader.get_campaign(name).reports == len(values)
    assert check_database(postgres_url).faults == ()


def test_reports_in_the_same_slot_are_counted_apart(store, postgres_url, monkeypatch):
    """Ids whose halves differ alike: the first is in the slot, the others beside it."""
    ids = [np.array([n ^ k, k], ">u8").tobytes() for n in (7, 8) for k in range(4)]
    assert len(set(slots(1, b"".join(ids)).tolist())) == 2
    packed = [PackedReport(one, pack([(0, i)])) for i, one in enumerate(ids)]
    other = [PackedReport(one, pack([(0, 99)])) for one in ids]
    first, second = packed[:3], packed[3:]
    assert store.commit([Submission("a", [*first, first[2], other[1]], True)]) == [
        [ACCEPTED] * 3 + [DUPLICATE, CONFLICT]
    ]
    assert store.commit([Submission("a", second, False)]) == [[NOT_OPEN] * 5]
    assert store.commit([Submission("a", packed, True)]) == [[DUPLICATE] * 3 + [ACCEPTED] * 5]
    assert store.commit([Submission("a", other, True)]) == [[CONFLICT] * 8]
    assert store.commit([Submission("a", packed, False)]) == [[DUPLICATE] * 8]
    # Another campaign has slots of its own.
    store.create_campaign(CampaignRecord(campaign_id="b", published=b"b", queries=1))
    assert store.commit([Submission("b", packed, True)]) == [[ACCEPTED] * 8]
    for name in ("a", "b"):
        assert store.totals(name) == [Accumulator.of(range(8))]
        for limit in (1, 2, 3, 100):
            found, after = [], b""
            while after is not None:
                page, after = store.answers(name, after, limit)
                found += [value for _, value in unpack(page)]
            assert sorted(found) == list(range(8))
    with psycopg.connect(postgres_url) as connection:
        held = connection.execute("SELECT count(*) FROM report_beside").fetchone()
    assert held == (12,)
    assert check_database(postgres_url).faults == ()
    # Control: a report that is not put beside is counted and not stored.
    monkeypatch.setattr(postgres_counting, "_INSERT_BESIDE", postgres_counting._INSERT)
    lost = PackedReport(bytes.fromhex("00000000000000030000000000000004"), pack([(0, 1)]))
    assert store.commit([Submission("b", [lost], True)]) == [[ACCEPTED]]
    assert check_database(postgres_url).faults != ()


def test_new_reports_are_inserted_without_looking_for_them_until_one_is_known(store, monkeypatch):
    looked = []
    insert = postgres_counting._INSERT

    class Counted(str):
        def encode(self, *args: str) -> bytes:
            looked.append(True)
            return super().encode(*args)

    def looks(submission: Submission) -> bool:
        looked.clear()
        assert ACCEPTED in store.commit([submission])[0]
        return bool(looked)

    monkeypatch.setattr(postgres_counting, "_INSERT", Counted(insert))
    assert not any(looks(reports(n, n + 1)) for n in range(0, 20, 2))
    assert looks(reports(18, 20))  # one is known
    told = [looks(reports(n)) for n in range(30, 60)]
    assert told == [True] * postgres_counting._WARY + [False] * (30 - postgres_counting._WARY)
    assert looks(reports(100, 100))
    assert store.totals("a") == [Accumulator.of([*range(21), *range(30, 60), 100])]


@pytest.mark.parametrize("until", [None, datetime(2030, 1, 1, tzinfo=UTC)])
def test_the_last_campaign_that_slots_have_room_for(store, postgres_url, until):
    def create(name: str) -> None:
        store.create_campaign(replace(CAMPAIGN, campaign_id=name, delete_after=until))

    last = (1 << (63 - SLOT_BITS)) - 1
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"ALTER TABLE campaign ALTER campaign_key RESTART {last}".encode())
    create("last")
    batch = [Submission("last", [PackedReport(b"\xff" * 8 + bytes(8), pack([(0, 1)]))], True)]
    assert store.commit(batch) == [[ACCEPTED]]
    assert store.commit(batch) == [[DUPLICATE]]
    assert store.answers("last").packed == batch[0].reports[0].answers
    with pytest.raises(ServiceError, match="maximum value"):
        create("one more")
    assert check_database(postgres_url).faults == ()


def test_each_writer_has_a_shard_of_its_own(store, postgres_url):
    def shards() -> list[tuple[int, int]]:
        with psycopg.connect(postgres_url) as connection:
            query = "SELECT shard, n FROM query_sum ORDER BY shard"
            return connection.execute(query).fetchall()

    with PostgresStore(postgres_url) as second:
        store.commit([reports(1)])
        second.commit([reports(2, 3)])
        assert shards() == [(0, 1), (1, 2)]
        # While one is in the middle of a transaction, the other goes on.
        with transaction(postgres_url) as other:
            other.execute("UPDATE query_sum SET n = n WHERE shard = 0")
            second.commit([reports(4)])
            assert second.totals("a") == [Accumulator.of([1, 2, 3, 4])]
    with PostgresStore(postgres_url) as third:  # takes the shard that became free
        third.commit([reports(5)])
    assert shards() == [(0, 1), (1, 4)]


FAILING = """
CREATE SEQUENCE attempts;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('attempts') <= %s THEN RAISE EXCEPTION 'chosen' USING ERRCODE = '%s'; END IF;
    RETURN NEW; END $$;
CREATE TRIGGER fail BEFORE INSERT ON query_sum FOR EACH ROW EXECUTE FUNCTION fail()
"""


@pytest.mark.parametrize(("state", "failures"), [("40001", 7), ("40P01", 8)])
def test_transactions_given_up_for_others_are_done_again_up_to_a_bound(
    store, postgres_url, state, failures
):
    with psycopg.connect(postgres_url) as connection:
        connection.execute((FAILING % (failures, state)).encode())
    if failures < 8:
        assert store.commit([reports(1, 2)]) == [[ACCEPTED, ACCEPTED]]
    else:
        with refuses(Code.STORE_UNAVAILABLE):
            store.commit([reports(1, 2)])
        assert store.totals("a") == [Accumulator()]
        assert store.get_campaign("a").reports == 0
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT last_value FROM attempts").fetchone() == (8,)


def test_other_failures_are_not_tried_again(store, postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute((FAILING % (100, "53100")).encode())  # disk full
    with refuses(Code.STORE_UNAVAILABLE) as caught:
        store.commit([reports(1)])
    assert caught.value.detail == "chosen (53100)"
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT last_value FROM attempts").fetchone() == (1,)


def test_commits_are_durable_whatever_the_default(store, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off',"
            " current_database()); END $$"
        )
        connection.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation ="
            " ''serializable''', current_database()); END $$"
        )
    with PostgresStore(postgres_url) as mine:
        for setting, value in [
            ("synchronous_commit", "on"),
            ("transaction_isolation", "read committed"),
        ]:
            query = text(f"SHOW {setting}")
            assert mine.run(lambda c, query=query: c.execute(query).scalar_one()) == value


def test_errors_and_logs_hide_reports(store, postgres_url, caplog):
    with psycopg.connect(postgres_url) as connection:  # a database that refuses, with details
        connection.execute("ALTER TABLE report ADD CHECK (octet_length(answers) > 99)")
    secret = PackedReport(b"secret id secret", pack([(0, 4711)]))
    with caplog.at_level(logging.DEBUG), pytest.raises(ServiceError) as caught:
        store.commit([Submission("a", [secret], True)])
    links: list[BaseException | None] = [caught.value]
    while (link := links[-1]) is not None:
        links.append(link.__cause__ or link.__context__)
    logged = " ".join(str(vars(record)) for record in caplog.records)  # fields included
    told = logged + "".join(f"{link!s}{link!r}" for link in links)
    assert "violates check constraint" in logged
    for hidden in ("secret", secret.report_id.hex(), pack([(0, 4711)]).hex(), "73656372-6574"):
        assert hidden not in told


def test_what_cannot_be_reached_is_unavailable_and_hides_the_password():
    url = "postgresql://me:hunter2@127.0.0.1:1/nothing"
    with refuses(Code.STORE_UNAVAILABLE) as caught:
        PostgresStore(url)
    assert "hunter2" not in f"{caught.value}{caught.value!r}{caught.value.__cause__}"


@pytest.mark.parametrize(
    "url", ["mysql://me:hunter2@host/reports", "postgresql://me:hunter2@[", "x://"]
)
def test_urls_of_something_else_are_refused(url):
    with pytest.raises(ParameterError) as caught:
        PostgresStore(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.name == "database"


def test_a_schema_of_its_own_in_a_database_of_others(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE diary (page TEXT)")
        connection.execute("CREATE SCHEMA geoveil")
    with pytest.raises(ServiceError, match="another program's tables"):
        PostgresStore(postgres_url)
    url = f"{postgres_url}&options=-csearch_path%3Dgeoveil"
    with PostgresStore(url) as store:
        store.create_campaign(CAMPAIGN)
        assert store.commit([reports(1, 2)]) == [[ACCEPTED, ACCEPTED]]
    assert check_database(url).reports == 2
    with psycopg.connect(postgres_url) as connection:
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
        assert connection.execute(query).fetchone() == (1,)


@pytest.fixture
def small_disk(postgres_server):
    """URL of a database in a file system of its own, and a folder there."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o711)  # the server is another user
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        place.rmdir()
        pytest.skip("a file system can't be mounted here")
    try:
        with postgres_server.database(tablespace=place / "data") as url:
            yield url, place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


def test_a_full_disk_loses_nothing(small_disk):
    url, place = small_disk
    batch = [reports(*range(200))]
    with PostgresStore(url) as store:
        store.create_campaign(CAMPAIGN)
        ballast = place / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(place).free)
        with refuses(Code.STORE_UNAVAILABLE) as caught:
            store.commit(batch)
        assert "53100" in caught.value.detail
        assert store.get_campaign("a").reports == 0
        ballast.unlink()
        assert store.commit(batch) == [[ACCEPTED] * 200]
        assert store.commit(batch) == [[DUPLICATE] * 200]
    assert check_database(url).faults == ()
