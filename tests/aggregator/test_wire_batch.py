"""Test that requests are counted before parsing, and parsed like Protocol Buffers."""

import tracemalloc
from random import Random

import pytest
from google.protobuf.message import DecodeError

from geoveil.aggregator.domain.reports import Report
from geoveil.aggregator.grpc import submissions, wire_columns
from geoveil.aggregator.grpc.submissions import WireReports, read_at_once, read_batch
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2, report_pb2

from .test_hostile import mutated

DIGEST = bytes(range(32))
ANSWERS = 5


def request(reports: int, answers: int, rng: Random) -> bytes:
    return collector_pb2.SubmitReportsRequest(
        campaign_id="income",
        campaign_digest=DIGEST,
        reports=[
            report_pb2.Report(
                report_id=rng.randbytes(16),
                answers=[
                    report_pb2.Answer(query_index=q, value=rng.randrange(-(2**63), 2**63))
                    for q in range(answers)
                ],
                period=rng.choice([0, 1, 2**32 - 1]),
            )
            for _ in range(reports)
        ],
    ).SerializeToString()


def parsed(message: bytes) -> tuple[str, bytes, list[Report]]:
    """Return what Protocol Buffers say; of too many answers one more than there may be."""
    found = collector_pb2.SubmitReportsRequest.FromString(message)
    reports = [
        Report(r.report_id, [(a.query_index, a.value) for a in r.answers][: ANSWERS + 1], r.period)
        for r in found.reports
    ]
    return found.campaign_id, found.campaign_digest, reports


def read(message: bytes) -> tuple[str, bytes, list[Report]]:
    batch = read_batch(message)
    reports = batch.reports
    whole = reports.read(ANSWERS) if isinstance(reports, WireReports) else list(reports)
    assert len(whole) == len(reports)
    return batch.campaign_id, batch.campaign_digest, whole


@pytest.fixture
def any_length(monkeypatch):
    """Read short messages as long ones are read."""
    for module in (submissions, wire_columns):
        monkeypatch.setattr(module, "LEAST_BYTES", 128)


@pytest.mark.deep
@pytest.mark.usefixtures("any_length")
def test_mutated_messages_are_read_as_protocol_buffers_read_them():
    rng = Random(2)
    agreed = refused = 0
    for _ in range(4000):
        sound = request(rng.randrange(1, 12), rng.choice([1, 1, 2, ANSWERS + 3]), rng)
        message = mutated(sound, rng)
        if len(message) < 128:
            continue
        try:
            expected = parsed(message)
        except DecodeError:
            with pytest.raises(ParameterError):
                read(message)
            refused += 1
            continue
        assert read(message) == expected
        agreed += 1
    assert agreed > 300, (agreed, refused)
    assert refused > 300, (agreed, refused)


@pytest.mark.usefixtures("any_length")
@pytest.mark.parametrize(
    "extra",
    [
        b"\x79" + bytes(8),
        b"\x7d" + bytes(4),
        b"\xfa\xff\xff\xff\x0f\x00",
        b"\x0a\x03new",
        b"\x12\x02no",
        b"\x1a\x80\x00",
        b"\x18\x05",
        b"\x78" + b"\xff" * 9 + b"\x7f",
        b"\x7b\x7c",
    ],
    ids=bytes.hex,
)
def test_fields_that_are_unknown_or_repeated_mean_what_they_mean(extra):
    sound = request(8, 2, Random(3))
    for message in (sound + extra, extra + sound):
        assert read(message) == parsed(message)


@pytest.mark.usefixtures("any_length")
@pytest.mark.parametrize(
    "extra",
    [
        b"\x00\x00",
        b"\x1a\x7f",
        b"\x1a" + b"\xff" * 10,
        b"\x78" + b"\x80" * 20,
        b"\x80\x80\x80\x80\x10\x00",
        b"\x79\x00",
        b"\x0a\x02\xff\xfe",
        b"\x1a\x02\x0a\x7f",
    ],
    ids=bytes.hex,
)
def test_what_is_no_message_is_refused(extra):
    message = request(8, 2, Random(3)) + extra
    with pytest.raises(DecodeError):
        parsed(message)
    with pytest.raises(ParameterError, match="a message of the wire contract"):
        read(message)


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        (b"\x1a\x00", "number of reports must be 1 to 10,000"),
        (b"\x1a\x02\x12\x00", "number of reports must be 1 to 10,000"),
        (b"\x78\x01", "number of other fields must be at most 100"),
        (b"\x0a\x01a", "number of other fields must be at most 100"),
        (b"\x7b\x7c", "number of other fields must be at most 100"),
    ],
    ids=["empty reports", "reports of nothing", "unknown fields", "ids", "groups"],
)
def test_a_message_of_very_many_fields_costs_little_memory(padding, expected):
    message = request(1, 1, Random(4)) + padding * (1_000_000 // len(padding))
    assert peak_of(message, expected) < 3 << 20


def test_a_report_of_very_many_answers_is_not_read():
    report = b"\x0a\x10" + bytes(16) + b"\x12\x00" * 500_000
    batch = read_at_once(collector_pb2.SubmitReportsRequest(campaign_id="a").SerializeToString())
    assert batch is not None
    assert len(batch.reports) == 0
    length = len(report)
    prefix = bytes([0x1A, length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
    assert peak_of(prefix + report, "size of a report") < 3 << 20
    # As many as a campaign could have are read, and no more answers are made than tell that.
    (whole,) = read_batch(prefix + report).reports.read(100_000)  # type: ignore[union-attr]  # unread
    assert len(whole.answers) == 100_001


def test_no_object_is_made_of_small_requests_before_they_are_counted():
    """Two thousand reports fit into four kilobytes, and two thousand answers into one report."""
    head = collector_pb2.SubmitReportsRequest(campaign_id="a").SerializeToString()
    reports = read_batch(head + b"\x1a\x00" * 2000).reports
    assert isinstance(reports, WireReports)
    assert len(reports) == 2000
    assert len(reports.read(1)) == 2000
    report = report_pb2.Report(answers=[report_pb2.Answer()] * 1000)
    unread = read_at_once(collector_pb2.SubmitReportsRequest(reports=[report]).SerializeToString())
    assert unread is not None
    assert isinstance(unread.reports, WireReports)
    (whole,) = unread.reports.read(3)
    assert len(whole.answers) == 4


def test_reports_show_nothing_of_themselves():
    reports = WireReports([b"secret"])
    assert "secret" not in f"{reports!r} {reports}"
    assert len(reports) == 1


def peak_of(message: bytes, expected: str) -> int:
    """Return the most memory, in bytes, that Python held for a message that is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ParameterError, match=expected):
            read(message)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_may_take_long_is_not_read_at_once():
    """Short requests are, and moderate ones that NumPy reads; others are left for a thread."""
    rng = Random(5)
    several = collector_pb2.SubmitReportsRequest.FromString(request(500, 1, rng))
    for report in several.reports:
        report.period = 0
    for sound in (request(3, 2, rng), several.SerializeToString()):
        batch = read_at_once(sound)
        assert batch is not None
        assert batch.campaign_id == "income"
        assert len(batch.reports) == len(parsed(sound)[2])
    for slow in (request(500, 2, rng), request(5000, 1, rng), b"\x1a\x00" * 5000):
        assert read_at_once(slow) is None
