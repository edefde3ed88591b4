"""Intervals that a server gives, over campaigns of reports that went through it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from geoveil.campaign import DebiasedLaplaceSpec
from geoveil.proto.v1 import analyst_pb2, report_pb2

ALPHA = 1e-6
SHARE, DEVICES, CAMPAIGNS = 0.02, 20, 40


@pytest.mark.deep
async def test_people_whom_nobody_met_are_in_the_interval(
    start_server: Any, publish: Callable[..., Any], wire_report: Callable[..., Any]
) -> None:
    """2 % are far above the threshold, the others far below: 40 campaigns of 20 reports.

    At least 94 % of the intervals hold the share, alpha = 1e-6. Two thirds of the campaigns meet
    nobody from above: Student's interval, from the same sums, must fail.
    """
    rng = np.random.default_rng(6)
    wire = (await start_server()).wire
    held = students = 0
    for number in range(CAMPAIGNS):
        published = publish(f"rare-{number}", queries=1, mechanism=DebiasedLaplaceSpec())
        mechanism = published.campaign.mechanisms[0]
        incomes = np.where(rng.random(DEVICES) < SHARE, 1e7, -1e7)
        reports = np.rint(mechanism.simulate(incomes, rng) / mechanism.step).astype(int)
        await wire.create(published)
        sent = [wire_report(n, (0, int(report))) for n, report in enumerate(reports)]
        results = await wire.submit(published, *sent)
        assert {result.status for result in results} == {report_pb2.REPORT_STATUS_ACCEPTED}
        asked = analyst_pb2.GetEstimateRequest(campaign_id=published.campaign_id)
        (shown,) = (await wire.analyst.GetEstimate(asked)).estimates
        assert shown.interval_method == analyst_pb2.INTERVAL_METHOD_WEIGHTED_ENDS
        held += shown.ci_low <= SHARE <= shown.ci_high
        margin = stats.t.ppf(0.975, DEVICES - 1) * shown.standard_error
        students += abs(shown.value - SHARE) <= margin
    fewest = stats.binom.ppf(ALPHA, CAMPAIGNS, 0.94)
    assert held >= fewest
    assert students < fewest


async def test_three_people_with_300_000_dollars_are_no_certainty(
    start_server: Any, publish: Callable[..., Any], wire_report: Callable[..., Any]
) -> None:
    wire = (await start_server()).wire
    published = publish(queries=1, mechanism=DebiasedLaplaceSpec())
    one = round(1 / published.campaign.mechanisms[0].step)
    await wire.create(published)
    await wire.submit(published, *[wire_report(n, (0, one)) for n in range(3)])
    asked = analyst_pb2.GetEstimateRequest(campaign_id=published.campaign_id)
    (shown,) = (await wire.analyst.GetEstimate(asked)).estimates
    assert shown.standard_error == 0.0
    assert shown.ci_low < 0.4
    assert shown.ci_high == 1.0
    limits = shown.limits
    assert (limits.least_mean, limits.greatest_mean) == (0.0, 1.0)
    assert limits.least_answer < 0 < 1 < limits.greatest_answer
