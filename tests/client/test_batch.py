"""Test that many devices make few requests."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from geoveil.campaign import Charge
from geoveil.client import (
    Contribution,
    DeliveryStatus,
    InMemoryTransport,
    Rejection,
    ReportBuilder,
    Transport,
    TransportError,
    gather,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import collector_pb2, report_pb2

FOUR_MIB = 4 * 1024 * 1024


@cache
def of_answers(count: int) -> bytes:
    """Return the bytes of a report without an id."""
    answers = [report_pb2.Answer(query_index=i, value=-(2**63)) for i in range(count)]
    return report_pb2.Report(answers=answers).SerializeToString()


def contribution(number: int, *, campaign_id: str = "c", answers: int = 1) -> Contribution:
    named = report_pb2.Report(report_id=number.to_bytes(16)).SerializeToString()
    return Contribution(
        campaign_id=campaign_id,
        digest=campaign_id.encode() * 32,
        report=named + of_answers(answers),
        charges=(Charge("location", GeoPrivacy(1, 1, "metre"), math.inf),),
        step_exponent=-10,
        closes=datetime(2027, 1, 1, tzinfo=UTC),
    )


def numbers(batch: Any) -> list[int]:
    return [int.from_bytes(r.report_id) for r in batch.request().reports]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1]), (10_000, [10_000]), (10_001, [10_000, 1]), (20_000, [10_000] * 2)],
)
def test_at_most_ten_thousand_reports(count, sizes):
    batches = list(gather(contribution(i) for i in range(count)))
    assert [len(b.contributions) for b in batches] == sizes
    assert [n for b in batches for n in numbers(b)] == list(range(count))


def test_at_most_four_mebibytes():
    batches = list(gather(contribution(i, answers=10_000) for i in range(50)))
    sizes = [b.request().ByteSize() for b in batches]
    assert max(sizes) <= FOUR_MIB
    assert [n for b in batches for n in numbers(b)] == list(range(50))
    # Not by being timid: all but the last are full to within one report.
    one = contribution(1, answers=10_000)
    assert len(sizes) > 1
    assert min(sizes[:-1]) > FOUR_MIB - len(one.report) - 6 * 50


def test_each_request_is_for_one_campaign():
    mixed = [contribution(i, campaign_id="ab"[i % 2]) for i in range(10)]
    batches = {b.campaign_id: b for b in gather(mixed)}
    assert numbers(batches["a"]) == [0, 2, 4, 6, 8]
    assert numbers(batches["b"]) == [1, 3, 5, 7, 9]
    assert batches["a"].request().campaign_digest == b"a" * 32
    assert [c.report for c in batches["a"].contributions] == [c.report for c in mixed[::2]]


def test_each_request_is_for_one_digest():
    changed = [replace(contribution(i), digest=bytes([i % 2] * 32)) for i in range(6)]
    assert {b.digest[0]: numbers(b) for b in gather(changed)} == {0: [0, 2, 4], 1: [1, 3, 5]}


def test_each_request_is_for_one_period():
    """Two reports of one participant would be known to belong together."""
    later = [replace(contribution(i), period=i % 3) for i in range(7)]
    batches = list(gather(later))
    assert sorted(map(numbers, batches)) == [[0, 3, 6], [1, 4], [2, 5]]
    assert all(len({c.period for c in b.contributions}) == 1 for b in batches)


def test_batches_come_as_they_fill():
    read = 0

    def endless() -> Any:
        nonlocal read
        while True:
            yield contribution(read)
            read += 1

    batches = gather(endless())
    assert len(next(batches).contributions) == 10_000
    assert read == 10_000  # the one that did not fit any more


def result(status: int, **more: Any) -> report_pb2.ReportResult:
    return report_pb2.ReportResult(status=status, **more)  # type: ignore[arg-type]


def test_results_are_read_in_order():
    (batch,) = gather(contribution(i) for i in range(3))
    outcomes = batch.results(
        collector_pb2.SubmitReportsResponse(
            results=[result(1), result(3, reason=4, detail="answer = 9"), result(2)]
        )
    )
    assert [o.status for o in outcomes] == [
        DeliveryStatus.ACKNOWLEDGED,
        DeliveryStatus.REJECTED,
        DeliveryStatus.ACKNOWLEDGED,
    ]
    assert [o.rejection for o in outcomes] == [None, Rejection("OUT_OF_RANGE", "answer = 9"), None]


@pytest.mark.parametrize("statuses", [[], [1, 1], [1, 1, 1, 1], [1, 0, 1], [1, 9, 1]])
def test_results_that_break_the_contract_prove_nothing(statuses):
    (batch,) = gather(contribution(i) for i in range(3))
    response = collector_pb2.SubmitReportsResponse(results=[result(s) for s in statuses])
    with pytest.raises(TransportError, match="INTERNAL: the server gave"):
        batch.results(response)


def test_many_devices_share_a_transport(campaign, policy, collector):
    """What a kiosk does: one builder, many values, few requests, every report counted once."""
    transport: Transport = InMemoryTransport(collector)
    builder = ReportBuilder(policy=policy)
    fetched = transport.get_campaign(collector_pb2.GetCampaignRequest(campaign_id="income"), 1.0)
    accepted = builder.accept("income", fetched.envelope.SerializeToString())
    assert accepted.campaign == campaign
    for batch in gather(builder.prepare(accepted, 1000.0 * i) for i in range(300)):
        for _ in range(2):  # sent again, as after a lost answer
            outcomes = batch.results(transport.submit_reports(batch.request(), 1.0))
            assert {o.status for o in outcomes} == {DeliveryStatus.ACKNOWLEDGED}
    assert len(collector.reports("income")) == 300
