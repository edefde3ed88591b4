"""Test that no raw report can outweigh the others."""

from random import Random
from typing import Any

import pytest

from geoveil.campaign import (
    Allocation,
    Attribute,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    SmoothSpec,
)
from geoveil.gp import GeoPrivacy, SeededSource
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import analyst_pb2, report_pb2
from tests.campaigns import asked_for_points

from .conftest import Published

ENDS = (-(2**63), 2**63 - 1)
ACCEPTED, DUPLICATE = report_pb2.REPORT_STATUS_ACCEPTED, report_pb2.REPORT_STATUS_DUPLICATE
OUT_OF_RANGE = report_pb2.REJECTION_REASON_OUT_OF_RANGE


async def shown(wire: Any) -> Any:
    request = analyst_pb2.GetEstimateRequest(campaign_id="income")
    return (await wire.analyst.GetEstimate(request)).estimates


def drawn(campaign: Any, people: int) -> list[report_pb2.Report]:
    """Return true reports of people of all incomes."""
    rng, mechanism = Random(1), campaign.campaign.mechanisms[0]
    return [
        report_pb2.Report(
            report_id=rng.randbytes(16),
            answers=[report_pb2.Answer(value=mechanism.release(80.0 * i, SeededSource(i)))],
        )
        for i in range(people)
    ]


@pytest.mark.parametrize("mechanism", [LipschitzLaplaceSpec(), SmoothSpec(0.15), SmoothSpec(0.3)])
@pytest.mark.parametrize("end", ENDS)
async def test_a_made_up_report_moves_the_mean_by_no_more_than_is_said(
    start_server, publish, mechanism, end
):
    wire, people = (await start_server()).wire, 200
    campaign = publish(queries=1, mechanism=mechanism)
    await wire.create(campaign)
    honest = drawn(campaign, people)
    await wire.submit(campaign, *honest)
    (before,) = await shown(wire)
    values = [report.answers[0].value for report in honest]
    assert int(before.sum) == sum(values), "no true report is changed"
    made_up = report_pb2.Report(report_id=b"x" * 16, answers=[report_pb2.Answer(value=end)])
    results = await wire.submit(campaign, made_up)
    results += await wire.submit(campaign, made_up)
    assert [result.status for result in results] == [ACCEPTED, DUPLICATE]
    (after,) = await shown(wire)
    low, high = campaign.campaign.ranges[0]
    assert int(after.sum) == sum(values) + (low if end < 0 else high)
    assert after.n == people + 1
    assert abs(after.value - before.value) <= campaign.campaign.most_from_one(0) / people


async def test_many_reports_at_once_count_as_one_by_one(wire, publish, wire_report):
    """Also those that are read as columns, and those with an answer to every query."""
    for allocation in (Allocation.PARTITION, Allocation.REPEAT):
        campaign = publish(allocation.value, allocation=allocation)
        await wire.create(campaign)
        asked = range(3) if allocation.answers_all else (1,)
        reports = [wire_report(i, *((q, ENDS[i % 2]) for q in asked)) for i in range(500)]
        results = await wire.submit(campaign, *reports)
        assert {result.status for result in results} == {ACCEPTED}
        low, high = campaign.campaign.ranges[1]
        n, total, squares = (await wire.sums(campaign))[1]
        assert (n, total, squares) == (500, 250 * (low + high), 250 * (low**2 + high**2))


async def test_made_up_places_stay_near_the_area(wire, publish, wire_report):
    """Numbers have no end that a server could know: made-up ones count as they are."""
    plane = AzimuthalEquidistant(-73.98, 40.72, radius_m=20_000)
    numbers = asked_for_points(publish("numbers").campaign, 1)
    places = asked_for_points(
        numbers,
        2,
        campaign_id="places",
        attribute=Attribute(name="home", unit="metre", coordinates=plane),
        privacy=GeoPrivacy(1.0, 500.0, "metre"),
    )
    for campaign, most in ((places, 20_000 + 40 * 500.0), (numbers, None)):
        published = Published.of(campaign)
        await wire.create(published)
        axes = range(campaign.columns)
        await wire.submit(published, wire_report(1, *((axis, ENDS[1]) for axis in axes)))
        for n, total, _ in await wire.sums(published):
            assert n == 1
            if most is None:
                assert total == ENDS[1]
            else:
                assert 20_000 < total * campaign.point_mechanism.step < most


async def test_what_is_bounded_is_refused_beyond(wire, publish, wire_report):
    campaign = publish(mechanism=DebiasedLaplaceSpec())
    await wire.create(campaign)
    low, high = campaign.campaign.ranges[0]
    results = await wire.submit(
        campaign, *(wire_report(i, (0, v)) for i, v in enumerate((low, high, low - 1, high + 1)))
    )
    assert [result.reason for result in results] == [0, 0, OUT_OF_RANGE, OUT_OF_RANGE]
