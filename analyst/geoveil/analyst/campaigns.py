"""Make campaigns from questions, predict their errors, and refuse unlikely settings."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any
from unicodedata import normalize

import numpy as np

from geoveil.analyst.planner import default_cap, mean_reciprocal
from geoveil.analyst.questions import AnalystQuestion, Softness, is_inside, is_swapped
from geoveil.campaign import (
    MECHANISMS,
    QUERIES,
    Allocation,
    Attribute,
    AttributeCampaign,
    Campaign,
    FormCampaign,
    MechanismSpec,
    PlanarLaplaceSpec,
    PointQuestion,
    Question,
    StatisticCampaign,
    ValueCampaign,
    digest,
    encode,
    require_attribute,
    rounded_up,
)
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy, LogScale, ParameterError, validation

_MOST_EPSILON = 10.0
"""The largest ε over PER, within which values should look alike: e^10 is 22,026."""
_MOST_TOLD_APART = 10_000.0
"""The most distances PER/ε from one end of the values to the other."""
_INHABITED = (-60.0, 84.0)
"""The inhabited latitudes, in degrees."""


def campaign_asking(
    questions: Sequence[AnalystQuestion],
    *,
    attribute: str,
    privacy: GeoPrivacy,
    width: float | None = None,
    bandwidth: float | None = None,
    plane: AzimuthalEquidistant | None = None,
    scale: LogScale | None = None,
    mechanism: str = "debiased",
    allocation: Allocation = Allocation.PARTITION,
    **later: Any,
) -> StatisticCampaign:
    """Return a campaign whose devices answer questions.

    Args:
        questions: at least one, all about numbers or all about places.
        attribute: the value that participants hold, for example "household income".
        privacy: the promise of an answer, over true distances.
        width: of the soft band around a threshold or an edge; three noise scales by default, or
            what a range or a circle has room for.
        bandwidth: of the bells of densities; three noise scales by default.
        plane: the plane that places are projected to: see `area_of`.
        scale: of numbers that are compared by ratio: privacy is then a `GeoPrivacy.per_factor`, and
            width the factor from one end of a band to the other.
        mechanism: the name of a family of mechanisms, with its parameters if it has any:
            "debiased", "smooth:beta_fraction=0.2". With "calibration=paper" bands are the straight
            ramps of the paper, and smoothsteps otherwise.
        allocation: how several questions share the privacy.
        later: campaign_id, title, opens, closes, and other fields of a `Campaign`; the default cap
            is 4 noise scales on either side if that promises anything; None for no cap.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> from datetime import UTC, datetime
        >>> from geoveil.analyst import ShareAbove
        >>> campaign = campaign_asking([ShareAbove(100_000)], attribute="household income",
        ...     privacy=GeoPrivacy(1.0, per=8_000.0, unit="dollar"), campaign_id="income",
        ...     title="Income above 100k", opens=datetime(2026, 1, 1, tzinfo=UTC),
        ...     closes=datetime(2026, 2, 1, tzinfo=UTC))
        >>> campaign.labels, campaign.questions[0].query.width, campaign.cap
        (('above 100,000',), 24000.0, Cap(below=4.0, above=4.0))
    """
    if not isinstance(mechanism, str) or mechanism.partition(":")[0] not in MECHANISMS.names:
        raise ParameterError("mechanism", mechanism, "one of " + ", ".join(mechanism_names()))
    validation.require_kind("privacy", privacy, GeoPrivacy)
    questions = validation.items("questions", questions, AnalystQuestion)
    if scale is not None:
        questions = tuple(question.on_scale(scale) for question in questions)
        width = scale.width(width)
    spec = MECHANISMS.parse(mechanism)
    if not isinstance(spec, MechanismSpec):
        raise ParameterError("mechanism", mechanism, "one that answers questions")
    softness = Softness(1 / privacy.rate, width, bandwidth, spec.profile)
    campaign = StatisticCampaign(
        attribute=Attribute(name=attribute, unit=privacy.unit, coordinates=plane, scale=scale),
        privacy=privacy,
        questions=tuple(Question(q.label, q.soft(plane, softness)) for q in questions),
        mechanism=spec,
        allocation=allocation,
        **later,
    )
    chosen = None if "cap" in later else default_cap(campaign)
    return campaign if chosen is None else replace(campaign, cap=chosen.cap)


def mechanism_names() -> list[str]:
    """Return the names of the mechanisms that answer questions; no other package is imported.

    Points are left out.
    """
    library = MECHANISMS.built_in
    return [n for n in MECHANISMS.names if n not in library or library[n].default is not None]


def campaign_for_points(
    *,
    attribute: str,
    privacy: GeoPrivacy,
    plane: AzimuthalEquidistant | None = None,
    dimension: int | None = None,
    scale: LogScale | None = None,
    **later: Any,
) -> ValueCampaign:
    """Return a campaign whose devices send perturbed points, which answer any later question.

    Args:
        attribute: the value that participants hold, for example "location".
        privacy: the promise of a point, over true distances.
        plane: the plane that places are projected to; None for numbers.
        dimension: coordinates of a point that is not a place; 1 by default.
        scale: of one number that is compared by ratio: privacy is then a `GeoPrivacy.per_factor`.
        later: campaign_id, title, opens, closes, and other fields of a `Campaign`.

    Raises:
        ParameterError: if an argument is out of range.
    """
    validation.require_kind("privacy", privacy, GeoPrivacy)
    if dimension is None:
        dimension = 1 if plane is None else plane.dimension
    return ValueCampaign(
        attribute=Attribute(name=attribute, unit=privacy.unit, coordinates=plane, scale=scale),
        privacy=privacy,
        mechanism=PlanarLaplaceSpec(dimension),
        **later,
    )


def softness_of_points(
    campaign: ValueCampaign, width: float | None = None, bandwidth: float | None = None
) -> Softness:
    """Return the softness of questions to the points of a value campaign.

    Args:
        width: of the soft band around a threshold or the end of a range; by default three noise
            scales, or what a range has room for. A factor, where values are compared by ratio.
        bandwidth: of the bells at places, and by which edges of regions are smoothed; by default
            three noise scales.
    """
    scale = campaign.attribute.scale
    if scale is not None:
        width = scale.width(width)
    rate = campaign.point_mechanism.privacy.rate
    return Softness(1 / rate, width, bandwidth, by_ratio=scale is not None)


def asked_of_points(
    campaign: ValueCampaign, questions: Sequence[AnalystQuestion], softness: Softness
) -> list[PointQuestion]:
    """Return questions to the points of a value campaign, in its coordinates.

    Raises:
        ParameterError: if one has an invalid shape, or is not about the value that people hold.
    """
    plane, held = campaign.attribute.coordinates, campaign.dimension
    for question in questions:
        if plane is not None and question.place is not None and is_swapped(plane, question.place):
            expected = "in the area of the campaign; the longitude comes first"
            raise ParameterError("question", question.label, expected)
    scale = campaign.attribute.scale
    if scale is not None:
        questions = [question.on_scale(scale) for question in questions]
    point_questions = [PointQuestion(q.label, q.of_points(plane, softness)) for q in questions]
    for point_question in point_questions:
        if point_question.query.dimension != held:
            numbers = "one number" if held == 1 else f"{held} numbers together"
            about = numbers if plane is None else "a place"
            expected = f"about {about}, which is what each participant holds"
            raise ParameterError("question", point_question.label, expected)
    return point_questions


def id_of(title: str) -> str:
    """Return the id of a campaign, made from its title.

    Example:
        >>> id_of("Income above $100k")
        'income-above-100k'
        >>> id_of("Schulden über 30k")
        'schulden-uber-30k'
    """
    plain = normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:64].rstrip("-") or "campaign"


def campaign_record(campaign: Campaign) -> dict[str, Any]:
    """Return a campaign's questions, and the cost and range of a report, as JSON values."""
    if isinstance(campaign, FormCampaign):
        return _form_record(campaign)
    campaign = require_attribute(campaign)
    privacy, step = campaign.report_privacy, 2.0**campaign.grid_exponent
    cap = campaign.cap if isinstance(campaign, StatisticCampaign) else None
    far = campaign.largest_epsilon
    columns = zip(campaign.labels, campaign.ranges, campaign.clamps, strict=True)
    return {
        "campaign_id": campaign.campaign_id,
        "title": campaign.title,
        "sha256": digest(encode(campaign)).hex(),
        "attribute": campaign.attribute.name,
        "unit": campaign.attribute.unit,
        **({} if campaign.attribute.scale is None else asdict(campaign.attribute.scale)),
        "least": campaign.attribute.least,
        "most": campaign.attribute.most,
        "epsilon": privacy.epsilon,
        "per": privacy.per,
        **slack_of(privacy),
        "cap": cap and asdict(cap),
        "any_two_epsilon": None if math.isinf(far) else far,
        **_dates_and_ways(campaign),
        "cohorts": campaign.cohorts,
        "queries": [
            {"label": label, "low": low * step, "high": high * step, "clamps": clamps}
            for label, (low, high), clamps in columns
        ],
    }


def _form_record(form: FormCampaign) -> dict[str, Any]:
    charges = {charge.attribute: charge for charge in form.charges}
    fields = []
    for field in form.fields:
        record: dict[str, Any] = {"name": field.name, "text": field.text, "unit": field.unit}
        if field.attribute_options:
            record["options"] = list(field.attribute_options)
        _, privacy, far = charges.get(field.name, (None, None, math.inf))
        record |= {
            "epsilon": privacy and privacy.epsilon,
            "per": privacy and privacy.per,
            "any_two_epsilon": None if math.isinf(far) else far,
            "columns": field.columns,
        }
        fields.append(record)
    return {
        "campaign_id": form.campaign_id,
        "title": form.title,
        "sha256": digest(encode(form)).hex(),
        **_dates_and_ways(form),
        "fields": fields,
    }


def _dates_and_ways(campaign: Campaign) -> dict[str, Any]:
    """Return the dates, transport and asker of a campaign; null where it states none."""
    return {
        "opens": campaign.opens.isoformat(),
        "closes": campaign.closes.isoformat(),
        "periods": campaign.periods,
        "minimum_participants": campaign.minimum_participants,
        "window_s": campaign.window and campaign.window.total_seconds(),
        "relay_operator": campaign.relay_operator and str(campaign.relay_operator),
        "asker": campaign.asker and asdict(campaign.asker),
        "delete_after": campaign.delete_after and campaign.delete_after.isoformat(),
        "token_key": campaign.token_key and campaign.token_key.hex(),
        "language": campaign.language or None,
        "translations": [asdict(each) for each in campaign.translations],
    }


def expected_text(campaign: AttributeCampaign, participants: int) -> str:
    """Return the expected error of an estimate, in words."""
    if isinstance(campaign, ValueCampaign):
        rate = campaign.point_mechanism.privacy.rate
        moved = campaign.dimension / rate  # the mean of a gamma distribution [MATH §9]
        by = f"{moved:,.4g} {campaign.attribute.unit}"
        if campaign.attribute.scale is not None:
            by = f"a factor of {math.exp(min(moved, 700.0)):,.4g}, up or down,"
        return (
            f"each point is moved by {by} on average; 'geoveil plan' predicts the error of a "
            "question asked of them"
        )
    assert isinstance(campaign, StatisticCampaign)
    error, label = max(_errors(campaign, participants))
    most, less, of = rounded_up(error, 2), "half that", ""
    if len(campaign.questions) > 1:
        of = f" ({label!r}, the largest)"
        less = f"{rounded_up(max(_errors(campaign, 4 * participants))[0], 2):g}"
    return (
        f"expect a standard error for the population of at most {most:g}{of} with"
        f" {participants:,} participants, noise and sampling together, and {less} with four times"
        " as many"
    )


def browsers_refuse(campaign: AttributeCampaign) -> str | None:
    """Return why devices in browsers can't answer, in half a sentence; None if they can.

    Example:
        >>> from geoveil.campaign import SmoothSpec
        >>> SmoothSpec(noise="student-t", nu=2.5).unserved(())
        'they have Student-t noise for whole ν from 3 to 30'
    """
    if campaign.window is not None:
        return "they do not wait for a window"
    if not isinstance(campaign, StatisticCampaign):
        return None
    queries = [question.query for question in campaign.questions]
    if MECHANISMS.is_built_in(campaign.mechanism) and all(map(QUERIES.is_built_in, queries)):
        return campaign.mechanism.unserved(queries)
    return "they know only geoveil's own families"


def refuse_unlikely(
    campaign: AttributeCampaign, participants: int, asked: Sequence[AnalystQuestion]
) -> None:
    """Refuse settings that are probably mistakes.

    These are useless estimates, privacy in name only, misplaced places, and a period so long
    that there is only one.

    Args:
        asked: the questions that it was made from, for the places that they name.

    Raises:
        ParameterError: naming what to change.
    """
    _check_places(campaign, asked)
    _check_hidden(campaign)
    if campaign.period is not None and campaign.periods == 1:
        days = (campaign.closes - campaign.opens) / timedelta(days=1)
        raise ParameterError(
            "period",
            str(campaign.period),
            f"shorter than the {days:g} days that the campaign takes reports, else nobody is asked"
            " twice",
        )
    if not isinstance(campaign, StatisticCampaign):
        return
    error, label = max(_errors(campaign, participants))
    if not error <= 0.5:
        raise ParameterError(
            "standard error",
            f"{error:.3g} of {label!r}",
            f"at most 0.5 with {participants:,} participants: ask with a larger width or"
            " bandwidth, or expect more participants",
        )


def _errors(campaign: StatisticCampaign, participants: int) -> list[tuple[float, str]]:
    """Return the largest standard error of each question, noise and sampling together."""
    share = 1.0 if campaign.answers_all else 1 / campaign.columns
    # Where hardly anybody answers, many a question has no answer at all.
    each = max(mean_reciprocal(participants, share), 1 / (participants * share))
    errors = []
    # These have no law of a report, or one that takes seconds.
    apart = campaign.extrapolated or campaign.allocation is Allocation.VECTOR
    for question, mechanism in zip(campaign.questions, campaign.mechanisms, strict=True):
        law = None if apart else mechanism.law()
        if law is None or law.noise is None:
            low, high = campaign.widened(question.query.profile.bounds)
            variance = campaign.noise_factor * mechanism.largest_variance + ((high - low) / 2) ** 2
        else:
            variance = law.greatest_spread
        errors.append((math.sqrt(variance * each), question.label))
    return errors


def _check_hidden(campaign: AttributeCampaign) -> None:
    privacy = campaign.privacy
    if privacy.epsilon > _MOST_EPSILON:
        raise ParameterError(
            "epsilon",
            privacy.epsilon,
            f"at most {_MOST_EPSILON:g}, as values PER apart are to look alike: give the distance"
            " within which they are",
        )
    diameter = _diameter(campaign)
    if privacy.rate * diameter > _MOST_TOLD_APART:
        raise ParameterError(
            "per",
            privacy.per,
            f"such that PER/ε is at least a {_MOST_TOLD_APART:,.0f}th of the {diameter:,.6g}"
            f" {privacy.unit} that values differ by, else next to nothing is hidden",
        )


def _diameter(campaign: AttributeCampaign) -> float:
    """Return the diameter of values: that of an area, or the span of the questions' numbers."""
    plane = campaign.attribute.coordinates
    if plane is not None:
        return 2 * plane.radius_m
    origin = np.zeros(1 if campaign.dimension == 1 else (1, campaign.dimension))
    if campaign.attribute.scale is not None:
        origin += campaign.attribute.scale.coordinate(0.0)
    if not isinstance(campaign, StatisticCampaign):
        return 0.0
    return max(float(q.query.clearance(origin)[0]) for q in campaign.questions)


def _check_places(campaign: AttributeCampaign, asked: Sequence[AnalystQuestion]) -> None:
    plane = campaign.attribute.coordinates
    if plane is None:
        return
    places = [("center", (plane.longitude_deg, plane.latitude_deg))]
    places += [("place", q.place) for q in asked if q.place is not None]
    for name, (longitude, latitude) in places:
        where = f"{longitude:.15g},{latitude:.15g}"
        if not _INHABITED[0] <= latitude <= _INHABITED[1]:
            raise ParameterError(name, where, "where people live; the longitude comes first")
        if not is_inside(plane, (longitude, latitude)):
            swapped = is_swapped(plane, (longitude, latitude))
            hint = "; the longitude comes first" if swapped else ", or the radius larger"
            raise ParameterError(
                name,
                where,
                f"within {plane.radius_m:,.0f} metre of {plane.longitude_deg:.15g},"
                f"{plane.latitude_deg:.15g}{hint}",
            )


def slack_of(privacy: GeoPrivacy) -> dict[str, float]:
    """Return δ and Λ of a guarantee for JSON; an empty dict without a δ."""
    if privacy.delta == 0:
        return {}
    reach = {} if math.isinf(privacy.reach) else {"reach": privacy.reach}
    return {"delta": privacy.delta} | reach
