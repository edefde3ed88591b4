"""Test that every answer to a recurring campaign counts in its period, once begun."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import Report, Status
from geoveil.campaign import Allocation, Campaign, digest, encode, seal
from geoveil.campaign.admission import Reason
from geoveil.gp import ParameterError

WEEK, SECOND = timedelta(days=7), timedelta(seconds=1)


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


async def test_a_campaign_that_does_not_recur_has_one_period(start_weekly):
    once = await start_weekly()
    batch = [report(1, 0, (0, 5)), report(2, 1, (0, 5))]
    assert await once.submit(*batch) == [Status.ACCEPTED, Reason.WRONG_PERIOD]


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
