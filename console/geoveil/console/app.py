"""The application that hangs on the web door: who may see a page, and what is around every page."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote, unquote

from geoveil.aggregator.ops.authorizer import TOKEN, DeniedError, confine
from geoveil.aggregator.ops.rates import Rate, TokenBuckets, peer_address
from geoveil.aggregator.web.calls import Receive, Scope, Send, peer_of
from geoveil.aggregator.web.mounts import Inside
from geoveil.aggregator.web.page_files import Files
from geoveil.analyst import PublishedCampaign
from geoveil.console import survey, surveys
from geoveil.console.asking import Asking
from geoveil.console.http import (
    PREFIX,
    STATUS,
    Headers,
    RefusedError,
    Request,
    Response,
    Route,
    form_of,
    query_of,
    refusal_of,
)
from geoveil.console.live import Live
from geoveil.console.local_analyst import LocalAnalyst
from geoveil.console.operators import Operators
from geoveil.console.planning.pages import Planning
from geoveil.console.rendering import page
from geoveil.console.sessions import COOKIE, Session, Sessions, same
from geoveil.console.workers import Workers
from geoveil.gp import GeoVeilError
from geoveil.proto.v1.analyst_pb2 import WatchEstimateRequest
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

_LOG = logging.getLogger(__name__)
_FILES = "/files/"
_SIGN_IN = "/sign-in"
_SIGN_IN_RATE = Rate(per_second=0.2, burst=10.0)
"""Tries of one address to sign in."""
_WATCH = "/geoveil.proto.v1.Analyst/WatchEstimate"
_FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
_ANYONE = "anyone on this machine"
GUARDS: Headers = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        b"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # with none, browsers say that forms are of no origin
    (b"permissions-policy", b"geolocation=(), camera=(), microphone=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Console:
    """Answers everything below `PREFIX`; see `geoveil.aggregator.web.mounts`.

    Args:
        inside: of the server that it hangs on.
    """

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._workers = Workers()
        self._sessions = Sessions()
        self._tries = TokenBuckets(_SIGN_IN_RATE)
        self._files = Files("geoveil.console", "files")
        self._live = Live(inside, self._workers)
        self._loop = asyncio.get_running_loop()
        self._operators = Operators()
        self._planning = Planning()
        self._asking = Asking(_refusal)
        self._routes: Sequence[Route] = (
            *surveys.ROUTES,
            *survey.ROUTES,
            *self._asking.routes,
            *self._operators.routes,
            *self._planning.routes,
        )

    async def aclose(self) -> None:
        """End what is open."""
        self._planning.close()
        self._asking.close()
        await self._live.aclose()
        self._workers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        path: str = scope["path"][len(PREFIX) :]
        if path.startswith(_FILES):
            await self._files.answer(scope, send, path.removeprefix(_FILES))
            return
        try:
            _check_origin(scope["method"], headers)
            if path == _SIGN_IN:
                response = await self._sign_in(scope, headers, receive)
            else:
                found = self._signed_in(headers)
                if found is None and self._trusts(scope["method"], headers):
                    cookie = self._begin(_ANYONE, None)
                    session = self._sessions.find(cookie)
                    assert session is not None  # it has just begun
                    response = await self._page(session, scope, headers, path, receive)
                    response = replace(
                        response,
                        headers=[*response.headers, self._set_cookie(cookie, headers, scope)],
                    )
                elif found is None:
                    response = self._to_sign_in(scope, path)
                elif path == "/events":
                    await self._events(found[1], headers, scope, send)
                    return
                elif path == "/sign-out" and scope["method"] == "POST":
                    await self._form(found[1], headers, receive)
                    response = self._sign_out(found[0], found[1])
                else:
                    response = await self._page(found[1], scope, headers, path, receive)
        except (GeoVeilError, DeniedError) as error:
            response = self._refused(error, self._whose(headers))
        await _send(send, scope["method"], response)

    # Signing in and out

    def _signed_in(self, headers: Mapping[bytes, str]) -> tuple[str, Session] | None:
        """Return the cookie and the session of who asks; None if there is none."""
        cookie = _cookie(headers)
        session = None if cookie is None else self._sessions.find(cookie)
        return None if cookie is None or session is None else (cookie, session)

    def _whose(self, headers: Mapping[bytes, str]) -> Session | None:
        found = self._signed_in(headers)
        return None if found is None else found[1]

    def _to_sign_in(self, scope: Scope, path: str) -> Response:
        if scope["method"] == "POST":
            raise RefusedError(401, "you are not signed in any more: sign in, and do it again")
        wanted = path
        if scope["query_string"]:
            wanted += "?" + scope["query_string"].decode("latin-1")
        where = f"{PREFIX}{_SIGN_IN}?next={quote(wanted, safe='')}"
        return Response(b"", status=303, headers=[(b"location", where.encode())])

    async def _sign_in(
        self, scope: Scope, headers: Mapping[bytes, str], receive: Receive
    ) -> Response:
        open_to_all = self._inside.gate.analysts == "anyone"
        if scope["method"] != "POST":
            query = query_of(scope["query_string"].decode("latin-1"))
            wanted = query.get("next", ["/"])[-1]
            return page("sign_in.html", None, open_to_all=open_to_all, next=wanted)
        if wait_s := self._tries.take(peer_address(peer_of(scope)), 1):
            raise RefusedError(429, f"too many tries: wait {wait_s:.0f} seconds")
        fields, _ = form_of(headers.get(b"content-type", ""), await _body(receive))
        wanted = fields.get("next", ["/"])[-1]
        token = fields.get("token", [""])[-1].strip()
        who, kept = _ANYONE, None
        if not open_to_all:
            who = ""
            with suppress(DeniedError):
                found = self._inside.gate.permit(None, [f"Bearer {token}"])
                who = "" if found is None else found.name
            if not who:
                self._note("", "sign in refused")
                said = "This token is not known, or it has expired."
                return page(
                    "sign_in.html", None, status=403, open_to_all=False, next=wanted, problem=said
                )
            kept = token
        before = _cookie(headers)
        if before is not None:
            self._sessions.end(before)  # whoever set it knows it
        where = f"{PREFIX}{_within(wanted)}".encode()
        cookie = self._begin(who, kept)
        set_cookie = self._set_cookie(cookie, headers, scope)
        return Response(b"", status=303, headers=[(b"location", where), set_cookie])

    def _trusts(self, method: str, headers: Mapping[bytes, str]) -> bool:
        """Return whether who asks for a page is signed in by that: on a machine that is trusted.

        Their browser says that no page elsewhere sent them.
        """
        open_to_all = self._inside.gate.analysts == "anyone"
        own = headers.get(b"sec-fetch-site") in ("none", "same-origin")
        return open_to_all and method == "GET" and own

    def _begin(self, who: str, token: str | None) -> str:
        """Begin a session, and return its cookie."""
        self._note(who, "sign in")
        return self._sessions.begin(who, token)

    def _set_cookie(
        self, cookie: str, headers: Mapping[bytes, str], scope: Scope
    ) -> tuple[bytes, bytes]:
        """Return the header that gives a browser its cookie."""
        secure = scope["scheme"] == "https" or headers.get(b"origin", "").startswith("https:")
        ends = "; Secure" if secure else ""
        value = f"{COOKIE}={cookie}; Path={PREFIX}; HttpOnly; SameSite=Strict{ends}"
        return b"set-cookie", value.encode()

    def _sign_out(self, cookie: str, session: Session) -> Response:
        self._sessions.end(cookie)
        self._note(session.who, "sign out")
        gone = f"{COOKIE}=; Path={PREFIX}; Max-Age=0; HttpOnly; SameSite=Strict".encode()
        where = f"{PREFIX}{_SIGN_IN}".encode()
        headers = [(b"location", where), (b"set-cookie", gone), (b"clear-site-data", b'"cache"')]
        return Response(b"", status=303, headers=headers)

    # Pages

    async def _page(
        self,
        session: Session,
        scope: Scope,
        headers: Mapping[bytes, str],
        path: str,
        receive: Receive,
    ) -> Response:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route, named = self._found(method, path)
        fields: dict[str, list[str]] = {}
        files: dict[str, bytes] = {}
        if method == "POST":
            fields, files = await self._form(session, headers, receive)

        def render(template: str, /, **shown: Any) -> Response:
            return page(template, session, **shown)

        def note(action: str, **about: object) -> None:
            self._note(session.who, action, **about)

        settings = self._inside.settings
        host = "localhost" if settings.on_loopback else "COLLECTOR"
        request = Request(
            method=method,
            path=path,
            query=query_of(scope["query_string"].decode("latin-1")),
            fields=fields,
            files=files,
            named={name: unquote(value) for name, value in named.items()},
            session=session,
            analyst=self._analyst(session, scope),
            render=render,
            note=note,
            now=self._inside.clock(),
            address=f"{host}:{settings.port}",
            inside=self._inside,
            standing=lambda campaign_id: self._standing(session, campaign_id),
            begin_asking=self._asking.begin,
            loop=self._loop,
        )
        return await self._workers.run(route.lane, lambda: route.answer(request))

    def _found(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        for route in self._routes:
            named = route.match(method, path)
            if named is not None:
                return route, named
        raise RefusedError(404, "there is no such page")

    async def _form(
        self, session: Session, headers: Mapping[bytes, str], receive: Receive
    ) -> tuple[dict[str, list[str]], dict[str, bytes]]:
        """Return what a form of the console holds; refuse any other."""
        fields, files = form_of(headers.get(b"content-type", ""), await _body(receive))
        told = fields.pop(_FORM_TOKEN, None) or [headers.get(b"x-form-token", "")]
        if not same(told[-1], session.form_token):
            raise RefusedError(403, "this form is not of your session: open its page again")
        return fields, files

    def _analyst(self, session: Session, scope: Scope) -> LocalAnalyst:
        host, port = scope["client"] or ("", 0)
        return LocalAnalyst(self._inside.calls, self._loop, session.token, (host, port))

    async def _events(
        self,
        session: Session,
        headers: Mapping[bytes, str],
        scope: Scope,
        send: Send,
    ) -> None:
        """Send the estimates of a survey as they come, for as long as its reader is signed in."""
        cookie = _cookie(headers) or ""
        query = query_of(scope["query_string"].decode("latin-1"))
        campaign_id = query.get("campaign", [""])[-1]

        def permitted() -> bool:
            if self._sessions.find(cookie, use=False) is None:
                return False
            self._permit(session, campaign_id)
            return True

        await self._live.send_events(campaign_id, permitted, send)

    def _permit(self, session: Session, campaign_id: str) -> None:
        """Raise unless somebody may see the estimates of a survey now."""
        TOKEN.set(self._inside.gate.admit(_WATCH, session.authorization))
        confine(_WATCH, WatchEstimateRequest(campaign_id=campaign_id))

    def _standing(self, session: Session, campaign_id: str) -> PublishedCampaign:
        """Return how a survey stands; on a thread."""
        self._permit(session, campaign_id)
        asking = self._inside.service.get_campaign(campaign_id)
        found = asyncio.run_coroutine_threadsafe(asking, self._loop).result()
        envelope = CampaignEnvelope.FromString(found.record.published)
        return PublishedCampaign(envelope, found.state.value, found.record.reports)

    # What is around them

    def _refused(self, error: Exception, session: Session | None) -> Response:
        status, text = _refusal(error)
        return page("refused.html", session, status=status, code=status, text=text)

    def _note(self, who: str, action: str, **about: object) -> None:
        """Write into the audit log who did what; nothing private is ever told."""
        _LOG.info("console", extra={"who": who, "action": action, **about})
        self._operators.remember(who, action, about)


def _refusal(error: Exception) -> tuple[int, str]:
    """Return the status and the words of the page that tells an error."""
    if isinstance(error, DeniedError):
        return STATUS.get(error.denial.value.status, 503), str(error)
    if isinstance(error, GeoVeilError):
        return refusal_of(error)
    raise error  # a defect, which the door tells and logs


def _check_origin(method: str, headers: Mapping[bytes, str]) -> None:
    """Refuse what a page elsewhere sends, or loads into itself; the door refuses its name, too."""
    site = headers.get(b"sec-fetch-site")
    host, origin = headers.get(b"host", ""), headers.get(b"origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise RefusedError(403, "pages elsewhere may not use the console")
    if method == "POST":
        if origin is None and site != "same-origin":
            raise RefusedError(403, "a form must come from a page of the console")
        if site not in (None, "same-origin"):
            raise RefusedError(403, "pages elsewhere may not use the console")
    elif site in ("cross-site", "same-site") and headers.get(b"sec-fetch-dest") != "document":
        raise RefusedError(403, "pages elsewhere may not use the console")


def _cookie(headers: Mapping[bytes, str]) -> str | None:
    try:
        found = SimpleCookie(headers.get(b"cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None or not found.value else found.value


def _within(wanted: str) -> str:
    """Return a path of the console, whatever was asked for."""
    plain = wanted.isascii() and wanted.isprintable() and len(wanted) < 2_000
    if not plain or not wanted.startswith("/") or wanted.startswith(_SIGN_IN):
        return "/"
    return quote(wanted, safe="/?=&%-_.~,:+")


async def _body(receive: Receive) -> bytes:
    """Return what was sent: the door has read and bounded it."""
    content = b""
    more = True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise RefusedError(400, "the form did not come whole")
        content += event.get("body", b"")
        more = event.get("more_body", False)
    return content


async def _send(send: Send, method: str, response: Response) -> None:
    headers = [
        *GUARDS,
        (b"content-type", response.kind.encode()),
        (b"content-length", b"%d" % len(response.content)),
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    body = b"" if method == "HEAD" else response.content
    await send({"type": "http.response.body", "body": body, "more_body": False})
