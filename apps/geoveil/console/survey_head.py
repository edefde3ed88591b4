"""The head of every page of a survey, and the Python code for its questions."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import geoveil.analyst
from geoveil.analyst import PublishedCampaign, central_record, central_text, of_one_question
from geoveil.campaign import (
    AttributeCampaign,
    Campaign,
    FormCampaign,
    SignatureInvalid,
    StatisticCampaign,
    ValueCampaign,
    field_text,
    of_any_two,
    require_attribute,
    signer,
)
from geoveil.console.http import PageRequest
from geoveil.console.page_analyst import CampaignProgress
from geoveil.console.progress import ReportsOverTime
from geoveil.console.rendering import asker_of, date_text, privacy_words, span_text

_SHOWN_OF_KEY = len("ed25519:") + 12
_LEAST_S, _EARLY = 3_600.0, 0.05
"""The first seconds of a survey, for which the page states no pace, and the first fraction of its
time, for which it states no expected total."""


def told_of(campaign: Campaign) -> dict[str, Any]:
    """Return the data for the head of every page of a survey."""
    in_all = ""
    if isinstance(campaign, AttributeCampaign) and campaign.period is not None:
        in_all = str(campaign.total_privacy)
    return {
        "campaign_id": campaign.campaign_id,
        "title": campaign.title,
        "campaign": campaign,
        "asks": asks_of(campaign),
        **asker_of(campaign),
        "privacy": privacy_of(campaign),
        "in_all": in_all,
        "dates": f"{date_text(campaign.opens)} to {date_text(campaign.closes)}",
        "of_points": isinstance(campaign, ValueCampaign),
    }


def standing_of(request: PageRequest, campaign_id: str) -> dict[str, Any]:
    """Return the state and progress of a survey, and its signer."""
    progress = request.analyst.status_of(campaign_id)
    published = progress.published
    return standing(progress, request.now) | {
        "central": central_words(published.campaign, published.reports),
        "signer": signer_words(published),
    }


def standing(progress: CampaignProgress, now: datetime) -> dict[str, Any]:
    """Return the state and progress of a survey, which live pages update."""
    published = progress.published
    campaign = published.campaign
    return {
        "state": published.state,
        "reports": published.reports,
        "least": campaign.minimum_participants,
        "take_part": f"/take-part/{campaign.campaign_id}",
        "pace": pace_words(
            published.reports, campaign.opens, campaign.closes, now, published.state
        ),
        "against_plan": ReportsOverTime.of(progress, now).words,
    }


def central_words(campaign: Campaign, reports: int) -> str:
    """Return the central ε in words, if all reports so far, or a period's minimum, are honest."""
    if not isinstance(campaign, AttributeCampaign):
        return ""
    honest = of_one_question(campaign, reports)
    if campaign.period is not None:
        honest = min(honest, campaign.minimum_participants)
    record = central_record(campaign, honest)
    return "" if record is None else central_text(record, campaign.report_privacy)


def privacy_of(campaign: Campaign) -> str:
    """Return the privacy guarantee of a report in words."""
    if isinstance(campaign, AttributeCampaign):
        return privacy_words(campaign.report_privacy, campaign.largest_epsilon) + of_any_two(
            campaign
        )
    return "each answer separately, as stated above"


def asks_of(campaign: Campaign) -> Sequence[str]:
    """Return the texts of the questions or fields."""
    if isinstance(campaign, FormCampaign):
        return [field_text(campaign, field) for field in campaign.fields]
    campaign = require_attribute(campaign)
    name = campaign.attribute.name
    if isinstance(campaign, StatisticCampaign):
        return [f"{name}: {label}" for label in campaign.labels]
    return [
        f"{name}: everybody sends one perturbed point; questions about all of them are chosen "
        f"later, and cost nobody more privacy"
    ]


def pace_words(reports: int, opens: datetime, closes: datetime, now: datetime, state: str) -> str:
    """Return the pace of reports, and the expected total at the end.

    Example:
        >>> from datetime import UTC, timedelta
        >>> begin = datetime(2026, 5, 1, tzinfo=UTC)
        >>> later = begin + timedelta(days=2)
        >>> pace_words(2_134, begin, begin + timedelta(days=10), later, "open")
        'about 1,100 a day, about 11,000 by the end'
    """
    if state == "pending":
        return f"opens in {span_text(opens - now)}"
    lasted, whole = ((end - opens).total_seconds() for end in (min(now, closes), closes))
    if state == "closed" or lasted < _LEAST_S or not reports:
        return ""
    # Two digits, since a morning's pace differs from a week's.
    a_day = float(f"{reports / lasted * 86_400:.2g}")
    ends = f", about {max(float(f'{reports / lasted * whole:.2g}'), reports):,.0f} by the end"
    return f"about {a_day:,.0f} a day{ends if lasted > _EARLY * whole else ''}"


def signer_words(one: PublishedCampaign) -> str:
    """Return the beginning of the signer's key, enough to tell keys apart."""
    try:
        key = signer(one.envelope)
    except SignatureInvalid:
        return "a signature that is not valid"
    return "nobody" if key is None else f"{str(key)[:_SHOWN_OF_KEY]}…"


def code_for(request: PageRequest, *lines: str) -> str:
    """Return Python code that computes the same result.

    Args:
        lines: statements that use `analyst` and assign the result to `found`.
    """
    token = "" if request.session.token is None else ", tls=TLS(), token=TOKEN"
    opened = f'with Analyst("{request.address}"{token}) as analyst:'
    said = "\n".join([opened, *(f"    {line}" for line in lines)])
    names = ", ".join(
        name
        for name in sorted(geoveil.analyst.__all__)
        if re.search(rf"(?<![.\w']){name}\b(?![=\w'])", said)
    )
    imports = f"from geoveil.analyst import {names}\n"
    if "json.load" in said:
        imports = f"import json\n\n{imports}"
    return f"{imports}\n{said}\nfound.to_pandas()"
