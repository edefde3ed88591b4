"""Test that pages list every (open) campaign once, whatever happens between calls."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.domain.browsing import Page, page
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
        opens=DATES[state][0],
        closes=DATES[state][1],
    )


class Shelf:
    """Campaigns in memory."""

    def __init__(self, records: list[CampaignRecord]) -> None:
        self.records = records

    async def __call__(
        self, after: str, limit: int, most_bytes: int, open_at: datetime | None
    ) -> CampaignPage:
        ids = [record.campaign_id for record in self.records]
        if after and after not in ids:
            raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
        later = self.records[ids.index(after) + 1 :] if after else self.records
        if open_at is not None:
            later = [one for one in later if one.state(open_at) is not State.CLOSED]
        found: list[CampaignRecord] = []
        for one in later[:limit]:
            if found and sum(len(r.published) for r in [*found, one]) > most_bytes:
                break
            found.append(one)
        return CampaignPage(found, len(found) < len(later))

    async def page(self, size: int = 0, token: str = "", *, closed: bool = False) -> Page:
        return await page(self, NOW, size, token, closed=closed)

    async def walked(self, size: int, *, closed: bool = False) -> list[list[str]]:
        """Return the ids on each page."""
        pages, token = [], ""
        while True:
            got = await self.page(size, token, closed=closed)
            pages.append([s.record.campaign_id for s in got.statuses])
            token = got.next_token
            if not token:
                return pages


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 1000, 0])
async def test_pages_follow_each_other_without_gap_or_repetition(size):
    names = [f"c{i}" for i in range(8)]
    records = [record(n, State.PENDING if n == "c3" else State.OPEN) for n in names]
    records[4:4] = [record("over", State.CLOSED)]
    records.append(record("closed", by_analyst=True))
    for closed in (False, True):
        expected = [r.campaign_id for r in records] if closed else names
        pages = await Shelf(records).walked(size, closed=closed)
        assert [name for on_page in pages for name in on_page] == expected
        assert all(len(on_page) == size for on_page in pages[:-1])


async def test_large_campaigns_make_small_pages():
    shelf = Shelf([record(f"c{i}", size=100_000) for i in range(5)])
    assert [len(on_page) for on_page in await shelf.walked(0)] == [2, 2, 1]
    shelf = Shelf([record(f"c{i}", size=900_000) for i in range(3)])
    assert [len(on_page) for on_page in await shelf.walked(0)] == [1, 1, 1]
    assert await Shelf([record("huge", size=3 << 20)]).walked(0) == [["huge"]]


async def test_a_page_ends_where_it_ended_though_its_last_campaign_closes():
    shelf = Shelf([record(f"c{i}") for i in range(4)])
    token = (await shelf.page(2)).next_token
    shelf.records[1] = record("c1", by_analyst=True)
    assert [s.record.campaign_id for s in (await shelf.page(2, token)).statuses] == ["c2", "c3"]


async def test_what_is_no_page_is_refused():
    shelf = Shelf([record("a"), record("b")])
    (token,) = {(await shelf.page(1, closed=closed)).next_token for closed in (True, False)}
    for wrong in ("unknown", "a", "YWFh", token + "=", token + "A", "é", "_w", " " + token, "AA"):
        with pytest.raises(ParameterError, match="page_token"):
            await shelf.page(0, wrong)
    for size in (-1, 1_001):
        with pytest.raises(ParameterError, match="page_size"):
            await shelf.page(size)
    assert (await Shelf([]).page()) == Page([], "")


def test_a_page_reads_no_closed_campaign_however_many_there_are(database):
    with SQLiteStore(database) as store:
        names = [f"old{i}" for i in range(2_500)]
        fields = ("campaign_id", "published", "queries", "closed", "opens", "closes")
        old = [record(name, State.CLOSED, by_analyst=not i % 2) for i, name in enumerate(names)]
        rows = [{name: getattr(one, name) for name in fields} for one in old]
        store.run(lambda connection: connection.execute(insert(CAMPAIGN), rows), write=True)
        store.create_campaign(record("new"))
        shown = store.campaign_page(limit=5, open_at=NOW)
        assert ([r.campaign_id for r in shown.records], shown.more) == (["new"], False)
        later = store.campaign_page("old7", limit=5, open_at=NOW)  # after a campaign that is closed
        assert later == shown
        # The control: without the filter a page is full of closed campaigns.
        assert [r.campaign_id for r in store.campaign_page(limit=5).records] == names[:5]


async def test_states_are_those_of_the_campaign(start_service, publish, clock):
    service = (await start_service()).service
    campaign = publish("a").campaign
    await service.create_campaign(seal(publish("a").published))
    second = timedelta(microseconds=1)
    for moment in (campaign.opens, campaign.closes):
        for now in (moment - second, moment, moment + second):
            clock.now = now
            (status,) = (await service.list_campaigns()).statuses
            assert status.state is campaign.state(now)
            assert await service.count_open_campaigns() == (status.state is State.OPEN)


async def test_devices_see_campaigns_that_are_open_or_will_be(start_service, publish, clock):
    service = (await start_service()).service
    for name in ("a", "b", "c"):
        await service.create_campaign(seal(publish(name).published))
    await service.close_campaign("b")
    got = await service.browse_campaigns()
    assert [s.record.campaign_id for s in got.statuses] == ["a", "c"]
    assert await service.count_open_campaigns() == 2
    clock.now = clock.closes
    assert (await service.browse_campaigns()).statuses == []
    listed = await service.list_campaigns()
    assert [s.record.campaign_id for s in listed.statuses] == ["a", "b", "c"]


async def test_campaigns_of_several_pages_are_listed_and_counted(start_service, publish, database):
    campaign = publish("c").campaign
    same = {
        "published": seal(publish("c").published),
        "queries": 3,
        "opens": campaign.opens,
        "closes": campaign.closes,
    }
    rows = [{"campaign_id": f"c{i}", "closed": i % 10 == 0, **same} for i in range(2_500)]
    with SQLiteStore(database) as store:
        store.run(lambda connection: connection.execute(insert(CAMPAIGN), rows), write=True)
    service = (await start_service()).service
    listed, token, pages = [], "", 0
    while not pages or token:
        got = await service.list_campaigns(1_000, token)
        listed += [status.record.campaign_id for status in got.statuses]
        token, pages = got.next_token, pages + 1
    assert listed == [row["campaign_id"] for row in rows]
    assert pages == 3
    assert await service.count_open_campaigns() == 2_250
