"""Forms, and simulated reports of them, for tests of relations."""

from datetime import UTC, datetime
from typing import Any

from geoveil.analyst import simulated as reported
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
)
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy

__all__ = ["CLEAR", "choice", "form", "multiple", "number", "ordinal", "place", "reported"]
CLEAR = 1e-9
"""A noise scale as good as none."""


def form(*fields: Any) -> FormCampaign:
    return FormCampaign(
        campaign_id="form",
        title="A form",
        fields=fields,
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2027, 1, 1, tzinfo=UTC),
    )


def number(name: str, per: float, unit: str = "year", **ends: float) -> NumberField:
    return NumberField(
        attribute=Attribute(name=name, unit=unit, **ends),  # type: ignore[arg-type]
        privacy=GeoPrivacy(1.0, per=per, unit=unit),
    )


def place(name: str, per: float) -> PlaceField:
    plane = AzimuthalEquidistant(-73.9, 40.7, radius_m=20_000)
    return PlaceField(
        attribute=Attribute(name=name, unit="metre", coordinates=plane),
        privacy=GeoPrivacy(1.0, per=per, unit="metre"),
    )


def choice(name: str, count: int, epsilon: float | None) -> ChoiceField:
    return ChoiceField(name=name, options=tuple(f"o{i}" for i in range(count)), epsilon=epsilon)


def ordinal(name: str, count: int, epsilon: float | None) -> OrdinalField:
    return OrdinalField(name=name, options=tuple(f"o{i}" for i in range(count)), epsilon=epsilon)


def multiple(name: str, count: int, epsilon: float | None) -> MultipleField:
    return MultipleField(name=name, options=tuple(f"o{i}" for i in range(count)), epsilon=epsilon)
