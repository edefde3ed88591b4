"""Test the domain logic at chosen times."""

import asyncio
from collections import Counter
from datetime import timedelta
from math import ldexp, sqrt
from statistics import fmean, stdev
from typing import Any

import pytest

from geoveil.aggregator import Code
from geoveil.aggregator.domain.reports import Report, Status
from geoveil.aggregator.store import CampaignRecord
from geoveil.campaign import DebiasedLaplaceSpec, State, seal
from geoveil.campaign.admission import Reason
from geoveil.gp import ParameterError
from geoveil.gp.intervals import IntervalMethod, interval_of_mean

from .refusals import refused

SECOND = timedelta(seconds=1)


def report(number: int, *answers: tuple[int, int]) -> Report:
    return Report(number.to_bytes(16, "big"), list(answers))


async def outcomes(service: Any, campaign: Any, *reports: Report) -> list[Any]:
    """Return the status of each report, or the reason why it was rejected."""
    results = await service.submit(campaign.campaign_id, campaign.digest, reports)
    return [result.reason or result.status for result in results]


async def test_creating_is_idempotent_by_content(service, publish):
    campaign = publish()
    assert await service.create_campaign(seal(campaign.published)) == campaign.digest
    assert await service.create_campaign(seal(campaign.published)) == campaign.digest
    other = publish(title="Another title")
    await refused(Code.CAMPAIGN_ID_TAKEN, service.create_campaign(seal(other.published)))
    (status,) = (await service.list_campaigns()).statuses
    assert status.record.published == seal(campaign.published)


async def test_states_follow_the_clock_and_the_analyst(service, publish, clock):
    await service.create_campaign(seal(publish().published))

    async def state_at(now: Any) -> State:
        clock.now = now
        return (await service.get_campaign("income")).state

    assert await state_at(clock.opens - SECOND) is State.PENDING
    assert await state_at(clock.opens) is State.OPEN
    assert await state_at(clock.closes - SECOND) is State.OPEN
    assert await state_at(clock.closes) is State.CLOSED
    await service.close_campaign("income")
    await service.close_campaign("income")
    assert await state_at(clock.opens) is State.CLOSED


async def test_unknown_campaigns(service, publish):
    campaign = publish()
    for call in (
        service.get_campaign("income"),
        service.close_campaign("income"),
        service.estimate("income"),
        outcomes(service, campaign, report(1, (0, 5))),
    ):
        await refused(Code.CAMPAIGN_NOT_FOUND, call)
    await service.create_campaign(
        seal(campaign.published)
    )  # not finding it before is not remembered
    assert await outcomes(service, campaign, report(1, (0, 5))) == [Status.ACCEPTED]


async def test_reports_for_other_bytes_are_refused_whole(service, publish, store):
    campaign = publish()
    await service.create_campaign(seal(campaign.published))
    for wrong in (b"", bytes(32), campaign.digest[:-1], campaign.digest + b"\x00"):
        await refused(Code.DIGEST_MISMATCH, service.submit("income", wrong, [report(1, (0, 5))]))
    assert store.get_campaign("income").reports == 0


async def test_batches_have_a_size(start_service, publish):
    service = (await start_service(max_batch=3)).service
    campaign = publish()
    await service.create_campaign(seal(campaign.published))
    assert len(await outcomes(service, campaign, *[report(n, (0, 5)) for n in range(3)])) == 3
    for count in (0, 4):
        with pytest.raises(ParameterError, match=f"1 to 3, got number of reports={count}"):
            await outcomes(service, campaign, *[report(n, (0, 5)) for n in range(count)])


async def test_each_report_is_judged_by_itself(service, publish, store):
    campaign = publish(mechanism=DebiasedLaplaceSpec())
    await service.create_campaign(seal(campaign.published))
    low, high = campaign.campaign.mechanisms[0].grid_range
    batch = [
        report(1, (0, high)),
        Report(b"short", [(0, 0)]),
        report(1, (0, high)),
        report(1, (0, low)),
        report(2, (0, high + 1)),
        report(3, (0, low - 1)),
        report(4, (3, 0)),
        report(5),
        report(6, (0, 0), (1, 0)),
        report(2, (1, low)),
    ]
    assert await outcomes(service, campaign, *batch) == [
        Status.ACCEPTED,
        Reason.MALFORMED_ID,
        Status.DUPLICATE,
        Reason.ID_CONFLICT,
        Reason.OUT_OF_RANGE,
        Reason.OUT_OF_RANGE,
        Reason.WRONG_ANSWERS,
        Reason.WRONG_ANSWERS,
        Reason.WRONG_ANSWERS,
        Status.ACCEPTED,  # its id was not taken by the report out of range
    ]
    totals = store.totals("income")
    assert [(t.n, t.total) for t in totals] == [(1, high), (1, low), (0, 0)]


@pytest.mark.parametrize("skew_s", [0.0, 60.0])
async def test_dates_are_kept_up_to_the_skew_of_clocks(start_service, publish, clock, skew_s):
    service = (await start_service(clock_skew_s=skew_s)).service
    campaign = publish()
    await service.create_campaign(seal(campaign.published))
    skew = timedelta(seconds=skew_s)
    times = [
        (clock.opens - skew - SECOND, Reason.NOT_OPEN),
        (clock.opens - skew, Status.ACCEPTED),
        (clock.closes + skew - SECOND, Status.ACCEPTED),
        (clock.closes + skew, Reason.NOT_OPEN),
    ]
    for number, (now, expected) in enumerate(times):
        clock.now = now
        assert await outcomes(service, campaign, report(number, (0, 5))) == [expected]


@pytest.mark.parametrize("by_analyst", [True, False])
async def test_retries_outlive_the_campaign(service, publish, clock, by_analyst):
    campaign = publish()
    await service.create_campaign(seal(campaign.published))
    acknowledged = report(1, (0, 5))
    assert await outcomes(service, campaign, acknowledged) == [Status.ACCEPTED]
    if by_analyst:
        await service.close_campaign("income")
    else:
        clock.now = clock.closes + timedelta(days=400)
    late = [acknowledged, report(1, (0, 6)), report(2, (0, 5))]
    expected = [Status.DUPLICATE, Reason.ID_CONFLICT, Reason.NOT_OPEN]
    assert await outcomes(service, campaign, *late) == expected


async def test_estimates_against_textbook_formulas(service, publish):
    campaign = publish(queries=3)
    await service.create_campaign(seal(campaign.published))
    answers = [3, -5, 40, 12]
    await outcomes(
        service, campaign, *[report(n, (0, v)) for n, v in enumerate(answers)], report(9, (1, 7))
    )
    shown = await service.estimate("income", 0.9)
    several, one, none = shown.disclosure.estimates
    assert shown.status.state is State.OPEN
    step = ldexp(1.0, campaign.campaign.grid_exponent)
    error = stdev(answers) / sqrt(4) * step
    limits = campaign.campaign.limits[0]
    variance, looks = 3 / 4 * (2 * error) ** 2, IntervalMethod.SEQUENCE
    interval = interval_of_mean(4, fmean(answers) * step, variance, 0.9, limits, looks)
    assert several.label == "above 1"
    assert (several.sums.total, several.sums.total_of_squares) == (50, 9 + 25 + 1600 + 144)
    assert several.estimate.value == pytest.approx(fmean(answers) * step)
    assert several.estimate.standard_error == pytest.approx(error)
    assert several.estimate.ci_low == pytest.approx(interval.low)
    assert several.estimate.ci_high == pytest.approx(interval.high)
    assert (one.estimate.n, one.estimate.value) == (1, 7 * step)
    assert one.estimate.standard_error is None
    assert (none.estimate.n, none.estimate.value) == (0, None)


async def test_an_unreadable_stored_campaign_is_not_the_callers_fault(service, store):
    unreadable = {"later": b"\x12\x34", "no-envelope": b"\xff", "damaged": seal(b"\x12\x34")}
    for name, published in unreadable.items():
        store.create_campaign(CampaignRecord(campaign_id=name, published=published, queries=1))
        await refused(Code.INTERNAL, service.get_campaign(name))


async def test_many_at_once_are_counted_once_each(service, publish, store):
    campaign = publish(queries=1)
    await service.create_campaign(seal(campaign.published))
    twice = [outcomes(service, campaign, report(n, (0, n))) for n in range(500) for _ in range(2)]
    results = await asyncio.gather(*twice)
    counts = Counter(status for of_one in results for status in of_one)
    assert counts == {Status.ACCEPTED: 500, Status.DUPLICATE: 500}
    (totals,) = store.totals("income")
    assert (totals.n, totals.total) == (500, sum(range(500)))
