"""Test room for reports: a campaign's quota, and a nearly full disk."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from geoveil.aggregator import Code, ServiceError, SQLiteStore, Writer
from geoveil.aggregator.domain.errors import public
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.aggregator.store.writer import Room


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
