"""Wire forms of attributes, guarantees, and the fields of a form."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from geoveil.campaign.attribute_campaign import Attribute
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
from geoveil.campaign.queries import within
from geoveil.campaign.translation import Wording
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy, LogScale, ParameterError
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
    field: Field = within(name, lambda: _decode_field(message))
    return field


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
