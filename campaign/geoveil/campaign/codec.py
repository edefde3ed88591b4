"""Campaigns to bytes and back. Bytes become a `Campaign` only through its own constructor.

The digest of a campaign is SHA-256 over its published bytes, which must be exactly this codec's
output. Unknown fields could change the meaning of a report, so they are refused.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp

from geoveil.campaign.attribute_campaign import Attribute, AttributeCampaign, require_attribute
from geoveil.campaign.families import MechanismSpec
from geoveil.campaign.fields import (
    CategoryField,
    ChoiceField,
    Condition,
    Field,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    PointField,
)
from geoveil.campaign.form import MOST_FIELDS, FormCampaign
from geoveil.campaign.mechanisms import MECHANISMS, PlanarLaplaceSpec
from geoveil.campaign.model import Campaign, require_campaign
from geoveil.campaign.queries import Question, decode_question, encode_question, name_of, within
from geoveil.campaign.readings import Readings
from geoveil.campaign.signing import PublicKey
from geoveil.campaign.statistic import MOST_QUESTIONS, Allocation, StatisticCampaign
from geoveil.campaign.translation import Asker, Translation, Wording
from geoveil.campaign.value import ValueCampaign
from geoveil.gp import (
    AzimuthalEquidistant,
    Cap,
    GeoPrivacy,
    LogScale,
    ParameterError,
    UnsupportedError,
    sha256,
    validation,
)
from geoveil.proto.v1 import campaign_pb2 as pb

CATEGORIES: Mapping[str, type[CategoryField]] = MappingProxyType(
    {"choice": ChoiceField, "ordinal": OrdinalField, "multiple": MultipleField}
)
"""The names of the kinds of categories on the wire and in files."""


def kind_of_category(field: CategoryField) -> str:
    """Return the name of a kind of category."""
    return next(kind for kind, made in CATEGORIES.items() if type(field) is made)


def encode_field(field: Field) -> pb.Field:
    """Return a field in wire form."""
    message = pb.Field(
        attribute=encode_attribute(field.attribute),
        wordings=[
            pb.Wording(language=w.language, text=w.text, options=w.options, unit=w.unit)
            for w in field.wordings
        ],
    )
    if field.applies is not None:
        message.applies.field = field.applies.field
        message.applies.options.extend(field.applies.options)
    if isinstance(field, PointField):
        message.point.privacy.CopyFrom(encode_privacy(field.privacy))
        assert field.step_exponent is not None  # ensured by __post_init__
        message.point.step_exponent = field.step_exponent
        if isinstance(field, NumberField) and field.otherwise is not None:
            message.point.otherwise = field.otherwise
        return message
    assert isinstance(field, CategoryField)
    options = pb.Options(options=field.options, epsilon=field.epsilon)
    options.otherwise = getattr(field, "otherwise", None) or ""
    options.most = getattr(field, "most", None) or 0
    getattr(message, kind_of_category(field)).CopyFrom(options)
    return message


def decode_field(message: pb.Field) -> Field:
    """Return a field from its wire form; ParameterError names the parameter and its range."""
    name = f"field {message.attribute.name!r}"
    return within(name, lambda: _decode_field(message))


def _decode_field(message: pb.Field) -> Field:
    common: dict[str, Any] = {
        "wordings": tuple(
            Wording(language=w.language, text=w.text, options=tuple(w.options), unit=w.unit)
            for w in message.wordings
        ),
        "applies": Condition(field=message.applies.field, options=tuple(message.applies.options))
        if message.HasField("applies")
        else None,
    }
    kind = message.WhichOneof("kind")
    if kind is None:
        raise ParameterError("kind", None, "point, choice, ordinal or multiple")
    if kind == "point":
        attribute, point = decode_attribute(message.attribute), message.point
        common |= {
            "attribute": attribute,
            "privacy": decode_privacy(point.privacy, attribute.unit),
            "step_exponent": point.step_exponent,
        }
        if attribute.coordinates is not None:
            return PlaceField(**common)
        otherwise = point.otherwise if point.HasField("otherwise") else None
        return NumberField(otherwise=otherwise, **common)
    options: pb.Options = getattr(message, kind)
    if kind == "multiple":
        common["most"] = options.most or None
    else:
        common["otherwise"] = options.otherwise or None
    return CATEGORIES[kind](
        name=message.attribute.name,
        options=tuple(options.options),
        epsilon=options.epsilon if options.HasField("epsilon") else None,
        **common,
    )


def encode_privacy(privacy: GeoPrivacy) -> pb.Privacy:
    """Return a guarantee in wire form, without its unit."""
    reach = privacy.reach if privacy.reach < math.inf else None
    return pb.Privacy(epsilon=privacy.epsilon, per=privacy.per, delta=privacy.delta, reach=reach)


def decode_privacy(message: pb.Privacy, unit: str) -> GeoPrivacy:
    """Return a guarantee from its wire form; ParameterError names the field and its range."""
    reach = message.reach if message.HasField("reach") else math.inf
    return GeoPrivacy(message.epsilon, message.per, unit, message.delta, reach)


def encode_attribute(attribute: Attribute) -> pb.Attribute:
    """Return an attribute in wire form."""
    message = pb.Attribute(
        name=attribute.name, unit=attribute.unit, least=attribute.least, most=attribute.most
    )
    if attribute.coordinates is not None:
        plane = attribute.coordinates
        message.azimuthal_equidistant.CopyFrom(
            pb.AzimuthalEquidistant(
                longitude_deg=plane.longitude_deg,
                latitude_deg=plane.latitude_deg,
                radius_m=plane.radius_m,
            )
        )
    if attribute.scale is not None:
        message.log_scale_floor = attribute.scale.floor
    return message


def decode_attribute(message: pb.Attribute) -> Attribute:
    """Return an attribute from its wire form; ParameterError names the field and its range."""
    plane = None
    if message.HasField("azimuthal_equidistant"):
        m = message.azimuthal_equidistant
        plane = within(
            "attribute", lambda: AzimuthalEquidistant(m.longitude_deg, m.latitude_deg, m.radius_m)
        )
    scale = None
    if message.HasField("log_scale_floor"):
        scale = within("attribute", lambda: LogScale(message.log_scale_floor))
    return Attribute(
        name=message.name,
        unit=message.unit,
        coordinates=plane,
        scale=scale,
        least=message.least if message.HasField("least") else None,
        most=message.most if message.HasField("most") else None,
    )


MOST_BYTES = 1 << 20
"""The most bytes of a campaign; larger ones are refused unread."""
_MOST_ENVELOPE_BYTES = MOST_BYTES + 256
"""The most bytes of an envelope with a campaign and its signature."""

_OF_ASKER = ("organisation", "purpose", "contact", "notice")
_IN_EVERY = ("opens", "closes")
"""Messages that every campaign has."""
_ABOUT_ONE = ("attribute", "privacy", "mechanism", "grid")
"""Messages that every campaign about one attribute has."""
_ALLOCATIONS = MappingProxyType(
    {
        Allocation.PARTITION: pb.ALLOCATION_PARTITION,
        Allocation.SPLIT: pb.ALLOCATION_SPLIT,
        Allocation.REPEAT: pb.ALLOCATION_REPEAT,
        Allocation.VECTOR: pb.ALLOCATION_VECTOR,
    }
)


def digest(campaign: bytes) -> bytes:
    """Return the 32-byte digest of a campaign's exact content."""
    return sha256(campaign).digest()


def encode(campaign: Campaign) -> bytes:
    """Return the canonical bytes of a campaign.

    Raises:
        ParameterError: if they are too many.
        UnsupportedError: if a query or the mechanism has no encoding.
    """
    require_campaign(campaign)
    message = pb.Campaign(
        campaign_id=campaign.campaign_id,
        title=campaign.title,
        opens=_timestamp(campaign.opens),
        closes=_timestamp(campaign.closes),
        period=_duration(campaign.period),
        window=_duration(campaign.window),
        minimum_participants=campaign.minimum_participants,
        relay_operator=campaign.relay_operator.data if campaign.relay_operator else b"",
        token_key=campaign.token_key or b"",
        asker=pb.Asker(**asdict(campaign.asker)) if campaign.asker else None,
        delete_after=_timestamp(campaign.delete_after),
        language=campaign.language,
        translations=[pb.Translation(**asdict(each)) for each in campaign.translations],
    )
    if isinstance(campaign, FormCampaign):
        message.fields.extend(map(encode_field, campaign.fields))
    else:
        message.MergeFrom(_encode_attribute_campaign(require_attribute(campaign)))
    result = message.SerializeToString(deterministic=True)
    validation.require_count("size of the campaign", len(result), 0, MOST_BYTES)
    return result


def _encode_attribute_campaign(campaign: AttributeCampaign) -> pb.Campaign:
    """Return the part of a campaign that is about its attribute."""
    assert isinstance(campaign, (StatisticCampaign, ValueCampaign))
    readings = campaign.readings
    message = pb.Campaign(
        attribute=encode_attribute(campaign.attribute),
        privacy=encode_privacy(campaign.privacy),
        mechanism=pb.Mechanism(**MECHANISMS.encode(campaign.mechanism)),
        allocation=pb.ALLOCATION_PARTITION,
        grid=pb.Grid(step_exponent=campaign.grid_exponent),
        readings=None
        if readings is None
        else pb.Readings(
            every=_duration(readings.every),
            extrapolated=readings.extrapolated,
            cohorts=readings.cohorts,
        ),
    )
    if isinstance(campaign, StatisticCampaign):
        message.allocation = _ALLOCATIONS[campaign.allocation]
        message.queries.extend(map(encode_question, campaign.questions))
        if campaign.cap is not None:
            message.cap.CopyFrom(pb.Cap(below=campaign.cap.below, above=campaign.cap.above))
    return message


def _timestamp(date: datetime | None) -> Timestamp | None:
    if date is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(date)
    return stamp


def _duration(length: timedelta | None) -> Duration | None:
    if length is None:
        return None
    duration = Duration()
    duration.FromTimedelta(length)
    return duration


def open_envelope(published: bytes) -> pb.CampaignEnvelope:
    """Return the envelope in untrusted bytes; `decode` checks its campaign.

    Raises:
        ParameterError: if there is no envelope, or the bytes are too many.
        UnsupportedError: if it has content that this version does not know.
    """
    size = validation.require_count("size of the envelope", len(published), 0, _MOST_ENVELOPE_BYTES)
    try:
        envelope = pb.CampaignEnvelope.FromString(published)
    except DecodeError:
        raise ParameterError("envelope", f"{size} bytes", "a campaign, as it is signed") from None
    _require_known("envelope", envelope, published)
    return envelope


def _require_known(name: str, message: Message, data: bytes) -> None:
    """Refuse bytes with unknown fields, or in another than the canonical form."""
    canonical = type(message)()
    canonical.CopyFrom(message)
    canonical.DiscardUnknownFields()
    _require_same(name, canonical.SerializeToString(deterministic=True), data)


def _require_same(name: str, written: bytes, data: bytes) -> None:
    if written != data:
        raise UnsupportedError(
            f"the {name} has fields that this version of geoveil does not know, or is not in"
            " canonical form: update geoveil"
        )


@lru_cache(maxsize=128)
def decode(campaign: bytes) -> Campaign:
    """Return the campaign encoded in bytes; the same object for the same bytes.

    Raises:
        ParameterError: if the bytes are not a campaign, or a field is out of range.
        UnsupportedError: if they need a newer version.
    """
    validation.require_count("size of the campaign", len(campaign), 0, MOST_BYTES)
    try:
        message = pb.Campaign.FromString(campaign)
    except DecodeError:
        raise ParameterError(
            "campaign", f"{len(campaign)} bytes", "a serialised Campaign"
        ) from None
    _require_known("campaign", message, campaign)
    present = {field.name for field, _ in message.ListFields()}
    for name in _IN_EVERY if message.fields else (*_IN_EVERY, *_ABOUT_ONE):
        if name not in present:
            raise ParameterError(name, "none", "in every campaign")
    validation.require_count("number of queries", len(message.queries), 0, MOST_QUESTIONS)
    common: dict[str, Any] = {
        "campaign_id": message.campaign_id,
        "title": message.title,
        "opens": _decode_date("opens", message.opens),
        "closes": _decode_date("closes", message.closes),
        "period": _decode_duration("period", message.period)
        if message.HasField("period")
        else None,
        "window": _decode_duration("window", message.window)
        if message.HasField("window")
        else None,
        "minimum_participants": message.minimum_participants,
        "relay_operator": PublicKey(message.relay_operator) if message.relay_operator else None,
        "token_key": message.token_key or None,
        "asker": _decode_asker(message),
        "delete_after": _decode_date("delete_after", message.delete_after)
        if message.HasField("delete_after")
        else None,
        "language": message.language,
        "translations": tuple(map(_decode_translation, message.translations)),
    }
    result: Campaign
    if message.fields:
        validation.require_count("number of fields", len(message.fields), 1, MOST_FIELDS)
        # Fields that forms lack are refused below, since the canonical form omits them.
        result = FormCampaign(fields=tuple(map(decode_field, message.fields)), **common)
    else:
        result = _read_attribute_campaign(message, common)
    _require_same("campaign", result.encoded, campaign)
    return result


def _read_attribute_campaign(message: pb.Campaign, common: dict[str, Any]) -> AttributeCampaign:
    attribute, privacy = decode_attribute(message.attribute), message.privacy
    return make_campaign(
        attribute=attribute,
        privacy=within("privacy", lambda: decode_privacy(privacy, attribute.unit)),
        step_exponent=message.grid.step_exponent,
        readings=_decode_readings(message.readings) if message.HasField("readings") else None,
        questions=tuple(decode_question(i, q) for i, q in enumerate(message.queries)),
        mechanism=within("mechanism", lambda: MECHANISMS.decode(message.mechanism)),
        allocation=name_of(_ALLOCATIONS, message.allocation, "allocation"),
        cap=Cap(message.cap.below, message.cap.above) if message.HasField("cap") else None,
        **common,
    )


def decode_attribute_campaign(campaign: bytes) -> AttributeCampaign:
    """Return the campaign about one attribute encoded in bytes; raises like `decode`.

    Raises:
        UnsupportedError: if the campaign is a form.
    """
    return require_attribute(decode(campaign))


def make_campaign(
    *,
    mechanism: MechanismSpec | PlanarLaplaceSpec,
    questions: tuple[Question, ...] = (),
    allocation: Allocation = Allocation.PARTITION,
    cap: Cap | None = None,
    **common: Any,
) -> AttributeCampaign:
    """Return a campaign of the mechanism's kind.

    A mechanism for points takes no questions and no cap; `common` has `AttributeCampaign`'s fields.

    Raises:
        ParameterError: if an argument is out of range, or points come with questions.
    """
    if not isinstance(mechanism, PlanarLaplaceSpec):
        return StatisticCampaign(
            questions=questions, mechanism=mechanism, allocation=allocation, cap=cap, **common
        )
    if questions:
        raise ParameterError(
            "number of queries", len(questions), "0: they are asked of the points later"
        )
    if allocation is not Allocation.PARTITION:
        raise ParameterError(
            "allocation", allocation.value, "'partition': there is nothing to divide"
        )
    if cap is not None:
        raise ParameterError("cap", cap, "None: points have no question to clip distances to")
    return ValueCampaign(mechanism=mechanism, **common)


def _decode_asker(message: pb.Campaign | pb.Translation) -> Asker | None:
    if not message.HasField("asker"):
        return None
    return Asker(**{name: getattr(message.asker, name) for name in _OF_ASKER})


def _decode_translation(message: pb.Translation) -> Translation:
    return Translation(
        language=message.language,
        title=message.title,
        asker=_decode_asker(message),
        attribute=message.attribute,
        unit=message.unit,
        labels=tuple(message.labels),
    )


def _decode_date(field: str, stamp: Timestamp) -> datetime:
    try:
        return stamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise ParameterError(field, stamp.seconds, "a date between the years 1 and 9999") from None


def _decode_readings(message: pb.Readings) -> Readings:
    every = _decode_duration("readings.every", message.every)
    return Readings(every=every, extrapolated=message.extrapolated, cohorts=message.cohorts)


def _decode_duration(field: str, message: Duration) -> timedelta:
    try:
        return message.ToTimedelta()
    except (ValueError, OverflowError):
        raise ParameterError(field, f"{message.seconds} s", "at most ten years") from None
