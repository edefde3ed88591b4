"""Campaigns in words, for commands."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geoveil.analyst import MEAN_MOVES, ServerError, campaign_record, ways_of
from geoveil.campaign import (
    AttributeCampaign,
    Campaign,
    FormCampaign,
    SignatureInvalid,
    between,
    field_text,
    least_counted,
    open_envelope,
    privacy_text,
    require_attribute,
    signer,
    what_a_form_tells,
    who_asks,
)
from geoveil.cli.connection import CommandError
from geoveil.cli.console import out, print_table
from geoveil.gp import ParameterError
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

_SHOWN_OF_KEY = len("ed25519:") + 16


@contextmanager
def explains_taken_id(campaign: Campaign) -> Iterator[None]:
    """If the server already has a campaign's id, name the id and say how to choose another."""
    try:
        yield
    except ServerError as error:
        if error.code != "ALREADY_EXISTS":
            raise
        raise CommandError(
            f"the server has another campaign with the id {campaign.campaign_id!r}, or this one"
            " with other dates or another signature: choose another id, with 'geoveil campaign"
            " create --id'"
        ) from error


def print_campaign(campaign: Campaign) -> None:
    """Print what a campaign asks, what it costs participants, and what one report counts for."""
    if isinstance(campaign, FormCampaign):
        print_form(campaign)
        return
    campaign = require_attribute(campaign)
    out.tell((campaign.campaign_id, "bold"), f"  {campaign.title}")
    out.tell(f"{campaign.attribute.name}: {privacy_text(campaign)}")
    if (floor := least_counted(campaign)) is not None:
        out.tell(floor)
    attribute = campaign.attribute
    if expected := between(attribute.least, attribute.most):
        out.tell(f"devices ask about a value that is not {expected} {attribute.value_unit}")
    _print_when_and_how(campaign)
    if campaign.readings is not None:
        out.tell(str(campaign.readings))
        if campaign.cohorts > 1:
            out.tell(campaign.readings.telling)
    rows = (
        (
            campaign.words_for(column["label"]),
            _end(column["low"]),
            _end(column["high"]),
            "counts as the end" if column["clamps"] else "is refused",
        )
        for column in campaign_record(campaign)["queries"]
    )
    print_table(("query", "a report counts from", "to", "beyond"), rows, wrapped=range(4))
    out.print(weight_text(campaign))


def print_form(form: FormCampaign) -> None:
    """Print the fields of a form, and what a report costs participants."""
    out.tell((form.campaign_id, "bold"), f"  {form.title}")
    for field in form.fields:
        out.tell(f"{field_text(form, field)}  {'' if field.text == field.name else field.text}")
    _print_when_and_how(form)
    for sentence in what_a_form_tells(form):
        out.tell(sentence)
    out.tell(f"what its reports say: geoveil form ask {form.campaign_id}")


def _print_when_and_how(campaign: Campaign) -> None:
    for said in who_asks(campaign):
        out.tell(said)
    if tags := ", ".join(each.language for each in campaign.translations):
        out.tell(f"texts also in {tags}")
    out.tell(f"open from {campaign.opens:%Y-%m-%d %H:%M} to {campaign.closes:%Y-%m-%d %H:%M} UTC")
    for way in ways_of(campaign).values():
        if way is not None:
            out.tell(way)


def weight_text(campaign: AttributeCampaign) -> str:
    """Return the largest effect of one report on an estimate, in words."""
    most = max(map(campaign.most_from_one, range(campaign.columns)))
    if math.isinf(most):
        return MEAN_MOVES
    return f"One report of n, whatever it says, moves a mean by at most {most:.4g}/n."


def signed_by(envelope: CampaignEnvelope) -> tuple[str, str]:
    """Return the first characters of the signing key, which distinguish keys, and their style."""
    try:
        key = signer(envelope)
    except SignatureInvalid:
        return "a signature that is not valid", "bold red"
    return ("nobody" if key is None else f"{str(key)[:_SHOWN_OF_KEY]}…"), ""


def _end(value: float) -> str:
    return f"{value:,.4g}" if abs(value) >= 1e6 else f"{value:z,.4f}"


def envelope_in(file: Path) -> CampaignEnvelope:
    """Return the campaign of a file, with its signature if it has one."""
    try:
        return open_envelope(file.read_bytes())
    except ParameterError as error:
        if error.name != "envelope":
            raise
        expected = "a campaign that the console, or 'geoveil campaign sign', wrote"
        raise ParameterError("file", str(file), expected) from error
