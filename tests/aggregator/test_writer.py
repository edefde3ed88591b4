"""Group commit, back-pressure, failure and drain; and room: quotas, and a nearly full disk."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from geoveil.aggregator import Code, ServiceError, SQLiteStore, Writer
from geoveil.aggregator.domain.errors import public
from geoveil.aggregator.domain.reports import PackedColumns, PackedReport, pack
from geoveil.aggregator.domain.threads import Room
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.gp.estimation import Accumulator

from .refusals import refuses

PATIENCE_S = 30
"""After which a test that hangs fails."""


class HeldStore(SQLiteStore):
    """Commits when the test lets it, and as the test wants it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.entered = threading.Semaphore(0)
        self.released = threading.Semaphore(0)
        self.failure: Exception | None = None
        self.sizes: list[int] = []
        self.create_campaign(CampaignRecord(campaign_id="a", published=b"a", queries=1))

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        self.sizes.append(len(batch))
        self.entered.release()
        assert self.released.acquire(timeout=PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        return super().commit(batch)

    async def wait_until_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.acquire, timeout=PATIENCE_S)

    def release(self, times: int = 1000) -> None:
        self.released.release(times)


def submission(number: int, reports: int = 1) -> Submission:
    return Submission(
        "a",
        [
            PackedReport((number * 10_000 + i).to_bytes(16, "big"), pack([(0, number)]))
            for i in range(reports)
        ],
        True,
    )


class Held:
    def __init__(self, writer: Writer, store: HeldStore) -> None:
        self.writer = writer
        self.store = store

    def submit(self, number: int, reports: int = 1) -> "asyncio.Task[list[Outcome]]":
        return asyncio.create_task(self.writer.submit(submission(number, reports)))

    async def occupy(self) -> "asyncio.Task[list[Outcome]]":
        """Let the writer begin a transaction, which then waits for `release`."""
        task = self.submit(0)
        await self.store.wait_until_entered()
        return task

    async def sums(self) -> Accumulator:
        return (await self.writer.call(lambda store: store.totals("a")))[0]


@pytest.fixture
async def start(database):
    async with AsyncExitStack() as stack:

        async def started(**changes: Any) -> Held:
            stores: list[HeldStore] = []

            def open_store() -> HeldStore:
                stores.append(HeldStore(database))
                return stores[0]

            limits = {"queue_limit": 1000, "commit_limit": 1000, **changes}
            writer = Writer(open_store, **limits)
            await writer.start()
            held = Held(writer, stores[0])

            async def stop() -> None:
                held.store.release()
                await writer.stop()

            stack.push_async_callback(stop)
            return held

        yield started


async def settled(tasks: Sequence["asyncio.Task[list[Outcome]]"]) -> list[Any]:
    gathered = asyncio.gather(*tasks, return_exceptions=True)
    return await asyncio.wait_for(gathered, PATIENCE_S)


async def queued() -> None:
    """Let tasks that were just made run up to their first wait."""
    await asyncio.sleep(0)


async def test_what_comes_during_a_transaction_shares_the_next(start):
    held = await start()
    tasks = [await held.occupy(), *[held.submit(n) for n in range(1, 101)]]
    await queued()
    held.store.release()
    assert await settled(tasks) == [[Outcome.ACCEPTED]] * 101
    assert held.store.sizes == [1, 100]
    assert await held.sums() == Accumulator.of(range(101))


async def test_transactions_have_a_size(start):
    held = await start(commit_limit=10)
    first = await held.occupy()
    tasks = [held.submit(n, reports=4) for n in range(1, 6)] + [held.submit(6, reports=25)]
    await queued()
    held.store.release()
    assert [len(outcomes) for outcomes in await settled([first, *tasks])] == [1, 4, 4, 4, 4, 4, 25]
    assert held.store.sizes == [1, 2, 2, 1, 1]  # the last is larger than the limit, and goes alone


async def test_answers_go_to_whom_they_belong(start):
    held = await start()
    first = await held.occupy()
    tasks = [held.submit(1), held.submit(1), held.submit(2, 3)]
    await queued()
    held.store.release()
    accepted, duplicate = Outcome.ACCEPTED, Outcome.DUPLICATE
    assert await settled([first, *tasks]) == [[accepted], [accepted], [duplicate], [accepted] * 3]


async def test_a_full_queue_refuses_and_recovers(start):
    held = await start(queue_limit=10)
    first = await held.occupy()
    tasks = [held.submit(1, reports=6), held.submit(2, reports=4)]
    await queued()
    with refuses(Code.QUEUE_FULL):
        await held.writer.submit(submission(3))
    held.store.release()
    await settled([first, *tasks])
    assert await held.writer.submit(submission(3)) == [Outcome.ACCEPTED]
    assert await held.sums() == Accumulator.of([0, *[1] * 6, *[2] * 4, 3])


async def test_an_empty_queue_takes_anything(start):
    held = await start(queue_limit=10, commit_limit=10)
    held.store.release()
    assert await held.writer.submit(submission(1, reports=50)) == [Outcome.ACCEPTED] * 50


async def test_few_reports_do_not_wait_for_many(start):
    held = await start(commit_limit=1000, queue_limit=10_000)
    first = await held.occupy()
    many = [held.submit(n, reports=600) for n in (1, 2)]
    await queued()
    few = [held.submit(n) for n in range(3, 503)]
    await queued()
    held.store.release()
    await settled([first, *many, *few])
    assert held.store.sizes == [1, 500, 1, 1], "the large ones came first, and go last"
    assert await held.sums() == Accumulator.of([0, *[1] * 600, *[2] * 600, *range(3, 503)])


async def test_large_requests_leave_half_of_the_queue_to_others(start):
    held = await start(queue_limit=1000)
    first = await held.occupy()
    tasks = [held.submit(1, reports=450)]
    await queued()
    with refuses(Code.QUEUE_FULL):
        await held.writer.submit(submission(2, reports=150))
    tasks += [held.submit(3, reports=100) for _ in range(5)]
    await queued()
    held.store.release()
    results = await settled([first, *tasks])
    assert [len(outcomes) for outcomes in results] == [1, 450, 100, 100, 100, 100, 100]


@pytest.mark.parametrize(
    "nine",
    [
        [PackedReport(b"\xff" * 16, pack([(0, 1)] * 9))],
        [PackedReport(bytes([255, n]) * 8, pack([(0, 1)] * (4 + n))) for n in range(2)],
        PackedColumns(bytes(range(144)), pack([(0, 1)] * 9)),
    ],
    ids=["one report", "two reports", "columns"],
)
async def test_the_queue_is_measured_in_answers(start, nine):
    held = await start(queue_limit=10)
    first = await held.occupy()
    tasks = [asyncio.create_task(held.writer.submit(Submission("a", nine, True)))]
    await queued()
    assert held.writer.weight == 9
    with pytest.raises(ServiceError):
        await held.writer.submit(submission(1, reports=2))
    tasks.append(held.submit(2))
    held.store.release()
    assert await settled([first, *tasks]) == [
        [Outcome.ACCEPTED],
        [Outcome.ACCEPTED] * len(nine),
        [Outcome.ACCEPTED],
    ]


@pytest.mark.parametrize(
    "failure",
    [ServiceError(Code.STORE_UNAVAILABLE, "disk full"), RuntimeError("report 4711 is cursed")],
)
async def test_a_failed_transaction_fails_all_who_wait_and_no_more(start, failure, caplog):
    held = await start()
    held.store.failure = failure
    tasks = [await held.occupy()]
    held.store.release(1)
    tasks += [held.submit(n) for n in range(1, 51)]
    await held.store.wait_until_entered()
    with caplog.at_level(logging.DEBUG):
        held.store.release(1)
        errors = await settled(tasks)
    assert {(type(e), e.code) for e in errors} == {(ServiceError, Code.STORE_UNAVAILABLE)}
    assert len(errors) == 51
    assert "4711" not in caplog.text
    assert "transaction_failed" in caplog.text
    assert await held.sums() == Accumulator()
    held.store.failure = None
    held.store.release()
    again = await settled([held.submit(n) for n in range(51)])
    assert again == [[Outcome.ACCEPTED]] * 51
    assert await held.sums() == Accumulator.of(range(51))


async def test_who_goes_away_is_counted_and_delays_nobody(start):
    held = await start()
    first = await held.occupy()
    gone, stays = held.submit(1), held.submit(2)
    await queued()
    gone.cancel()
    held.store.release()
    assert await settled([first, stays]) == [[Outcome.ACCEPTED]] * 2
    assert gone.cancelled()
    assert await held.sums() == Accumulator.of([0, 1, 2])


async def test_calls_go_before_what_waits(start):
    held = await start()
    first = await held.occupy()
    late = held.submit(1)
    await queued()
    close = asyncio.create_task(held.writer.call(lambda store: store.close_campaign("a")))
    await queued()
    held.store.release()
    assert await settled([first, late]) == [[Outcome.ACCEPTED], [Outcome.NOT_OPEN]]
    await close


async def test_calls_raise_what_they_raise(start):
    held = await start()
    with refuses(Code.CAMPAIGN_NOT_FOUND):
        await held.writer.call(lambda store: store.close_campaign("unknown"))


async def test_stop_writes_all_that_waits(start, database):
    held = await start(commit_limit=10)
    tasks = [await held.occupy(), *[held.submit(n) for n in range(1, 101)]]
    await queued()
    stop = asyncio.create_task(held.writer.stop())
    await queued()
    with refuses(Code.STOPPING):
        await held.writer.submit(submission(999))
    with pytest.raises(ServiceError):
        await held.writer.call(lambda store: store.totals("a"))
    held.store.release()
    assert await settled(tasks) == [[Outcome.ACCEPTED]] * 101
    await stop
    await held.writer.stop()
    with SQLiteStore(database) as reopened:
        assert reopened.totals("a") == [Accumulator.of(range(101))]


async def test_waiting_for_more_ends_when_there_is_enough_or_no_more_to_come(start):
    held = await start(commit_limit=3, latency_s=1000 * PATIENCE_S)
    held.store.release()
    tasks = [held.submit(n) for n in range(3)]
    assert await settled(tasks) == [[Outcome.ACCEPTED]] * 3
    assert held.store.sizes == [3]
    last = held.submit(3)
    await queued()
    await asyncio.wait_for(held.writer.stop(), PATIENCE_S)
    assert await last == [Outcome.ACCEPTED]


async def test_start_raises_what_opening_raises(tmp_path):
    missing = tmp_path / "missing" / "reports.sqlite"
    writer = Writer(lambda: SQLiteStore(missing), queue_limit=1, commit_limit=1)
    with refuses(Code.DATABASE_UNUSABLE):
        await writer.start()
    await writer.stop()


def some(first: int, count: int, campaign: str = "a", *, admit: bool = True) -> Submission:
    ids = [number.to_bytes(16, "big") for number in range(first, first + count)]
    return Submission(campaign, [PackedReport(one, pack([(0, 1)])) for one in ids], admit)


@asynccontextmanager
async def writing(open_store: Callable[[], SQLiteStore], room: Room) -> AsyncIterator[Writer]:
    writer = Writer(open_store, queue_limit=1000, commit_limit=1000, room=room)
    await writer.start()
    for name in "ab":
        record = CampaignRecord(campaign_id=name, published=b"a", queries=1)
        await writer.call(lambda store, record=record: store.create_campaign(record))
    try:
        yield writer
    finally:
        await writer.stop()


async def counted(writer: Writer, campaign: str = "a") -> int:
    return (await writer.call(lambda store: store.get_campaign(campaign))).reports


async def test_a_campaign_has_no_more_reports_than_its_quota(database):
    async with writing(lambda: SQLiteStore(database), Room(quota=5)) as writer:
        assert await writer.submit(some(0, 4)) == 4 * [Outcome.ACCEPTED]
        with pytest.raises(ServiceError) as caught:
            await writer.submit(some(10, 2))
        told = public(caught.value)
        assert (told.code, told.status) == (Code.CAMPAIGN_FULL, "RESOURCE_EXHAUSTED")
        assert told.retry_after_s == 3600
        assert await counted(writer) == 4
        # What is known needs no room, the last place can be had, and others have theirs.
        assert await writer.submit(some(0, 4)) == 4 * [Outcome.DUPLICATE]
        assert await writer.submit(some(20, 1)) == [Outcome.ACCEPTED]
        assert await writer.submit(some(30, 3, "b")) == 3 * [Outcome.ACCEPTED]
        # Those that come at once share what is left.
        at_once = (writer.submit(some(40 + i, 1, "b")) for i in range(6))
        done = await asyncio.gather(*at_once, return_exceptions=True)
        assert sum(isinstance(one, ServiceError) for one in done) == 4
        assert await counted(writer, "b") == 5


class NearlyFull(SQLiteStore):
    free = 0

    def free_bytes(self) -> int:
        return self.free


async def test_no_new_reports_while_the_disk_is_nearly_full(database, monkeypatch):
    async with writing(lambda: NearlyFull(database), Room(least_free=1000)) as writer:
        monkeypatch.setattr(NearlyFull, "free", 1000)
        assert await writer.submit(some(0, 3)) == 3 * [Outcome.ACCEPTED]
        monkeypatch.setattr(NearlyFull, "free", 999)
        with pytest.raises(ServiceError) as caught:
            await writer.submit(some(2, 2))
        told = public(caught.value)
        assert (told.code, told.retry_after_s) == (Code.DISK_FULL, 60)
        assert await counted(writer) == 3
        assert await writer.submit(some(0, 3)) == 3 * [Outcome.DUPLICATE]
        # Out of its dates it is refused for that, for good.
        assert await writer.submit(some(50, 1, admit=False)) == [Outcome.NOT_OPEN]
        monkeypatch.setattr(NearlyFull, "free", 1000)
        assert await writer.submit(some(2, 2)) == [Outcome.DUPLICATE, Outcome.ACCEPTED]


def test_a_store_knows_its_disk(database):
    with SQLiteStore(database) as store:
        free = store.free_bytes()
    assert free is not None
    assert free > 0
