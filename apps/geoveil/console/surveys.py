"""The list of all surveys: what they ask, what they cost, how they fill, and what needs a look."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from geoveil.analyst import PublishedCampaign, ServerError
from geoveil.campaign import SignatureInvalid, signer
from geoveil.console.asker import CampaignProgress
from geoveil.console.http import GatewayRequest, Response, Route
from geoveil.console.progress import ReportsOverTime
from geoveil.console.rendering import date_text, span_text
from geoveil.console.survey_head import asks_of, pace_words, privacy_of, signer_words
from geoveil.gp import GeoVeilError
from geoveil.proto.v1 import campaign_pb2

STATES = ("open", "pending", "closed")
ON_PAGE = 50
_SOON = timedelta(days=2)
_UNKNOWN = CampaignProgress(None, ())
_WORDS = MappingProxyType({"open": "open", "pending": "not open yet", "closed": "closed"})


@dataclass(frozen=True, slots=True)
class Health:
    """What a survey needs, if anything."""

    words: str
    level: str
    """good, look or bad."""


@dataclass(frozen=True, slots=True)
class Row:
    """A survey in the list."""

    campaign_id: str
    title: str
    asks: str
    state: str
    state_words: str
    reports: int
    minimum: int
    filled: int
    """Per cent of the answers that must come before anything is shown."""
    pace: str
    against_plan: str
    dates: str
    privacy: str
    signer: str
    health: Health


def listed(request: GatewayRequest) -> Response:
    """Return the page of surveys that are searched for, the newest first."""
    words = request.text("q").lower().split()
    state = request.text("state")
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
    pages = max(-(-len(matching) // ON_PAGE), 1)
    page = min(max(request.integer("page", 1) or 1, 1), pages)
    now = request.now
    on_page = matching[(page - 1) * ON_PAGE : page * ON_PAGE]
    progress_of = _progress(request, [_id_of(published) for published in on_page])
    rows = [
        row_of(published, progress_of.get(_id_of(published), _UNKNOWN), now)
        for published in on_page
    ]
    return request.render(
        "surveys.html",
        rows=rows,
        found=len(matching),
        every=len(every),
        of_state=of_state,
        state=state if state in STATES else "",
        q=request.text("q")[:200],
        page=page,
        pages=pages,
    )


def _progress(request: GatewayRequest, ids: Sequence[str]) -> Mapping[str, CampaignProgress]:
    """Return how surveys fill; nothing for a reader who may list them and see no estimates."""
    try:
        return request.analyst.progress(ids)
    except ServerError as error:
        if error.code != "PERMISSION_DENIED":
            raise
        return {}


def row_of(one: PublishedCampaign, progress: CampaignProgress, now: datetime) -> Row:
    """Return what the list says of a survey, also of one that can't be read."""
    signed = signer_words(one)
    try:
        campaign = one.campaign
    except GeoVeilError as error:
        said = campaign_pb2.Campaign.FromString(one.envelope.campaign)
        return Row(
            said.campaign_id, said.title, "", one.state, _WORDS.get(one.state, one.state),
            one.reports, 0, 0, "", "", "", "", signed, Health(f"can't be read: {error}", "bad"),
        )  # fmt: skip
    answers = one.reports / max(campaign.periods, 1)
    filling = ReportsOverTime.of(one, progress, now)
    least = campaign.minimum_participants
    return Row(
        campaign_id=campaign.campaign_id,
        title=campaign.title,
        asks="; ".join(asks_of(campaign)[:3]) + (" …" if campaign.columns > 3 else ""),
        state=one.state,
        state_words=_WORDS.get(one.state, one.state),
        reports=one.reports,
        minimum=least,
        filled=100 if answers >= least else int(100 * answers / least),
        pace=pace_words(one.reports, campaign.opens, campaign.closes, now, one.state),
        against_plan=filling.words,
        dates=f"{date_text(campaign.opens)} to {date_text(campaign.closes)}",
        privacy=privacy_of(campaign),
        signer=signed,
        health=health_of(one, filling, now),
    )


def health_of(one: PublishedCampaign, filling: ReportsOverTime, now: datetime) -> Health:
    """Return what a survey needs most."""
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


def _id_of(one: PublishedCampaign) -> str:
    return campaign_pb2.Campaign.FromString(one.envelope.campaign).campaign_id


def _holds(one: PublishedCampaign, words: Sequence[str]) -> bool:
    """Return whether all words stand in what a survey says of itself; it is not checked here."""
    said = " ".join(_said(campaign_pb2.Campaign.FromString(one.envelope.campaign))).lower()
    return all(word in said for word in words)


def _said(campaign: campaign_pb2.Campaign) -> Iterator[str]:
    yield from (campaign.campaign_id, campaign.title, campaign.attribute.name)
    for query in campaign.queries:
        yield query.label


ROUTES = (Route("GET", "/", listed),)
