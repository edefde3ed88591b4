"""Plans as TOML files, which `geoveil campaign create --plan` publishes.

A file has the fields of the campaign's wire message except id, title and dates, and a separate
table of the plan's expectations, for people to read.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tomli_w
from google.protobuf import json_format

from geoveil.analyst.planner import (
    ALLOCATIONS,
    KINDS,
    POINTS,
    Alternative,
    ChosenCap,
    Comparison,
    Declared,
    HardQuestion,
    Plan,
    Prediction,
    Searches,
    Targets,
    in_words,
    screened,
    vector_answers,
    without_slack,
)
from geoveil.analyst.request import PlanRequest
from geoveil.analyst.whole_file import whole_file
from geoveil.campaign import (
    Allocation,
    Attribute,
    AttributeCampaign,
    Difference,
    MechanismSpec,
    PlanarLaplaceSpec,
    PointQuestion,
    Question,
    StatisticCampaign,
    decode_attribute_campaign,
    decode_point_question,
    encode,
    encode_point_question,
    make_campaign,
)
from geoveil.gp import (
    Cap,
    Disc,
    GaussianKernel,
    ParameterError,
    Query,
    Range,
    SmoothedRegion,
    SoftStep,
    Threshold,
    UnsupportedError,
)
from geoveil.proto.v1 import campaign_pb2 as pb

_PLANNED = "planned"
_WRITTEN = "a plan that 'geoveil plan --out' wrote"
_OPENS = datetime(2000, 1, 1, tzinfo=UTC)
_UNSAID: Mapping[str, Any] = MappingProxyType(
    {"campaign_id": "plan", "title": "plan", "opens": _OPENS, "closes": _OPENS + timedelta(days=1)}
)
"""Placeholders for fields of a campaign that a plan leaves open."""


@dataclass(frozen=True)
class Chosen:
    """The parts of a campaign that a plan chooses."""

    mechanism: Declared
    questions: tuple[Question, ...]
    allocation: Allocation
    expected: Mapping[str, Any]
    """The planner's expectations of the campaign, for people to read."""
    alternatives: tuple[Alternative, ...]
    """The softness of each question."""

    @property
    def parts(self) -> int:
        """The number of participants per answer to a question: 1 if everybody answers all."""
        apart = self.allocation is Allocation.PARTITION and self.questions
        return len(self.questions) if apart else 1


def chosen_alone(request: PlanRequest, found: Plan) -> Chosen:
    """Return the campaign of a plan for one question."""
    targets = found.choice.prediction.targets(found.n)
    return _chosen(request, [found.choice], Allocation.PARTITION, _errors(targets))


def chosen_together(request: PlanRequest, found: Comparison, searches: Searches) -> Chosen:
    """Return the campaign for several questions, with the allocation that was chosen.

    A campaign has one mechanism, without parameters, that serves every question. Points are queried
    later: the plan lists their questions for people to read.
    """
    name, m = request.chosen(found).allocation, len(request.questions)
    rule = ALLOCATIONS[name]
    each = rule.per_report(request.plane_privacy, m)

    def error(p: Prediction) -> float:
        return rule.error(p, found.n, m)

    if rule.together:
        alternatives = vector_answers(
            request.questions, each, request.prior, found.n, searches, request.mechanism
        )
    else:
        several = tuple(kind for kind in KINDS if KINDS[kind].serves_several)
        several += in_words(request.privacy, None)
        if request.mechanism is not None:
            several = (request.mechanism,)
        kinds = (POINTS,) if rule.one_for_all else several
        own = [searches.of(i, q, each, request.prior) for i, q in enumerate(request.questions)]
        ways = [[best for s in own for best in screened(s, (kind,), error)[:1]] for kind in kinds]
        complete = [way for way in ways if len(way) == m]
        if not complete:
            raise UnsupportedError(f"none of {', '.join(kinds)} serves all of these questions")
        alternatives = min(complete, key=lambda way: sum(error(a.prediction) for a in way))
    answers = [
        {"question": label, **_errors(a.prediction.targets(found.n, error)), **_shape(a)}
        for label, a in zip(request.labels, alternatives, strict=True)
    ]
    allocation = Allocation.PARTITION if rule.one_for_all else Allocation(name)
    return _chosen(request, alternatives, allocation, {"allocation": name, "answers": answers})


def _chosen(
    request: PlanRequest,
    alternatives: Sequence[Alternative],
    allocation: Allocation,
    expected: dict[str, Any],
) -> Chosen:
    """Return the campaign of the best ways to ask, all of one kind."""
    first = alternatives[0]
    mechanism = KINDS[first.kind].declares(first.reports, first.parameters)
    if isinstance(mechanism, PlanarLaplaceSpec):
        expected |= {"queries": _of_points(request, alternatives)}
        return Chosen(mechanism, (), allocation, expected, tuple(alternatives))
    questions = []
    for i, (label, a) in enumerate(zip(request.labels, alternatives, strict=True)):
        assert isinstance(a.query, Query)  # smoothed regions are read from points
        questions.append(Question(label, a.query, _softness(request, i, a)))
    return Chosen(mechanism, tuple(questions), allocation, expected, tuple(alternatives))


def _errors(targets: Targets) -> dict[str, Any]:
    return {"error_95": targets.hard_question, "population_error_95": targets.population}


def _of_points(request: PlanRequest, asked: Sequence[Alternative]) -> list[dict[str, Any]]:
    """Return the planned questions to points, as a campaign of answers would sign them."""
    messages = []
    for i, (label, alternative) in enumerate(zip(request.labels, asked, strict=True)):
        message = encode_point_question(PointQuestion(label, alternative.query))
        softness = _softness(request, i, alternative)
        if softness is not None:
            message.softness.expected_difference = softness.expected
            message.softness.bound = softness.bound
        messages.append(json_format.MessageToDict(message, preserving_proto_field_name=True))
    return messages


def _softness(request: PlanRequest, index: int, found: Alternative) -> Difference | None:
    """Return the expected difference of soft and hard share; None for a soft question."""
    if not isinstance(request.questions[index], HardQuestion):
        return None
    return Difference(*found.prediction.softness)


def _shape(found: Alternative) -> dict[str, Any]:
    """Return the softness of a question, which questions to points need."""
    profile, center, width = shape_of(found.query)
    return {"profile": profile, "center": center, **({} if width is None else {"width": width})}


def shape_of(query: Query | SmoothedRegion) -> tuple[str, list[float], float | None]:
    """Return the profile of a soft question, its place, and the width of its band or bell.

    The place is a threshold, both ends of a range, or the radius of a disc; else empty.
    """
    if isinstance(query, SmoothedRegion):
        return "smoothed", [], query.bandwidth
    if isinstance(query, GaussianKernel):
        return "bell", [], query.bandwidth
    place: list[float] = []
    if isinstance(query, Threshold):
        place = [query.at]
    elif isinstance(query, Range):
        place = [query.low, query.high]
    elif isinstance(query, Disc):
        place = [query.radius]
    if not isinstance(query.profile, SoftStep):
        return "formula", place, None
    return query.profile.name, place, query.profile.width


def planned_campaign(request: PlanRequest, chosen: Chosen, **later: Any) -> AttributeCampaign:
    """Return the campaign of a plan; `later` is what the plan leaves open, such as its dates."""
    later["attribute"] = Attribute(
        name=request.attribute,
        unit=request.privacy.unit,
        coordinates=request.plane,
        scale=request.scale,
    )
    has_slack = isinstance(chosen.mechanism, MechanismSpec) and chosen.mechanism.has_slack
    later["privacy"] = request.privacy if has_slack else without_slack(request.privacy)
    return make_campaign(
        questions=chosen.questions,
        mechanism=chosen.mechanism,
        allocation=chosen.allocation,
        **later,
    )


def as_if_published(
    request: PlanRequest, chosen: Chosen, cap: Cap | None = None
) -> AttributeCampaign:
    """Return the campaign of a plan, with placeholders for fields that the plan leaves open."""
    return planned_campaign(request, chosen, cap=cap, **_UNSAID)


def write_plan(
    file: Path, request: PlanRequest, chosen: Chosen, cap: ChosenCap | None = None
) -> None:
    """Write a plan, whole or not at all."""
    campaign = as_if_published(request, chosen, None if cap is None else cap.cap)
    message = pb.Campaign.FromString(encode(campaign))
    message.ClearField("opens")
    message.ClearField("closes")
    message.campaign_id = message.title = ""
    costs = {}
    if cap is not None:
        costs = {"variance_factor_of_cap": cap.factor, "noise_factor_of_cap": cap.noise_factor}
    tables = {
        _PLANNED: {
            "participants": request.participants,
            "prior": request.source.name,
            "questions": list(request.labels),
            "scenarios": list(request.prior.scenarios),
            **chosen.expected,
            **costs,
        },
        **json_format.MessageToDict(message, preserving_proto_field_name=True),
    }
    with whole_file("file", file) as beside:
        beside.write_text(tomli_w.dumps(tables), encoding="utf-8")


def campaign_of(file: Path, *, attribute: str | None = None, **later: Any) -> AttributeCampaign:
    """Return the campaign that a plan describes.

    Args:
        file: a file that `write_plan` wrote.
        attribute: what participants hold; that of the plan by default.
        later: campaign_id, title, opens, closes, and other fields of `Campaign` to replace; with
            `readings` the plan's cap is left out.

    Raises:
        ParameterError: if the file is not a plan, or a field is out of range.
    """
    planned = _planned(_read(file), file)
    if attribute is not None:
        later["attribute"] = replace(planned.attribute, name=attribute)
    if later.get("readings") is not None and isinstance(planned, StatisticCampaign):
        later.setdefault("cap", None)
    return replace(planned, **later)


def _planned(told: Mapping[str, Any], file: Path) -> AttributeCampaign:
    """Return the campaign of a plan from a file, without the fields that the plan leaves open."""
    stated = {name: value for name, value in told.items() if name != _PLANNED}
    try:
        message = json_format.ParseDict(stated, pb.Campaign())
    except json_format.ParseError:
        raise ParameterError("file", str(file), _WRITTEN) from None
    message.campaign_id, message.title = _UNSAID["campaign_id"], _UNSAID["title"]
    message.opens.FromDatetime(_UNSAID["opens"])
    message.closes.FromDatetime(_UNSAID["closes"])
    return decode_attribute_campaign(message.SerializeToString(deterministic=True))


def planned_participants(file: Path) -> int | None:
    """Return the number of participants of a plan; None if the file does not say."""
    participants = _read(file).get(_PLANNED, {}).get("participants")
    return participants if isinstance(participants, int) else None


@dataclass(frozen=True)
class PlannedPoints:
    """The planned questions to points."""

    questions: tuple[PointQuestion, ...]
    differences: Mapping[str, Difference]
    """Label of a question → expected difference of its soft and hard answers, which no campaign of
    points signs. See `CampaignEstimates.with_differences`."""
    campaign: AttributeCampaign
    """The campaign's field values for which the plan was made."""

    def fits(self, campaign: AttributeCampaign) -> bool:
        """Return whether a campaign has the privacy and the plane of the plan."""
        planned = self.campaign
        maps = [(each.attribute.coordinates, each.attribute.scale) for each in (campaign, planned)]
        return campaign.privacy == planned.privacy and maps[0] == maps[1]


def planned_points(file: Path) -> PlannedPoints:
    """Return the planned questions to points.

    Raises:
        ParameterError: if the file is not a plan, or one for a campaign that asks its questions
            itself.
    """
    table = _read(file, "plan")
    queries = table.get(_PLANNED, {}).get("queries", [])
    if not queries:
        expected = "a plan for points; a campaign of answers has the questions of its plan signed"
        raise ParameterError("plan", str(file), expected)
    campaign = _planned(table, file)
    try:
        messages = [json_format.ParseDict(query, pb.Query()) for query in queries]
    except json_format.ParseError:
        raise ParameterError("plan", str(file), _WRITTEN) from None
    return PlannedPoints(
        questions=tuple(decode_point_question(i, m) for i, m in enumerate(messages)),
        differences={
            m.label: Difference(m.softness.expected_difference, m.softness.bound)
            for m in messages
            if m.HasField("softness")
        },
        campaign=campaign,
    )


def _read(file: Path, name: str = "file") -> dict[str, Any]:
    """Return the content of a plan; an error names the parameter."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ParameterError(name, str(file), f"{_WRITTEN}: there is no such file") from None
    except (OSError, ValueError):
        raise ParameterError(name, str(file), _WRITTEN) from None
