"""Looks and periods: what an estimate shows, and when, of campaigns that recur or are watched."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.aggregator import Code, Service, ServiceError, Settings
from geoveil.aggregator.domain.reports import Report, Status
from geoveil.aggregator.domain.watching import PollTimer
from geoveil.campaign import (
    Allocation,
    Campaign,
    PlanarLaplaceSpec,
    PointQuestion,
    State,
    digest,
    encode,
    seal,
)
from geoveil.campaign.admission import Reason
from geoveil.gp import IntervalMethod, ParameterError, Threshold

SECOND, WEEK = timedelta(seconds=1), timedelta(days=7)
ONE_LOOK, ALL_LOOKS = IntervalMethod.WEIGHTED_ENDS, IntervalMethod.SEQUENCE


@pytest.fixture
def start(start_service, publish):
    """Return a service with one campaign of which every period that has begun has answers."""

    async def started(*periods: int, points: bool = False, **changes: Any) -> tuple[Any, Campaign]:
        service = (await start_service(clock_skew_s=60.0)).service
        more = {"mechanism": PlanarLaplaceSpec(1)} if points else {}
        published = publish(queries=1, allocation=Allocation.PARTITION, **more).campaign
        campaign = replace(published, **changes)
        await service.create_campaign(seal(encode(campaign)))
        reports = [
            Report((10 * period + n).to_bytes(16, "big"), [(0, 5 * n)], period)
            for period in periods or (0,)
            for n in range(4)
        ]
        await service.submit("income", digest(encode(campaign)), reports)
        return service, campaign

    return started


async def methods(service: Any) -> list[IntervalMethod]:
    shown = await service.estimate("income")
    return [row.estimate.method for row in shown.disclosure.estimates]


async def test_one_look_is_for_campaigns_that_a_date_has_closed(start, clock):
    service, campaign = await start()
    assert await methods(service) == [ALL_LOOKS]
    clock.now = campaign.closes - SECOND
    assert await methods(service) == [ALL_LOOKS]
    clock.now = campaign.closes
    assert await methods(service) == [ONE_LOOK]
    clock.now = campaign.closes + 61 * SECOND
    await service.close_campaign("income")  # which is closed for good
    assert await methods(service) == [ONE_LOOK]


async def test_who_closes_it_by_hand_keeps_the_interval_that_holds_at_all_looks(start, clock):
    service, campaign = await start()
    await service.close_campaign("income")
    assert await methods(service) == [ALL_LOOKS]
    clock.now = campaign.closes + WEEK
    assert await methods(service) == [ALL_LOOKS]


async def test_a_period_that_is_over_has_one_look(start, clock):
    clock.now = clock.opens + 2 * WEEK
    service, _ = await start(0, 1, 2, period=WEEK)
    assert await methods(service) == [ONE_LOOK, ONE_LOOK, ALL_LOOKS]
    await service.close_campaign("income")
    assert await methods(service) == [ALL_LOOKS] * 3


async def test_questions_to_points_do_the_same(start, clock):
    service, campaign = await start(points=True)
    asked = [PointQuestion("above", Threshold(1_000.0, 16_000.0, "smoothstep"))]

    async def method() -> IntervalMethod:
        (row,) = (await service.estimate_queries("income", asked)).disclosure.estimates
        return row.estimate.method

    assert await method() is ALL_LOOKS
    clock.now = campaign.closes
    assert await method() is ONE_LOOK  # not the answer that is kept


def report(number: int, period: int, *answers: tuple[int, int]) -> Report:
    return Report(number.to_bytes(16, "big"), list(answers), period)


class Weekly:
    """A service with one recurring campaign."""

    def __init__(self, service: Any, campaign: Campaign) -> None:
        self.service = service
        self.campaign = campaign

    async def submit(self, *reports: Report) -> list[Any]:
        content = encode(self.campaign)
        results = await self.service.submit("income", digest(content), reports)
        return [result.reason or result.status for result in results]

    async def totals(self, **asked: Any) -> dict[tuple[int, str], int]:
        shown = await self.service.estimate("income", **asked)
        return {(e.period, e.label): e.sums.total for e in shown.disclosure.estimates}


@pytest.fixture
def start_weekly(start_service, publish):
    async def start(skew_s: float = 60.0, **changes: Any) -> Weekly:
        allocation = changes.pop("allocation", Allocation.PARTITION)
        campaign = replace(publish(queries=2, allocation=allocation).campaign, **changes)
        service = (await start_service(clock_skew_s=skew_s)).service
        await service.create_campaign(seal(encode(campaign)))
        return Weekly(service, campaign)

    return start


async def test_answers_are_counted_in_their_period(start_weekly, clock, store):
    weekly = await start_weekly(period=WEEK, allocation=Allocation.SPLIT)
    assert weekly.campaign.periods == 5
    clock.now = clock.opens + 2 * WEEK
    batch = [report(n, n % 3, (0, 10**n), (1, 2 * 10**n)) for n in range(6)]
    assert await weekly.submit(*batch) == [Status.ACCEPTED] * 6
    assert [t.total for t in store.totals("income")] == [
        *(1_001, 2_002, 10_010, 20_020, 100_100, 200_200),
        *([0] * 4),
    ]
    assert await weekly.totals() == {
        (0, "above 1"): 1_001, (0, "above 2"): 2_002,
        (1, "above 1"): 10_010, (1, "above 2"): 20_020,
        (2, "above 1"): 100_100, (2, "above 2"): 200_200,
    }  # fmt: skip
    only = {(1, "above 1"): 10_010, (1, "above 2"): 20_020}
    assert await weekly.totals(period=1) == only
    for wrong in (3, 5, 10**6):
        with pytest.raises(ParameterError, match="from 0 to 2"):
            await weekly.totals(period=wrong)


@pytest.mark.parametrize("skew_s", [0.0, 60.0])
async def test_a_period_takes_reports_once_it_has_begun(start_weekly, clock, skew_s):
    weekly = await start_weekly(skew_s, period=WEEK)
    begins = clock.opens + 2 * WEEK - timedelta(seconds=skew_s)
    clock.now = begins - SECOND
    batch = [report(1, 2, (0, 5)), report(2, 1, (0, 6)), report(3, 5, (0, 7))]
    assert await weekly.submit(*batch) == [
        Reason.WRONG_PERIOD,
        Status.ACCEPTED,
        Reason.WRONG_PERIOD,
    ]
    clock.now = begins
    assert await weekly.submit(*batch) == [
        Status.ACCEPTED,
        Status.DUPLICATE,
        Reason.WRONG_PERIOD,
    ]


async def test_late_reports_are_taken_while_the_campaign_is_open(start_weekly, clock):
    weekly = await start_weekly(period=WEEK)
    clock.now = clock.closes - SECOND
    assert await weekly.submit(report(1, 0, (0, 5))) == [Status.ACCEPTED]
    clock.now = clock.closes + timedelta(days=1)
    assert await weekly.submit(report(2, 0, (0, 5))) == [Reason.NOT_OPEN]


async def test_an_id_is_one_report_in_one_period(start_weekly):
    weekly = await start_weekly(period=WEEK)
    first, elsewhere = report(1, 0, (0, 5)), report(1, 1, (0, 5))
    assert await weekly.submit(first, elsewhere) == [Status.ACCEPTED, Reason.ID_CONFLICT]
    assert await weekly.submit(elsewhere, first) == [Reason.ID_CONFLICT, Status.DUPLICATE]


async def test_a_clock_that_is_set_back_does_not_disown_what_was_counted(start_weekly, clock):
    weekly = await start_weekly(period=WEEK)
    clock.now = clock.opens + 3 * WEEK
    counted = report(1, 3, (0, 5))
    assert await weekly.submit(counted) == [Status.ACCEPTED]
    clock.now = clock.opens
    batch = [counted, report(1, 3, (0, 6)), report(2, 3, (0, 5)), report(3, 0, (0, 5))]
    assert await weekly.submit(*batch) == [
        Status.DUPLICATE,
        Reason.ID_CONFLICT,
        Reason.WRONG_PERIOD,
        Status.ACCEPTED,
    ]


async def test_nothing_is_shown_before_every_query_of_a_period_has_enough(start_weekly, clock):
    weekly = await start_weekly(period=WEEK, minimum_participants=3)
    clock.now = clock.opens + WEEK

    async def refused(**asked: Any) -> None:
        with pytest.raises(ServiceError, match="every query needs 3 answers") as caught:
            await weekly.totals(**asked)
        assert caught.value.code is Code.TOO_FEW_REPORTS

    await refused()
    in_first = [report(n, 0, (n % 2, 5)) for n in range(5)]
    await weekly.submit(*in_first)
    await refused()  # 3 and 2
    await refused(period=0)
    await weekly.submit(report(5, 0, (1, 5)), *[report(10 + n, 1, (0, 5)) for n in range(9)])
    assert await weekly.totals() == {(0, "above 1"): 15, (0, "above 2"): 15}
    assert await weekly.totals(period=0) == await weekly.totals()
    await refused(period=1)
    (status,) = (await weekly.service.list_campaigns()).statuses
    assert status.record.reports == 15  # of the whole campaign: says nothing of any answer


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
