"""Test that pages list every (open) campaign once, whatever happens between calls."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from geoveil.aggregator.store import CampaignRecord
from geoveil.aggregator.store.schema import CAMPAIGN
from geoveil.campaign import State, seal
from geoveil.gp import ParameterError

NOW, DAY = datetime(2030, 1, 10, tzinfo=UTC), timedelta(days=1)


@pytest.fixture
def listing(start_service, publish):
    """Starts a service with campaigns of these titles; of a closed one the title is "closed"."""

    async def start(*titles):
        service = (await start_service()).service
        for number, title in enumerate(titles):
            await service.create_campaign(seal(publish(f"c{number}", title=title).published))
            if title == "closed":
                await service.close_campaign(f"c{number}")
        return service

    return start


async def walked(ask, size):
    """Return the ids on each page."""
    pages, token = [], ""
    while not pages or token:
        page = await ask(size, token)
        pages.append([status.record.campaign_id for status in page.statuses])
        token = page.next_token
    return pages


@pytest.mark.parametrize("size", [1, 3, 4, 5, 0])
async def test_pages_follow_each_other_without_gap_or_repetition(listing, size):
    service = await listing("a", "b", "closed", "c", "d", "closed")
    seen = ["c0", "c1", "c3", "c4"]
    for ask, expected in (
        (service.browse_campaigns, seen),
        (service.list_campaigns, [f"c{i}" for i in range(6)]),
    ):
        pages = await walked(ask, size)
        assert [name for on_page in pages for name in on_page] == expected
        assert all(len(on_page) == size for on_page in pages[:-1])
    assert await service.count_open_campaigns() == 4


def fill(store, rows, **same):
    """Create campaigns in one transaction: one after the other would take minutes."""
    rows = [{"published": b"x", "queries": 1, "opens": NOW - DAY} | same | row for row in rows]
    store.run(lambda connection: connection.execute(insert(CAMPAIGN), rows), write=True)


async def test_large_campaigns_make_small_pages(start_service, store):
    rows = [{"campaign_id": f"c{i}", "closed": False} for i in range(5)]
    fill(store, rows, published=bytes(100_000), closes=NOW + 30 * DAY)
    service = (await start_service()).service
    assert [len(on_page) for on_page in await walked(service.list_campaigns, 0)] == [2, 2, 1]


async def test_a_page_ends_where_it_ended_though_its_last_campaign_closes(listing):
    service = await listing(*"abcd")
    token = (await service.browse_campaigns(2)).next_token
    await service.close_campaign("c1")
    page = await service.browse_campaigns(2, token)
    assert [status.record.campaign_id for status in page.statuses] == ["c2", "c3"]


async def test_what_is_no_page_is_refused(listing):
    service = await listing("a", "b")
    asks = (service.browse_campaigns, service.list_campaigns)
    (token,) = {(await ask(1)).next_token for ask in asks}
    for ask in asks:
        for wrong in ("unknown", "a", "YWFh", token + "=", token + "A", "é", "_w", " " + token):
            with pytest.raises(ParameterError, match="page_token"):
                await ask(0, wrong)
        for size in (-1, 1_001):
            with pytest.raises(ParameterError, match="page_size"):
                await ask(size)


def test_a_page_reads_no_closed_campaign_however_many_there_are(store):
    rows = [{"campaign_id": f"old{i}", "closed": i % 2 == 0} for i in range(2_500)]
    fill(store, rows, closes=NOW)
    store.create_campaign(CampaignRecord(campaign_id="new", published=b"x", queries=1))
    shown = store.campaign_page(limit=5, open_at=NOW)
    assert ([r.campaign_id for r in shown.records], shown.more) == (["new"], False)
    later = store.campaign_page("old7", limit=5, open_at=NOW)  # after a campaign that is closed
    assert later == shown
    # The control: without the filter a page is full of closed campaigns.
    unfiltered = [record.campaign_id for record in store.campaign_page(limit=5).records]
    assert unfiltered == [f"old{i}" for i in range(5)]


async def test_states_are_those_of_the_campaign(listing, clock):
    service = await listing("a")
    moments = {
        clock.opens: [State.PENDING, State.OPEN, State.OPEN],
        clock.closes: [State.OPEN, State.CLOSED, State.CLOSED],
    }
    for moment, states in moments.items():
        for step, state in zip((-1, 0, 1), states, strict=True):
            clock.now = moment + timedelta(microseconds=step)
            (status,) = (await service.list_campaigns()).statuses
            assert status.state is state
            assert len((await service.browse_campaigns()).statuses) == (state is not State.CLOSED)
            assert await service.count_open_campaigns() == (state is State.OPEN)


async def test_campaigns_of_several_pages_are_counted(start_service, clock, store):
    rows = [{"campaign_id": f"c{i}", "closed": i % 10 == 0} for i in range(2_500)]
    fill(store, rows, opens=clock.opens, closes=clock.closes)
    assert await (await start_service()).service.count_open_campaigns() == 2_250
