"""Campaigns to bytes and back. Bytes become a `Campaign` through its own constructor, no other way.

The digest of a campaign is SHA-256 over its bytes as published. They must be exactly what this
codec writes: a field it does not know could change what a report means, so it is refused.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from geoveil.campaign.allocation import Allocation
from geoveil.campaign.attribute import Attribute
from geoveil.campaign.mechanisms import (
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    SmoothSpec,
)
from geoveil.campaign.model import MOST_QUESTIONS, Campaign, Question
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    Polygon,
    Query,
    Range,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.gp.queries import SoftIndicator
from geoveil.proto.v1 import campaign_pb2 as pb

MOST_BYTES = 1 << 20
"""A larger campaign is refused unread."""

_PROFILES = MappingProxyType({"linear": pb.PROFILE_LINEAR, "smoothstep": pb.PROFILE_SMOOTHSTEP})
_ALLOCATIONS = MappingProxyType(
    {Allocation.PARTITION: pb.ALLOCATION_PARTITION, Allocation.SPLIT: pb.ALLOCATION_SPLIT}
)


def _band(query: SoftIndicator) -> dict[str, Any]:
    return {"width": query.width, "profile": _PROFILES[query.step]}


def _profile(message: Any) -> str:
    name: str = _name_of(_PROFILES, message.profile, "profile")
    return name


def _parts(query: Polygon) -> list[pb.PolygonPart]:
    return [
        pb.PolygonPart(rings=[pb.PolygonRing(coordinates=chain.from_iterable(r)) for r in part])
        for part in query.parts
    ]


def _polygon(message: Any) -> Polygon:
    parts = [
        [_ring(f"parts[{i}].rings[{j}]", ring.coordinates) for j, ring in enumerate(part.rings)]
        for i, part in enumerate(message.parts)
    ]
    return Polygon(parts, message.width, _profile(message))


def _ring(field: str, numbers: Sequence[float]) -> list[tuple[float, float]]:
    if len(numbers) % 2:
        raise ParameterError(f"{field}.coordinates", f"{len(numbers)} numbers", "pairs x, y")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


# One row per kind: the class, how it is written, how it is read. A new kind is a new row.
_QUERIES: Mapping[str, tuple[type[Query], Callable[[Any], Any], Callable[[Any], Query]]] = {
    "threshold": (
        Threshold,
        lambda q: pb.Threshold(at=q.at, **_band(q)),
        lambda m: Threshold(m.at, m.width, _profile(m)),
    ),
    "range": (
        Range,
        lambda q: pb.Range(low=q.low, high=q.high, **_band(q)),
        lambda m: Range(m.low, m.high, m.width, _profile(m)),
    ),
    "two_way_threshold": (
        TwoWayThreshold,
        lambda q: pb.TwoWayThreshold(first=q.at[0], second=q.at[1], **_band(q)),
        lambda m: TwoWayThreshold((m.first, m.second), m.width, _profile(m)),
    ),
    "disc": (
        Disc,
        lambda q: pb.Disc(center=q.center, radius=q.radius, **_band(q)),
        lambda m: Disc(tuple(m.center), m.radius, m.width, _profile(m)),
    ),
    "polygon": (
        Polygon,
        lambda q: pb.Polygon(parts=_parts(q), **_band(q)),
        _polygon,
    ),
    "gaussian_kernel": (
        GaussianKernel,
        lambda q: pb.GaussianKernel(center=q.center, bandwidth=q.bandwidth),
        lambda m: GaussianKernel(tuple(m.center), m.bandwidth),
    ),
}
_MECHANISMS: Mapping[
    str, tuple[type[MechanismSpec], Callable[[Any], Any], Callable[[Any], MechanismSpec]]
] = {
    "debiased_laplace": (
        DebiasedLaplaceSpec,
        lambda s: pb.DebiasedLaplace(),
        lambda m: DebiasedLaplaceSpec(),
    ),
    "lipschitz_laplace": (
        LipschitzLaplaceSpec,
        lambda s: pb.LipschitzLaplace(),
        lambda m: LipschitzLaplaceSpec(),
    ),
    "smooth": (
        SmoothSpec,
        lambda s: pb.Smooth(beta_fraction=s.beta_fraction),
        lambda m: SmoothSpec(m.beta_fraction),
    ),
}


def digest(campaign: bytes) -> bytes:
    """Return the 32 bytes that name a campaign's exact content."""
    return hashlib.sha256(campaign).digest()


def encode(campaign: Campaign) -> bytes:
    """Return the canonical bytes of a campaign."""
    message = pb.Campaign(
        campaign_id=campaign.campaign_id,
        title=campaign.title,
        attribute=_encode_attribute(campaign.attribute),
        privacy=pb.Privacy(epsilon=campaign.privacy.epsilon, per=campaign.privacy.per),
        queries=[_encode_question(q) for q in campaign.questions],
        mechanism=pb.Mechanism(**_encode_kind(_MECHANISMS, campaign.mechanism)),
        allocation=_ALLOCATIONS[campaign.allocation],
        grid=pb.Grid(step_exponent=campaign.grid_exponent),
        opens=_encode_date(campaign.opens),
        closes=_encode_date(campaign.closes),
        period=None if campaign.period is None else _encode_duration(campaign.period),
        minimum_participants=campaign.minimum_participants,
    )
    return message.SerializeToString(deterministic=True)


@lru_cache(maxsize=128)
def decode(campaign: bytes) -> Campaign:
    """Return the campaign that bytes describe; the same object for the same bytes.

    Raises:
        ParameterError: if the bytes are no campaign, or a field is out of range.
        UnsupportedError: if they say something that this version does not know.
    """
    if len(campaign) > MOST_BYTES:
        raise ParameterError("size of the campaign", len(campaign), f"at most {MOST_BYTES:,} bytes")
    try:
        message = pb.Campaign.FromString(campaign)
    except DecodeError:
        raise ParameterError(
            "campaign", f"{len(campaign)} bytes", "a serialised Campaign"
        ) from None
    if len(message.queries) > MOST_QUESTIONS:
        raise ParameterError("number of queries", len(message.queries), f"1 to {MOST_QUESTIONS:,}")
    attribute = _decode_attribute(message.attribute)
    result = Campaign(
        campaign_id=message.campaign_id,
        title=message.title,
        attribute=attribute,
        privacy=_within("privacy", lambda: _decode_privacy(message.privacy, attribute.unit)),
        questions=tuple(_decode_question(i, q) for i, q in enumerate(message.queries)),
        mechanism=_within("mechanism", lambda: _decode_kind(_MECHANISMS, message.mechanism)),
        allocation=_name_of(_ALLOCATIONS, message.allocation, "allocation"),
        step_exponent=message.grid.step_exponent,
        opens=_decode_date("opens", message.opens),
        closes=_decode_date("closes", message.closes),
        period=_decode_duration(message.period) if message.HasField("period") else None,
        minimum_participants=message.minimum_participants,
    )
    if encode(result) != campaign:
        raise UnsupportedError(
            "the campaign has fields that this version of geoveil does not know, or is not in"
            " canonical form: update geoveil"
        )
    return result


def _encode_attribute(attribute: Attribute) -> pb.Attribute:
    message = pb.Attribute(name=attribute.name, unit=attribute.unit)
    if attribute.coordinates is not None:
        plane = attribute.coordinates
        message.azimuthal_equidistant.CopyFrom(
            pb.AzimuthalEquidistant(
                longitude_deg=plane.longitude_deg,
                latitude_deg=plane.latitude_deg,
                radius_m=plane.radius_m,
            )
        )
    return message


def _decode_attribute(message: pb.Attribute) -> Attribute:
    plane = None
    if message.HasField("azimuthal_equidistant"):
        m = message.azimuthal_equidistant
        plane = _within(
            "attribute", lambda: AzimuthalEquidistant(m.longitude_deg, m.latitude_deg, m.radius_m)
        )
    return Attribute(name=message.name, unit=message.unit, coordinates=plane)


def _decode_privacy(message: pb.Privacy, unit: str) -> GeoPrivacy:
    return GeoPrivacy(message.epsilon, message.per, unit)


def _encode_question(question: Question) -> pb.Query:
    return pb.Query(label=question.label, **_encode_kind(_QUERIES, question.query))


def _decode_question(index: int, message: pb.Query) -> Question:
    query = _within(f"queries[{index}]", lambda: _decode_kind(_QUERIES, message))
    return Question(message.label, query)


def _encode_kind(table: Mapping[str, tuple[type, Any, Any]], value: object) -> dict[str, Any]:
    for name, (kind, write, _) in table.items():
        if type(value) is kind:
            return {name: write(value)}
    raise UnsupportedError(f"{value!r} can't be part of a campaign; known are {', '.join(table)}")


def _decode_kind(table: Mapping[str, tuple[type, Any, Callable[[Any], Any]]], message: Any) -> Any:
    name = message.WhichOneof("kind")
    if name not in table:
        raise ParameterError("kind", name, "one of " + ", ".join(table))
    return table[name][2](getattr(message, name))


def _name_of(table: Mapping[Any, int], number: int, field: str) -> Any:
    for name, known in table.items():
        if known == number:
            return name
    raise ParameterError(field, number, f"one of {sorted(table.values())}")


def _within(field: str, read: Callable[[], Any]) -> Any:
    """Return read(), with the field's name before that of a parameter at fault."""
    try:
        return read()
    except ParameterError as error:
        raise ParameterError(f"{field}.{error.name}", error.value, error.expected) from None


def _encode_date(date: datetime) -> Timestamp:
    since = date.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = since // timedelta(seconds=1)
    return Timestamp(
        seconds=seconds, nanos=(since - timedelta(seconds=seconds)).microseconds * 1000
    )


def _decode_date(field: str, stamp: Timestamp) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            seconds=stamp.seconds, microseconds=stamp.nanos // 1000
        )
    except OverflowError:
        raise ParameterError(field, stamp.seconds, "a date between the years 1 and 9999") from None


def _encode_duration(length: timedelta) -> Duration:
    return Duration(
        seconds=length // timedelta(seconds=1),
        nanos=(length % timedelta(seconds=1)).microseconds * 1000,
    )


def _decode_duration(message: Duration) -> timedelta:
    try:
        return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        raise ParameterError("period", f"{message.seconds} s", "at most ten years") from None


__all__ = ["MOST_BYTES", "decode", "digest", "encode"]
