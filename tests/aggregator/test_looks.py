"""Test that a server shows intervals valid at all looks until a date ends a period."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from geoveil.aggregator.domain.reports import Report
from geoveil.campaign import (
    Allocation,
    Campaign,
    PlanarLaplaceSpec,
    PointQuestion,
    digest,
    encode,
    seal,
)
from geoveil.gp import IntervalMethod, Threshold

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
