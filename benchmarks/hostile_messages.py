"""Messages that no device or analyst sends, and that a server must refuse without a trace."""

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from google.protobuf import duration_pb2
from google.protobuf.message import DecodeError

from geoveil.campaign import Campaign, SigningKey, decode, digest, encode, seal
from geoveil.gp import GeoVeilError
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2

COLLECTOR, ANALYST = "/geoveil.proto.v1.Collector/", "/geoveil.proto.v1.Analyst/"
SUBMIT, CREATE = COLLECTOR + "SubmitReports", ANALYST + "CreateCampaign"
STREAM, WATCH = COLLECTOR + "SubmitReportStream", ANALYST + "WatchEstimate"
FETCH, BROWSE = COLLECTOR + "GetCampaign", COLLECTOR + "BrowseCampaigns"
_CLOSE, _LIST = ANALYST + "CloseCampaign", ANALYST + "ListCampaigns"
_ESTIMATE, _ASK = ANALYST + "GetEstimate", ANALYST + "EstimateQueries"
_EXPORT = ANALYST + "ExportReports"
_OTHERS = [FETCH, BROWSE, _CLOSE, _LIST, _ESTIMATE, _ASK, _EXPORT, WATCH]
_NOT_FINITE = (math.nan, math.inf, -math.inf)
_LARGE = 1 << 20
_BATCH = 160
"""Reports in a request large enough to be read by NumPy."""

Message = tuple[str, bytes]
"""The method to call, with its request."""
Call = tuple[str, tuple[bytes, ...]]
"""The method to call, with its requests; only streams have several."""


@dataclass(frozen=True)
class Known:
    """The server's content, as an attacker knows it.

    Args:
        campaign: an open campaign.
        points: an open value campaign.
        key: a key whose campaigns the server accepts.
        stored: reports to the first campaign that were counted.
    """

    campaign: Campaign
    points: Campaign
    key: SigningKey
    stored: Sequence[report_pb2.Report]

    @property
    def digest(self) -> bytes:
        """SHA-256 of the campaign's bytes."""
        return digest(encode(self.campaign))


def draw(known: Known, rng: Random) -> Call:
    """Return a call that adds no valid report or campaign."""
    method, message = rng.choice(_KINDS)(known, rng)
    if method == _CLOSE and _names(known, message):
        method = WATCH
    if method != SUBMIT:
        return method, (message,)
    if rng.randrange(4) or len(message) > _LARGE:
        return SUBMIT, (_harmless(known, message),)
    messages = [_replayed(known, rng)[1] for _ in range(rng.randrange(3))]
    messages.insert(rng.randrange(len(messages) + 1), _harmless(known, message))
    return STREAM, tuple(messages)


def _names(known: Known, message: bytes) -> bool:
    """Return whether a request names a campaign of the server."""
    try:
        name = analyst_pb2.CloseCampaignRequest.FromString(message).campaign_id
    except DecodeError:
        return False
    return name in (known.campaign.campaign_id, known.points.campaign_id)


def _harmless(known: Known, message: bytes) -> bytes:
    if _may_count(known, message):
        message += collector_pb2.SubmitReportsRequest(
            campaign_digest=hashlib.sha256(message).digest()
        ).SerializeToString()  # the last occurrence of a field counts
    return message


def mutated(message: bytes, rng: Random) -> bytes:
    """Return the message with a few bytes changed, added, removed or repeated."""
    data = bytearray(message)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 12))
        elif kind == 3:
            del data[at : at + rng.randrange(1, 20)]
        else:
            data[at:at] = data[at : at + rng.randrange(1, 40)]
    return bytes(data)


def _may_count(known: Known, message: bytes) -> bool:
    """Return whether a request could add a report: with the right digest and a new id."""
    try:
        request = collector_pb2.SubmitReportsRequest.FromString(message)
    except DecodeError:
        return False
    if request.campaign_digest == digest(encode(known.points)):
        return True
    stored = {report.report_id for report in known.stored}
    low = min(low for low, _ in known.campaign.ranges)
    high = max(high for _, high in known.campaign.ranges)
    return request.campaign_digest == known.digest and any(
        len(report.report_id) == 16
        and report.report_id not in stored
        and any(low <= answer.value <= high for answer in report.answers)
        for report in request.reports
    )


def _submission(known: Known, reports: Sequence[report_pb2.Report]) -> Message:
    request = collector_pb2.SubmitReportsRequest(
        campaign_id=known.campaign.campaign_id, campaign_digest=known.digest, reports=reports
    )
    return SUBMIT, request.SerializeToString()


def _noise(known: Known, rng: Random) -> Message:
    return rng.choice([SUBMIT, CREATE, *_OTHERS]), rng.randbytes(rng.randrange(300))


def _mutated_submission(known: Known, rng: Random) -> Message:
    reports = rng.choices(known.stored, k=rng.choice([1, 4, _BATCH]))
    return SUBMIT, mutated(_submission(known, reports)[1], rng)


def _replayed(known: Known, rng: Random) -> Message:
    return _submission(known, rng.choices(known.stored, k=rng.choice([1, 4, _BATCH])))


def _conflicting(known: Known, rng: Random) -> Message:
    report = report_pb2.Report()
    report.CopyFrom(rng.choice(known.stored))
    report.answers[0].value ^= 1
    return _submission(known, [report] * rng.choice([1, _BATCH]))


def _wrong_digest(known: Known, rng: Random) -> Message:
    request = collector_pb2.SubmitReportsRequest(
        campaign_id=rng.choice([known.campaign.campaign_id, "nobody", "x" * 2000, ""]),
        campaign_digest=rng.randbytes(rng.choice([0, 31, 32, 33, 5000])),
        reports=[_report(rng, rng.choice(known.stored).answers[0].value)] * rng.choice([1, _BATCH]),
    )
    return SUBMIT, request.SerializeToString()


def _unsound_reports(known: Known, rng: Random) -> Message:
    """Return numbers that no mechanism makes, ids of wrong lengths, or answers to nothing."""
    nan = struct.unpack("<q", struct.pack("<d", rng.choice(_NOT_FINITE)))[0]
    value = rng.choice([nan, 2**63 - 1, -(2**63)])
    wrong = [
        _report(rng, value),
        _report(rng, value, query_index=2**32 - 1),
        _report(rng, value, period=rng.choice([1, 127, 2**32 - 1])),
        report_pb2.Report(report_id=rng.randbytes(rng.choice([0, 15, 17, 4000]))),
        report_pb2.Report(report_id=rng.randbytes(16)),
        report_pb2.Report(
            report_id=rng.randbytes(16), answers=[report_pb2.Answer(value=value)] * 9
        ),
    ]
    return _submission(known, [rng.choice(wrong) for _ in range(rng.choice([1, 4, _BATCH]))])


def _giant(known: Known, rng: Random) -> Message:
    """Return counts beyond every bound, within the permitted size of a message."""
    method, head = _submission(known, ())
    return method, head + rng.choice(
        [
            b"\x1a\x00" * rng.choice([10_001, 100_000]),
            field(3, b"\x12\x00" * 100_000),
            field(3, b"\x0a\x10" + bytes(16) + b"\x12\x00" * 20_000) * 3,
        ]
    )


def _too_large(known: Known, rng: Random) -> Message:
    return rng.choice([SUBMIT, CREATE]), bytes(rng.randrange(4 << 20, 5 << 20))


def _malformed(known: Known, rng: Random) -> Message:
    """Return bytes that the parser has to survive."""
    depth = rng.choice([10, 101, 10_000])
    nested = b""
    for _ in range(200):
        nested = field(1, nested)
    bad = [
        b"\x0a" + b"\xff" * rng.choice([9, 10, 11, 1000]),  # as long a length as possible
        b"\x1a\xff\xff\xff\xff\x07",
        b"\x0b" * depth,  # nested groups
        b"\x0b" * depth + b"\x0c" * depth,
        nested,
        b"\x08\x01" + b"\x10\x01",  # numbers where there should be bytes
        b"\x1d\x00\x00\x00\x00",
        b"\x00\x00",  # no field has number 0
        b"\x0a\x02\xff\xfe",  # no UTF-8
        b"\xfa\xff\xff\xff\x0f\x04spam" * 100,  # unknown fields
        b"\x1a\x03\x18\x80\x01",
    ]
    method = rng.choice([SUBMIT, CREATE, *_OTHERS])
    return method, rng.choice([b"", _submission(known, ())[1]]) + rng.choice(bad)


def _campaign_of_odd_numbers(known: Known, rng: Random) -> Message:
    """Return a campaign with absurd numbers, signed with the trusted key."""
    odd = campaign_pb2.Campaign.FromString(encode(known.campaign))
    odd.campaign_id = f"odd-{rng.randrange(10)}"
    number = rng.choice([*_NOT_FINITE, 1e308, -1e308, 5e-324])
    odd.privacy.epsilon = rng.choice([*_NOT_FINITE, 0.0, -1.0])
    odd.privacy.per = number
    odd.queries[0].threshold.at = number
    odd.queries[0].threshold.width = number
    return _create(seal(odd.SerializeToString(deterministic=True), known.key))


def _mutated_campaign(known: Known, rng: Random) -> Message:
    content = mutated(encode(known.campaign), rng)
    try:
        decode(content)
    except GeoVeilError:
        return _create(seal(content, known.key))
    return _create(seal(content, SigningKey.generate()))


def _mutated_envelope(known: Known, rng: Random) -> Message:
    sound = seal(encode(known.campaign), known.key)
    return CREATE, mutated(_create(sound)[1], rng)


def _mutated_question(known: Known, rng: Random) -> Message:
    name = rng.choice([known.campaign.campaign_id, known.points.campaign_id])
    period = rng.choice([0, 0, 1, 2**32 - 1])
    confidence = rng.choice([*_NOT_FINITE, 0.0, 1.0, 0.95])
    page = {"page_size": rng.choice([0, 1, 1001, 2**32 - 1]), "page_token": rng.choice(["", name])}
    interval = duration_pb2.Duration(
        seconds=rng.choice([0, 1, -1, 3601, 2**63 - 1]), nanos=rng.choice([0, -1, 2**31 - 1])
    )
    requests = {
        FETCH: collector_pb2.GetCampaignRequest(campaign_id=name),
        BROWSE: collector_pb2.BrowseCampaignsRequest(**page),
        _LIST: analyst_pb2.ListCampaignsRequest(**page),
        _CLOSE: analyst_pb2.CloseCampaignRequest(campaign_id=rng.choice(["", "nobody", name * 99])),
        _ESTIMATE: analyst_pb2.GetEstimateRequest(
            campaign_id=name, confidence=confidence, period=period
        ),
        WATCH: analyst_pb2.WatchEstimateRequest(
            campaign_id=name, confidence=confidence, period=period, interval=interval
        ),
        _EXPORT: analyst_pb2.ExportReportsRequest(campaign_id=name, period=period),
    }
    method = rng.choice(list(requests))
    data = requests[method].SerializeToString()
    return method, rng.choice([data, mutated(data, rng)])


def _odd_query(known: Known, rng: Random) -> Message:
    """Return invalid queries of points, or queries that cannot be answered."""
    number, size = rng.choice([*_NOT_FINITE, 0.0, -1.0, 1e308]), rng.choice([5e-324, 1e-9, 1e300])
    corners = [rng.choice([number, size, 0.0, 1.0]) for _ in range(rng.choice([0, 5, 8, 400]))]
    part = campaign_pb2.PolygonPart(
        rings=[campaign_pb2.PolygonRing(coordinates=corners)] * rng.choice([0, 1, 3])
    )
    query = campaign_pb2.Query(label=rng.choice(["", "a", "x" * 500]))
    match rng.randrange(6):
        case 0:
            query.threshold.at, query.threshold.width = number, size
            query.threshold.profile = rng.choice([0, 1, 2])
        case 1:
            query.gaussian_kernel.center.extend([0.0] * rng.randrange(4))
            query.gaussian_kernel.bandwidth = rng.choice([number, size, 9_000.0])
        case 2:
            query.smoothed_disc.center.extend([number, 0.0])
            query.smoothed_disc.radius = size
            query.smoothed_disc.bandwidth = rng.choice([number, size])
        case 3:
            query.smoothed_polygon.parts.append(part)
            query.smoothed_polygon.bandwidth = rng.choice([number, size, 9_000.0])
        case 4:
            query.polygon.parts.append(part)
            query.polygon.width = size
        case 5:
            query.disc.center.extend([number] * rng.randrange(4))
            query.disc.radius, query.disc.width = size, number
    request = analyst_pb2.EstimateQueriesRequest(
        campaign_id=rng.choice([known.points, known.points, known.campaign]).campaign_id,
        queries=[query] * rng.choice([0, 1, 1, 1, 2, 5000]),
    )
    data = request.SerializeToString()
    return _ASK, rng.choice([data, mutated(data, rng)])


def _create(envelope: bytes) -> Message:
    return CREATE, field(1, envelope)


def _report(rng: Random, value: int, query_index: int = 0, period: int = 0) -> report_pb2.Report:
    answers = [report_pb2.Answer(query_index=query_index, value=value)]
    return report_pb2.Report(report_id=rng.randbytes(16), answers=answers, period=period)


def field(number: int, content: bytes) -> bytes:
    length, varint = len(content), bytearray()
    while length > 0x7F:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *varint, length]) + content


# Each is drawn as often as it is listed; large ones are rare, since they take long.
_KINDS: list[Callable[[Known, Random], Message]] = [
    *[_noise, _mutated_submission, _replayed, _conflicting, _wrong_digest, _unsound_reports] * 16,
    *[_malformed, _campaign_of_odd_numbers, _mutated_campaign] * 16,
    *[_mutated_envelope, _mutated_question, _odd_query] * 16,
    *[_giant, _too_large],
]
