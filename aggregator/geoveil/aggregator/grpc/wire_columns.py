"""Large SubmitReportsRequests read by NumPy, thousands of reports at a time.

It reads the usual form: fields in ascending order, each once, ids of 16 bytes and one answer per
report. All other messages are left to Protocol Buffers.
"""

from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from geoveil.aggregator.domain.reports import ReportColumns, UnreadReports, not_shown
from geoveil.campaign import MOST_REPORTS, REPORT_ID_BYTES
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest

LEAST_BYTES = 2048
"""The least size for NumPy, whose call costs as much as parsing some forty reports."""
_LONGEST_VARINT = 10
_MOST_SHORT = 0x7F
# Field number << 3 | wire type.
_CAMPAIGN_ID, _DIGEST, _REPORT = 0x0A, 0x12, 0x1A
_REPORT_ID, _ANSWER, _PERIOD = 0x0A, 0x12, 0x18
_INDEX, _VALUE = 0x08, 0x10
_DIGEST_BYTES = 32
_UINT64 = np.uint64
_MOST_BYTES = (MOST_REPORTS + 2) * (2 + _MOST_SHORT)
"""The most bytes of the permitted number of reports and the fields before them."""

_Bytes = NDArray[np.uint8]
_Places = NDArray[np.int64]


@not_shown
class SubmittedReports(NamedTuple):
    """The content of a message."""

    campaign_id: str
    campaign_digest: bytes
    reports: ReportColumns | UnreadReports


def read_columns(message: bytes) -> SubmittedReports | None:
    """Return a serialised SubmitReportsRequest in columns; None if the parser must read it."""
    first = _first_report(message)
    if first is None:
        return None
    try:
        header = SubmitReportsRequest.FromString(message[:first])
    except DecodeError:
        return None
    # Zeros after it, so that looking a few bytes ahead stays within the array.
    data = np.frombuffer(message + bytes(_LONGEST_VARINT + 8), np.uint8)
    reports = _reports(data, first, len(message))
    if reports is None:
        return None
    return SubmittedReports(header.campaign_id, header.campaign_digest, reports)


def _first_report(message: bytes) -> int | None:
    """Return the start of the reports; None unless only the campaign's id and digest precede it."""
    if (
        not LEAST_BYTES <= len(message) <= _MOST_BYTES
        or message[0] != _CAMPAIGN_ID
        or message[1] > _MOST_SHORT
    ):
        return None
    digest = 2 + message[1]
    first = digest + 2 + _DIGEST_BYTES
    sound = message[digest] == _DIGEST and message[digest + 1] == _DIGEST_BYTES
    return first if sound and message[first] == _REPORT else None


def _reports(data: _Bytes, first: int, end: int) -> ReportColumns | None:
    starts, ends = _tiles(data, first, end)
    answer = starts + 4 + REPORT_ID_BYTES
    if not len(starts) or (answer + 2 > ends).any():
        return None
    at = answer + 2
    answer_end = at + data[answer + 1]
    periods = _periods(data, answer_end, ends)
    if (data[answer] != _ANSWER).any() or periods is None:
        return None
    has_index = (at < answer_end) & (data[at] == _INDEX)
    long_index = has_index & (data[at + 1] > _MOST_SHORT)
    indices = np.where(has_index, data[at + 1] & _MOST_SHORT, 0).astype(np.uint32)
    indices |= np.where(long_index, data[at + 2], 0).astype(np.uint32) << np.uint32(7)
    if (long_index & (data[at + 2] > _MOST_SHORT)).any():
        return None
    at = at + np.where(has_index, 2, 0) + long_index
    has_value = at < answer_end
    width = np.where(has_value, answer_end - at - 1, 0)
    if (at > answer_end).any() or (has_value & ((data[at] != _VALUE) | (width < 1))).any():
        return None
    values = _varints(data, at + 1, width)
    if values is None:
        return None
    ids = data[np.add.outer(starts + 4, np.arange(REPORT_ID_BYTES))].tobytes()
    zigzag = values >> _UINT64(1) ^ -(values & _UINT64(1))
    return ReportColumns(ids, indices, zigzag.view(np.int64), periods)


def _tiles(data: _Bytes, first: int, end: int) -> tuple[_Places, _Places]:
    """Return starts and ends of reports if they cover all bytes; otherwise empty arrays."""
    body = data[first:end]
    begin = (body == _REPORT) & (data[first + 2 : end + 2] == _REPORT_ID)
    begin &= data[first + 3 : end + 3] == REPORT_ID_BYTES
    starts = np.flatnonzero(begin) + first
    lengths = data[starts + 1]
    ends = starts + 2 + lengths
    # An id that resembles the beginning of a report breaks this too, in one of hundreds of batches.
    whole = len(starts) and ends[-1] == end and (ends[:-1] == starts[1:]).all()
    if not whole or starts[0] != first or (lengths > _MOST_SHORT).any():
        return starts[:0], starts[:0]
    return starts, ends


def _periods(data: _Bytes, at: _Places, ends: _Places) -> NDArray[np.uint32] | None:
    """Return the periods after the answers, 0 if absent."""
    has_period = at < ends
    if ((at != ends) & (at + 2 != ends)).any():
        return None
    wrong = (data[np.minimum(at, ends)] != _PERIOD) | (data[np.minimum(at, ends) + 1] > _MOST_SHORT)
    if (has_period & wrong).any():
        return None
    return np.where(has_period, data[np.minimum(at, ends) + 1], 0).astype(np.uint32)


def _varints(data: _Bytes, at: _Places, width: _Places) -> NDArray[np.uint64] | None:
    """Return numbers of given byte lengths; 0 where the length is 0."""
    values = np.zeros(len(at), _UINT64)
    longest = int(width.max())
    if longest > _LONGEST_VARINT:
        return None
    for place in range(longest):
        byte = data[at + place]
        inside = place < width
        if (inside & ((byte > _MOST_SHORT) != (place < width - 1))).any():
            return None
        if place == _LONGEST_VARINT - 1 and (inside & (byte > 1)).any():
            return None
        part = np.where(inside, byte & _MOST_SHORT, 0).astype(_UINT64)
        values |= part << _UINT64(7 * place)
    return values
