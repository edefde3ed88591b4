"""Pages hold every campaign once, or every one that is not closed, whatever happens between."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.domain.browsing import MOST_LOOKED_AT, Page, page
from geoveil.aggregator.store import CampaignPage, CampaignRecord
from geoveil.aggregator.store.schema import CAMPAIGN
from geoveil.campaign import State, seal
from geoveil.gp import ParameterError
from geoveil.proto.v1.campaign_pb2 import Campaign, CampaignEnvelope

NOW = datetime(2030, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)
DATES = {
    State.OPEN: (NOW, NOW + DAY),
    State.PENDING: (NOW + DAY, NOW + 2 * DAY),
    State.CLOSED: (NOW - DAY, NOW),
}


def record(
    name: str, state: State = State.OPEN, size: int = 0, *, by_analyst: bool = False
) -> CampaignRecord:
    content = Campaign(campaign_id=name, title=size * "x")
    for stamp, date in zip((content.opens, content.closes), DATES[state], strict=True):
        stamp.FromDatetime(date)
    envelope = CampaignEnvelope(campaign=content.SerializeToString())
    return CampaignRecord(
        campaign_id=name,
        published=envelope.SerializeToString(),
        queries=1,
        closed=by_analyst,
    )


class Shelf:
    """Campaigns in memory, and how many were read of them."""

    def __init__(self, records: list[CampaignRecord]) -> None:
        self.records = records
        self.read = 0

    async def __call__(self, after: str, limit: int, most_bytes: int) -> CampaignPage:
        ids = [record.campaign_id for record in self.records]
        if after and after not in ids:
            raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
        later = self.records[ids.index(after) + 1 :] if after else self.records
        found: list[CampaignRecord] = []
        for one in later[:limit]:
            if found and sum(len(r.published) for r in [*found, one]) > most_bytes:
                break
            found.append(one)
        self.read += len(found)
        return CampaignPage(found, len(found) < len(later))

    async def page(self, size: int = 0, token: str = "", *, closed: bool = False) -> Page:
        return await page(self, NOW, size, token, closed=closed)

    async def walked(self, size: int, *, closed: bool = False) -> list[list[str]]:
        """Return the ids on each page."""
        pages, token = [], ""
        while True:
            got = await self.page(size, token, closed=closed)
            pages.append([s.record.campaign_id for s in got.standings])
            token = got.next_token
            if not token:
                return pages


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 1000, 0])
async def test_pages_follow_each_other_without_gap_or_repetition(size: int) -> None:
    names = [f"c{i}" for i in range(8)]
    records = [record(n, State.PENDING if n == "c3" else State.OPEN) for n in names]
    records[4:4] = [record("over", State.CLOSED)]
    records.append(record("closed", by_analyst=True))
    for closed in (False, True):
        expected = [r.campaign_id for r in records] if closed else names
        pages = await Shelf(records).walked(size, closed=closed)
        assert [name for on_page in pages for name in on_page] == expected
        assert all(len(on_page) == size for on_page in pages[:-1])


async def test_large_campaigns_make_small_pages() -> None:
    shelf = Shelf([record(f"c{i}", size=100_000) for i in range(5)])
    assert [len(on_page) for on_page in await shelf.walked(0)] == [2, 2, 1]
    shelf = Shelf([record(f"c{i}", size=900_000) for i in range(3)])
    assert [len(on_page) for on_page in await shelf.walked(0)] == [1, 1, 1]
    assert await Shelf([record("huge", size=3 << 20)]).walked(0) == [["huge"]]


async def test_a_page_ends_where_it_ended_though_its_last_campaign_closes() -> None:
    shelf = Shelf([record(f"c{i}") for i in range(4)])
    token = (await shelf.page(2)).next_token
    shelf.records[1] = record("c1", by_analyst=True)
    assert [s.record.campaign_id for s in (await shelf.page(2, token)).standings] == ["c2", "c3"]


async def test_what_is_no_page_is_refused() -> None:
    shelf = Shelf([record("a"), record("b")])
    (token,) = {(await shelf.page(1, closed=closed)).next_token for closed in (True, False)}
    for wrong in ("unknown", "a", "YWFh", token + "=", token + "A", "é", "_w", " " + token, "AA"):
        with pytest.raises(ParameterError, match="page_token"):
            await shelf.page(0, wrong)
    for size in (-1, 1_001):
        with pytest.raises(ParameterError, match="page_size"):
            await shelf.page(size)
    assert (await Shelf([]).page()) == Page([], "")


async def test_a_page_among_closed_campaigns_reads_a_bounded_number_and_goes_on() -> None:
    old = [record(f"old{i}", State.CLOSED) for i in range(2_500)]
    shelf = Shelf([*old, record("new")])
    reads, pages, token = [], [], ""
    while not pages or token:
        shelf.read = 0
        got = await shelf.page(5, token)
        token = got.next_token
        reads.append(shelf.read)
        pages.append([s.record.campaign_id for s in got.standings])
    assert pages == [[], [], ["new"]]
    assert reads == [MOST_LOOKED_AT, MOST_LOOKED_AT, 501]


async def test_large_closed_campaigns_are_not_all_read_for_one_page() -> None:
    old = [record(f"old{i}", State.CLOSED, size=1_000_000) for i in range(20)]
    shelf = Shelf([*old, record("new")])
    first = await shelf.page()
    assert (first.standings, shelf.read) == ([], 10)  # 8 MiB, of two in each read
    second = await shelf.page(token=first.next_token)
    assert [s.record.campaign_id for s in second.standings] == ["new"]


async def test_a_campaign_that_can_not_be_read_is_a_defect_of_the_server() -> None:
    broken = CampaignRecord(campaign_id="a", published=b"\xff", queries=1)
    with pytest.raises(ServiceError) as caught:
        await Shelf([broken]).page()
    assert caught.value.code is Code.INTERNAL


async def test_states_are_those_of_the_campaign(
    start_service: Any, publish: Callable[..., Any], clock: Any
) -> None:
    service = (await start_service()).service
    campaign = publish("a").campaign
    await service.create_campaign(seal(publish("a").published))
    second = timedelta(microseconds=1)
    for moment in (campaign.opens, campaign.closes):
        for now in (moment - second, moment, moment + second):
            clock.now = now
            (standing,) = (await service.list_campaigns()).standings
            assert standing.state is campaign.state(now)
            assert await service.count_open_campaigns() == (standing.state is State.OPEN)


async def test_devices_see_campaigns_that_are_open_or_will_be(
    start_service: Any, publish: Callable[..., Any], clock: Any
) -> None:
    service = (await start_service()).service
    for name in ("a", "b", "c"):
        await service.create_campaign(seal(publish(name).published))
    await service.close_campaign("b")
    got = await service.browse_campaigns()
    assert [s.record.campaign_id for s in got.standings] == ["a", "c"]
    assert await service.count_open_campaigns() == 2
    clock.now = clock.closes
    assert (await service.browse_campaigns()).standings == []
    listed = await service.list_campaigns()
    assert [s.record.campaign_id for s in listed.standings] == ["a", "b", "c"]


async def test_campaigns_of_several_pages_are_listed_and_counted(
    start_service: Any, publish: Callable[..., Any], database: Path
) -> None:
    published = seal(publish("c").published)
    rows = [
        {"campaign_id": f"c{i}", "published": published, "queries": 3, "closed": i % 10 == 0}
        for i in range(2_500)
    ]
    with SQLiteStore(database) as store:
        store.run(lambda connection: connection.execute(insert(CAMPAIGN), rows), write=True)
    service = (await start_service()).service
    listed, token, pages = [], "", 0
    while not pages or token:
        got = await service.list_campaigns(1_000, token)
        listed += [standing.record.campaign_id for standing in got.standings]
        token, pages = got.next_token, pages + 1
    assert listed == [row["campaign_id"] for row in rows]
    assert pages == 3
    assert await service.count_open_campaigns() == 2_250
