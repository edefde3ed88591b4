"""Campaigns to bytes and back. Bytes become a `Campaign` through its own constructor, no other way.

The digest of a campaign is SHA-256 over its bytes as published. They must be exactly what this
codec writes: a field it does not know could change what a report means, so it is refused.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from geoveil.campaign.allocation import Allocation
from geoveil.campaign.attribute import Attribute
from geoveil.campaign.mechanisms import MECHANISMS, PlanarLaplaceSpec
from geoveil.campaign.model import Campaign
from geoveil.campaign.queries import decode_question, encode_question, name_of, within
from geoveil.campaign.statistic import MOST_QUESTIONS, StatisticCampaign
from geoveil.campaign.value import ValueCampaign
from geoveil.gp import GeoPrivacy, ParameterError, UnsupportedError
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2 as pb

MOST_BYTES = 1 << 20
"""A larger campaign is refused unread."""
_MOST_ENVELOPE_BYTES = MOST_BYTES + 256
"""A larger envelope holds more than a campaign and its signature."""

_ALLOCATIONS = MappingProxyType(
    {
        Allocation.PARTITION: pb.ALLOCATION_PARTITION,
        Allocation.SPLIT: pb.ALLOCATION_SPLIT,
        Allocation.REPEAT: pb.ALLOCATION_REPEAT,
    }
)


def digest(campaign: bytes) -> bytes:
    """Return the 32 bytes that name a campaign's exact content."""
    return hashlib.sha256(campaign).digest()


def encode(campaign: Campaign) -> bytes:
    """Return the canonical bytes of a campaign.

    Raises:
        ParameterError: if they are too many.
        UnsupportedError: if a query or the mechanism is of a kind that no campaign carries.
    """
    message = pb.Campaign(
        campaign_id=campaign.campaign_id,
        title=campaign.title,
        attribute=_encode_attribute(campaign.attribute),
        privacy=pb.Privacy(epsilon=campaign.privacy.epsilon, per=campaign.privacy.per),
        **_encode_asked(campaign),
        grid=pb.Grid(step_exponent=campaign.grid_exponent),
        opens=_encode_date(campaign.opens),
        closes=_encode_date(campaign.closes),
        period=None if campaign.period is None else _encode_duration(campaign.period),
        minimum_participants=campaign.minimum_participants,
    )
    result = message.SerializeToString(deterministic=True)
    _require_size(len(result))
    return result


def _encode_asked(campaign: Campaign) -> dict[str, Any]:
    """Return the fields that tell the two kinds of campaign apart."""
    if isinstance(campaign, ValueCampaign):
        return {
            "mechanism": pb.Mechanism(**MECHANISMS.encode(campaign.mechanism)),
            "allocation": pb.ALLOCATION_PARTITION,
        }
    assert isinstance(campaign, StatisticCampaign)
    return {
        "queries": [encode_question(q) for q in campaign.questions],
        "mechanism": pb.Mechanism(**MECHANISMS.encode(campaign.mechanism)),
        "allocation": _ALLOCATIONS[campaign.allocation],
    }


def _require_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ParameterError("size of the campaign", size, f"at most {MOST_BYTES:,} bytes")


def open_envelope(published: bytes) -> pb.CampaignEnvelope:
    """Return the envelope that bytes hold; whether its campaign is sound is for `decode` to say.

    Args:
        published: what `seal` returned, or anything that claims to be it.

    Raises:
        ParameterError: if they hold none, or are too many for a campaign and its signature.
        UnsupportedError: if it says something that this version does not know.
    """
    size = len(published)
    if size > _MOST_ENVELOPE_BYTES:
        raise ParameterError(
            "size of the envelope", size, f"at most {_MOST_ENVELOPE_BYTES:,} bytes"
        )
    try:
        envelope = pb.CampaignEnvelope.FromString(published)
    except DecodeError:
        raise ParameterError("envelope", f"{size} bytes", "a CampaignEnvelope") from None
    known = pb.CampaignEnvelope()
    known.CopyFrom(envelope)
    known.DiscardUnknownFields()
    if known.SerializeToString(deterministic=True) != published:
        raise UnsupportedError(
            "the envelope has fields that this version of geoveil does not know, or is not in"
            " canonical form: update geoveil"
        )
    return envelope


@lru_cache(maxsize=128)
def decode(campaign: bytes) -> Campaign:
    """Return the campaign that bytes describe; the same object for the same bytes.

    Raises:
        ParameterError: if the bytes are no campaign, or a field is out of range.
        UnsupportedError: if they say something that this version does not know.
    """
    _require_size(len(campaign))
    try:
        message = pb.Campaign.FromString(campaign)
    except DecodeError:
        raise ParameterError(
            "campaign", f"{len(campaign)} bytes", "a serialised Campaign"
        ) from None
    if len(message.queries) > MOST_QUESTIONS:
        raise ParameterError("number of queries", len(message.queries), f"1 to {MOST_QUESTIONS:,}")
    attribute = _decode_attribute(message.attribute)
    common: dict[str, Any] = {
        "campaign_id": message.campaign_id,
        "title": message.title,
        "attribute": attribute,
        "privacy": within("privacy", lambda: _decode_privacy(message.privacy, attribute.unit)),
        "step_exponent": message.grid.step_exponent,
        "opens": _decode_date("opens", message.opens),
        "closes": _decode_date("closes", message.closes),
        "period": _decode_duration(message.period) if message.HasField("period") else None,
        "minimum_participants": message.minimum_participants,
    }
    result = _decode_asked(message, common)
    if result.encoded != campaign:
        raise UnsupportedError(
            "the campaign has fields that this version of geoveil does not know, or is not in"
            " canonical form: update geoveil"
        )
    return result


def _decode_asked(message: pb.Campaign, common: dict[str, Any]) -> Campaign:
    """Return the campaign of the kind that its mechanism says."""
    questions = tuple(decode_question(i, q) for i, q in enumerate(message.queries))
    mechanism = within("mechanism", lambda: MECHANISMS.decode(message.mechanism))
    allocation = name_of(_ALLOCATIONS, message.allocation, "allocation")
    if not isinstance(mechanism, PlanarLaplaceSpec):
        return StatisticCampaign(
            questions=questions, mechanism=mechanism, allocation=allocation, **common
        )
    if questions:
        raise ParameterError(
            "number of queries", len(questions), "0: they are asked of the points later"
        )
    if allocation is not Allocation.PARTITION:
        raise ParameterError(
            "allocation", allocation.value, "'partition': there is nothing to divide"
        )
    return ValueCampaign(mechanism=mechanism, **common)


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
        plane = within(
            "attribute", lambda: AzimuthalEquidistant(m.longitude_deg, m.latitude_deg, m.radius_m)
        )
    return Attribute(name=message.name, unit=message.unit, coordinates=plane)


def _decode_privacy(message: pb.Privacy, unit: str) -> GeoPrivacy:
    return GeoPrivacy(message.epsilon, message.per, unit)


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
