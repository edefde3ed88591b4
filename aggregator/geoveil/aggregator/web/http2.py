"""HTTP/2 on one connection of the web door: each stream is a request to the same ASGI application.

What frames mean is known to the library h2. It bounds neither how many come that ask for nothing,
nor a frame that is still to come in full; so each is looked at before h2 is told of it.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from geoveil.aggregator.web.calls import Headers, Scope

Application = Callable[[Scope, Any, Any], Any]

MOST_STREAMS = 100
"""Requests under way at once on one connection, as over gRPC: what h2 tells the other side."""
HEADER_BYTES = 16 << 10
"""The most bytes of a request's headers, as they come and unpacked."""
STALLED_S = 80.0
"""Until an answer is given up of which its reader lets nothing more be sent."""
_LONGEST_FRAME = 16 << 10
"""Bytes; the least that any side must take, and so the most that is sent."""
_TABLE_BYTES = 4 << 10
"""The most bytes of headers that are remembered so that they can be sent shorter; another side may
ask for gigabytes."""
_FRAME_HEAD = 9
_PREFACE = 24
"""Bytes before the first frame."""
_DATA, _HEADERS, _RST_STREAM, _CONTINUATION = 0x0, 0x1, 0x3, 0x9
_END_STREAM, _END_HEADERS = 0x1, 0x4
_SMALL = 256
"""Bytes of a piece of a request that brings next to nothing, unless it is the last."""
_IDLE_FRAMES, _IDLE_FRAMES_PER_S = 1_000.0, 100.0
"""Frames that ask for nothing: so many at once and, when these are used up, so many a second."""
_RESET_COUNTS_AS = 10.0
_BYTES_COUNT_AS = 1 / 64
"""A byte of such a frame: one of settings has room for 2,700 of them."""
_PER_ANSWER = 3.0
"""What each piece of an answer lets its reader send: it makes room for more, by two frames."""
_OF_CONNECTIONS = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
"""Headers that have no meaning in HTTP/2."""


class _Connection(H2Connection):
    """The library's side of a connection, with less to remember."""

    DEFAULT_MAX_HEADER_LIST_SIZE = HEADER_BYTES
    MAX_CLOSED_STREAMS = 2 * MOST_STREAMS


_CONFIGURATION = H2Configuration(
    client_side=False,
    header_encoding=None,
    # They are ours, or a mount's: written in small letters and without those of a connection.
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)


class TooMuch(Exception):  # noqa: N818 - what it is
    """A connection sends more than it may of what asks for nothing."""


class Frames:
    """Looks at what comes, frame by frame, before anything is done with it.

    Args:
        now: tells the seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._head = bytearray()
        self._skip = _PREFACE
        self._credit = _IDLE_FRAMES
        self._credited = now()
        self.block = 0
        """Bytes of headers whose end has not come."""

    def look(self, data: bytes) -> None:
        """Count the frames that begin in what came.

        Raises:
            TooMuch: if they are too many of a kind, or too long.
        """
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
                continue
            wanted = _FRAME_HEAD - len(self._head)
            self._head += data[at : at + wanted]
            at += wanted
            if len(self._head) < _FRAME_HEAD:
                return
            length = int.from_bytes(self._head[:3], "big")
            self._count(self._head[3], self._head[4], length)
            self._skip = length
            self._head.clear()

    def allow(self, more: float) -> None:
        """Let so many more frames come."""
        self._credit = min(_IDLE_FRAMES, self._credit + more)

    def charge(self, cost: float) -> None:
        """Count what asks for nothing.

        Raises:
            TooMuch: if it is too much.
        """
        self._credit -= cost
        if self._credit < 0:
            now = self._now()
            self.allow(_IDLE_FRAMES_PER_S * (now - self._credited))
            self._credited = now
            if self._credit < 0:
                raise TooMuch

    def _count(self, kind: int, flags: int, length: int) -> None:
        if length > _LONGEST_FRAME:
            raise TooMuch
        if kind == _DATA:
            if length < _SMALL and not flags & _END_STREAM:
                self.charge(1)
        elif kind in (_HEADERS, _CONTINUATION):
            self.block += length
            if self.block > HEADER_BYTES:
                raise TooMuch
            if kind == _CONTINUATION:
                self.charge(1)
            if flags & _END_HEADERS:
                self.block = 0
        else:
            self.charge((_RESET_COUNTS_AS if kind == _RST_STREAM else 1) + _BYTES_COUNT_AS * length)


class Stream:
    """A request on a connection, and the answer to it: what an ASGI application is given.

    Args:
        connection: that it is on.
        number: of the stream.
        method: such as POST.
    """

    def __init__(self, connection: "Http2", number: int, method: str) -> None:
        self._connection = connection
        self._number = number
        self._bodiless = method == "HEAD"
        self._body = bytearray()
        self._unread = 0
        self._came = asyncio.Event()
        self._room = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.complete = False
        """Whether all of the request has come."""
        self.answered = False
        """Whether all of the answer was handed over."""
        self.gone = False
        """Whether nobody waits for the answer any more."""

    # What the connection tells it.

    def take(self, data: bytes, counted: int) -> None:
        """Keep a part of the request until it is asked for."""
        self._body += data
        self._unread += counted
        self._came.set()

    def end(self) -> None:
        """Take note that the request has come."""
        self.complete = True
        self._came.set()

    def make_room(self) -> None:
        """Take note that more of the answer may be sent."""
        self._room.set()

    def leave(self) -> None:
        """Take note that nobody waits for the answer."""
        self.gone = True
        self._came.set()
        self._room.set()
        if self.task is not None and not self.answered:
            self.task.cancel()

    def unread(self) -> int:
        """Return how many bytes of the request nobody asked for, and forget them."""
        counted, self._unread = self._unread, 0
        self._body.clear()
        return counted

    # What the application uses.

    async def receive(self) -> dict[str, Any]:
        """Return what came of the request, or that nobody waits for the answer."""
        if not (self.gone or self.answered):
            await self._came.wait()
        self._came.clear()
        if self.gone or self.answered:
            return {"type": "http.disconnect"}
        body = bytes(self._body)
        self._connection.acknowledge(self._number, self.unread())
        return {"type": "http.request", "body": body, "more_body": not self.complete}

    async def send(self, event: Any) -> None:
        """Hand over a part of the answer, once there is room for it."""
        if self.gone:
            return
        if event["type"] == "http.response.start":
            self._connection.begin(self._number, event["status"], event["headers"])
            return
        last = not event.get("more_body", False)
        content = memoryview(b"" if self._bodiless else event.get("body", b""))
        while content or last:
            await self._connection.writable()
            size = 0 if self.gone or not content else await self._windowed(len(content))
            if self.gone:
                return
            piece, content = content[:size], content[size:]
            self.answered = ended = last and not content
            if ended:
                self._came.set()
            self._connection.write(self._number, bytes(piece), ended=ended)
            if ended:
                return

    async def _windowed(self, wanted: int) -> int:
        """Return how many bytes may be sent now, at least one unless nobody waits any more."""
        while not (size := min(wanted, self._connection.window(self._number))):
            self._room.clear()
            try:
                async with asyncio.timeout(STALLED_S):
                    await self._room.wait()
            except TimeoutError:
                self._connection.give_up(self._number, ErrorCodes.CANCEL)
            if self.gone:
                return 0
        return size


class Http2(asyncio.Protocol):
    """A connection.

    Args:
        application: answers requests.
        state: of the server: its connections and tasks.
        loop: that it runs on.
        idle_s: how long it stays open without a request, in seconds.
        headers_s: until the headers of a request have come in full, in seconds.
    """

    transport: asyncio.Transport

    def __init__(
        self,
        application: Application,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        *,
        idle_s: float,
        headers_s: float,
    ) -> None:
        self._application = application
        self._state = state
        self._loop = loop
        self._idle_s = idle_s
        self._headers_s = headers_s
        self._frames = Frames(loop.time)
        self._connection = _Connection(config=_CONFIGURATION)
        self._streams: dict[int, Stream] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._flushing = self._leaving = False
        self.late: asyncio.TimerHandle | None = None
        """Ends it unless something is asked for in time."""
        self._of: dict[str, Any] = {}

    # What asyncio tells it.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._state.connections.add(self)  # type: ignore[arg-type]  # it has what `Door` uses
        encrypted = transport.get_extra_info("sslcontext") is not None
        self._of = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
            "scheme": "https" if encrypted else "http",
            "root_path": "",
        }
        self._connection.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        waited = self._frames.block
        try:
            self._frames.look(data)
            for event in self._connection.receive_data(data):
                self._notice(event)
        except TooMuch:
            self._farewell(ErrorCodes.ENHANCE_YOUR_CALM)
        except ProtocolError:
            self._end()  # h2 has said why
        else:
            self._flush()
            if self._frames.block and not waited:
                self._end_after(self._headers_s)
            elif waited and not self._frames.block:
                self._rest()

    def pause_writing(self) -> None:
        self._writable.clear()
        # Who reads no answers sends no more requests, nor what must be answered.
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        if self.late is not None:
            self.late.cancel()
        self._writable.set()
        for stream in [*self._streams.values()]:
            stream.leave()

    # What the door tells it.

    def shutdown(self) -> None:
        """Take no more requests, and close when those under way have been answered."""
        self._leaving = True
        # h2 sends nothing after its own farewell, not even answers.
        farewell = GoAwayFrame(0)
        farewell.last_stream_id = self._connection.highest_inbound_stream_id
        self.transport.write(farewell.serialize())
        if not self._streams:
            self.transport.close()

    # What streams use.

    def acknowledge(self, number: int, counted: int) -> None:
        """Let as much more of requests come as was read."""
        if counted and not self.transport.is_closing():
            self._connection.acknowledge_received_data(counted, number)
            self._flush_soon()

    def begin(self, number: int, status: int, headers: Headers) -> None:
        """Send the head of an answer, soon."""
        pairs = ((name.lower(), value) for name, value in headers)
        kept = [pair for pair in pairs if pair[0] not in _OF_CONNECTIONS]
        self._connection.send_headers(number, [(b":status", b"%d" % status), *kept])
        self._flush_soon()

    def window(self, number: int) -> int:
        """Return how many bytes of an answer may be sent now."""
        return max(0, min(_LONGEST_FRAME, self._connection.local_flow_control_window(number)))

    def write(self, number: int, content: bytes, *, ended: bool) -> None:
        """Send a piece of an answer, for which there is room."""
        self._connection.send_data(number, content, end_stream=ended)
        self._frames.allow(_PER_ANSWER)
        self._flush()

    async def writable(self) -> None:
        """Wait until what was sent is mostly gone."""
        await self._writable.wait()

    def give_up(self, number: int, reason: ErrorCodes) -> None:
        """Answer a request no further, and tell its sender."""
        stream = self._streams.get(number)
        if stream is not None and not stream.gone:
            if not self.transport.is_closing():
                self._connection.reset_stream(number, reason)
                self._flush_soon()
            stream.leave()

    def _notice(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin(event.stream_id, event.headers or [])
        elif isinstance(event, DataReceived):
            counted = event.flow_controlled_length or 0
            stream = self._streams.get(event.stream_id)
            if stream is None or stream.gone:
                self.acknowledge(event.stream_id, counted)
            else:
                stream.take(event.data or b"", counted)
        elif isinstance(event, StreamEnded):
            if (stream := self._streams.get(event.stream_id)) is not None:
                stream.end()
        elif isinstance(event, StreamReset):
            if not event.remote_reset:  # made to, by a frame that breaks the rules
                self._frames.charge(_RESET_COUNTS_AS)
            if (stream := self._streams.get(event.stream_id)) is not None:
                stream.leave()
        elif isinstance(event, WindowUpdated):
            for stream in self._widened(event.stream_id):
                stream.make_room()
        elif isinstance(event, RemoteSettingsChanged):
            encoder = self._connection.encoder
            encoder.header_table_size = min(encoder.header_table_size, _TABLE_BYTES)
            for stream in self._streams.values():
                stream.make_room()
        elif isinstance(event, ConnectionTerminated):
            self._end()  # h2 sends nothing more, not even answers

    def _widened(self, number: int) -> Iterator[Stream]:
        if number == 0:
            yield from self._streams.values()
        elif (stream := self._streams.get(number)) is not None:
            yield stream

    def _begin(self, number: int, headers: list[Any]) -> None:
        if self._leaving or len(self._streams) >= MOST_STREAMS:
            self._connection.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        said: dict[bytes, bytes] = {}
        plain: list[tuple[bytes, bytes]] = []
        for name, value in headers:
            if name[:1] == b":":
                said[bytes(name)] = bytes(value)
            else:
                plain.append((bytes(name), bytes(value)))
        if b":authority" in said:
            plain = [(b"host", said[b":authority"]), *(one for one in plain if one[0] != b"host")]
        method = said[b":method"].decode("latin-1")
        target, _, query = said.get(b":path", b"").partition(b"?")
        scope = {
            **self._of,
            "method": method,
            "path": unquote(target.decode("latin-1")),
            "raw_path": target,
            "query_string": query,
            "headers": plain,
        }
        stream = self._streams[number] = Stream(self, number, method)
        stream.task = task = self._loop.create_task(
            self._application(scope, stream.receive, stream.send), name=f"{method} over HTTP/2"
        )
        self._state.tasks.add(task)
        task.add_done_callback(lambda done: self._ended(number, stream, done))
        if self.late is not None and not self._frames.block:
            self.late.cancel()
            self.late = None

    def _ended(self, number: int, stream: Stream, task: asyncio.Task[None]) -> None:
        """Take note that the application is done with a request."""
        self._state.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # `Door` has logged what it may
        del self._streams[number]
        if self.transport.is_closing():
            return
        if not stream.gone and not (stream.answered and stream.complete):
            reason = ErrorCodes.NO_ERROR if stream.answered else ErrorCodes.INTERNAL_ERROR
            self._connection.reset_stream(number, reason)
        self.acknowledge(number, stream.unread())
        self._flush()
        self._rest()

    def _rest(self) -> None:
        """Close the connection in a while, if nothing is asked for until then."""
        if self._streams or self._frames.block:
            if self.late is not None and not self._frames.block:
                self.late.cancel()
                self.late = None
        elif self._leaving:
            self.transport.close()
        else:
            self._end_after(self._idle_s)

    def _end_after(self, seconds: float) -> None:
        if self.late is not None:
            self.late.cancel()
        self.late = self._loop.call_later(seconds, self._farewell, ErrorCodes.NO_ERROR)

    def _farewell(self, reason: ErrorCodes) -> None:
        """Say why the connection ends, and end it without waiting for the other side."""
        if not self.transport.is_closing():
            self._connection.close_connection(reason)
        self._end()

    def _end(self) -> None:
        self._flush()
        self.transport.close()
        for stream in [*self._streams.values()]:
            stream.leave()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        data = self._connection.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)
