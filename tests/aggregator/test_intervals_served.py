"""Intervals that a server gives, over campaigns of reports that went through it."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from geoveil.campaign import (
    Allocation,
    DebiasedLaplaceSpec,
    PlanarLaplaceSpec,
    PointQuestion,
    encode_point_question,
)
from geoveil.gp import SeededSource, Threshold
from geoveil.proto.v1 import analyst_pb2, report_pb2
from tools.vectors.examples import ONE_BY_ONE

ALPHA = 1e-6
SHARE, DEVICES, CAMPAIGNS = 0.02, 20, 40


@pytest.mark.deep
@pytest.mark.parametrize("allocation", [*ONE_BY_ONE, None], ids=str)
async def test_people_whom_nobody_met_are_in_the_interval(start_server, publish, clock, allocation):
    """2 % are far above two thresholds, the others far below: 40 campaigns of 20 exact reports.

    At least 94 % of the intervals hold the share, alpha = 1e-6; without an allocation the questions
    are asked of perturbed values. Two thirds of the campaigns meet nobody from above: Student's
    interval, from the same estimates, must fail.
    """
    rng, source = np.random.default_rng(6), SeededSource(6)
    clock.now = clock.closes  # one look; for clocks that differ, reports are taken a minute more
    wire = (await start_server()).wire
    held = students = 0
    for number in range(CAMPAIGNS):
        more = {"mechanism": PlanarLaplaceSpec(1)}
        if allocation is not None:
            more = {"mechanism": DebiasedLaplaceSpec(), "allocation": allocation}
        published = publish(f"rare-{number}", queries=2, **more)
        campaign = published.campaign
        await wire.create(published)
        sent = []
        for device, above in enumerate(rng.random(DEVICES) < SHARE):
            columns = campaign.draw_columns(source)
            values = campaign.release([1e6 if above else -1e6], columns, source)
            answers = [
                report_pb2.Answer(query_index=column, value=value)
                for column, value in zip(columns, values, strict=True)
            ]
            sent.append(report_pb2.Report(report_id=device.to_bytes(16, "big"), answers=answers))
        results = await wire.submit(published, *sent)
        assert {result.status for result in results} == {report_pb2.REPORT_STATUS_ACCEPTED}
        shown = (await _asked(wire, published.campaign_id, allocation)).estimates[0]
        assert shown.interval_method == analyst_pb2.INTERVAL_METHOD_WEIGHTED_ENDS
        held += shown.ci_low <= SHARE <= shown.ci_high
        margin = stats.t.ppf(0.975, shown.n - 1) * shown.standard_error
        students += abs(shown.value - SHARE) <= margin
    fewest = stats.binom.ppf(ALPHA, CAMPAIGNS, 0.94)
    assert held >= fewest
    assert students < fewest


async def _asked(wire: Any, campaign_id: str, allocation: Allocation | None) -> Any:
    if allocation is not None:
        request = analyst_pb2.GetEstimateRequest(campaign_id=campaign_id)
        return await wire.analyst.GetEstimate(request)
    question = PointQuestion("above", Threshold(1_000.0, 16_000.0, "smoothstep"))
    queries = [encode_point_question(question)]
    return await wire.analyst.EstimateQueries(
        analyst_pb2.EstimateQueriesRequest(campaign_id=campaign_id, queries=queries)
    )


async def test_three_people_with_300_000_dollars_are_no_certainty(wire, publish, wire_report):
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
