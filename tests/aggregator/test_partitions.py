"""Test that PostgreSQL drops the reports of a campaign as one partition, whatever happens."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain
from random import Random

import psycopg
import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.aggregator.store.maintenance import check_database
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.gp.estimation import Accumulator

ACCEPTED, DUPLICATE, NOT_OPEN = Outcome.ACCEPTED, Outcome.DUPLICATE, Outcome.NOT_OPEN
UNTIL = datetime(2030, 1, 1, tzinfo=UTC)
PATIENCE_S = 60.0


def reports(name: str, numbers) -> Submission:
    packed = [PackedReport(n.to_bytes(16), pack([(0, n)])) for n in numbers]
    return Submission(name, packed, True)


def campaign(name: str, until: datetime | None = UNTIL) -> CampaignRecord:
    return CampaignRecord(campaign_id=name, published=b"x", queries=1, delete_after=until)


@pytest.fixture
def store(postgres_url):
    """A store with reports that are due, and campaigns whose reports stay."""
    with PostgresStore(postgres_url) as opened:
        for record in (campaign("due"), campaign("later"), campaign("kept", None)):
            opened.create_campaign(record)
        opened.commit([reports("due", range(1, 1_001))])
        yield opened


def partitions(url: str) -> set[str]:
    query = "SELECT relid::text FROM pg_partition_tree('report') WHERE isleaf"
    with psycopg.connect(url) as connection:
        return {name for (name,) in connection.execute(query)}


@pytest.mark.deep(keep=0)
def test_a_partition_is_dropped_under_load(store, postgres_url):
    """Three servers submit new and known reports to three campaigns all the while."""
    names, writers, tables = ("due", "later", "kept"), 3, partitions(postgres_url)
    assert tables == {"report_kept", "report_1", "report_2"}
    dropped, under_way = threading.Event(), threading.Barrier(writers + 1)

    def write(seed: int) -> list[tuple[str, int, Outcome, bool]]:
        random, answered, rounds_after = Random(seed), [], 0
        with PostgresStore(postgres_url) as mine:
            for number in range(1_000_000):
                batch = {name: random.sample(range(1, 3_000), 50) for name in names}
                after = dropped.is_set()
                outcomes = mine.commit([reports(*each) for each in batch.items()])
                for (name, numbers), of_one in zip(batch.items(), outcomes, strict=True):
                    answered += [(name, n, o, after) for n, o in zip(numbers, of_one, strict=True)]
                if number == 10:
                    under_way.wait(PATIENCE_S)
                rounds_after += after
                if rounds_after == 10:
                    break
        return answered

    with ThreadPoolExecutor(writers) as pool:
        futures = [pool.submit(write, seed) for seed in range(writers)]
        under_way.wait(PATIENCE_S)
        assert not store.delete_reports("due")
        dropped.set()
        answered = list(chain.from_iterable(future.result(PATIENCE_S) for future in futures))
    for name in names:
        counted = [n for each, n, outcome, _ in answered if each == name and outcome is ACCEPTED]
        before = range(1, 1_001) if name == "due" else ()
        assert len({*counted, *before}) == len(counted) + len(before)
        assert store.totals(name) == [Accumulator.of([*counted, *before])]
        assert store.get_campaign(name).reports == len(counted) + len(before)
    seen = {(name, outcome) for name, _, outcome, after in answered if after}
    assert ("due", NOT_OPEN) in seen
    assert not {("due", ACCEPTED), ("due", DUPLICATE)} & seen
    assert {(name, outcome) for name, _, outcome, after in answered if not after} >= {
        ("due", ACCEPTED),
        ("due", DUPLICATE),
    }
    assert partitions(postgres_url) == {"report_kept", "report_2"}
    assert check_database(postgres_url).faults == ()


_PROGRAM = """
import sys, time
from geoveil.aggregator.store.postgres import PostgresStore

class Slow(PostgresStore):
    def _delete(self, *arguments):
        left = super()._delete(*arguments)
        print("dropped, and not committed", flush=True)
        time.sleep(600)
        return left

with Slow(sys.argv[1]) as store:
    store.delete_reports("due")
"""


def test_a_server_that_is_killed_in_the_middle_has_dropped_nothing(store, postgres_url):
    sums = store.totals("due")
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, postgres_url],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process, ThreadPoolExecutor(1) as pool:
        process.stdout.readline()
        waiting = pool.submit(store.commit, [reports("due", range(1, 1_011))])
        process.send_signal(signal.SIGKILL)
        assert waiting.result(PATIENCE_S) == [[DUPLICATE] * 1_000 + [ACCEPTED] * 10]
    assert store.due(UNTIL) == ["due", "later"]
    assert check_database(postgres_url).faults == ()
    sums = [sums[0] + Accumulator.of(range(1_001, 1_011))]
    for _ in range(2):
        assert not store.delete_reports("due")
        assert store.commit([reports("due", range(1, 1_021))]) == [[NOT_OPEN] * 1_020]
        assert store.totals("due") == sums
    assert store.due(UNTIL) == ["later"]
    assert check_database(postgres_url).faults == ()


def test_a_backup_holds_up_a_drop_and_nothing_else(store, postgres_url):
    with psycopg.connect(postgres_url) as backup:
        backup.execute("SELECT count(*) FROM report")
        store.create_campaign(campaign("new"))
        with pytest.raises(ServiceError, match="lock timeout") as caught:
            store.delete_reports("due")
        assert caught.value.code is Code.STORE_UNAVAILABLE
        assert store.commit([reports("new", [1]), reports("due", [1, 1_001])]) == [
            [ACCEPTED],
            [DUPLICATE, ACCEPTED],
        ]
    assert not store.delete_reports("due")
    assert partitions(postgres_url) == {"report_kept", "report_2", "report_4"}


def test_pages_of_answers_hold_each_report_of_a_partition_once(store):
    random = Random(1)
    packed = [PackedReport(random.randbytes(16), pack([(0, i)])) for i in range(500)]
    store.commit([Submission("later", packed, True)])
    found, after = [], b""
    while after is not None:
        page = store.answers("later", after, 97)
        found, after = [*found, page.packed], page.after
    assert len(b"".join(found)) == 12 * 500
    held = b"".join(found)
    assert {held[at : at + 12] for at in range(0, len(held), 12)} == {r.answers for r in packed}
