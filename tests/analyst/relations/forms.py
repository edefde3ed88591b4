"""Forms, and simulated reports of them, for tests of relations."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.relations.form_reports import FormReports
from geoveil.campaign import (
    Attribute,
    CategoryField,
    ChoiceField,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    PointField,
)
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy

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


def reported(
    campaign: FormCampaign, values: Sequence[NDArray[Any]], rng: np.random.Generator
) -> FormReports:
    """Return simulated reports of people's values: indices, masks, numbers, or metres (n, 2)."""
    columns = []
    for field, held in zip(campaign.fields, values, strict=True):
        if isinstance(field, PointField):
            points = field.mechanism.simulate(held, rng)
            integers = np.rint(points / field.mechanism.step).astype(np.int64)
        elif not isinstance(field, CategoryField) or field.mechanism is None:
            integers = np.asarray(held, np.int64)
        else:
            integers = field.mechanism.simulate(held, rng)
        columns.append(integers.reshape(len(held), -1))
    return FormReports(campaign, np.concatenate(columns, axis=1))
