"""One survey: what it asks, how it fills, and what its reports say so far."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from geoveil.analyst import CampaignEstimates, ServerError, compare
from geoveil.analyst.labelled_estimate import LabelledEstimate
from geoveil.analyst.results import cells, shown
from geoveil.campaign import Campaign, StatisticCampaign, ValueCampaign
from geoveil.console.charts import intervals, over_time
from geoveil.console.http import Request, Response, Route
from geoveil.console.rendering import date_text, privacy_words
from geoveil.console.results import Shown, file_of, json_text, shown_result
from geoveil.console.surveys import pace_words, signer_words
from geoveil.gp import GeoVeilError, UnsupportedError

_MOST_CARDS = 12
"""Answers that are told in sentences; of more, the table says all."""
_MOST_DRAWN = 100
"""Questions of a picture."""
_SHARE = {(0.0, 1.0)}
"""What a mean can be that is a share."""
_MOST_CHANGES = 4
"""Questions of which it is told what changed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the reports say of one question, in sentences."""

    label: str
    when: str
    """The period, of a survey that recurs."""
    value: str
    exact: str
    """The estimate as programs read it."""
    interval: str
    sentences: Sequence[str]


def answers_shown(found: CampaignEstimates | None) -> dict[str, Any]:
    """Return what the template of answers shows.

    Args:
        found: the estimates; None while there are too few answers.
    """
    if found is None:
        return {"answers": None, "result": None, "json": "", "more": 0}
    last = max((row.period for row in found.estimates), default=0)
    rows = [row for row in found.estimates if row.period == last]
    return {
        "answers": [_answer(found, row) for row in rows[:_MOST_CARDS]],
        "more": max(len(rows) - _MOST_CARDS, 0),
        "result": shown_result(found, picture=_picture(found)),
        "json": json_text(found),
    }


def survey(request: Request) -> Response:
    """Return the page of a survey."""
    campaign_id = request.named["campaign_id"]
    campaign = request.analyst.campaign(campaign_id)
    found = _estimates(request, campaign_id)
    doubt = request.number("contamination", 0.01) or 0.0
    return request.render(
        "survey.html",
        **told_of(request, campaign),
        **standing_of(request, campaign_id),
        **answers_shown(found),
        contamination=doubt,
        doubted=None if found is None else doubted(found, doubt),
        groups=[] if found is None else [*_groups(found)],
        changes=[] if found is None else [*_changes(found, request.text("people", "same"))],
        people=request.text("people", "same"),
        code=code_for(request, campaign_id, ".estimate", ""),
    )


def told_of(request: Request, campaign: Campaign) -> dict[str, Any]:
    """Return what every page of a survey says of it."""
    return {
        "campaign_id": campaign.campaign_id,
        "title": campaign.title,
        "campaign": campaign,
        "asks": _asks(campaign),
        "privacy": privacy_words(campaign.report_privacy),
        "in_all": str(campaign.total_privacy) if campaign.period is not None else "",
        "dates": f"{date_text(campaign.opens)} to {date_text(campaign.closes)}",
        "of_points": isinstance(campaign, ValueCampaign),
        "least": campaign.minimum_participants,
        "take_part": f"/take-part/{campaign.campaign_id}",
    }


def standing_of(request: Request, campaign_id: str) -> dict[str, Any]:
    """Return how a survey fills, and who signed it."""
    one = request.standing(campaign_id)
    campaign, now = one.campaign, request.inside.clock()
    return {
        "state": one.state,
        "reports": one.reports,
        "signer": signer_words(one),
        "pace": pace_words(one.reports, campaign.opens, campaign.closes, now, one.state),
    }


def saved(request: Request) -> Response:
    """Return the estimates of a survey as a file."""
    campaign_id = request.named["campaign_id"]
    found = request.analyst.estimate(campaign_id)
    request.note("download", campaign=campaign_id, form=request.named["kind"])
    return file_of(found, request.named["kind"], campaign_id, _picture(found))


def code_for(request: Request, campaign_id: str, method: str, asked: str) -> str:
    """Return Python that asks the same.

    Args:
        request: of the page.
        campaign_id: of the survey.
        method: of `Analyst`, such as ".ask".
        asked: what is asked, as Python; nothing for an estimate.
    """
    settings = request.inside.settings
    host = "localhost" if settings.on_loopback else "COLLECTOR"
    token = "" if request.session.token is None else ", tls=TLS(), token=TOKEN"
    name = asked.partition("(")[0]
    names = ", ".join(filter(None, ["Analyst", name, "TLS" if token else ""]))
    more = f", {asked}" if asked else ""
    return (
        f"from geoveil.analyst import {names}\n\n"
        f'with Analyst("{host}:{settings.port}"{token}) as analyst:\n'
        f"    found = analyst{method}({campaign_id!r}{more})\n"
        "found.to_pandas()"
    )


def _estimates(request: Request, campaign_id: str) -> CampaignEstimates | None:
    """Return the estimates; None while the survey's promise lets nothing be shown."""
    try:
        return request.analyst.estimate(campaign_id)
    except ServerError as error:
        if error.code == "FAILED_PRECONDITION":
            return None
        raise


def _asks(campaign: Campaign) -> Sequence[str]:
    """Return what is asked, question by question."""
    name, unit = campaign.attribute.name, campaign.attribute.unit
    if isinstance(campaign, StatisticCampaign):
        return [f"{name}: {label}" for label in campaign.labels]
    return [
        f"{name}: everybody sends one point, perturbed, in {unit}; what is asked of all of them is"
        " chosen later, and costs nobody any more privacy"
    ]


def _answer(found: CampaignEstimates, row: LabelledEstimate) -> Answer:
    told = row.to_dict()
    value = _at_error(row.value, row)
    when = ""
    if found.campaign.period is not None:
        when = f"from {date_text(found.campaign.opens + row.period * found.campaign.period)}"
    interval = ""
    if row.ci_low is not None and row.ci_high is not None:
        interval = f"{_at_error(row.ci_low, row)} – {_at_error(row.ci_high, row)}"
    return Answer(
        row.label,
        when,
        value,
        "" if row.value is None else repr(row.value),
        interval,
        [*_sentences(row, told)],
    )


def _sentences(row: LabelledEstimate, told: dict[str, Any]) -> Iterator[str]:
    """Yield what is known of the three targets, and the price of privacy."""
    often = f"{100 * row.confidence:g} %"
    yield f"From {row.n:,} answers."
    if row.standard_error is None:
        yield "An error and an interval need two answers."
        return
    yield (
        f"The population, of which the participants are a random sample: the standard error is"
        f" {shown(row.standard_error)}, noise and sampling together, and the interval holds its"
        f" mean at {often}."
    )
    own = told["targets"]["participants"]
    if own["standard_error"] is not None:
        how = {"exact": "", "estimated": "about "}.get(str(own["basis"]), "")
        yield (
            "The participants themselves: what they would have answered in the clear is off by"
            f" noise alone, with a standard error of {how}{shown(own['standard_error'])}."
        )
    elif own["standard_error_at_most"] is not None:
        yield (
            "The participants themselves: noise alone has a standard error of at most"
            f" {shown(own['standard_error_at_most'])}."
        )
    hard = told["targets"]["hard_question"]
    if hard is not None:
        yield (
            f"The question with a sharp edge: {hard['value']:.4f}, within {hard['ci_low']:.4f} –"
            f" {hard['ci_high']:.4f} at {often}, the softness of what is asked included."
        )
    else:
        yield (
            "The question with a sharp edge: no plan was signed with this survey, so how far the"
            " soft edge is from a sharp one is not known."
        )
    price = told["price_of_privacy"]
    if price is None:
        return
    ratio, people = price["variance_ratio"], price["participants_in_the_clear"]
    if ratio is not None:
        yield (
            f"Privacy multiplies the variance by {ratio:.3g}: this is as precise as {people:,}"
            " answers in the clear."
        )
    elif price["variance_ratio_at_most"] is not None:
        yield (
            f"Privacy multiplies the variance by {price['variance_ratio_at_least']:.3g} to"
            f" {price['variance_ratio_at_most']:.3g}."
        )


def doubted(found: CampaignEstimates, fraction: float) -> Sequence[Sequence[str]] | str:
    """Return label, estimate and widened interval of each answer; or why that is not known.

    Args:
        found: the estimates.
        fraction: of the answers, that may be false.
    """
    rows = []
    try:
        for row in found.estimates[:_MOST_CARDS]:
            widened = row.contaminated(fraction)
            ends = "–"
            if widened.ci_low is not None and widened.ci_high is not None:
                ends = f"{_at_error(widened.ci_low, row)} – {_at_error(widened.ci_high, row)}"
            rows.append((row.label, _at_error(row.value, row), ends))
    except GeoVeilError as error:
        return str(error)
    return rows


def _groups(found: CampaignEstimates) -> Iterator[Shown]:
    """Yield what is said of groups and of their differences."""
    for group in found.groups:
        yield shown_result(group)
        with suppress(GeoVeilError):  # too few answers in some group
            yield shown_result(group.differences())


def _changes(found: CampaignEstimates, people: str) -> Iterator[Shown]:
    """Yield how the answer to each question changed from period to period."""
    periods = sorted({row.period for row in found.estimates})
    if len(periods) < 2 or found.campaign.period is None:
        return
    for label in found.campaign.labels[:_MOST_CHANGES]:
        try:
            joints = [found.joint([label], period) for period in periods]
            names = [_begins(found.campaign, period) for period in periods]
            yield shown_result(compare(*joints, people=people, names=names))
        except UnsupportedError:
            continue  # too few answers in some period


def _picture(found: CampaignEstimates) -> Markup | None:
    """Return the picture of shares, or that of a survey which recurs, of its first question."""
    if found.campaign.period is None or len(found.estimates) < 2:
        means = {row.limits.means for row in found.estimates}
        few = len(found.estimates) <= _MOST_DRAWN
        return intervals(found.title, found.rows(), (0.0, 1.0)) if few and means == _SHARE else None
    label = found.estimates[0].label
    rows = [row for row in found.estimates if row.label == label]
    names = [_begins(found.campaign, row.period) for row in rows]
    told = [{"estimate": row.value, "ci_low": row.ci_low, "ci_high": row.ci_high} for row in rows]
    return over_time(f"{label}, period after period", told, names)


def _begins(campaign: Campaign, period: int) -> str:
    assert campaign.period is not None  # asked of those that recur
    return f"{campaign.opens + period * campaign.period:%Y-%m-%d}"


def _at_error(value: float | None, row: LabelledEstimate) -> str:
    """Return a number with the decimals that its standard error calls for."""
    told = cells({"estimate": value, "standard_error": row.standard_error})
    return told["estimate"]


ROUTES = (
    Route("GET", "/surveys/{campaign_id}", survey),
    Route("GET", "/surveys/{campaign_id}/estimate.{kind}", saved),
)
