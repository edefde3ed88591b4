"""What is wished for: flags, or answers at a terminal, become a question that can be planned."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from geoveil.analyst.planner import (
    ALLOCATIONS,
    Allocated,
    Comparison,
    HardDisc,
    HardPolygon,
    HardQuestion,
    HardRange,
    HardThreshold,
    Prior,
    Question,
    SoftQuestion,
)
from geoveil.cli.campaign_text import listed, parse_place
from geoveil.cli.plan_bandwidth import narrowest
from geoveil.cli.plan_priors import KNOWN, PriorSource, prior_source
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError, validation
from geoveil.gp.coordinates import Area, AzimuthalEquidistant

SOFT_WIDTH = 3.0
"""Width of a soft band that is not given, in noise scales."""
Ask = Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What was said on the command line; None or () for what was not."""

    above: Sequence[float] = ()
    between: Sequence[str] = ()
    density: Sequence[str] = ()
    within: Sequence[str] = ()
    region: Sequence[Path] = ()
    participants: int | None = None
    prior: str | None = None
    prior_column: Sequence[str] = ()
    prior_weights: str | None = None
    unit: str | None = None
    epsilon: float | None = None
    per: float | None = None
    soft: bool = False
    width: float | None = None
    bandwidth: float | None = None
    center: str | None = None
    radius: float = 60_000.0
    target_error: float | None = None
    allocation: str | None = None
    channels: bool = False
    attribute: str | None = None

    @property
    def asked(self) -> int:
        """How many questions there are."""
        return sum(len(getattr(self, name)) for name in QUESTIONS)

    @property
    def places(self) -> bool:
        """Whether a question is about places."""
        return bool(self.density or self.within or self.region)


QUESTIONS = ("above", "between", "density", "within", "region")
_PROMPTS: Mapping[str, str] = MappingProxyType(
    {
        "participants": "How many people will take part?",
        "prior": f"What is publicly known of them ({KNOWN})?",
        "unit": "In which unit are the values?",
        "epsilon": "ε: how much may a report tell of two values a distance apart (usually 1)?",
        "per": "Which distance should nobody be able to tell, in that unit?",
    }
)
_EXAMPLES = (
    "What do you want to know? For example: above 100000; between 50000,100000;"
    " density -73.98,40.75; within -73.98,40.75,2000; region district.geojson"
)
_NUMBERS: Mapping[str, type] = MappingProxyType(
    {"participants": int, "epsilon": float, "per": float}
)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """All that a plan needs."""

    labels: tuple[str, ...]
    questions: tuple[Question, ...]
    privacy: GeoPrivacy
    """What a person is promised in all, over true distances."""
    plane: AzimuthalEquidistant | None
    """That places are projected to."""
    source: PriorSource
    prior: Prior
    participants: int
    target_error: float | None = None
    """The 95 % error that is wanted."""
    allocation: str | None = None
    """A name in `ALLOCATIONS`; None for the best that promises what a person is promised."""
    channels: bool = False
    """Whether optimal channels are considered for several questions."""
    attribute: str = "value"

    @property
    def plane_privacy(self) -> GeoPrivacy:
        """The promise in the coordinates of the questions."""
        return self.privacy if self.plane is None else self.plane.privacy(self.privacy)

    def chosen(self, found: Comparison) -> Allocated:
        """Return the allocation that is asked for, or the best.

        Raises:
            ParameterError: if it serves not all questions.
        """
        return found.choice if self.allocation is None else found[self.allocation]

    def but(self, *, participants: int | None = None, per: float | None = None) -> "Wish":
        """Return the same wish with another number of people, or another distance."""
        return replace(
            self,
            participants=self.participants if participants is None else participants,
            privacy=self.privacy if per is None else replace(self.privacy, per=per),
        )


def completed(flags: Flags, ask: Ask | None) -> Flags:
    """Return the flags with answers for those that are missing.

    Args:
        flags: as typed.
        ask: puts one question to whoever sits at the terminal; None if nobody does.

    Raises:
        ParameterError: naming the flag that is missing, or that was answered wrongly.
    """
    if not flags.asked:
        if ask is None:
            names = ", ".join(f"--{name}" for name in QUESTIONS)
            raise ParameterError("question", "none", f"given: at least one of {names}")
        flags = _asked(flags, ask(_EXAMPLES))
    for name in ("participants", "prior", "unit", "epsilon", "per"):
        if getattr(flags, name) is not None:
            continue
        if name == "unit" and _source(flags).unit is not None:
            continue
        if ask is None:
            raise ParameterError(f"--{name}", None, "given")
        flags = replace(flags, **{name: _answer(name, ask(_PROMPTS[name]))})
    return flags


def wish_of(flags: Flags) -> Wish:
    """Return what complete flags wish for.

    Raises:
        ParameterError: naming the flag, its value and what is permitted.
    """
    if flags.participants is None or flags.epsilon is None or flags.per is None:
        completed(flags, None)
        raise AssertionError("completed flags lack nothing")
    source = _source(flags)
    _check_alike(flags, source)
    unit = flags.unit or source.unit or ""
    privacy = GeoPrivacy(flags.epsilon, flags.per, unit)
    shapes = [json_region(path) for path in flags.region]
    plane = _plane(flags, shapes) if flags.places else None
    prior = source.make(plane)
    found = [*_numbers(flags), *_places(flags, shapes, plane)]
    found += _densities(flags, plane, privacy, prior)
    if flags.soft:
        width = flags.width or SOFT_WIDTH / privacy.rate
        found = [(label, _softened(question, width)) for label, question in found]
    return Wish(
        labels=tuple(label for label, _ in found),
        questions=tuple(question for _, question in found),
        privacy=privacy,
        plane=plane,
        source=source,
        prior=prior,
        participants=flags.participants,
        target_error=(
            None
            if flags.target_error is None
            else validation.positive("--target-error", flags.target_error)
        ),
        allocation=flags.allocation,
        channels=flags.channels,
        attribute=flags.attribute or source.attribute,
    )


def _source(flags: Flags) -> PriorSource:
    if flags.prior is None:
        raise ParameterError("--prior", None, f"given: one of {KNOWN}")
    return prior_source(flags.prior, flags.prior_column, flags.prior_weights)


def _check_alike(flags: Flags, source: PriorSource) -> None:
    """Refuse flags that contradict each other."""
    if flags.places and (flags.above or flags.between):
        raise ParameterError("questions", "numbers and places", "of one kind: plan each by itself")
    if flags.places != (source.dimension == 2):
        fitting = "collisions, or a file with two --prior-column" if flags.places else "incomes"
        kind = "places" if flags.places else "numbers"
        raise ParameterError("--prior", source.name, f"one of {kind}, for example {fitting}")
    if flags.unit is not None and source.unit not in (None, flags.unit):
        raise ParameterError("--unit", flags.unit, f"{source.unit!r}, as {source.name} has it")
    if flags.width is not None and not flags.soft:
        raise ParameterError("--width", flags.width, "with --soft: otherwise it is planned")
    if flags.bandwidth is not None and not flags.density:
        raise ParameterError("--bandwidth", flags.bandwidth, "with --density")
    if flags.allocation is not None:
        validation.choice("--allocation", flags.allocation, ALLOCATIONS)
        if flags.asked < 2:
            raise ParameterError("--allocation", flags.allocation, "with several questions")


def _asked(flags: Flags, text: str) -> Flags:
    """Return flags with a question that was typed as 'above 100000'."""
    name, _, rest = text.strip().partition(" ")
    if name not in QUESTIONS or not rest.strip():
        raise ParameterError("question", text, f"one of {', '.join(QUESTIONS)}, and its numbers")
    value: Any = rest.strip()
    if name == "above":
        value = validation.real("--above", _number(value))
    changed: dict[str, Any] = {name: (Path(value) if name == "region" else value,)}
    return replace(flags, **changed)


def _answer(name: str, text: str) -> Any:
    kind = _NUMBERS.get(name, str)
    try:
        return kind(text.strip().replace("_", ""))
    except ValueError:
        raise ParameterError(f"--{name}", text, "a number") from None


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _numbers(flags: Flags) -> list[tuple[str, Question]]:
    found: list[tuple[str, Question]] = [
        (f"above {at:,.15g}", HardThreshold(at)) for at in flags.above
    ]
    for text in flags.between:
        low, high = listed("--between", text, 2, "LOW,HIGH")
        found.append((f"{low:,.15g} to {high:,.15g}", HardRange(low, high)))
    return found


def _densities(
    flags: Flags, plane: AzimuthalEquidistant | None, privacy: GeoPrivacy, prior: Prior
) -> list[tuple[str, Question]]:
    if plane is None or not flags.density:
        return []
    places = [parse_place(text) for text in flags.density]
    centers = [tuple(plane.project(place).tolist()) for _, place in places]
    bandwidth = flags.bandwidth
    if bandwidth is None:
        bandwidth = narrowest(centers, plane.privacy(privacy), prior, flags.participants or 0)
    return [
        (f"density at {label}", SoftQuestion(GaussianKernel(center, bandwidth)))
        for (label, _), center in zip(places, centers, strict=True)
    ]


def _places(
    flags: Flags, shapes: Sequence[Any], plane: AzimuthalEquidistant | None
) -> list[tuple[str, Question]]:
    if plane is None:
        return []
    found: list[tuple[str, Question]] = []
    for text in flags.within:
        label, longitude, latitude, radius = _circle(text)
        center = tuple(plane.project((longitude, latitude)).tolist())
        found.append((label, HardDisc(center, radius)))
    for path, shape in zip(flags.region, shapes, strict=True):
        found.append((path.stem, HardPolygon(_projected(shape, plane))))
    return found


def _circle(text: str) -> tuple[str, float, float, float]:
    label, _, rest = text.rpartition("=")
    longitude, latitude, radius = listed("--within", rest, 3, "LONGITUDE,LATITUDE,RADIUS in m")
    return (
        label or f"within {radius:g} m of {longitude:g},{latitude:g}",
        longitude,
        latitude,
        radius,
    )


def _plane(flags: Flags, shapes: Sequence[Any]) -> AzimuthalEquidistant:
    """Return the plane about --center, or the first place that is asked about."""
    if flags.center is not None:
        longitude, latitude = listed("--center", flags.center, 2, "LONGITUDE,LATITUDE")
    elif flags.density:
        longitude, latitude = parse_place(flags.density[0])[1]
    elif flags.within:
        _, longitude, latitude, _ = _circle(flags.within[0])
    else:
        area = Area.of_polygon(shapes[0])
        longitude, latitude = area.longitude_deg, area.latitude_deg
    return AzimuthalEquidistant(longitude, latitude, radius_m=flags.radius)


def json_region(path: Path) -> Any:
    """Return the polygon of a GeoJSON file: a geometry, or the only feature.

    Raises:
        ParameterError: if it is none.
    """
    expected = "a GeoJSON file with one Polygon or MultiPolygon"
    try:
        shape = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ParameterError("--region", str(path), f"{expected} that can be read") from None
    if isinstance(shape, dict) and shape.get("type") == "FeatureCollection":
        features = shape.get("features")
        shape = features[0] if isinstance(features, list) and len(features) == 1 else None
    if isinstance(shape, dict) and shape.get("type") == "Feature":
        shape = shape.get("geometry")
    if not isinstance(shape, dict) or shape.get("type") not in ("Polygon", "MultiPolygon"):
        raise ParameterError("--region", str(path), expected)
    return shape


def _projected(shape: Mapping[str, Any], plane: AzimuthalEquidistant) -> dict[str, Any]:
    def project(node: Any, depth: int) -> Any:
        if depth:
            return [project(inner, depth - 1) for inner in node]
        return plane.project([place[:2] for place in node]).tolist()

    depth = 1 if shape["type"] == "Polygon" else 2
    return {"type": shape["type"], "coordinates": project(shape["coordinates"], depth)}


def _softened(question: Question, width: float) -> Question:
    if isinstance(question, HardQuestion):
        return SoftQuestion(question.soft(width, "smoothstep", (0.0,) * question.boundaries))
    return question
