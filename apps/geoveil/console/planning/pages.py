"""The pages that plan, make, check, publish and close a survey."""

import base64
import hashlib
import math
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from geoveil.analyst import (
    PilotCounts,
    ReportRows,
    ServerError,
    campaign_record,
    id_of,
    points_in,
)
from geoveil.campaign import (
    AttributeCampaign,
    ValueCampaign,
    away,
    decode_attribute_campaign,
    open_envelope,
    percent,
    right_at_most,
    signer,
)
from geoveil.console.http import (
    GatewayRequest,
    Lane,
    RefusedError,
    Response,
    Route,
    download,
    seen_at,
)
from geoveil.console.kept import Kept, Newest
from geoveil.console.planning.plan_form import OF_ASKER, PEOPLE, PLACES, QUESTIONS, PlanForm
from geoveil.console.process import ChildProcess, Message, refused
from geoveil.console.progress import plan_participants
from geoveil.console.rendering import significant
from geoveil.console.survey_head import told_of
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError
from geoveil.proto.v1 import campaign_pb2

_MOST_KEPT = 256
_APART = (0.25, 1.0, 4.0)
"""Multiples of the guarantee's distance at which the page states certainties."""
_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "target_error": "the error wanted",
        "epsilon": "ε",
        "per_metres": "per",
        "ratios_from": "the least value",
        "minimum_participants": "the least number of answers",
        **{f"asker.{name}": f"the {name}" for name in OF_ASKER},
        "delete_after": "the days until deletion",
        "contamination": "the share of false answers",
        "region": "the district",
        "place": "the place",
    }
)
"""Labels of fields whose names are not words."""


class _Own(NamedTuple):
    """A campaign file of the session."""

    content: bytes
    envelope: campaign_pb2.CampaignEnvelope
    campaign: AttributeCampaign


class Planning:
    """The planning pages, their worker process, and the campaigns made on them.

    Args:
        kept: stores uploaded files and unsigned campaigns.
    """

    def __init__(self, kept: Kept) -> None:
        self._process = ChildProcess("geoveil.console.planning")
        self._kept = kept
        self._expected: Newest[bytes, str] = Newest(_MOST_KEPT)
        """SHA-256 of a campaign made here → the planned number of participants."""
        self._pilots: Newest[tuple[str, str], Mapping[str, Any]] = Newest(_MOST_KEPT)
        self.routes = (
            Route("GET", "/plan", self._begun),
            Route("POST", "/plan", self._planned, Lane.PLAN),
            Route("POST", "/plan/file", self._added),
            Route("POST", "/plan/campaign", self._made, Lane.PLAN),
            Route("GET", "/plan/sign/{key}", self._to_sign),
            Route("GET", "/plan/campaign/{key}", self._downloaded),
            Route("GET", "/publish", self._to_upload),
            Route("POST", "/publish", self._uploaded),
            Route("GET", "/publish/{key}", self._checked),
            Route("POST", "/publish/{key}", self._published),
            Route("POST", "/surveys/{campaign_id}/close", _closed),
        )

    def close(self) -> None:
        """End the process."""
        self._process.close()

    # Planning

    def _begun(self, request: GatewayRequest) -> Response:
        """Return the form with its defaults or the address's values, without a plan."""
        self._process.begin()
        return self._page(request, {}, then="forecast")

    def _planned(self, request: GatewayRequest) -> Response:
        """Return the expected result of a survey: a quick forecast, or a whole plan."""
        request = _taken(request)
        quickly = request.text("then") == "forecast"  # from a script that later requests the plan
        return self._page(request, self._answer(request, "forecast" if quickly else "plan"))

    def _added(self, request: GatewayRequest) -> Response:
        """Store an uploaded file of people for this session."""
        content = request.files.get("upload")
        if content is None:
            return self._page(request, refused("", "choose a file first"))
        self._process.begin()
        key = self._kept.keep(request.session.form_token, content)
        request.note("add people", sha256=key, bytes=len(content))
        return self._page(request, {}, then="forecast", file=key)

    def _answer(self, request: GatewayRequest, task: str, **more: Any) -> Message:
        """Return the process's answer, or the reason why the form is refused."""
        try:
            form = PlanForm.of(request)
            people = self._people(request, form)
        except ParameterError as error:
            return refused(error.name, error.expected)
        message = {"task": task, "form": asdict(form), "people": people, **more}
        page = f"{request.session.form_token} {request.text('tab')[:16]}"
        if task == "campaign":
            page += " campaign"  # a later request for a plan does not replace this one
        return self._process.ask(page, message, "at once" if task == "forecast" else "whole")

    def _people(self, request: GatewayRequest, form: PlanForm) -> Mapping[str, Any] | None:
        """Return the uploaded file or the pilot's counts that the process needs, if any."""
        owner = request.session.form_token
        if form.source == "file":
            content = self._kept.find(owner, form.file)
            if content is None:
                raise ParameterError("file", form.file, "chosen, and added")
            return {"key": form.file, "content": base64.b64encode(content).decode()}
        if form.source != "pilot" or not form.pilot:
            return None
        counted = self._pilots.get((owner, form.pilot))
        if counted is None:
            counted = _counted(request, form.pilot)
            self._pilots[owner, form.pilot] = counted
        return counted

    def _page(
        self, request: GatewayRequest, answer: Message, then: str = "", **changed: str
    ) -> Response:
        said = {name: _text(value) for name, value in asdict(PlanForm()).items()}
        said |= {name: request.text(name) for name in said if name in request.fields}
        said |= {name: request.text(name) for name in said if name in request.query}
        said |= changed
        planned, refused = answer.get("told"), answer.get("refused")
        if not answer.get("settled", True):
            then = "settle"
        shown: dict[str, Any] = {}
        if planned is not None:
            form = PlanForm.of(request)
            shown = {
                "commands": form.commands(),
                "odds": [*_odds(planned["privacy"])],
                "doubt": form.contamination,
            }
        return request.render(
            "plan.html",
            said=said,
            tab=request.text("tab") or secrets.token_hex(4),
            questions=QUESTIONS,
            people=PEOPLE,
            places=PLACES,
            # The page's script replaces only the forecast.
            pilots=[] if request.text("then") else [*_pilots(request)],
            told=planned,
            refused=None if refused is None else _in_words(refused),
            then=then,
            unit=_UNITS.get(said["people"], said["unit"]),
            **shown,
        )

    # Making, signing, publishing

    def _made(self, request: GatewayRequest) -> Response:
        """Make the unsigned campaign of a plan."""
        wanted = id_of(request.text("title") or QUESTIONS.get(request.text("ask"), "survey"))
        answer = self._answer(
            request,
            "campaign",
            campaign_id=_free(request, wanted),
            now=request.now.timestamp(),
        )
        if "refused" in answer:
            return self._page(request, answer)
        content = base64.b64decode(answer["envelope"])
        key = self._kept.keep(request.session.form_token, content)
        made = hashlib.sha256(open_envelope(content).campaign).digest()
        self._expected[made] = request.text("participants")
        return seen_at(f"/plan/sign/{key}")

    def _to_sign(self, request: GatewayRequest) -> Response:
        """Return a new campaign in words, and how to sign it."""
        return request.render(
            "sign.html", key=request.named["key"], **_said_by(self._own(request).campaign)
        )

    def _downloaded(self, request: GatewayRequest) -> Response:
        """Return an unsigned campaign as a file."""
        own = self._own(request)
        request.note("download campaign", campaign=own.campaign.campaign_id)
        name = f"{own.campaign.campaign_id}.campaign"
        return download(own.content, "application/octet-stream", name)

    def _to_upload(self, request: GatewayRequest) -> Response:
        """Return the form that takes a signed campaign."""
        return request.render("upload.html", problem="")

    def _uploaded(self, request: GatewayRequest) -> Response:
        """Check a signed campaign, and show its content before publication."""
        content = request.files.get("signed", b"")
        try:
            if not content:
                raise ParameterError("file", "none", "chosen: the signed campaign")
            envelope = open_envelope(content)
            decode_attribute_campaign(envelope.campaign)
            if signer(envelope) is None:
                raise ParameterError("file", "not signed", "a signed campaign: see its page")
        except GeoVeilError as error:
            return request.render("upload.html", problem=str(error))
        return seen_at(f"/publish/{self._kept.keep(request.session.form_token, content)}")

    def _checked(self, request: GatewayRequest) -> Response:
        own = self._own(request)
        return request.render(
            "publish.html",
            key=request.named["key"],
            signer=str(signer(own.envelope)),
            planned=self._expected.get(hashlib.sha256(own.envelope.campaign).digest(), ""),
            **_said_by(own.campaign),
        )

    def _published(self, request: GatewayRequest) -> Response:
        own = self._own(request)
        campaign_id = own.campaign.campaign_id
        planned = request.integer("planned")
        made = request.analyst.publish(own.content)
        request.note(
            "publish", campaign=campaign_id, sha256=made.hex(), signer=str(signer(own.envelope))
        )
        if planned is not None:
            with suppress(ServerError):  # the campaign is published even if this fails
                plan_participants(request, campaign_id, planned)
        return seen_at(f"/surveys/{campaign_id}")

    def _own(self, request: GatewayRequest) -> _Own:
        content = self._kept.find(request.session.form_token, request.named["key"])
        if content is None:
            text = "this campaign has expired, or was made in another session: make it again"
            raise RefusedError(404, text)
        envelope = open_envelope(content)
        return _Own(content, envelope, decode_attribute_campaign(envelope.campaign))


def _closed(request: GatewayRequest) -> Response:
    """Close a survey."""
    campaign_id = request.named["campaign_id"]
    request.analyst.close_campaign(campaign_id)
    request.note("close", campaign=campaign_id)
    return seen_at(f"/surveys/{campaign_id}")


_UNITS: Mapping[str, str] = MappingProxyType({"incomes": "dollar"})
"""Priors with a unit of their own."""


def _taken(request: GatewayRequest) -> GatewayRequest:
    """Return a request with the pressed button's value in the field that the button names."""
    name, _, value = request.text("take").partition("=")
    return replace(request, fields={**request.fields, name: [value]}) if value else request


def _in_words(refused: Mapping[str, Any]) -> dict[str, Any]:
    """Return why a form is refused, and alternatives."""
    name, expected = refused["name"], refused["expected"]
    ways = []
    for other, number in refused["nearest"].items():
        whole = other == "participants"
        value = str(math.ceil(number)) if whole else f"{number:.15g}"
        text = {
            "participants": f"Ask {math.ceil(number):,} people",
            "target_error": f"Accept ±{significant(number)}",
            "epsilon": f"Take ε = {significant(number)}",
        }.get(other)
        if text is not None:
            ways.append((f"{other}={value}", text))
    said = f"{_LABELS.get(name, name)} must be {expected}" if name else expected
    return {"text": said[:1].upper() + said[1:] if said[:1].isascii() else said, "ways": ways}


def _odds(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield distances in words, and the most certainty that a report can give."""
    privacy = GeoPrivacy(told["epsilon"], told["per"], told["unit"])
    for times in _APART:
        apart = times * privacy.per
        words = f"{apart:,.6g} {privacy.unit} apart"
        if privacy.value_unit is not None:
            words = away(privacy, apart)
        yield words, percent(right_at_most(privacy.at(apart)))


def _pilots(request: GatewayRequest) -> Iterator[tuple[str, str]]:
    """Yield id and title of each value campaign of numbers that can serve as a pilot."""
    try:
        for published in request.analyst.campaigns():
            try:
                campaign = published.campaign
            except GeoVeilError:
                continue
            if not isinstance(campaign, ValueCampaign):
                continue
            numbers = campaign.attribute.coordinates is None and campaign.dimension == 1
            if numbers and campaign.period is None and published.reports:
                yield campaign.campaign_id, campaign.title
    except ServerError as error:
        if error.code != "PERMISSION_DENIED":  # they may not list surveys
            raise


def _counted(request: GatewayRequest, campaign_id: str) -> Mapping[str, Any]:
    """Return a pilot's number of reports in each cell; this reads all its reports."""
    campaign = request.analyst.campaign(campaign_id)
    counts = PilotCounts(campaign)
    envelope = b""
    for part in request.analyst.export(campaign_id):
        if isinstance(part, ReportRows):
            counts.add(points_in(part, 0))
        else:
            envelope = part
    return {
        "key": f"{campaign_id}-{counts.n}",
        "campaign": base64.b64encode(envelope).decode(),
        "cells": counts.cells.tolist(),
        "counts": counts.counts.tolist(),
    }


def _free(request: GatewayRequest, wanted: str) -> str:
    """Return an unused survey id."""
    for number in range(1, 100):
        candidate = wanted if number == 1 else f"{wanted[:60]}-{number}"
        try:
            request.analyst.campaign(candidate)
        except ServerError as error:
            if error.code == "NOT_FOUND":
                return candidate
            raise
    raise RefusedError(409, f"there are many surveys named {wanted}: give this one another title")


def _said_by(campaign: AttributeCampaign) -> dict[str, Any]:
    """Return a campaign in words, for whoever signs or publishes it."""
    record = campaign_record(campaign)
    return told_of(campaign) | {
        "attribute": campaign.attribute.name,
        "asks": [query["label"] for query in record["queries"]],
        "least": campaign.minimum_participants,
        "sha256": record["sha256"],
    }


def _text(value: Any) -> str:
    """Return a default value as the text of its field."""
    return "" if value is None else f"{value:.15g}" if isinstance(value, float) else str(value)
