"""The list of surveys: a table of their results, states and warnings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from geoveil.analyst import PublishedCampaign, ServerError, measured
from geoveil.campaign import (
    AttributeCampaign,
    SignatureInvalid,
    ValueCampaign,
    rounded_up,
    signer,
)
from geoveil.console.http import GatewayRequest, Response, Route
from geoveil.console.kept import Newest
from geoveil.console.page_analyst import CampaignProgress
from geoveil.console.progress import ReportsOverTime
from geoveil.console.rendering import span_text
from geoveil.gp import GeoVeilError
from geoveil.proto.v1 import campaign_pb2

STATES = ("open", "pending", "closed")
ON_PAGE, _MOST_KEPT = 50, 2_000
_SOON = timedelta(days=2)
Line = Callable[[GatewayRequest, str], tuple[str, bool]]
_WORDS = MappingProxyType({"open": "open", "pending": "not open yet", "closed": "closed"})


@dataclass(frozen=True, slots=True)
class Health:
    """The most important problem of a survey; empty if there is none."""

    words: str
    level: str
    """How serious it is: good, look or bad."""


@dataclass(frozen=True, slots=True)
class Row:
    """A survey in the list."""

    campaign_id: str
    title: str
    answer: str
    """The first sentence of its results, or the reason for none."""
    later: str
    """The path of a better sentence, which takes longer; empty if there is none."""
    state: str
    state_words: str
    reports: int
    epsilon: str
    health: Health


_SORTED: Mapping[str, Callable[[PublishedCampaign], Any]] = MappingProxyType(
    {
        "title": lambda one: _said_by(one).title.casefold(),
        "state": lambda one: STATES.index(one.state) if one.state in STATES else len(STATES),
        "answers": lambda one: one.reports,
        "epsilon": lambda one: _epsilon(one)[0],
    }
)
"""Column of the list → its sort key."""


class LatestAnswers:
    """A cache of first sentences, valid until a survey gets a report or changes its state."""

    def __init__(self) -> None:
        self._kept: Newest[tuple[object, ...], str] = Newest(_MOST_KEPT)

    def of(self, request: GatewayRequest, one: PublishedCampaign) -> str:
        """Return the first sentence of a survey, or the reason for none."""
        campaign_id = _id_of(one)
        key = (request.session.token, campaign_id, one.reports, one.state)
        if key not in self._kept:
            self._kept[key] = _answer(request, campaign_id, one)
        return self._kept[key]


def _answer(request: GatewayRequest, campaign_id: str, one: PublishedCampaign) -> str:
    if not one.reports:
        return "Nobody has taken part yet."
    if not isinstance(one.campaign, AttributeCampaign):
        return "A form: ask for its answers."
    estimates = request.analyst.estimate_or_none(campaign_id)
    if estimates is None:
        return f"Hidden until {one.campaign.minimum_participants:,} have answered."
    first, *others = estimates.sentences
    return f"{first} And {len(others)} more." if others else str(first)


def listing(request: GatewayRequest, answers: LatestAnswers, line: Line) -> Response:
    """Return the page of matching surveys, by default the newest first.

    Args:
        line: returns the last summary of a survey's points, and whether it is fresh.
    """
    words = request.text("q").lower().split()
    state, sort = request.text("state"), request.text("sort")
    key = _SORTED.get(sort.removeprefix("-"))
    every = [*request.analyst.campaigns()]
    every.reverse()
    matching: list[PublishedCampaign] = []
    of_state = dict.fromkeys(STATES, 0)
    for published in every:
        if words and not _holds(published, words):
            continue
        if published.state in of_state:
            of_state[published.state] += 1
        if state in ("", published.state):
            matching.append(published)
    if key is not None:
        matching.sort(key=key, reverse=sort.startswith("-"))
    pages = max(-(-len(matching) // ON_PAGE), 1)
    page = min(max(request.integer("page", 1) or 1, 1), pages)
    on_page = matching[(page - 1) * ON_PAGE : page * ON_PAGE]
    progress_of = _progress(request, [_id_of(published) for published in on_page])
    rows = []
    for published in on_page:
        campaign_id = _id_of(published)
        progress = progress_of.get(campaign_id)
        answer = answers.of(request, published) if progress else ""
        row = row_of(published, progress, request.now, answer)
        if answer[-1:] == "." and row.reports and _of_numbers(published):
            last, young = line(request, campaign_id)
            later = "" if young else f"/surveys/{campaign_id}/headline?form=line"
            row = replace(row, answer=last or answer, later=later)
        rows.append(row)
    return request.render(
        "surveys.html",
        rows=rows,
        found=len(matching),
        every=len(every),
        of_state=of_state,
        state=state if state in STATES else "",
        sort=sort if key is not None else "",
        q=request.text("q")[:200],
        page=page,
        pages=pages,
    )


def _progress(request: GatewayRequest, ids: Sequence[str]) -> Mapping[str, CampaignProgress]:
    """Return the progress of surveys; empty for a reader without permission to estimate."""
    try:
        return request.analyst.progress(ids)
    except ServerError as error:
        if error.code != "PERMISSION_DENIED":
            raise
        return {}


def row_of(
    one: PublishedCampaign, progress: CampaignProgress | None, now: datetime, answer: str
) -> Row:
    """Return a survey's row in the list, even if its campaign is unreadable."""
    said = _said_by(one)
    try:
        progress = progress or CampaignProgress(None, (), one)
        health = health_of(one, ReportsOverTime.of(progress, now), now)
        epsilon = _epsilon(one)[1]
    except GeoVeilError as error:
        health, epsilon = Health(f"can't be read: {error}", "bad"), ""
    return Row(
        campaign_id=said.campaign_id,
        title=said.title,
        answer=answer,
        later="",
        state=one.state,
        state_words=_WORDS.get(one.state, one.state),
        reports=one.reports,
        epsilon=epsilon,
        health=health,
    )


def _of_numbers(one: PublishedCampaign) -> bool:
    """Return whether each report is one perturbed number, so that the list shows a median."""
    campaign = one.campaign
    return isinstance(campaign, ValueCampaign) and campaign.dimension == 1


def _epsilon(one: PublishedCampaign) -> tuple[float, str]:
    """Return ε of a report, and its text with the distance; (0, "") for a form."""
    campaign = one.campaign
    if not isinstance(campaign, AttributeCampaign):
        return 0.0, ""
    privacy = campaign.report_privacy
    if privacy.value_unit is not None:
        return privacy.epsilon, str(privacy).removeprefix("ε = ")
    distance = measured(f"{privacy.per:,.15g}", privacy.unit)
    return privacy.epsilon, f"{rounded_up(privacy.epsilon, 6):g} per {distance}"


def health_of(one: PublishedCampaign, filling: ReportsOverTime, now: datetime) -> Health:
    """Return the most important warning about a survey."""
    campaign = one.campaign
    try:
        signed = signer(one.envelope) is not None
    except SignatureInvalid:
        return Health("the signature is not valid: devices refuse it", "bad")
    least, left = campaign.minimum_participants, campaign.closes - now
    short = one.reports < least
    if one.state == "closed":
        return Health("closed too early to show anything", "bad") if short else Health("", "good")
    if one.state == "open":
        lasted = now - campaign.opens
        if one.reports == 0 and lasted > timedelta(hours=1):
            return Health(f"no report in {span_text(lasted)}", "look")
        if short and left < _SOON:
            return Health(f"closes in {span_text(left)} with too few answers", "bad")
        if filling.behind:
            return Health(f"behind its plan: {filling.words}", "look")
        if left < _SOON:
            return Health(f"closes in {span_text(left)}", "look")
    return Health("", "good") if signed else Health("nobody signed it", "look")


def _said_by(one: PublishedCampaign) -> campaign_pb2.Campaign:
    return campaign_pb2.Campaign.FromString(one.envelope.campaign)


def _id_of(one: PublishedCampaign) -> str:
    return _said_by(one).campaign_id


def _holds(one: PublishedCampaign, words: Sequence[str]) -> bool:
    """Return whether a survey's texts contain all words, without validating the survey."""
    campaign = _said_by(one)
    texts = (campaign.campaign_id, campaign.title, campaign.attribute.name)
    said = " ".join((*texts, *(query.label for query in campaign.queries))).lower()
    return all(word in said for word in words)


def routes(line: Line) -> Sequence[Route]:
    """Return the route of the list, with its cache."""
    answers = LatestAnswers()
    return (Route("GET", "/", lambda request: listing(request, answers, line)),)
