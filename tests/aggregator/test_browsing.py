"""Pages hold every campaign that is not closed, once, whatever happens between them."""

from collections.abc import Callable
from typing import Any

import pytest

from geoveil.aggregator.browsing import page
from geoveil.aggregator.library import CampaignStanding
from geoveil.aggregator.store import CampaignRecord
from geoveil.campaign import State, seal
from geoveil.gp import ParameterError


def standing(name: str, state: State = State.OPEN, size: int = 100) -> CampaignStanding:
    record = CampaignRecord(campaign_id=name, published=bytes(size), queries=1)
    return CampaignStanding(record, state)


def walked(standings: list[CampaignStanding], size: int) -> list[list[str]]:
    """Return the ids on each page."""
    pages, token = [], ""
    while True:
        got = page(standings, size, token)
        pages.append([s.record.campaign_id for s in got.standings])
        token = got.next_token
        if not token:
            return pages


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 1000, 0])
def test_pages_follow_each_other_without_gap_or_repetition(size: int) -> None:
    names = [f"c{i}" for i in range(8)]
    standings = [standing(n, State.PENDING if n == "c3" else State.OPEN) for n in names]
    standings[4:4] = [standing("closed-1", State.CLOSED)]
    standings.append(standing("closed-2", State.CLOSED))
    pages = walked(standings, size)
    assert [name for on_page in pages for name in on_page] == names
    assert all(len(on_page) == size for on_page in pages[:-1])


def test_large_campaigns_make_small_pages() -> None:
    standings = [standing(f"c{i}", size=900_000) for i in range(5)]
    assert [len(on_page) for on_page in walked(standings, 0)] == [2, 2, 1]
    assert walked([standing("huge", size=3 << 20)], 0) == [["huge"]]


def test_a_page_ends_where_it_ended_though_its_last_campaign_closes() -> None:
    standings = [standing(f"c{i}") for i in range(4)]
    token = page(standings, 2, "").next_token
    standings[1] = standing("c1", State.CLOSED)
    assert [s.record.campaign_id for s in page(standings, 2, token).standings] == ["c2", "c3"]


def test_what_is_no_page_is_refused() -> None:
    with pytest.raises(ParameterError, match="page_token"):
        page([standing("a")], 0, "unknown")
    for size in (-1, 1_001):
        with pytest.raises(ParameterError, match="page_size"):
            page([], size, "")
    assert page([], 0, "").standings == []


async def test_devices_see_campaigns_that_are_open_or_will_be(
    start_service: Any, publish: Callable[..., Any], clock: Any
) -> None:
    service = (await start_service()).service
    for name in ("a", "b", "c"):
        await service.create_campaign(seal(publish(name).published))
    await service.close_campaign("b")
    got = await service.browse_campaigns()
    assert [s.record.campaign_id for s in got.standings] == ["a", "c"]
    clock.now = clock.closes
    assert (await service.browse_campaigns()).standings == []
