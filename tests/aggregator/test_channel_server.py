"""A campaign with channels, from the plan over devices and the wire to its estimates."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import grpc
import numpy as np
import pytest

from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.preparation import prepare
from geoveil.aggregator.domain.reports import Report, ReportColumns
from geoveil.campaign import (
    Allocation,
    ChannelSpec,
    Question,
    digest,
    encode,
    seal,
    unbiased_for,
)
from geoveil.campaign.admission import Admission, Reason
from geoveil.client import Policy, ReportBuilder
from geoveil.gp import GeoPrivacy, LinearProgramMechanism, Query, SystemSource, Threshold
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, report_pb2

from .conftest import Published, ServerStarter, publication_of

PRIVACY = GeoPrivacy(1.0, 8000.0, "dollar")
ABOVE, FAR = Threshold(100_000.0, 16_000.0), Threshold(60_000.0, 24_000.0, "smoothstep")
PEOPLE = 3_000
ALPHA = 1e-6
NORMAL = 4.8916
"""Two-sided quantile of the normal law for α = 1e-6."""


class Seeded(SystemSource):
    """Bits of a test that pass as secure."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def bits(self, count: int) -> int:
        whole = int.from_bytes(self._rng.bytes(-(-count // 8)))
        return whole >> (-count % 8)


@cache
def planned(query: Query, epsilon: float = 1.0) -> LinearProgramMechanism:
    return LinearProgramMechanism(query, GeoPrivacy(epsilon, 8000.0, "dollar"), quick=True)


def channels(
    publish: Callable[..., Published],
    *queries: Query,
    epsilon: float = 1.0,
    allocation: Allocation = Allocation.PARTITION,
) -> Published:
    campaign = replace(
        publish().campaign,
        questions=tuple(Question(f"q{i}", query) for i, query in enumerate(queries)),
        mechanism=ChannelSpec.of(*(planned(query, epsilon) for query in queries)),
        allocation=allocation,
        step_exponent=None,
    )
    content = encode(campaign)
    return Published(campaign, content, digest(content))


@pytest.mark.parametrize(
    ("allocation", "epsilon"),
    [(Allocation.SPLIT, 0.5), pytest.param(Allocation.PARTITION, 1.0, marks=pytest.mark.deep)],
)
async def test_from_devices_to_estimates(
    start_server: ServerStarter,
    publish: Callable[..., Published],
    allocation: Allocation,
    epsilon: float,
) -> None:
    """n = 3,000 devices, seed 5, α = 1e-6 per query; a truth 0.15 away must be refused.

    The truth is the mean of the soft query over the devices that answered it; what is left is the
    noise alone, with the variance that the mechanism states, and its bias.
    """
    wire = (await start_server()).wire
    asked = channels(publish, ABOVE, FAR, epsilon=epsilon, allocation=allocation)
    await wire.create(asked)
    builder = ReportBuilder(policy=Policy({"household income": PRIVACY}), source=Seeded(5))
    accepted = builder.accept(asked.campaign_id, seal(asked.published))
    incomes = np.random.default_rng(5).lognormal(math.log(90_000), 0.4, PEOPLE).tolist()
    reports, answered = [], []
    for income in incomes:
        made = builder.prepare(accepted, income)
        reports.append(report_pb2.Report.FromString(made.report))
        answered.append({answer.query_index for answer in reports[-1].answers})
    results = await wire.submit(asked, *reports)
    assert {result.status for result in results} == {report_pb2.REPORT_STATUS_ACCEPTED}

    shown = await wire.analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id="income"))
    assert shown.privacy.epsilon == 1.0
    for index, (estimate, mechanism) in enumerate(
        zip(shown.estimates, asked.campaign.mechanisms, strict=True)
    ):
        x = np.array([v for v, which in zip(incomes, answered, strict=True) if index in which])
        assert estimate.n == len(x)
        truth = float(mechanism.query.value(x).mean())
        error = math.sqrt(float(mechanism.variance(x).sum())) / len(x)
        limit = NORMAL * error + mechanism.bias_bound
        assert abs(estimate.value - truth) <= limit < 0.15
        assert abs(estimate.value - truth - 0.15) > limit
        assert not estimate.HasField("median_of_means")
    words = "Unbiased, but for a bias of at most "
    assert shown.unbiased_for.startswith(words)
    assert float(shown.unbiased_for.removeprefix(words).split(",")[0]) >= max(
        m.bias_bound for m in asked.campaign.mechanisms
    )


async def test_a_server_publishes_no_table_that_breaks_the_privacy(
    start_server: ServerStarter, publish: Callable[..., Published]
) -> None:
    wire = (await start_server()).wire
    asked = channels(publish, ABOVE)
    message = campaign_pb2.Campaign.FromString(asked.published)
    message.privacy.epsilon = 0.9
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await wire.create(replace(asked, published=message.SerializeToString(deterministic=True)))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "ratio of rows 0 and 1 must be at most" in str(caught.value.details())


def test_only_outputs_are_admitted(publish: Callable[..., Published]) -> None:
    campaign = channels(publish, ABOVE, FAR).campaign
    admission = Admission(campaign)
    for index, mechanism in enumerate(campaign.mechanisms):
        outputs = mechanism.outputs or ()
        for value in outputs:
            assert admission.fault(*Report(bytes(16), [(index, value)])) is None
        for value in (outputs[0] - 1, outputs[-1] + 1, outputs[3] + 1, outputs[3] - 1):
            assert value not in outputs
            fault = admission.fault(*Report(bytes(16), [(index, value)]))
            assert fault is not None
            assert fault.reason is Reason.OUT_OF_RANGE
        assert f"one of the {len(outputs)} outputs of its channel" in fault.detail


def test_many_reports_are_admitted_as_single_ones_are(publish: Callable[..., Published]) -> None:
    """Also a value that is an output, but of the other query's channel."""
    campaign = channels(publish, ABOVE, FAR).campaign
    publication = publication_of(campaign)
    first, second = (sorted(outputs or ()) for outputs in campaign.outputs)
    alien = next(value for value in second if value not in first and first[0] < value < first[-1])

    def columns(rows: list[tuple[int, int]]) -> ReportColumns:
        indices, values = zip(*rows, strict=True)
        return ReportColumns(
            bytes(16 * len(rows)), np.array(indices, np.uint32), np.array(values, np.int64),
            np.zeros(len(rows), np.uint32),
        )  # fmt: skip

    sound = [(0, value) for value in first] + [(1, value) for value in second]
    assert prepare(publication, columns(sound), 0).faults == [None] * len(sound)
    for index, value in ((0, alien), (1, second[5] + 1), (0, first[0] - 1), (2, first[0])):
        faults = prepare(publication, columns([*sound, (index, value)]), 0).faults
        assert faults[:-1] == [None] * len(sound)
        assert faults[-1] is not None


def test_what_channels_are_unbiased_for(publish: Callable[..., Any]) -> None:
    ramp = channels(publish, ABOVE).campaign
    assert unbiased_for(ramp).startswith("Unbiased for the mean of the soft query")
    step = channels(publish, ABOVE, FAR, epsilon=0.5, allocation=Allocation.SPLIT).campaign
    assert 1e-6 < step.mechanisms[1].bias_bound < 1e-3
    assert unbiased_for(step).startswith("Unbiased, but for a bias of at most 0.00")
    # Bounded noise needs no median of means.
    assert Layout.of(step).blocks == 1
