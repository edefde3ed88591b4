"""Packing, hiding and admitting single reports."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from geoveil.aggregator.domain.reports import (
    PackedReport,
    Report,
    ReportResult,
    Status,
    pack,
    unpack,
)
from geoveil.campaign import Allocation, DebiasedLaplaceSpec
from geoveil.campaign.admission import Admission, Reason

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


def test_partition_admits_one_answer(publish):
    admission = Admission(publish(queries=3).campaign)
    for index in range(3):
        assert admission.fault(*Report(ID, [(index, -5)])) is None
    for wrong in ([], [(3, 0)], [(2**32 - 1, 0)], [(0, 0), (1, 0)], [(0, 0), (0, 0)]):
        fault = admission.fault(*Report(ID, wrong))
        assert fault is not None
        assert fault.reason is Reason.WRONG_ANSWERS
        assert "one number from 0 to 2" in fault.detail


@pytest.mark.parametrize("allocation", [Allocation.SPLIT, Allocation.REPEAT])
def test_split_and_repeat_admit_all_answers_in_order(publish, allocation):
    admission = Admission(publish(queries=3, allocation=allocation).campaign)
    assert admission.fault(*Report(ID, [(0, 1), (1, 2), (2, 3)])) is None
    for wrong in ([], [0], [0, 1], [0, 2, 1], [0, 1, 2, 3], [0, 1, 1], list(range(10_000))):
        fault = admission.fault(*Report(ID, [(index, 0) for index in wrong]))
        assert fault is not None
        assert fault.reason is Reason.WRONG_ANSWERS
        assert "all the numbers from 0 to 2, in order" in fault.detail
        assert len(fault.detail) < 200  # 10,000 of them fit a response


def test_periods_are_those_of_the_campaign(publish):
    once = publish().campaign
    weekly = replace(once, period=timedelta(days=7))
    assert weekly.periods == 5
    for campaign, periods in ((once, 1), (weekly, 5)):
        admission = Admission(campaign)
        assert admission.fault(*Report(ID, [(0, 0)], periods - 1)) is None
        for wrong in (periods, 2**32 - 1):
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
    for value in (low - 1, high + 1, 2**63 - 1, -(2**63)):
        fault = admission.fault(*Report(ID, [(1, value)]))
        assert fault is not None
        assert fault.reason is Reason.OUT_OF_RANGE
        assert str(value) in fault.detail
        assert f"from {low} to {high}" in fault.detail
