"""Test that NumPy reads large requests like the parser of Protocol Buffers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, strategies as st

from geoveil.aggregator.domain.preparation import prepare
from geoveil.aggregator.domain.reports import PackedColumns
from geoveil.aggregator.grpc import wire_columns
from geoveil.aggregator.grpc.wire_columns import read_columns
from geoveil.proto.v1 import collector_pb2, report_pb2

from .conftest import publication_of, report_of as report
from .test_hostile import mutated
from .test_wire_batch import DIGEST, parsed

INT64 = st.integers(-(2**63), 2**63 - 1)
REPORTS = st.lists(
    st.builds(
        report_pb2.Report,
        report_id=st.binary(min_size=16, max_size=16),
        answers=st.builds(
            report_pb2.Answer, query_index=st.integers(0, 2**14 - 1), value=INT64
        ).map(lambda answer: [answer]),
        period=st.integers(0, 127),
    ),
    min_size=1,
    max_size=20,
)


@pytest.fixture(autouse=True)
def any_length(monkeypatch):
    monkeypatch.setattr(wire_columns, "LEAST_BYTES", 128)


def request_of(reports: list[Any], **changes: Any) -> bytes:
    """Return a request that is long enough to be tried."""
    filler = [report(n, (0, n)) for n in range(5)]
    said = {"campaign_id": "income", "campaign_digest": DIGEST, "reports": filler + reports}
    assert changes.keys() <= said.keys()
    return collector_pb2.SubmitReportsRequest(**(said | changes)).SerializeToString()


def same(message: bytes) -> bool:
    """Return whether NumPy took the message; it must then say what the parser does."""
    columns = read_columns(message)
    if columns is None:
        return False
    assert (columns.campaign_id, columns.campaign_digest, list(columns.reports)) == parsed(message)
    return True


@given(REPORTS)
def test_common_requests_are_read_and_read_right(reports):
    assert same(request_of(reports))


@given(REPORTS, st.randoms(use_true_random=False))
def test_whatever_is_read_is_read_right(reports, rng):
    message = mutated(request_of(reports), rng)
    try:
        parsed(message)
    except DecodeError:
        assert read_columns(message) is None
    else:
        same(message)


@pytest.mark.parametrize(
    "unusual",
    [
        report(1),
        report(1, (0, 5), (1, 6)),
        report(1, (2**14, 5)),
        report(1, (0, 5), period=128),
        report_pb2.Report(report_id=bytes(15), answers=[report_pb2.Answer(value=1)]),
        report_pb2.Report(answers=[report_pb2.Answer(value=1)]),
        report_pb2.Report(),
    ],
)
def test_unusual_reports_are_left_to_the_parser(unusual):
    assert read_columns(request_of([unusual])) is None
    assert read_columns(request_of([unusual, report(2, (0, 1))])) is None


def test_other_headers_are_left_to_the_parser():
    assert same(request_of([]))
    for changes in (
        {"campaign_id": ""},
        {"campaign_digest": b""},
        {"campaign_digest": bytes(31)},
        {"campaign_id": "i" * 128},
    ):
        assert read_columns(request_of([], **changes)) is None
    message = request_of([])
    assert read_columns(message + b"\x20\x01") is None  # an unknown field
    assert read_columns(message.replace(b"income", b"inc\xffme")) is None
    assert read_columns(b"\x0a\x06income" + message) is None
    assert read_columns(message[:-1]) is None


def test_numbers_longer_than_need_be():
    plain = request_of([])
    body = bytes(range(16))
    for value in (b"\x80\x00", b"\x81\x80\x80\x00", b"\xff" * 9 + b"\x01"):
        answer = b"\x08\x80\x00\x10" + value
        content = b"\x0a\x10" + body + b"\x12" + bytes([len(answer)]) + answer
        assert same(plain + b"\x1a" + bytes([len(content)]) + content)
    too_long = b"\x10" + b"\xff" * 10 + b"\x01"
    content = b"\x0a\x10" + body + b"\x12" + bytes([len(too_long)]) + too_long
    assert read_columns(plain + b"\x1a" + bytes([len(content)]) + content) is None


def test_an_id_that_looks_like_a_report_is_read_right_or_not_at_all():
    lookalike = b"\x1a\x20\x0a\x10" * 4
    answers = [report_pb2.Answer(value=1)]
    assert not same(request_of([report_pb2.Report(report_id=lookalike, answers=answers)]))


def test_columns_are_a_sequence_of_reports():
    message = request_of([report(9, (3, -7), period=2)])
    columns = read_columns(message)
    assert columns is not None
    _, _, reports = parsed(message)
    assert columns.reports[-1] == reports[-1]
    assert columns.reports[2:4] == reports[2:4]
    with pytest.raises(IndexError):
        columns.reports[6]


def test_representations_hide_reports():
    columns = read_columns(request_of([report(9, (3, 4711))]))
    assert columns is not None
    shown = repr(columns) + repr(columns.reports)
    assert "4711" not in shown
    assert "array" not in shown


def test_a_period_that_has_not_begun_is_told_as_of_single_reports(publish):
    weekly = replace(publish().campaign, period=timedelta(days=7))
    publication = publication_of(weekly)
    columns = read_columns(request_of([report(9, (2, -7), period=2), report(8, (1, 3), period=1)]))
    assert columns is not None
    for sequence in (columns.reports, list(columns.reports)):
        prepared = prepare(publication, sequence, 1)
        assert list(prepared.early) == [False] * 5 + [True, False]
        assert list(map(len, prepared.packed)) == [6, 1]
        begun = prepare(publication, sequence, 2)
        assert not begun.early
        assert list(map(len, begun.packed)) == [7, 0]
        assert list(begun.packed[0]) == publication.layout.pack(list(columns.reports))
    assert type(prepare(publication, columns.reports, 2).packed[0]) is PackedColumns


def test_admission_and_packing_are_those_of_single_reports(publish):
    from geoveil.aggregator.domain.layout import Layout
    from geoveil.campaign import DebiasedLaplaceSpec

    campaign = publish(mechanism=DebiasedLaplaceSpec()).campaign
    low, high = campaign.mechanisms[0].grid_range
    sound = [report(n, (n % 3, value)) for n, value in enumerate([low, 0, 1, high])]
    publication = publication_of(campaign)
    admission, layouts = (
        publication.admission,
        [Layout(campaign, 1), Layout(campaign, 32, bytes(16))],
    )
    for wrong in (
        [],
        [report(8, (3, 0))],
        [report(8, (0, low - 1))],
        [report(8, (2, high + 1))],
        [report(8, (0, 0), period=1)],
    ):
        columns = read_columns(request_of([*sound, *wrong]))
        assert columns is not None
        reports = list(columns.reports)
        faults = prepare(publication, reports, 0).faults
        assert prepare(publication, columns.reports, 0).faults == faults
        reasons = [found and found.reason for found in faults]
        assert reasons == [f and f.reason for f in (admission.fault(*r) for r in reports)]
        assert any(faults) == bool(wrong)
    columns = read_columns(request_of(sound))
    assert columns is not None
    for layout in layouts:
        packed = layout.pack(columns.reports)
        assert list(packed) == layout.pack(list(columns.reports))
        assert packed[0].report_id == columns.reports[0].report_id
