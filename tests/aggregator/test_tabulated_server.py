"""Test a custom question, from its formula over devices and the wire to its estimates."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import grpc
import numpy as np
import pytest

from geoveil.campaign import (
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    Question,
    SmoothSpec,
    seal,
)
from geoveil.client import Policy, ReportBuilder
from geoveil.gp import FormulaProfile, GeoPrivacy, Linear, Radial, SystemSource
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, report_pb2

from .conftest import Published
from .refusals import refuses

PRIVACY = GeoPrivacy(1.0, 8000.0, "dollar")
PEOPLE = 1_500
NORMAL = 4.8916
"""Two-sided quantile of the normal law for α = 1e-6."""


def share(u: Any, ops: Any) -> Any:
    return 1 / (1 + ops.exp(-u))


def near(u: Any, ops: Any) -> Any:
    return ops.exp(-u)


@cache
def queries() -> tuple[Linear, Radial]:
    falling = FormulaProfile(share, scale=9_000.0, extent=40.0)
    return (
        Linear(falling, direction=1.0, offset=90_000.0),
        Radial(FormulaProfile(near, scale=30_000.0), center=70_000.0),
    )


class Seeded(SystemSource):
    """Bits of a test that pass as secure."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def bits(self, count: int) -> int:
        return int.from_bytes(self._rng.bytes(-(-count // 8))) >> (-count % 8)


def asked(publish: Callable[..., Published], mechanism: MechanismSpec) -> Published:
    campaign = replace(
        publish().campaign,
        questions=tuple(Question(f"q{i}", q.tabulated()) for i, q in enumerate(queries())),
        mechanism=mechanism,
        step_exponent=None,
    )
    return Published.of(campaign)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    "mechanism",
    [DebiasedLaplaceSpec(), LipschitzLaplaceSpec(), SmoothSpec(0.1)],
    ids=["debiased", "lipschitz", "smooth"],
)
async def test_a_formula_reaches_devices_and_its_mean_comes_back(wire, publish, mechanism):
    """n = 1,500 devices, seed 5, α = 1e-6 per query; the truth is that of the formula itself."""
    campaign = asked(publish, mechanism)
    await wire.create(campaign)
    builder = ReportBuilder(policy=Policy({"household income": PRIVACY}), source=Seeded(5))
    accepted = builder.accept(campaign.campaign_id, seal(campaign.published))
    incomes = np.random.default_rng(5).lognormal(math.log(90_000), 0.4, PEOPLE).tolist()
    reports = [
        report_pb2.Report.FromString(builder.prepare(accepted, income).report) for income in incomes
    ]
    results = await wire.submit(campaign, *reports)
    assert {result.status for result in results} == {report_pb2.REPORT_STATUS_ACCEPTED}

    shown = await wire.analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id="income"))
    assert len(shown.estimates) == len(queries())
    for index, (estimate, query) in enumerate(zip(shown.estimates, queries(), strict=True)):
        which = [report.answers[0].query_index == index for report in reports]
        x = np.array(incomes)[which]
        assert estimate.n == len(x)
        built = campaign.campaign.mechanisms[index]
        error = math.sqrt(float(built.variance(x).sum())) / len(x)
        limit = NORMAL * error + 1e-4
        truth = float(query.value(x).mean())
        assert abs(estimate.value - truth) <= limit < 0.4
        assert abs(estimate.value - truth - 0.8) > limit


async def test_a_server_publishes_no_table_that_is_none(wire, publish):
    campaign = asked(publish, DebiasedLaplaceSpec())
    message = campaign_pb2.Campaign.FromString(campaign.published)
    message.queries[1].radial.profile.at[2] = math.nan
    content = message.SerializeToString(deterministic=True)
    with refuses(grpc.StatusCode.INVALID_ARGUMENT) as caught:
        await wire.create(replace(campaign, published=content))
    assert "queries[1].at[2]" in str(caught.value.details())
