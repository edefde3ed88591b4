"""Test that a watch shows every change, waits for enough reports, and ends with the campaign."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from geoveil.aggregator import Code, Service, ServiceError, Settings
from geoveil.aggregator.domain.reports import Report
from geoveil.aggregator.domain.watching import PollTimer
from geoveil.campaign import State, digest, encode, seal

PATIENCE_S = 30


class Naps:
    """A sleep that ends when the test says so."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[float] = asyncio.Queue()
        self.over = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        self.asked.put_nowait(seconds)
        await self.over.acquire()


class Watched:
    """A service, one campaign, and the sleep of its watches."""

    def __init__(self, service: Service, naps: Naps, content: bytes) -> None:
        self.service = service
        self.naps = naps
        self.content = content
        self.reports = 0

    async def submit(self, count: int) -> None:
        batch = [Report((self.reports + n).to_bytes(16, "big"), [(0, 5)]) for n in range(count)]
        self.reports += count
        await self.service.submit("income", digest(self.content), batch)

    def watch(self, **changes: Any) -> AsyncIterator[Any]:
        return self.service.watch("income", **changes)


@pytest.fixture
def start_watched(start_service, publish, clock):
    async def start(minimum: int = 0) -> Watched:
        running, naps = await start_service(), Naps()
        settings = Settings(database=Path("unused.db"))
        service = Service(running.writer, running.reader, settings, clock, pace=PollTimer(naps))
        campaign = replace(publish(queries=1).campaign, minimum_participants=minimum)
        content = encode(campaign)
        await service.create_campaign(seal(content))
        return Watched(service, naps, content)

    return start


async def until(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, PATIENCE_S)


async def test_estimates_come_when_reports_came(start_watched):
    watched = await start_watched()
    async with aclosing(watched.watch(interval_s=7.0)) as shown:
        assert (await until(anext(shown))).disclosure.estimates[0].estimate.n == 0
        following = asyncio.ensure_future(anext(shown))
        assert await until(watched.naps.asked.get()) == 7.0
        watched.naps.over.release()
        assert await until(watched.naps.asked.get()) == 7.0  # nothing new: slept again
        assert not following.done()
        await watched.submit(3)
        await watched.submit(2)
        watched.naps.over.release()
        assert (await until(following)).disclosure.estimates[0].estimate.n == 5


async def test_the_last_estimate_is_that_of_the_closed_campaign(start_watched):
    watched = await start_watched()
    async with aclosing(watched.watch()) as shown:
        await until(anext(shown))
        await watched.submit(4)
        await watched.service.close_campaign("income")
        watched.naps.over.release()
        last = await until(anext(shown))
        assert last.status.state is State.CLOSED
        assert last.disclosure.estimates[0].estimate.n == 4
        with pytest.raises(StopAsyncIteration):
            await until(anext(shown))


async def test_a_watch_waits_for_enough(start_watched):
    watched = await start_watched(minimum=3)
    async with aclosing(watched.watch()) as shown:
        first = asyncio.ensure_future(anext(shown))
        await until(watched.naps.asked.get())
        await watched.submit(2)
        watched.naps.over.release()
        await until(watched.naps.asked.get())
        assert not first.done()
        await watched.submit(1)
        watched.naps.over.release()
        assert (await until(first)).disclosure.estimates[0].estimate.n == 3


async def test_a_campaign_that_closes_with_too_few_ends_in_a_refusal(start_watched):
    watched = await start_watched(minimum=3)
    await watched.submit(2)
    await watched.service.close_campaign("income")
    with pytest.raises(ServiceError, match="needs 3 answers") as caught:
        await until(anext(watched.watch()))
    assert caught.value.code is Code.TOO_FEW_REPORTS


async def test_a_server_that_drains_ends_all_watches(start_watched):
    watched = await start_watched()
    shown = [watched.watch() for _ in range(5)]
    for one in shown:
        await until(anext(one))
    waiting = [asyncio.ensure_future(anext(one)) for one in shown]
    for _ in shown:
        await until(watched.naps.asked.get())
    watched.service.drain()
    ended = await until(asyncio.gather(*waiting, return_exceptions=True))
    assert [error.code for error in ended] == [Code.STOPPING] * 5
