"""Packing, hiding and admitting single reports, of which none outweighs the others."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from geoveil.aggregator.domain.preparation import prepare, takes_little
from geoveil.aggregator.domain.reports import (
    PackedColumns,
    PackedReport,
    Report,
    ReportColumns,
    ReportResult,
    Status,
    in_columns,
    pack,
    unpack,
)
from geoveil.campaign import (
    Allocation,
    Attribute,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    SigningKey,
    SmoothSpec,
    TokenRule,
)
from geoveil.campaign.admission import Admission, Fault, Reason
from geoveil.gp import GeoPrivacy, SeededSource
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import analyst_pb2, report_pb2
from geoveil.relay import IssuerKey
from geoveil.relay.blind_rsa import blind, unblind
from tests.campaigns import asked_for_points

from .conftest import Published, publication_of

ID = bytes(range(16))
ANSWER = st.tuples(st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(ANSWER, min_size=1, max_size=50))
def test_packing_loses_nothing(answers):
    packed = pack(answers)
    assert list(unpack(packed)) == answers
    # An independent writer of the same form.
    assert packed == b"".join(
        index.to_bytes(4, "little") + value.to_bytes(8, "little", signed=True)
        for index, value in answers
    )


def test_representations_hide_reports():
    shown = repr(
        [
            Report(b"id-id-id-id-id-i", [(77, 4711)]),
            PackedReport(b"id-id-id-id-id-i", b"4711"),
            ReportResult(Status.REJECTED, Reason.OUT_OF_RANGE, "4711"),
        ]
    )
    assert "4711" not in shown
    assert "id-id" not in shown
    assert "77" not in shown


def test_packed_columns_are_a_sequence_of_packed_reports():
    ids = [bytes([n]) * 16 for n in range(4)]
    reports = [PackedReport(of, pack([(n, -n)])) for n, of in enumerate(ids)]
    columns = PackedColumns(*in_columns(reports))
    assert in_columns(columns) == in_columns(reports)
    assert columns.ids == b"".join(ids)
    assert len(columns) == 4
    assert list(columns) == reports
    assert [columns[at] for at in range(4)] == reports
    assert columns[1:3] == reports[1:3]


@pytest.mark.parametrize(
    ("ids", "distinct"),
    [
        (["ax"], True),
        (["ax", "bx"], True),
        (["ax", "ay"], False),
        (["ax", "bx", "ax"], False),
        (["ax", "bx", "bx"], False),
    ],
)
def test_ids_are_distinct_if_their_first_halves_are(ids, distinct):
    joined = "".join(8 * letter for of in ids for letter in of).encode()
    assert PackedColumns(joined, pack([(0, 0)]) * len(ids)).distinct is distinct


def test_partition_admits_one_answer(publish):
    admission = Admission(publish(queries=3).campaign)
    for index in range(3):
        assert admission.fault(*Report(ID, [(index, -5)])) is None
    for wrong in ([], [(-1, 0)], [(3, 0)], [(2**32 - 1, 0)], [(0, 0), (1, 0)], [(0, 0), (0, 0)]):
        fault = admission.fault(*Report(ID, wrong))
        assert fault is not None
        assert fault.reason is Reason.WRONG_ANSWERS
        expected = "query_index of the answers must be one number from 0 to 2, got query_index"
        assert fault.detail == f"{expected} of the answers={[index for index, _ in wrong]}"


@pytest.mark.parametrize("allocation", [Allocation.SPLIT, Allocation.REPEAT])
def test_split_and_repeat_admit_all_answers_in_order(publish, allocation):
    admission = Admission(publish(queries=3, allocation=allocation).campaign)
    assert admission.fault(*Report(ID, [(0, 1), (1, 2), (2, 3)])) is None
    for wrong in (
        [],
        [0],
        [0, 1],
        [0, 2, 1],
        [0, 1, 2, 3],
        [0, 1, 1],
        [0, 0, 1],
        list(range(5)),
        list(range(10_000)),
    ):
        fault = admission.fault(*Report(ID, [(index, 0) for index in wrong]))
        assert fault is not None
        assert fault.reason is Reason.WRONG_ANSWERS
        assert "all the numbers from 0 to 2, in order" in fault.detail
        # 10,000 of them fit a response.
        shown = wrong if len(wrong) <= 5 else "[0, 1, 2, 3, 4] and 9995 more"
        assert fault.detail.endswith(f"={shown!r}")


def test_periods_are_those_of_the_campaign(publish):
    once = publish().campaign
    weekly = replace(once, period=timedelta(days=7))
    assert weekly.periods == 5
    for campaign, periods in ((once, 1), (weekly, 5)):
        admission = Admission(campaign)
        assert admission.fault(*Report(ID, [(0, 0)], periods - 1)) is None
        for wrong in (-1, periods, 2**32 - 1):
            fault = admission.fault(*Report(ID, [(0, 0)], wrong))
            assert fault is not None
            assert fault.reason is Reason.WRONG_PERIOD
            assert f"from 0 to {periods - 1}, got period={wrong}" in fault.detail


@pytest.mark.parametrize("length", [0, 1, 15, 17, 1000])
def test_ids_have_16_bytes(publish, length):
    fault = Admission(publish().campaign).fault(*Report(bytes(length), [(0, 0)]))
    assert fault is not None
    assert fault.reason is Reason.MALFORMED_ID
    assert f"must be 16 bytes, got length of report_id={length}" in fault.detail


def test_answers_stay_within_what_the_mechanism_can_produce(publish):
    campaign = publish(mechanism=DebiasedLaplaceSpec()).campaign
    low, high = campaign.mechanisms[1].grid_range
    admission = Admission(campaign)
    for value in (low, 0, high):
        assert admission.fault(*Report(ID, [(1, value)])) is None
        assert all_sound(admission, (1, 0), (1, value))
    for value in (low - 1, high + 1, 2**63 - 1, -(2**63)):
        fault = admission.fault(*Report(ID, [(1, value)]))
        assert fault is not None
        assert fault.reason is Reason.OUT_OF_RANGE
        expected = f"answer to query 1 must be an integer from {low} to {high}"
        assert fault.detail == f"{expected}, got answer to query 1={value}"
        assert not all_sound(admission, (1, 0), (1, value))


def all_sound(admission: Admission, *answers: tuple[int, int], period: int = 0) -> bool:
    """Return whether reports of one answer each, the last in a period, pass in columns."""
    indices, values = np.array(answers, np.int64).T
    periods = np.zeros(len(answers), np.uint32)
    periods[-1] = period
    return admission.all_sound(indices.astype(np.uint32), values, periods)


def test_columns_pass_if_each_report_would(publish):
    admission = Admission(replace(publish().campaign, period=timedelta(days=7)))
    assert all_sound(admission, (0, 5), (2, ENDS[0]), (1, ENDS[1]), period=4) is True
    assert all_sound(admission, (0, 5), (2, 5), period=5) is False
    assert all_sound(admission, (0, 5), (3, 5)) is False
    every = Admission(publish(queries=1, allocation=Allocation.REPEAT).campaign)
    assert all_sound(every, (0, 5)) is True
    every = Admission(publish(queries=2, allocation=Allocation.REPEAT).campaign)
    assert all_sound(every, (0, 5), (1, 5)) is False


def test_a_value_below_the_range_is_refused_in_columns(publish):
    publication = publication_of(publish(mechanism=DebiasedLaplaceSpec()).campaign)
    low, _ = publication.campaign.ranges[0]
    zeros = np.zeros(1, np.uint32)
    columns = ReportColumns(ID, zeros, np.array([low - 1]), zeros)
    (fault,) = prepare(publication, columns, 0).faults
    assert fault is not None
    assert fault.reason is Reason.OUT_OF_RANGE


def test_a_token_is_of_its_report_and_checked_before_its_answers(publish):
    key = IssuerKey.generate()
    campaign = replace(
        publish().campaign, token_key=key.public, relay_operator=SigningKey.generate().public
    )
    rule = TokenRule.of(campaign)
    assert rule is not None
    blinded = blind(key.public, rule.message(ID), bytes(48), 3**99)
    token = unblind(key.public, key.sign(blinded), 3**99)
    admission = Admission(campaign)
    assert admission.fault(ID, [(0, 0)], 0, token) is None
    for report_id, wrong in ((ID, b""), (bytes(16), token), (ID, token[::-1])):
        fault = admission.fault(report_id, [(3, 0)], 0, wrong)
        expected = "one that the campaign's issuer made for this report_id and period"
        detail = f"token must be {expected}, got token='{len(wrong)} bytes'"
        assert fault == Fault(Reason.WRONG_TOKEN, detail)
    assert not all_sound(admission, (0, 5)), "columns have no tokens"
    publication = publication_of(campaign)
    assert takes_little(publication, [Report(ID, [(0, 0)])] * 19)
    assert not takes_little(publication, [Report(ID, [(0, 0)])] * 20)


def test_a_request_of_many_reports_takes_more_than_little(publish):
    publication = publication_of(publish().campaign)
    assert takes_little(publication, [Report(ID, [(0, 0)])] * 199) is True
    assert takes_little(publication, [Report(ID, [(0, 0)])] * 200) is False
    for count, index, little in ((2_499, 2, True), (2_500, 2, False), (9, 3, False)):
        zeros = np.zeros(count, np.uint32)
        indices = np.full(count, index, np.uint32)
        columns = ReportColumns(bytes(16 * count), indices, zeros.astype(np.int64), zeros)
        assert takes_little(publication, columns) is little


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
