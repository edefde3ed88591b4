"""The application mounted on the gateway: access to pages, and their common frame."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

import grpc

from geoveil.analyst import ServerError
from geoveil.console import survey, surveys
from geoveil.console.asking import AskingPages
from geoveil.console.http import (
    PREFIX,
    GatewayRequest,
    Lane,
    RefusedError,
    Response,
    Route,
    Scope,
    Send,
    form_of,
    guards,
    query_of,
    refusal_of,
    write,
)
from geoveil.console.kept import Kept
from geoveil.console.live import Live
from geoveil.console.operators import Operators
from geoveil.console.page_analyst import Caller, ChannelAnalyst
from geoveil.console.planning.pages import Planning
from geoveil.console.rendering import page
from geoveil.console.sessions import COOKIE, Session, Sessions, same
from geoveil.console.workers import Workers
from geoveil.gp import GeoVeilError

_LOG = logging.getLogger(__name__)
_SIGN_IN, _UPLOADS = "/sign-in", "/uploads"
_UPLOADED = "upload:"
"""A form field with this prefix and a file field's name holds the key of the stored file."""
_LONGEST_FORM, _LONGEST_SIGNED, _LONGEST_FILE = 4 << 10, 64 << 10, 1 << 20
"""The most bytes of a form, of a signed-in user's form, and of a user's file."""
_FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
_ANYONE = "anyone on this machine"
GUARDS = guards(b"'none'")
"""Headers of every page; they forbid frames."""


class Console:
    """A mount of `geoveil.gateway` that answers every path below `PREFIX` except static files.

    Args:
        shown: the server's address in the code that the pages show.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        *,
        shown: str = "localhost:7717",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._channel = channel
        self._shown = shown
        self._clock = clock
        self._workers = Workers()
        self._sessions = Sessions()
        self._uploads = Kept()
        self._live = Live(self._workers, lambda: self._clock())
        self._operators = Operators()
        self._planning = Planning(self._uploads)
        self._asking = AskingPages()
        self._routes: Sequence[Route] = (
            *surveys.routes(self._asking.line),
            *survey.ROUTES,
            *self._asking.routes,
            *self._operators.routes,
            *self._planning.routes,
        )

    async def aclose(self) -> None:
        """Close everything that is open."""
        self._planning.close()
        self._asking.close()
        await self._live.aclose()
        self._workers.close()

    def longest(self, scope: Scope) -> int:
        """Return the largest permitted request body in bytes."""
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        if self._sessions.find(_cookie(headers) or "", use=False) is None:
            return _LONGEST_FORM
        return _LONGEST_FILE if scope["path"] == PREFIX + _UPLOADS else _LONGEST_SIGNED

    async def __call__(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request."""
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        path: str = scope["path"][len(PREFIX) :]
        try:
            _check_origin(scope["method"], headers)
            if path == _SIGN_IN:
                response = await self._sign_in(scope, headers, body)
            else:
                signed_in = self._signed_in(headers)
                if signed_in is None and await self._trusts(scope["method"], headers):
                    cookie = self._begin(_ANYONE, None)
                    session = self._sessions.find(cookie)
                    assert session is not None  # begun just above
                    response = await self._page(session, scope, headers, path, body)
                    response = replace(
                        response,
                        headers=[*response.headers, self._set_cookie(cookie, headers, scope)],
                    )
                elif signed_in is None:
                    response = self._to_sign_in(scope, path)
                elif path == "/events":
                    await self._events(signed_in[1], headers, scope, send)
                    return
                elif path == "/sign-out" and scope["method"] == "POST":
                    await self._form(signed_in[1], headers, body)
                    response = self._sign_out(signed_in[0], signed_in[1])
                elif path == _UPLOADS and scope["method"] == "POST":
                    response = await self._uploaded(signed_in[1], headers, body)
                else:
                    response = await self._page(signed_in[1], scope, headers, path, body)
        except GeoVeilError as error:
            status, text = refusal_of(error)
            _, session = self._signed_in(headers) or (None, None)
            response = page("refused.html", session, status=status, code=status, text=text)
        await write(send, scope["method"], response, GUARDS)

    # Signing in and out

    def _signed_in(self, headers: Mapping[bytes, str]) -> tuple[str, Session] | None:
        """Return the caller's cookie and session, or None."""
        cookie = _cookie(headers)
        session = None if cookie is None else self._sessions.find(cookie)
        return None if cookie is None or session is None else (cookie, session)

    def _to_sign_in(self, scope: Scope, path: str) -> Response:
        if scope["method"] == "POST":
            raise RefusedError(401, "you are no longer signed in: sign in and try again")
        wanted = path
        if scope["query_string"]:
            wanted += "?" + scope["query_string"].decode("latin-1")
        where = f"{PREFIX}{_SIGN_IN}?next={quote(wanted, safe='')}"
        return Response(b"", status=303, headers=[(b"location", where.encode())])

    async def _sign_in(self, scope: Scope, headers: Mapping[bytes, str], body: bytes) -> Response:
        open_to_all = await self._open()
        if scope["method"] != "POST":
            query = query_of(scope["query_string"].decode("latin-1"))
            wanted = query.get("next", ["/"])[-1]
            return page("sign_in.html", None, open_to_all=open_to_all, next=wanted)
        fields = form_of(headers.get(b"content-type", ""), body)
        wanted = fields.get("next", ["/"])[-1]
        token = fields.get("token", [""])[-1].strip()
        who, kept = _ANYONE, None
        if not open_to_all:
            who = await self._name_of(token)
            if not who:
                self._note("", "sign in refused")
                said = "This token is unknown or has expired."
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

    async def _name_of(self, token: str) -> str:
        """Return the name of a token; "" if the server does not accept it."""
        if not token or not (token.isascii() and token.isprintable()):
            return ""
        caller = await self._caller(token)
        return "" if caller is None else caller.name

    async def _open(self) -> bool:
        """Return whether the server trusts everybody on its machine."""
        return await self._caller(None) is not None

    async def _caller(self, token: str | None) -> Caller | None:
        """Return the owner of a token; None if the server does not accept it."""
        try:
            return await self._workers.run(Lane.QUICK, ChannelAnalyst(self._channel, token).caller)
        except ServerError as error:
            if error.code not in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
                raise
            return None

    async def _trusts(self, method: str, headers: Mapping[bytes, str]) -> bool:
        """Return whether the server signs in this request without a token.

        The request must be a GET that no other site's page has sent.
        """
        own = headers.get(b"sec-fetch-site") in ("none", "same-origin")
        return method == "GET" and own and await self._open()

    def _begin(self, who: str, token: str | None) -> str:
        """Begin a session, and return its cookie."""
        self._note(who, "sign in")
        return self._sessions.begin(who, token)

    def _set_cookie(
        self, cookie: str, headers: Mapping[bytes, str], scope: Scope
    ) -> tuple[bytes, bytes]:
        """Return the header that sets the session cookie."""
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
        body: bytes,
    ) -> Response:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        route, named = self._found(method, path)
        analyst = ChannelAnalyst(self._channel, session.token)
        session.rights = (await self._workers.run(Lane.QUICK, analyst.caller)).scopes
        fields: dict[str, list[str]] = {}
        if method == "POST":
            fields = await self._form(session, headers, body)

        def render(template: str, /, **shown: Any) -> Response:
            return page(template, session, **shown)

        def note(action: str, **about: object) -> None:
            self._note(session.who, action, **about)

        request = GatewayRequest(
            method=method,
            path=path,
            query=query_of(scope["query_string"].decode("latin-1")),
            fields=fields,
            files=self._chosen(session, fields),
            named={name: unquote(value) for name, value in named.items()},
            session=session,
            analyst=analyst,
            render=render,
            note=note,
            now=self._clock(),
            address=self._shown,
            begin_asking=self._asking.begin,
        )
        return await self._workers.run(route.lane, lambda: route.answer(request))

    def _found(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        for route in self._routes:
            named = route.match(method, path)
            if named is not None:
                return route, named
        raise RefusedError(404, "there is no such page")

    async def _form(
        self, session: Session, headers: Mapping[bytes, str], body: bytes
    ) -> dict[str, list[str]]:
        """Return the fields of a form; refuse a form without the session's token."""
        fields = form_of(headers.get(b"content-type", ""), body)
        tokens = fields.pop(_FORM_TOKEN, None) or [headers.get(b"x-form-token", "")]
        _check_form_token(session, tokens[-1])
        return fields

    async def _uploaded(
        self, session: Session, headers: Mapping[bytes, str], body: bytes
    ) -> Response:
        """Keep a file for its session, and return its name."""
        _check_form_token(session, headers.get(b"x-form-token", ""))
        key = self._uploads.keep(session.form_token, body)
        return Response(key.encode(), "text/plain; charset=utf-8")

    def _chosen(self, session: Session, fields: Mapping[str, Sequence[str]]) -> dict[str, bytes]:
        """Return the files that a form names and that are still stored."""
        kept = {
            name.removeprefix(_UPLOADED): self._uploads.find(session.form_token, values[-1])
            for name, values in fields.items()
            if name.startswith(_UPLOADED)
        }
        return {name: content for name, content in kept.items() if content}

    async def _events(
        self,
        session: Session,
        headers: Mapping[bytes, str],
        scope: Scope,
        send: Send,
    ) -> None:
        """Stream the estimates of a survey while its reader is signed in."""
        cookie = _cookie(headers) or ""
        query = query_of(scope["query_string"].decode("latin-1"))
        campaign_id = query.get("campaign", [""])[-1]

        def permitted() -> bool:
            return self._sessions.find(cookie, use=False) is not None

        analyst = ChannelAnalyst(self._channel, session.token)
        await self._live.send_events(campaign_id, session.token, analyst, permitted, send)

    # The audit log

    def _note(self, who: str, action: str, **about: object) -> None:
        """Write an action and its user to the audit log, without private data."""
        _LOG.info("console", extra={"who": who, "action": action, **about})
        self._operators.remember(who, action, about)


def _check_origin(method: str, headers: Mapping[bytes, str]) -> None:
    """Refuse requests that another site's page sends or embeds."""
    site = headers.get(b"sec-fetch-site")
    host, origin = headers.get(b"host", ""), headers.get(b"origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise RefusedError(403, "pages of other sites may not use the console")
    if method == "POST":
        if origin is None and site != "same-origin":
            raise RefusedError(403, "a form must come from a page of the console")
        if site not in (None, "same-origin"):
            raise RefusedError(403, "pages of other sites may not use the console")
    elif site in ("cross-site", "same-site") and headers.get(b"sec-fetch-dest") != "document":
        raise RefusedError(403, "pages of other sites may not use the console")


def _check_form_token(session: Session, told: str) -> None:
    """Refuse a form without the session's token."""
    if not same(told, session.form_token):
        raise RefusedError(403, "this form belongs to another session: open its page again")


def _cookie(headers: Mapping[bytes, str]) -> str | None:
    """Return the console's cookie or None, scanning from left to right once."""
    for part in headers.get(b"cookie", "").split(";"):
        name, _, value = part.partition("=")
        if name.strip() == COOKIE:
            return value.strip() or None
    return None


def _within(wanted: str) -> str:
    """Return a path within the console for any requested path."""
    plain = wanted.isascii() and wanted.isprintable() and len(wanted) < 2_000
    if not plain or not wanted.startswith("/") or wanted.startswith(_SIGN_IN):
        return "/"
    return quote(wanted, safe="/?=&%-_.~,:+")
