"""SubmitReportsRequests of any size; reports are counted before objects are made of them.

Protocol Buffers parses small messages, but does not yet make report objects. NumPy reads most large
messages; the reports of others are counted and parsed one by one. Compressed requests are unpacked
here up to the largest permitted size; gRPC would unpack 4 kB to 4 MB on the event loop.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from geoveil.aggregator.domain.reports import Report, UnreadReports
from geoveil.aggregator.grpc.wire_columns import LEAST_BYTES, SubmittedReports, read_columns
from geoveil.campaign import MOST_REPORTS
from geoveil.gp import ParameterError
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest
from geoveil.proto.v1.report_pb2 import Report as WireReport

_Message = TypeVar("_Message", bound=Message)
GZIP = b"\x1f\x8b"
"""The first bytes of gzip; a protobuf message has no field of this type."""
_WITH_HEADER = 31
_MODERATE_BYTES = 64 << 10
"""The most bytes that NumPy can read within a millisecond."""
_MOST_OTHERS = 100
"""The most fields of a request besides reports: repeated ids and unknown fields."""
_REPORTS = SubmitReportsRequest.DESCRIPTOR.fields_by_name["reports"].number
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10
_REPORT_BYTES, _ANSWER_BYTES = 1 << 16, 24
"""The most bytes of a report: a constant, and bytes per answer."""


def unpacked(message: bytes, longest: int) -> bytes:
    """Return a request without compression, of at most `longest` bytes.

    Raises:
        ParameterError: if it is damaged, or unpacks to more bytes.
    """
    if not message.startswith(GZIP):
        return message
    unpacking = zlib.decompressobj(wbits=_WITH_HEADER)
    try:
        content = unpacking.decompress(message, longest + 1)
    except zlib.error:
        raise ParameterError("request", f"{len(message)} bytes", "sound gzip") from None
    if len(content) > longest:
        raise ParameterError("size of a request", "more", f"at most {longest:,} bytes")
    if not unpacking.eof:
        raise ParameterError("request", f"{len(message)} bytes", "sound gzip")
    return content


@dataclass(frozen=True, slots=True, repr=False)
class WireReports(UnreadReports):
    """Reports that are counted but not yet read, serialised or parsed by Protocol Buffers."""

    pieces: Sequence[bytes | WireReport]

    def __len__(self) -> int:
        return len(self.pieces)

    def read(self, most_answers: int) -> list[Report]:
        longest = _REPORT_BYTES + _ANSWER_BYTES * most_answers
        reports = []
        for piece in self.pieces:
            if isinstance(piece, bytes):
                if len(piece) > longest:
                    few = f"at most {longest:,} bytes"
                    raise ParameterError("size of a report", len(piece), few)
                report = _parsed(WireReport, piece)
            else:
                report = piece
            answers = [(a.query_index, a.value) for a in islice(report.answers, most_answers + 1)]
            reports.append(Report(report.report_id, answers, report.period, report.token))
        return reports


def read_at_once(message: bytes) -> SubmittedReports | None:
    """Return a request's reports, or None if reading may take more than a millisecond.

    Raises:
        ParameterError: if it is not a request.
    """
    if len(message) < LEAST_BYTES:
        request = _parsed(SubmitReportsRequest, message)
        reports = WireReports(request.reports)
        return SubmittedReports(request.campaign_id, request.campaign_digest, reports)
    return read_columns(message) if len(message) < _MODERATE_BYTES else None


def read_batch(message: bytes) -> SubmittedReports:
    """Return a request's reports, read one by one.

    Raises:
        ParameterError: if it is not a request, or has too many fields.
    """
    batch = read_columns(message)
    if batch is not None:
        return batch
    _count(message)
    request = _parsed(_FRAME, message)
    return SubmittedReports(
        request.campaign_id, request.campaign_digest, WireReports(request.reports)
    )


def _count(message: bytes) -> None:
    """Refuse a request with too many fields, without reading beyond the limit."""
    at = reports = others = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        length = _FIXED.get(kind, 0)
        if kind in (_VARINT, _BYTES):
            value, at = _varint(message, at)
            length = value if kind == _BYTES else 0
        at += length
        if tag >> 3 == _REPORTS:
            reports += 1
        else:
            others += 1
        if reports > MOST_REPORTS:
            raise ParameterError("number of reports", "more", f"1 to {MOST_REPORTS:,}")
        if others > _MOST_OTHERS:
            raise ParameterError("number of other fields", "more", f"at most {_MOST_OTHERS}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and its end."""
    value = shift = 0
    for end in range(at + 1, min(at + _LONGEST_VARINT, len(message)) + 1):
        byte = message[end - 1]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, end
        shift += 7
    raise _malformed(len(message))


def _parsed(kind: type[_Message], serialised: bytes) -> _Message:
    try:
        return kind.FromString(serialised)
    except DecodeError:
        raise _malformed(len(serialised)) from None


def _frame() -> type[Message]:
    """Return a request class whose reports are bytes, so that large requests create no objects."""
    file = FileDescriptorProto(name="frame.proto", package="frame", syntax="proto3")
    message = file.message_type.add()
    SubmitReportsRequest.DESCRIPTOR.CopyToProto(message)
    for field in message.field:
        if field.name == "reports":
            field.type = FieldDescriptorProto.TYPE_BYTES
            field.ClearField("type_name")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"frame.{message.name}"))


_FRAME: Any = _frame()


def _malformed(size: int) -> ParameterError:
    return ParameterError("request", f"{size} bytes", "a message of the wire contract")
