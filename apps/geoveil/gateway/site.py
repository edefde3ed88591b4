"""The ASGI application that uvicorn runs, with the access rules by caller and origin."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from geoveil.campaign import is_loopback
from geoveil.gateway.calls import Calls
from geoveil.gateway.http import (
    MESSAGE_S,
    Body,
    Event,
    GoneError,
    Headers,
    Receive,
    Scope,
    Send,
    TooMuchError,
    answer,
    answer_later,
    respond,
    write,
)
from geoveil.gateway.ledger import Account, Ledger
from geoveil.gateway.pages import GUARDS, TAKE_PART, Files, answer_page

_LOG = logging.getLogger(__name__)
LONGEST_FORM = 4 << 10
"""The most bytes of a form from somebody who is not signed in."""
_PAGE = 5_000.0
"""Microseconds that an address pays for a mount's page."""
_OF_ANALYSTS = "/geoveil.proto.v1.Analyst/"
_FORWARDED, _FORWARDED_BY = b"x-forwarded-for", b"x-forwarded-proto"
_ASKED_BY_BROWSERS = b", ".join(
    (
        b"authorization, content-type, content-encoding, connect-content-encoding",
        b"connect-protocol-version, connect-timeout-ms, grpc-timeout, x-grpc-web, x-user-agent",
    )
)
_SHOWN_TO_BROWSERS = b", ".join(
    (
        b"grpc-message, grpc-status, grpc-status-details-bin, trailer-geoveil-request-id",
        b"geoveil-request-id",
    )
)
_PREFLIGHT_S = b"7200"
_ALWAYS: Headers = ((b"vary", b"origin"), (b"x-content-type-options", b"nosniff"))


Answering: TypeAlias = Callable[[Scope, Receive, Send, Account], Awaitable[None]]
"""Answers a call of an account."""


class Mounted(Protocol):
    """Answers GET, HEAD and POST requests, similar to ASGI."""

    async def __call__(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a complete request; this is cancelled when its caller disconnects."""
        ...

    def longest(self, scope: Scope) -> int:
        """Return a request's largest permitted body in bytes."""
        ...

    async def aclose(self) -> None:
        """Called when the gateway stops, before its connections are closed."""
        ...


@dataclass(frozen=True, slots=True)
class Mount:
    """An application served below a prefix."""

    application: Mounted
    files: Files
    """Its static files, below "files/"."""
    public: bool = False
    """Whether it answers everybody equally, without a token."""


class Site:
    """Answers requests by calls to the server, pages, or mounts.

    Args:
        mounts: prefix, such as "/name/" → the application served there.
        origins: origins of other sites' pages that may call, such as "https://example.org".
        trusting: whether the server trusts everybody on its machine. Then only requests with this
            machine's own name as Host are answered, so that no other site's page can make them.
        public: whether other machines can reach the gateway.
        sealed: path → the application that answers relayed calls.
    """

    def __init__(
        self,
        calls: Calls,
        mounts: Mapping[str, Mount],
        ledger: Ledger,
        *,
        origins: Collection[str],
        trusting: Callable[[], Awaitable[bool]],
        public: bool,
        streets: Path | None,
        issuer: str | None,
        sealed: Mapping[str, Answering],
    ) -> None:
        self._calls = calls
        self._sealed = sealed
        self._mounts = mounts
        self._ledger = ledger
        self._origins = frozenset(origins)
        self._trusting = trusting
        self._public = public
        self._streets = streets
        self._issuer = issuer

    async def aclose(self) -> None:
        """Close all mounts when the gateway stops."""
        for mount in self._mounts.values():
            await mount.application.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started, shared = False, list[tuple[bytes, bytes]]()

        async def send_more(event: Event) -> None:
            nonlocal started
            if event["type"] == "http.response.start":
                started = True
                event["headers"] = [*event["headers"], *shared, *_ALWAYS]
            await send(event)

        state = scope["state"]
        state["connection"].busy = True
        try:
            account, paid = state["connection"].account, state["paid"]
            headers = dict(scope["headers"])
            peer: str = (scope["client"] or ("", 0))[0]
            proxy = self._ledger.trusts(peer)
            if _FORWARDED in headers and proxy:
                forwarded = headers[_FORWARDED].rpartition(b",")[2].strip().decode("latin-1")
                scope["client"] = (forwarded, 0)
                account = self._ledger.account(forwarded)
                paid = self._ledger.charge(account, 1e3)
            if not paid:
                await answer_later(send_more, self._ledger.wait_s(account))
                return
            secret = b"authorization" in headers or self._takes_tokens(scope["path"])
            by = headers.get(_FORWARDED_BY, b"") if proxy else b""
            if (
                secret
                and scope["scheme"] != "https"
                and not (by == b"https" if by else is_loopback(peer))
            ):
                text = "tokens don't travel over plain HTTP: use https://"
                await answer(send_more, 403, text)
                return
            host, origin = headers.get(b"host", b"").decode("latin-1"), headers.get(b"origin")
            if not await self._welcome(scope["path"], host, send_more):
                return
            if origin is not None and origin.decode("latin-1").partition("://")[2] != host:
                mounted = self._mount(scope["path"]) is not None
                if mounted or origin.decode("latin-1") not in self._origins:
                    text = "pages of other origins may not call: see the setting web_origins"
                    await answer(send_more, 403, text)
                    return
                shared.append((b"access-control-allow-origin", origin))
                if scope["method"] == "OPTIONS":
                    await _preflight(send_more)
                    return
                shared.append((b"access-control-expose-headers", _SHOWN_TO_BROWSERS))
            await self._serve(scope, receive, send_more, account)
        except Exception as error:  # noqa: BLE001 - logged, without content of requests
            _LOG.error("defect", extra={"exception": _without_values(error)})
            if not started:
                await answer(send_more, 500, "internal error")
        finally:
            state["connection"].busy = False

    async def _serve(self, scope: Scope, receive: Receive, send: Send, account: Account) -> None:
        path: str = scope["path"]
        prefix = self._mount(path)
        if path in ("/", TAKE_PART[:-1]):
            await answer(send, 307, "people take part there", [(b"location", TAKE_PART.encode())])
        elif prefix is not None and path == prefix[:-1]:
            await answer(send, 308, "it ends with a slash", [(b"location", prefix.encode())])
        elif prefix is not None:
            await self._mounted(self._mounts[prefix], prefix, scope, receive, send, account)
        elif scope["method"] == "GET" and self._calls.reads(path):
            await self._calls(scope, receive, send, account)
        elif path not in self._sealed and scope["method"] in ("GET", "HEAD"):
            shown = "/results/" in self._mounts
            await answer_page(scope, send, self._streets, results=shown, issuer=self._issuer)
        else:
            await self._sealed.get(path, self._calls)(scope, receive, send, account)

    async def _welcome(self, path: str, host: str, send: Send) -> bool:
        """Return whether a request with this Host is permitted; otherwise answer with an error."""
        if not path.startswith(_OF_ANALYSTS) and not self._takes_tokens(path):
            return True  # public content needs no trust
        if not await self._trusting():
            return True
        if self._public:
            text = "the server trusts everybody on its machine: give it a tokens_file first"
            await answer(send, 403, text)
        elif not self._known(host):
            text = "this server answers to the name of its own machine only: localhost, 127.0.0.1"
            await answer(send, 421, text)
        else:
            return True
        return False

    def _mount(self, path: str) -> str | None:
        """Return the prefix of a path's mount, or None."""
        return next((mounted for mounted in self._mounts if f"{path}/".startswith(mounted)), None)

    def _takes_tokens(self, path: str) -> bool:
        """Return whether a path's mount takes tokens."""
        prefix = self._mount(path)
        return prefix is not None and not self._mounts[prefix].public

    def _known(self, host: str) -> bool:
        """Return whether a Host header has this machine's own name."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (
            is_loopback(name) or any(host == origin.partition("://")[2] for origin in self._origins)
        )

    async def _mounted(
        self,
        mount: Mount,
        prefix: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        account: Account,
    ) -> None:
        """Let a mount answer a complete request."""
        if scope["method"] not in ("GET", "HEAD", "POST"):
            await answer(send, 405, "pages take GET and POST", [(b"allow", b"GET, HEAD, POST")])
            return
        name = scope["path"].removeprefix(prefix)
        if name.startswith("files/"):
            await mount.files.answer(scope, send, name.removeprefix("files/"))
            return
        if not self._ledger.charge(account, _PAGE):
            await answer_later(send, self._ledger.wait_s(account))
            return
        connection = scope["state"]["connection"]
        most = mount.application.longest(scope) if scope["method"] == "POST" else LONGEST_FORM
        body = Body(receive, self._ledger, connection)
        try:
            async with asyncio.timeout(MESSAGE_S):
                content = await body.whole(most)
            await _answered(mount.application, scope, content, receive, send)
        except TimeoutError:
            await answer(send, 408, f"a request must come within {MESSAGE_S:g} s")
        except TooMuchError:
            await answer(send, 413, f"this request has at most {most:,} bytes")
        except GoneError:
            pass
        finally:
            self._ledger.hold(connection, -connection.held)


async def _preflight(send: Send) -> None:
    """Answer a browser's preflight request from another origin."""
    headers = [
        (b"access-control-allow-methods", b"POST, GET"),
        (b"access-control-allow-headers", _ASKED_BY_BROWSERS),
        (b"access-control-max-age", _PREFLIGHT_S),
    ]
    await respond(send, 204, b"", headers)


async def _answered(
    mounted: Mounted, scope: Scope, body: bytes, receive: Receive, send: Send
) -> None:
    """Let a mount answer a request, unless its caller disconnects."""
    gone = answered = False

    async def send_guarded(event: Event) -> None:
        nonlocal answered
        if event["type"] == "http.response.start":
            said = {name.lower() for name, _ in event["headers"]}
            more = [pair for pair in GUARDS if pair[0] not in said]
            event["headers"] = [*event["headers"], *more]
            await send(event)
        else:
            answered = not event.get("more_body", False)
            await write(send, event.get("body", b""), more=not answered)

    async def notice() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        if not answered:
            answering.cancel()

    answering: asyncio.Future[Any] = asyncio.ensure_future(mounted(scope, body, send_guarded))
    noticing = asyncio.create_task(notice(), name="notice who is gone")
    try:
        await answering
    except asyncio.CancelledError:
        if not gone:
            raise
    finally:
        noticing.cancel()


def _without_values(error: BaseException) -> str:
    """Return the type and place of an error, without its message."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in extract_tb(error.__traceback__)]
    return " ".join([*places, type(error).__name__])
