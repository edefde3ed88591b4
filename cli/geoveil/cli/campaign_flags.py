"""Campaigns as flags of the command describe them."""

from collections.abc import Sequence
from typing import Any

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    Question,
    SmoothSpec,
    StatisticCampaign,
    ValueCampaign,
)
from geoveil.cli.campaign_text import coordinates, parse_place
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError, Threshold
from geoveil.gp.coordinates import AzimuthalEquidistant

_RADIUS_M = 60_000.0
MECHANISMS: dict[str, MechanismSpec] = {
    "debiased": DebiasedLaplaceSpec(),
    "smooth": SmoothSpec(0.15),
    "lipschitz": LipschitzLaplaceSpec(),
}
Places = dict[str, tuple[float, float]]
"""Labels → longitudes and latitudes."""


def asked(
    attribute: str | None,
    *,
    epsilon: float | None,
    per: float | None,
    unit: str | None,
    threshold: Sequence[float] | None,
    width: float | None,
    place: Sequence[str] | None,
    bandwidth: float | None,
    center: str | None,
    radius: float | None,
    points: bool | None,
    dimension: int | None,
    mechanism: str | None,
    allocation: Allocation | None,
    **later: Any,
) -> tuple[Campaign, Places]:
    """Return the campaign that flags describe, and the places that it asks about.

    They are the options of 'geoveil campaign create', None where they were not given; and `later`
    is campaign_id, title, opens, closes, and whatever else a `Campaign` has.

    Raises:
        ParameterError: if one is missing, out of place or out of range.
    """
    for name, value in {"epsilon": epsilon, "per": per, "attribute": attribute}.items():
        if value is None:
            raise ParameterError(f"--{name}", None, "given, unless there is a --plan")
    assert epsilon is not None and per is not None and attribute is not None  # noqa: PT018
    plane = None
    places = [parse_place(text) for text in place or ()]
    if center or places:
        middle = coordinates("center", center) if center else places[0][1]
        plane = AzimuthalEquidistant(*middle, radius_m=_RADIUS_M if radius is None else radius)
    if unit is None and plane is None:
        raise ParameterError(
            "--unit", None, "given, for example dollar: only of places it is metre by default"
        )
    privacy = GeoPrivacy(epsilon, per, "metre" if unit is None else unit)
    soft = 3 / privacy.rate
    band, bell = (soft if given is None else given for given in (width, bandwidth))
    questions = [
        Question(f"above {at:,.15g}", Threshold(at, band, profile="smoothstep"))
        for at in threshold or ()
    ]
    for label, where in places:
        assert plane is not None  # there are places
        questions.append(Question(label, GaussianKernel(plane.project(where).tolist(), bell)))
    if questions and points:
        raise ParameterError(
            "points", points, "without --threshold and --place: they are asked later"
        )
    if not questions and not points:
        raise ParameterError(
            "questions", "none", "at least one --threshold or --place, or --points"
        )
    if dimension is not None and not points:
        raise ParameterError("dimension", dimension, "left out unless there is --points")
    spec = _mechanism(mechanism, points, dimension, plane)
    later["attribute"] = Attribute(name=attribute, unit=privacy.unit, coordinates=plane)
    later["privacy"] = privacy
    if isinstance(spec, PlanarLaplaceSpec):
        if allocation not in (None, Allocation.PARTITION):
            raise ParameterError(
                "allocation", allocation.value, "'partition': there is nothing to divide"
            )
        return ValueCampaign(mechanism=spec, **later), dict(places)
    campaign = StatisticCampaign(
        questions=tuple(questions),
        mechanism=spec,
        allocation=allocation or Allocation.PARTITION,
        **later,
    )
    return campaign, dict(places)


def _mechanism(
    name: str | None,
    points: bool | None,
    dimension: int | None,
    plane: AzimuthalEquidistant | None,
) -> MechanismSpec | PlanarLaplaceSpec:
    name = "debiased" if name is None else name
    if name not in MECHANISMS:
        raise ParameterError("mechanism", name, "one of " + ", ".join(MECHANISMS))
    if points:
        if dimension is None:
            dimension = 1 if plane is None else plane.dimension
        return PlanarLaplaceSpec(dimension)
    return MECHANISMS[name]
