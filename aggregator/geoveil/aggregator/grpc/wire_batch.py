"""SubmitReportsRequests of any size, counted before anything is made of them.

A small message is parsed by Protocol Buffers, which takes microseconds, but no object is made of
its reports yet. What large ones mostly hold is read by NumPy. Of other large ones only the frame is
read here, that is, which bytes are reports, and each of these is parsed once it is known how many
answers it may hold. Fields that this version does not know are passed over without being kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from geoveil.aggregator.domain.report_columns import ReportColumns
from geoveil.aggregator.domain.reports import Report
from geoveil.aggregator.grpc.wire_columns import LEAST_BYTES, read_columns
from geoveil.campaign.admission import MOST_REPORTS
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2, report_pb2

_Message = TypeVar("_Message", bound=Message)
_MODERATE_BYTES = 64 << 10
"""The most bytes that NumPy reads within a millisecond."""
_MOST_OTHERS = 100
"""Fields of a request apart from reports: ids that are given twice, and what is not known."""
_CAMPAIGN_ID, _DIGEST, _REPORTS = 1, 2, 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
_LAST_NUMBER = (1 << 29) - 1
_REPORT_BYTES, _ANSWER_BYTES = 1 << 16, 24
"""A report of n answers has at most so many bytes, and so many times n."""


@dataclass(frozen=True, slots=True, repr=False)
class UnreadReports:
    """Reports that are counted and not read yet.

    Args:
        pieces: serialised reports, or reports as Protocol Buffers parsed them.
    """

    pieces: Sequence[memoryview | report_pb2.Report]

    def __len__(self) -> int:
        return len(self.pieces)

    def read(self, most_answers: int) -> list[Report]:
        """Return the reports; of one with too many answers no more than tells that.

        Args:
            most_answers: of a sound report.

        Raises:
            ParameterError: if one is no report, or far longer than so many answers take.
        """
        longest = _REPORT_BYTES + _ANSWER_BYTES * most_answers
        return [_report(one, longest, most_answers + 1) for one in self.pieces]

    def __repr__(self) -> str:
        return f"UnreadReports({len(self)}, not shown)"


class SubmittedReports(NamedTuple):
    """What a message says."""

    campaign_id: str
    campaign_digest: bytes
    reports: ReportColumns | UnreadReports


def read_at_once(message: bytes) -> SubmittedReports | None:
    """Return what a SubmitReportsRequest says, or None if that may take more than a millisecond.

    Raises:
        ParameterError: if it is none.
    """
    if len(message) < LEAST_BYTES:
        return _small(message)
    return _columns(message) if len(message) < _MODERATE_BYTES else None


def read_batch(message: bytes) -> SubmittedReports:
    """Return what a SubmitReportsRequest says, however long that takes.

    Raises:
        ParameterError: if it is none, or has more fields than a request may have.
    """
    if len(message) < LEAST_BYTES:
        return _small(message)
    batch = _columns(message)
    if batch is not None:
        return batch
    campaign_id, digest = b"", b""
    pieces: list[memoryview] = []
    for number, content in _fields(message):
        if number == _REPORTS:
            pieces.append(content)
        elif number == _CAMPAIGN_ID:
            campaign_id = bytes(content)
        elif number == _DIGEST:
            digest = bytes(content)
    try:
        name = campaign_id.decode()
    except UnicodeDecodeError:
        raise _malformed(len(message)) from None
    return SubmittedReports(name, digest, UnreadReports(pieces))


def _small(message: bytes) -> SubmittedReports:
    request = _parsed(collector_pb2.SubmitReportsRequest, message)
    return SubmittedReports(
        request.campaign_id, request.campaign_digest, UnreadReports(request.reports)
    )


def _columns(message: bytes) -> SubmittedReports | None:
    columns = read_columns(message)
    return None if columns is None else SubmittedReports(*columns)


def _report(piece: memoryview | report_pb2.Report, longest: int, most_answers: int) -> Report:
    if isinstance(piece, memoryview):
        if len(piece) > longest:
            raise ParameterError("size of a report", len(piece), f"at most {longest:,} bytes")
        report = _parsed(report_pb2.Report, bytes(piece))
    else:
        report = piece
    answers = [(a.query_index, a.value) for a in islice(report.answers, most_answers)]
    return Report(report.report_id, answers, report.period)


def _parsed(kind: type[_Message], serialised: bytes) -> _Message:
    try:
        return kind.FromString(serialised)
    except DecodeError:
        raise _malformed(len(serialised)) from None


def _fields(message: bytes) -> Iterator[tuple[int, memoryview]]:
    """Yield the number and content of each field that holds bytes."""
    at, end, reports, others = 0, len(message), 0, 0
    view = memoryview(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        length = _FIXED.get(kind, 0)
        if kind in (_VARINT, _BYTES):
            value, at = _varint(message, at)
            length = value if kind == _BYTES else 0
        elif not length:
            raise _malformed(end)
        if not 1 <= number <= _LAST_NUMBER or at + length > end:
            raise _malformed(end)
        if number == _REPORTS and kind == _BYTES:
            reports += 1
        else:
            others += 1
        if reports > MOST_REPORTS:
            raise ParameterError("number of reports", "more", f"1 to {MOST_REPORTS:,}")
        if others > _MOST_OTHERS:
            raise ParameterError("number of other fields", "more", f"at most {_MOST_OTHERS}")
        if kind == _BYTES:
            yield number, view[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number that stands somewhere, and where it ends."""
    value = shift = 0
    for end in range(at + 1, min(at + _LONGEST_VARINT, len(message)) + 1):
        byte = message[end - 1]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, end
        shift += 7
    raise _malformed(len(message))


def _malformed(size: int) -> ParameterError:
    return ParameterError("request", f"{size} bytes", "a message of the wire contract")
