"""Explain in sentences what a form's report reveals about a participant."""

from geoveil.campaign.attribute_campaign import require_attribute
from geoveil.campaign.consent import in_unit, likelihood, of_any_two
from geoveil.campaign.fields import CategoryField, Field, MultipleField, OrdinalField
from geoveil.campaign.form import FormCampaign
from geoveil.campaign.model import Campaign, Charge
from geoveil.campaign.saying import of_far_values, rounded_up, times
from geoveil.campaign.words import digits, say
from geoveil.gp import GeoPrivacy, validation


def price_text(privacy: GeoPrivacy, unit: str) -> str:
    """Return a guarantee in words, with its unit translated.

    Example:
        >>> price_text(GeoPrivacy(1 / 3, 8_000, "dollar"), "Dollar")
        'ε = 0.333334 per 8000 Dollar'
    """
    return str(in_unit(privacy, unit))


def field_text(form: FormCampaign, field: Field) -> str:
    """Return a field's cost in brief."""
    for name, privacy, any_two in form.charges:
        if name == field.name:
            return f"{name}: {price_text(privacy, privacy.unit)}{of_far_values(any_two)}"
    return f"{field.name}: sent as it is"


def privacy_text(campaign: Campaign) -> str:
    """Return the cost of a report, ε with its unit, and its terms if it is a sum."""
    if isinstance(campaign, FormCampaign):
        return "; ".join(field_text(campaign, field) for field in campaign.fields)
    campaign = require_attribute(campaign)
    spent = price_text(campaign.report_privacy, campaign.texts.unit)
    far = of_any_two(campaign)
    if campaign.report_privacy.exact_rate <= campaign.privacy.exact_rate:
        return spent + far
    each = f"ε = {rounded_up(campaign.privacy.epsilon, 6):g}"
    if campaign.privacy.delta:
        each += f", δ = {campaign.privacy.delta:g}"
    return say("price.each", spent=spent, many=digits(campaign.answers), each=each, far=far)


def what_a_form_tells(form: FormCampaign) -> list[str]:
    """Return what reports to a form tell about any participant, as sentences.

    Example:
        >>> from datetime import UTC, datetime
        >>> from geoveil.campaign import ChoiceField, OrdinalField
        >>> form = FormCampaign(
        ...     campaign_id="flat",
        ...     title="Your flat",
        ...     fields=(
        ...         ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0),
        ...         OrdinalField(name="mood", options=("bad", "so so", "good"), epsilon=0.5),
        ...         ChoiceField(name="region", options=("north", "south")),
        ...     ),
        ...     opens=datetime(2026, 1, 1, tzinfo=UTC),
        ...     closes=datetime(2026, 7, 1, tzinfo=UTC),
        ... )
        >>> for sentence in what_a_form_tells(form):
        ...     print(sentence)
        rents: what is sent is at most 7.39 times as likely for your answer as for any other.
        mood: what is sent is at most 1.65 times as likely for your answer as for one next to it,\
 and at most 2.72 times as for any other.
        region: your answer is sent as it is.
        What the answers reveal adds up: somebody who knows how two of them are usually related\
 learns about each from both.
    """
    validation.require_kind("form", form, FormCampaign)
    charges = {charge.attribute: charge for charge in form.privacy_of(form.periods)}
    said = [
        _tells(field, charges[field.name])
        if field.name in charges
        else say("field.open", name=field.name)
        for field in form.fields
    ]
    if form.periods > 1:
        said.append(say("form.all", many=digits(form.periods)))
    return [*said, say("form.together")] if len(form.fields) > 1 else said


def _tells(field: Field, charge: Charge) -> str:
    name, privacy, any_two = charge
    far = times(any_two)
    if not isinstance(field, CategoryField):
        more = say("field.far", factor=far) if far else ""
        privacy = in_unit(privacy, field.wording.unit)
        yours = say("field.yours")
        said = likelihood(privacy, "field", yours, more=more, any_two=any_two, name=name)
        return said if far else said + say("field.near")
    if isinstance(field, OrdinalField | MultipleField) and (near := times(privacy.epsilon)):
        apart = say("apart.step" if isinstance(field, OrdinalField) else "apart.option")
        more = say("apart.far", factor=far) if far else ""
        return say("field.apart", name=name, factor=near, apart=apart, far=more)
    return say("field.choice", name=name, factor=far) if far else say("field.none", name=name)
