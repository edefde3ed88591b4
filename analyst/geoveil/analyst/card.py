"""Privacy cards: a campaign's promise in the fields that offices and registries require."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from importlib.resources import files
from typing import Any, TypeAlias

from geoveil.analyst.central import central_record, central_text
from geoveil.campaign import (
    FARTHEST,
    MECHANISMS,
    Attribute,
    Campaign,
    Charge,
    ChoiceField,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    PointField,
    ValueCampaign,
    days_in,
    decode,
    deletion_text,
    digest,
    digits,
    factor_up,
    percent,
    price_text,
    privacy_text,
    require_attribute,
    rounded_up,
    signer,
    to_one,
    token_key_id,
    what_a_form_tells,
    what_it_tells,
    who_learns,
)
from geoveil.gp import PlanarLaplace, __version__, round_up
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

NOT_STATED = "not stated"
_PRECISE = {"the law of California": 1_850, "that of other states of the USA": 1_750}
"""Jurisdiction → the radius, in feet, within which its law calls a place precise."""
_FOOT_M = 0.3048
_KINDS: Mapping[type, str] = {
    NumberField: "Laplace noise on the number",
    PlaceField: "planar Laplace noise on the place",
    ChoiceField: "randomised response or unary encoding",
    OrdinalField: "noise in steps between options",
    MultipleField: "a random subset of the options",
}
_NO_WAY = {
    "window": "Reports leave at once.",
    "relay": "No relay: the server sees the address that a report comes from.",
    "tokens": "No tokens: the server can't tell whether one person sends several reports.",
}
_SERVER_LEARNS = "The server alone: that somebody takes part, when, and from which address."
_Points: TypeAlias = "dict[str, tuple[Attribute, PlanarLaplace]]"
"""Name → the value's kind, and its mechanism."""


def card_of(envelope: CampaignEnvelope) -> dict[str, Any]:
    """Return the card of a campaign as JSON data.

    Raises:
        GeoVeilError: if the campaign or its signature is not valid.
    """
    template = json.loads(files("geoveil.analyst").joinpath("card.json").read_text("utf-8"))
    written: dict[str, Any] = _filled(template, _facts(envelope))
    return written


def _filled(template: Any, facts: Mapping[str, Any]) -> Any:
    """Return a template filled with facts; None becomes "not stated"."""
    if isinstance(template, dict):
        return {name: _filled(part, facts) for name, part in template.items()}
    if isinstance(template, list):
        return [_filled(part, facts) for part in template]
    if not isinstance(template, str):
        return template
    if template[:1] == "{" and (fact := facts.get(template[1:-1], template)) is not template:
        return NOT_STATED if fact is None else fact
    return template.format_map({k: NOT_STATED if v is None else v for k, v in facts.items()})


def _facts(envelope: CampaignEnvelope) -> dict[str, Any]:
    """Return a campaign's facts by their names in the template; None if it does not state one."""
    campaign, key = decode(envelope.campaign), signer(envelope)
    promised = _of_form(campaign) if isinstance(campaign, FormCampaign) else _of_one(campaign)
    least = campaign.minimum_participants
    asker = {} if campaign.asker is None else asdict(campaign.asker)
    of_asker = ("organisation", "purpose", "contact", "notice")
    return {
        **{name: asker.get(name) or None for name in of_asker},
        "kept": campaign.delete_after and deletion_text(campaign.delete_after),
        "title": campaign.title,
        "campaign_id": campaign.campaign_id,
        "sha256": digest(envelope.campaign).hex(),
        "signed_by": None if key is None else str(key),
        "signature": "signed by nobody" if key is None else f"signed with {key}",
        "open": f"{campaign.opens:%Y-%m-%d %H:%M} to {campaign.closes:%Y-%m-%d %H:%M} UTC",
        "version": __version__,
        "costs": privacy_text(campaign),
        "minimum": f"The server shows no estimate from fewer than {least:,} answers." * (least > 0)
        or None,
        "release_type": "Many releases" if campaign.period else "One release",
        "source_type": "Dynamic" if campaign.period else "Static",
        "learns": who_learns(campaign) or [_SERVER_LEARNS],
        **{
            name: said[0].upper() + said[1:] + "." if said else _NO_WAY[name]
            for name, said in ways_of(campaign).items()
        },
        **promised,
    }


def _of_one(campaign: Campaign) -> dict[str, Any]:
    """Return the facts of a campaign about one attribute."""
    about = require_attribute(campaign)
    family = MECHANISMS.of(getattr(about, "mechanism", None))
    points: _Points = {}
    if isinstance(about, ValueCampaign):
        points[about.attribute.name] = about.attribute, about.point_mechanism
        held = "one perturbed value, from which any statistic is estimated"
    else:
        many = "perturbed answers to all" if about.answers_all else "a perturbed answer to one"
        held = f"{many} of: {', '.join(about.labels)}"
    far = math.inf if about.readings else about.largest_epsilon * about.periods
    total = Charge(about.attribute.name, about.total_privacy, far)
    central = central_record(about, about.minimum_participants)
    return {
        "promises": what_it_tells(about),
        "central": central and central_text(central, about.report_privacy),
        "mechanism": family and f"{family.name}: {family.summary}",
        **_sent(held, ""),
        **_spent(about, [total], f" {about.readings}" if about.readings else ""),
        **_moved(points),
    }


def _of_form(form: FormCampaign) -> dict[str, Any]:
    """Return the facts of a form."""
    plain = ", ".join(field.name for field in form.fields if field.privacy is None)
    points = {f.name: (f.attribute, f.mechanism) for f in form.fields if isinstance(f, PointField)}
    return {
        "promises": what_a_form_tells(form),
        "central": None,
        "mechanism": "; ".join(
            f"{of.name}: {'sent as it is' if of.privacy is None else _KINDS[type(of)]}"
            for of in form.fields
        ),
        **_sent(f"an answer to each of: {', '.join(f.name for f in form.fields)}", plain),
        **_spent(form, form.privacy_of(form.periods), open_fields=plain),
        **_moved(points),
    }


def _sent(held: str, plain: str) -> dict[str, str]:
    """Return the contents of reports, and the fields that are sent unperturbed."""
    protected = "None of the answers." if not plain else f"Sent as they are: {plain}."
    also = "That a person took part, and when, is not protected."
    return {"released": f"A report holds {held}.", "unprotected": f"{protected} {also}"}


def _spent(
    campaign: Campaign, totals: Sequence[Charge], read: str = "", open_fields: str = ""
) -> dict[str, Any]:
    """Return the cost of each report, and of all reports of a participant.

    Args:
        totals: costs of all reports, for each protected attribute.
        read: how often a value is read, as a sentence.
        open_fields: the names of fields that are sent unperturbed.
    """
    schedule = "A participant answers once."
    all_cost = "; ".join(
        f"{name}: {price_text(privacy, privacy.unit)}" for name, privacy, _ in totals
    )
    if campaign.period is not None:
        schedule = (
            f"A participant answers at most once in each of {campaign.periods:,} periods of"
            f" {days_in(campaign.period)}. All these reports cost {all_cost}."
        )
    alone = totals[0].privacy if len(totals) == 1 and not open_fields else None
    far = [math.inf if total.privacy.delta else total.any_two for total in totals]
    any_two = math.inf
    if not open_fields and math.inf not in far:
        any_two = round_up(sum(map(Fraction, far), Fraction()))
    pure = to_one(any_two) is not None
    names = ", ".join(total.attribute for total in totals)
    return {
        "subject": ", ".join(filter(None, (names, open_fields))),
        "attributes": list(map(_cost, campaign.charges, totals)) or None,
        "schedule": f"{schedule}{read}",
        "any_two": _finite(any_two),
        "variant_name": "Pure DP" if pure else "Custom",
        "registry_epsilon": any_two if pure else alone and alone.epsilon,
        "registry_delta": 0.0 if pure else alone and alone.delta,
        "registry_details": "All reports of a participant together: "
        + (
            f"ε holds between any two sets of answers. At a distance it is {all_cost}."
            if pure
            else f"ε holds at a distance, {all_cost or NOT_STATED}."
        ),
    }


def _cost(each: Charge, total: Charge) -> dict[str, Any]:
    """Return an attribute's cost of a report, and of all reports of a participant, in numbers."""
    name, privacy, any_two = each
    held = {
        "attribute": name,
        "unit": privacy.unit,
        "per": privacy.per,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "reach": privacy.reach,
        "any_two_epsilon": any_two,
        "all_reports_epsilon": total.privacy.epsilon,
        "all_reports_delta": total.privacy.delta,
        "all_reports_any_two_epsilon": total.any_two,
    }
    return {key: _finite(number) for key, number in held.items()}


def _finite(number: Any) -> Any:
    return "infinite" if number == math.inf else number


def _moved(points: _Points) -> dict[str, Any]:
    """Return the distances of perturbed points from the truth, compared with legal limits."""
    from scipy.special import gammainc, gammaincinv

    noise, areas, near = [], [], []
    for name, (attribute, mechanism) in points.items():
        scale, plane = 1 / mechanism.privacy.rate, attribute.coordinates
        half, most = (
            _apart(attribute, scale * float(gammaincinv(mechanism.dimension, share)))
            for share in (0.5, 0.95)
        )
        what = "values" if plane is None else "places"
        noise.append(f"{name}: half of the reported {what} within {half}, 95 % within {most}.")
        if plane is None:
            continue
        center = f"longitude {plane.longitude_deg:g}, latitude {plane.latitude_deg:g}"
        areas.append(f"{digits(plane.radius_m)} metre around {center}")
        for law, feet in _PRECISE.items():
            bound = feet * _FOOT_M * plane.distortion  # in the plane, of places so far apart
            share = percent(float(gammainc(mechanism.dimension, bound / scale)))
            near.append(
                f"{name}: {law} calls a place precise within {feet:,} feet"
                f" ({feet * _FOOT_M:.0f} metre), where {share} of the reported places lie."
            )
    return {
        "noise": noise or None,
        "places": [said for said in noise if "places within" in said] or None,
        "area": "; ".join(areas) or None,
        "precise": near or None,
    }


def _apart(attribute: Attribute, distance: float) -> str:
    """Return a distance in words, rounded up."""
    if attribute.scale is None:
        return f"{digits(rounded_up(distance, 4))} {attribute.unit}"
    if distance > FARTHEST:
        return f"a factor of e^{digits(rounded_up(distance, 3))}"
    return f"a factor of {digits(factor_up(distance, 3))}"


def ways_of(campaign: Campaign) -> dict[str, str | None]:
    """Return when and how reports leave, in words; None if the campaign does not say."""
    window = relay = tokens = None
    if campaign.window is not None:
        span = "the campaign" if campaign.period is None else "each period"
        window = (
            f"reports leave at random times in the last {days_in(campaign.window)} of {span},"
            " and answers are taken before"
        )
    if campaign.relay_operator is not None:
        relay = f"reports come through a relay, to the gateway of {campaign.relay_operator}"
    if campaign.token_key is not None:
        named = f"the key {token_key_id(campaign.token_key).hex()}"
        if campaign.period is not None:
            named = f"a key for each of {campaign.periods:,} periods"
        tokens = f"each report needs a token from the issuer with {named}"
    return {"window": window, "relay": relay, "tokens": tokens}
