"""PostgreSQL through lost connections, and campaigns dropped as one partition."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random

import psycopg
import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.grpc import server
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.aggregator.store.maintenance import check_database
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.gp.estimation import Accumulator
from geoveil.proto.v1.report_pb2 import (
    REJECTION_REASON_NOT_OPEN,
    REPORT_STATUS_ACCEPTED,
    REPORT_STATUS_DUPLICATE,
    REPORT_STATUS_REJECTED,
)

from .conftest import CLOSES, Published
from .cutting_proxy import cutting_proxy
from .refusals import refuses

MOST_ROUNDS = 40
DEEP = pytest.mark.deep


@pytest.fixture
def proxy(postgres_url):
    with (
        tempfile.TemporaryDirectory() as folder,
        cutting_proxy(postgres_url, Path(folder)) as running,
    ):
        yield running


def submissions(k: int) -> list[Submission]:
    """Return reports to two campaigns, as many different ones as wanted."""
    return [
        Submission(
            name,
            [PackedReport((100 * k + i).to_bytes(16, "big"), pack([(0, i)])) for i in range(20)],
            True,
        )
        for name in ("b", "a")
    ]


def attempt(
    store: PostgresStore, batch: list[Submission]
) -> tuple[Code | None, list[list[Outcome]]]:
    try:
        return None, store.commit(batch)
    except ServiceError as error:
        return error.code, []


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    ("warm", "killed"),
    [
        pytest.param(False, False, id="new connection, answer lost"),
        pytest.param(True, True, id="open connection, server process ended"),
        pytest.param(False, True, id="new connection, server process ended", marks=DEEP),
        pytest.param(True, False, id="open connection, answer lost", marks=DEEP),
    ],
)
def test_cut_at_every_point(postgres_server, postgres_url, proxy, killed, warm):
    before = partial(postgres_server.kill_connections, postgres_url) if killed else None
    unknown = done = rounds = 0
    for name in ("a", "b"):
        with PostgresStore(postgres_url) as direct:
            direct.create_campaign(CampaignRecord(campaign_id=name, published=b"", queries=1))
    for k in range(1, MOST_ROUNDS):
        with PostgresStore(proxy.url) as store:
            if not warm:
                store._engine.dispose()
            proxy.arm(k, before)
            code, outcomes = attempt(store, submissions(k))
            if code is not None:
                assert code is Code.STORE_UNAVAILABLE
                proxy.arm(None)
                again = store.commit(submissions(k))  # the same store, which connects anew
                kinds = {outcome for of_one in again for outcome in of_one}
                assert len(kinds) == 1
                unknown += kinds == {Outcome.DUPLICATE}
                assert kinds <= {Outcome.ACCEPTED, Outcome.DUPLICATE}
            else:
                # Cut before the transaction, where a lost connection is replaced, or never.
                assert outcomes == [[Outcome.ACCEPTED] * 20] * 2
                done += proxy.rounds < k
                rounds = proxy.rounds
            proxy.arm(None)
            assert store.totals("a") == [Accumulator.of(list(range(20)) * k)]
            assert store.get_campaign("b").reports == 20 * k
        if done:
            break
    assert done, "the enumeration did not reach the end of a commit"
    assert rounds > 8
    # Exactly the answer to COMMIT, when lost, leaves everything done.
    assert unknown == (0 if killed else 1)
    assert check_database(postgres_url).faults == ()


def test_a_server_that_restarts_is_found_again(postgres_server, postgres_url):
    with PostgresStore(postgres_url) as store:
        for name in ("a", "b"):
            store.create_campaign(CampaignRecord(campaign_id=name, published=b"", queries=1))
        store.commit(submissions(1))
        postgres_server.stop()
        try:
            calls: list[Callable[[], object]] = [
                lambda: store.commit(submissions(2)),
                store.campaign_page,
                lambda: store.totals("a"),
            ]
            for call in calls:
                with refuses(Code.STORE_UNAVAILABLE):
                    call()
        finally:
            postgres_server.start()
        assert store.commit(submissions(1)) == [[Outcome.DUPLICATE] * 20] * 2
        assert store.commit(submissions(2)) == [[Outcome.ACCEPTED] * 20] * 2
        assert store.totals("a") == [Accumulator.of(list(range(20)) * 2)]


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


async def waited_for(holds: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if holds():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError


@pytest.mark.deep(keep=0)
async def test_servers_drop_a_partition_while_devices_send(
    start_server, publish, wire_report, clock, postgres_url, monkeypatch
):
    """Over gRPC, by the servers' own timers; a campaign beside it goes on."""
    monkeypatch.setattr(server, "_NOTE_FIRST_S", 0.0)
    monkeypatch.setattr(server, "_NOTE_S", 0.05)
    published = []
    for name, days, until in (("due", 0, CLOSES), ("kept", 30, None)):
        one = publish(queries=1, campaign_id=name).campaign
        one = replace(one, closes=CLOSES + timedelta(days=days), delete_after=until)
        published.append(Published.of(one))
    wires = [(await start_server(database=DatabaseURL(postgres_url))).wire for _ in range(2)]
    for one in published:
        await wires[0].create(one)
    answered: list[tuple[str, int, tuple[int, int], str]] = []
    phase = "open"

    async def send(wire, seed):
        random = Random(seed)
        while phase != "over":
            for one in published:
                sent, began = random.sample(range(1, 2_000), 20), phase
                for n, got in zip(
                    sent,
                    await wire.submit(one, *(wire_report(n, (0, n)) for n in sent)),
                    strict=True,
                ):
                    answered.append((one.campaign_id, n, (got.status, got.reason), began))

    async with asyncio.TaskGroup() as senders:
        for seed, wire in enumerate(wires * 2):
            senders.create_task(send(wire, seed))
        await waited_for(lambda: len(answered) >= 2_000)
        clock.now = CLOSES + timedelta(days=2)
        await waited_for(lambda: "report_1" not in partitions(postgres_url))
        phase, dropped = "dropped", len(answered)
        await waited_for(lambda: len(answered) >= dropped + 2_000)
        phase = "over"
    accepted, known = (REPORT_STATUS_ACCEPTED, 0), (REPORT_STATUS_DUPLICATE, 0)
    refused = (REPORT_STATUS_REJECTED, REJECTION_REASON_NOT_OPEN)
    for one in published:
        of_one = [each for each in answered if each[0] == one.campaign_id]
        counted = [n for _, n, answer, _ in of_one if answer == accepted]
        assert len(set(counted)) == len(counted)
        sums = Accumulator.of(counted)
        expected = [(sums.n, sums.total, sums.total_of_squares)]
        assert [await wire.sums(one) for wire in wires] == [expected] * 2
        late = {answer for *_, answer, began in of_one if began == "dropped"}
        assert late == ({refused} if one.campaign_id == "due" else late & {accepted, known})
    assert known in {answer for name, _, answer, _ in answered if name == "due"}
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
