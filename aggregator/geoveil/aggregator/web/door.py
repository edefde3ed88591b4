"""The server of the web door: HTTP/1.1 and 2, in the process that serves gRPC.

What uvicorn leaves open of HTTP/1.1 is bounded here: how long a caller may take to say what it asks
for, how many connections there are, and how long one is kept whose other side is gone.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from h11 import LocalProtocolError
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from geoveil.aggregator.grpc.connections import MARGIN
from geoveil.aggregator.ops.diagnostics import traceback_without_values
from geoveil.aggregator.ops.settings import is_loopback
from geoveil.aggregator.web.calls import Calls, Headers, Receive, Scope, Send, answer
from geoveil.aggregator.web.http2 import Application, Http2
from geoveil.aggregator.web.mounts import Mounts
from geoveil.aggregator.web.page_files import Pages
from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)
_HEADERS_S = 10.0
"""Until a request has said, with TLS if need be, what it asks for."""
_HEADER_BYTES = 16 << 10
_UNANSWERED_MS = 80_000
"""Until a connection is given up whose other side does not acknowledge what was sent."""
_TLS_BUFFER = 16 << 10
"""Bytes of asyncio's buffer of each connection with TLS: the longest record. It takes 256 KiB."""
_READ_BYTES = 64 << 10
"""Bytes that are read from a connection at once. asyncio would read 256 KiB."""
_BACKLOG = 1024
_BEGINS_HTTP_2 = b"PRI "
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


class Door:
    """Listens for HTTP, and hands calls on.

    Args:
        calls: what answers them.
        pages: what answers those who ask for a page.
        mounts: what else is served, under prefixes.
        origins: of pages elsewhere that may call, such as "https://example.org".
        guarded: whether only callers are heard that name this machine as it names itself: so that
            no page can call a server that trusts everybody on its machine.
        idle_s: how long a connection without a call stays open, in seconds.
        most: connections that stay; a few times as many are taken.
    """

    def __init__(
        self,
        calls: Calls,
        pages: Pages,
        mounts: Mounts,
        *,
        origins: Collection[str],
        guarded: bool,
        idle_s: float,
        most: int,
    ) -> None:
        self._calls = calls
        self._pages = pages
        self._mounts = mounts
        self._origins = frozenset(origins)
        self._guarded = guarded
        self._most = most
        self._state = ServerState()
        self._config = uvicorn.Config(
            self._serve,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # what outsiders send is no event
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
        self._config.timeout_keep_alive = idle_s  # type: ignore[assignment]  # whole seconds there
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, tls: Callable[[], ssl.SSLContext] | None) -> int:
        """Listen, and return the port.

        Args:
            host: address to listen on.
            port: 0 takes a free one.
            tls: returns the context for a new connection; None: no encryption.

        Raises:
            ParameterError: if the address is taken.
        """
        self._config.load()
        loop = asyncio.get_running_loop()
        # How often it works, not what it does, depends on its size.
        asyncio.sslproto.SSLProtocol.max_size = _TLS_BUFFER  # type: ignore[attr-defined]  # unknown to the stubs
        try:
            self._server = await loop.create_server(
                lambda: _Opening(self._serve, self._config, self._state, loop, MARGIN * self._most),
                host,
                port,
                ssl=None if tls is None else _following(tls),
                ssl_handshake_timeout=None if tls is None else _HEADERS_S,
                backlog=_BACKLOG,
            )
        except OSError as error:
            expected = f"free, and one of this machine ({error.strerror})"
            raise ParameterError("web", f"{host}:{port}", expected) from error
        taken: int = self._server.sockets[0].getsockname()[1]
        return taken

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, and let those in progress end; idempotent.

        Args:
            grace_s: seconds for them.
        """
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        await self._mounts.aclose()
        for connection in [*self._state.connections]:
            with suppress(LocalProtocolError):  # what it sent was no HTTP
                connection.shutdown()
        tasks = {*self._state.tasks}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in [*self._state.connections]:
            connection.transport.abort()
        await asyncio.sleep(0)  # for their ends to be noticed

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if self._guarded and not self._known(host):
            text = "this server answers to the name of its own machine only: localhost, 127.0.0.1"
            await answer(send, 421, text)
            return
        shared: Headers = ()
        mounted = self._mounts.have(scope["path"])
        if origin is not None and origin.partition("://")[2] != host:
            if mounted or origin not in self._origins:
                text = "pages of other origins may not call: see the setting web_origins"
                await answer(send, 403, text, [(b"vary", b"origin")])
                return
            shared = [(b"access-control-allow-origin", origin.encode("latin-1"))]
            if scope["method"] == "OPTIONS":
                await _preflight(send, shared)
                return
            shared = [*shared, (b"access-control-expose-headers", _SHOWN_TO_BROWSERS)]
        started = False

        async def send_more(event: Any) -> None:
            nonlocal started
            if event["type"] == "http.response.start":
                started = True
                event["headers"] = [*event["headers"], *shared, *_ALWAYS]
            await send(event)

        try:
            if mounted:
                await self._mounts(scope, receive, send_more)
            elif scope["method"] in ("GET", "HEAD"):
                await self._pages(scope, receive, send_more)
            else:
                await self._calls(scope, receive, send_more)
        except Exception as error:  # noqa: BLE001 - logged, without content of requests
            _LOG.error("defect", extra={"exception": traceback_without_values(error)})
            if not started:
                await answer(send_more, 500, "internal error")

    def _known(self, host: str) -> bool:
        """Return whether a header Host names this machine as it names itself."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (
            is_loopback(name) or any(host == one.partition("://")[2] for one in self._origins)
        )


_ALWAYS: Headers = ((b"vary", b"origin"), (b"x-content-type-options", b"nosniff"))


async def _preflight(send: Send, shared: Headers) -> None:
    """Tell a browser what a page of another origin may send."""
    headers = [
        *shared,
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", _ASKED_BY_BROWSERS),
        (b"access-control-max-age", _PREFLIGHT_S),
        (b"vary", b"origin"),
        (b"content-length", b"0"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _following(tls: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return a context that hands each new connection the latest one."""
    first = tls()

    def latest(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = tls()

    first.sni_callback = latest
    return first


class _Opening(asyncio.Protocol):
    """A connection that has not said yet which HTTP it speaks; then another takes its place.

    With TLS it was agreed on when the connection was made; without, HTTP/2 begins as nothing else.
    """

    transport: asyncio.Transport

    def __init__(
        self,
        application: Application,
        config: uvicorn.Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        most: int,
    ) -> None:
        self._application = application
        self._config = config
        self._state = state
        self._loop = loop
        self._most = most
        self._came = b""
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if len(self._state.connections) >= self._most:
            transport.abort()
            return
        transport.max_size = _READ_BYTES  # type: ignore[attr-defined]  # of asyncio's own
        _notice_silence(transport.get_extra_info("socket"))
        self._state.connections.add(self)  # type: ignore[arg-type]  # it has what `stop` uses
        self._late = self._loop.call_later(_HEADERS_S, transport.abort)
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None:
            self._become(two=encrypted.selected_alpn_protocol() == "h2")

    def data_received(self, data: bytes) -> None:
        self._came += data
        begun = self._came[: len(_BEGINS_HTTP_2)]
        if not _BEGINS_HTTP_2.startswith(begun):
            self._become(two=False)
        elif begun == _BEGINS_HTTP_2:
            self._become(two=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        if self._late is not None:
            self._late.cancel()

    def shutdown(self) -> None:
        """Close it."""
        self.transport.close()

    def _become(self, *, two: bool) -> None:
        self._state.connections.discard(self)
        idle_s = self._config.timeout_keep_alive
        one: Http2 | _Http1
        if two:
            one = Http2(
                self._application,
                self._state,
                self._loop,
                idle_s=idle_s,
                headers_s=_HEADERS_S,
            )
        else:
            one = _Http1(self._config, self._state, {}, self._loop)
        one.late = self._late
        self.transport.set_protocol(one)
        one.connection_made(self.transport)
        if self._came:
            one.data_received(self._came)


class _Http1(H11Protocol):
    """A connection that must soon say what it asks for, each time that it begins to."""

    late: asyncio.TimerHandle | None = None
    """Ends it unless something is asked for in time."""

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._in_time()
        elif self.late is None and (before is None or before.response_complete):
            self.late = self.loop.call_later(_HEADERS_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def _in_time(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None


def _notice_silence(one: socket.socket) -> None:
    """Give up a connection, in time, whose other side does not answer."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _UNANSWERED_MS // 2000),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", _UNANSWERED_MS),
    ):
        if hasattr(socket, name):
            one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
