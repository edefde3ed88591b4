"""Accept connections, and pass their bytes to a parser only after charging for them.

uvicorn has no hook before TLS, nor for each piece of data. Here a connection costs only a socket
until its first byte; then, with TLS, its address pays for the handshake.
"""

import asyncio
import logging
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from geoveil.gateway.ledger import BYTE, HANDSHAKE, PIECE, REQUEST, HeldConnection, Ledger

_LOG = logging.getLogger(__name__)
HEAD_S = 10.0
"""Seconds within which a connection, or a request on it, must send its head."""
STALLED_S = 20.0
"""Seconds until a connection is closed if its peer reads none of the sent data."""
HEAD_BYTES = 16 << 10
_AT_ONCE = 32
"""The most connections accepted before serving others."""
_PIPELINED = 8
"""The most requests that may wait on a connection while an earlier one is answered."""
_READ_BYTES, _WRITE_BYTES = 32 << 10, 32 << 10
_UNSENT_BYTES = 128 << 10
"""The kernel's buffer of unsent bytes per connection; its default is megabytes."""
_TLS_BUFFER = 16 << 10
"""Bytes of the longest TLS record, and of each connection's buffer; asyncio's is 256 KiB."""
_RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close drops unsent data."""


class Contexts:
    """The TLS context of new connections, which follows changes of its files.

    It ignores files that are partly replaced or do not match, and logs that once. Clients need
    certificates if there is a file of their authorities.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        self._paths = (certificate, key, client_ca)
        self._seen = self._stamps()
        self._context = self._load()

    def current(self) -> ssl.SSLContext:
        """Return the context for the current files."""
        with suppress(OSError):
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                try:
                    self._context = self._load()
                except (OSError, ValueError):
                    _LOG.error("tls_files_wrong", extra={"setting": "tls_certificate"})
        return self._context

    def _stamps(self) -> list[tuple[int, int, int]]:
        stats = [path.stat() for path in self._paths if path is not None]
        return [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]

    def _load(self) -> ssl.SSLContext:
        certificate, key, client_ca = self._paths
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        return context


class Listener:
    """Accepts a socket's connections for uvicorn's application, with TLS if it has contexts."""

    def __init__(
        self,
        taken: socket.socket,
        config: uvicorn.Config,
        contexts: Contexts | None,
        ledger: Ledger,
    ) -> None:
        self._socket = taken
        self._config = config
        self._contexts = contexts
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._state = ServerState()
        self._opening: set[asyncio.Task[None]] = set()
        config.load()
        # The size affects only how often the buffer is filled.
        asyncio.sslproto.SSLProtocol.max_size = _TLS_BUFFER  # type: ignore[attr-defined]  # unknown to the stubs

    def start(self) -> None:
        """Start accepting connections."""
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT_BYTES)  # inherited
        self._loop.add_reader(self._socket, self._take)

    async def stop(self, grace_s: float) -> None:
        """Refuse new connections, let requests under way finish, and close."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for connection in [*self._state.connections]:
            connection.shutdown()
        tasks = {*self._state.tasks}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in [*self._state.connections]:
            connection.transport.abort()
        await asyncio.sleep(0)  # so that their ends are noticed

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, (host, *_) = self._socket.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptors are left: others must close first
                self._loop.remove_reader(self._socket)
                self._loop.call_later(0.1, self._loop.add_reader, self._socket, self._take)
                return
            accepted.setblocking(False)

            def abort(opened: socket.socket = accepted) -> None:
                with suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)

            connection = self._ledger.connect(host, abort)
            if connection is None:
                _reset(accepted)
                continue
            task = self._loop.create_task(self._open(accepted, host, connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, host: str, connection: HeldConnection) -> None:
        """Wait for the first byte, charge for TLS, and pass the rest to the parser."""
        ledger, opened = self._ledger, False
        try:
            async with asyncio.timeout(HEAD_S):
                await _readable(self._loop, accepted)
            if self._contexts is None or ledger.charge(connection.account, HANDSHAKE):
                await self._loop.connect_accepted_socket(
                    lambda: _Http(self._config, self._state, self._loop, ledger, host, connection),
                    accepted,
                    ssl=None if self._contexts is None else self._contexts.current(),
                    ssl_handshake_timeout=None if self._contexts is None else HEAD_S,
                )
                opened = True
        except (OSError, TimeoutError, ssl.SSLError):
            pass  # errors from outsiders are not logged
        finally:
            if not opened:
                ledger.close(connection, host)
                _reset(accepted)


class _Http(HttpToolsProtocol):
    """A connection that charges for data before parsing it."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        ledger: Ledger,
        host: str,
        connection: HeldConnection,
    ) -> None:
        super().__init__(config, state, {"connection": connection}, loop)
        self._ledger = ledger
        self._host = host
        self._connection = connection
        self._late: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._in_head, self._head, self._fields = True, 0, 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.max_size = _READ_BYTES
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._connection.abort = transport.abort
        self._late = self.loop.call_later(HEAD_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._ledger.charge(self._connection.account, PIECE + BYTE * len(data)):
            self.transport.abort()
            return
        if self._in_head:
            self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > HEAD_BYTES + _READ_BYTES:
            self.transport.abort()
        elif self._in_head and self._head and self._late is None:
            self._late = self.loop.call_later(HEAD_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        if self._stalled is not None:
            self._stalled.cancel()
        self._ledger.close(self._connection, self._host)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._fields = 0

    def on_url(self, url: bytes) -> None:
        self._field(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._field(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._in_time()
        waiting = self.cycle is not None and not self.cycle.response_complete
        paid = self._ledger.charge(self._connection.account, REQUEST)
        if waiting and (not paid or len(self.pipeline) >= _PIPELINED):
            self.transport.abort()
            raise ValueError("too many requests at once")
        self.scope.setdefault("state", {})["paid"] = paid
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_complete()

    def _field(self, size: int) -> None:
        self._fields += size
        if self._fields > HEAD_BYTES:
            raise ValueError("headers too large")

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def _reset(opened: socket.socket) -> None:
    """Close a connection without an answer."""
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    opened.close()


async def _readable(loop: asyncio.AbstractEventLoop, opened: socket.socket) -> None:
    """Wait until bytes arrive."""
    ready = asyncio.Event()
    loop.add_reader(opened, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(opened)
