"""Calls that come over HTTP: each stands in for a call of gRPC, before the same layers.

`Calls` takes services as a server of gRPC does, so what is around every method (limits, access,
metrics, errors) is `geoveil.aggregator.grpc.middleware` for both, and answers are alike.
"""

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from geoveil.aggregator.domain.errors import CATALOGUE, Code, PublicError, public
from geoveil.aggregator.domain.lane import Lane
from geoveil.aggregator.grpc.holdings import Call as Held
from geoveil.aggregator.grpc.holdings import Holdings
from geoveil.aggregator.grpc.middleware import trailing_metadata
from geoveil.aggregator.grpc.submissions import unpacked
from geoveil.aggregator.ops.diagnostics import traceback_without_values
from geoveil.aggregator.web import forms
from geoveil.aggregator.web.forms import Form, Metadata
from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)
Event: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

MESSAGE_S = 60.0
"""Until a request must have come, from when it is waited for."""
_LONGEST_JSON = 64 << 10
"""Bytes of a request in JSON, which takes a hundred times as long to read as a binary one."""
_JSON_COUNTS_AS = 10
"""A byte of JSON is charged as so many."""
_FEW_BYTES = 2 << 10
"""Bytes of a message that is changed from or into JSON within a millisecond."""
_QUICK_S = 1.0
"""How long a call runs until it is noticed if its caller is gone."""
_UNCOUNTED = 32 << 10
"""Bytes of a request that are within what any call counts as."""
_PIECE = 60_000
"""Bytes of an answer that are handed over at once, less than what a transport holds back for."""
CLOSE: tuple[bytes, bytes] = (b"connection", b"close")


class Charge(Protocol):
    """What a request costs its sender before it is read."""

    def __call__(self, peer: str, size: int) -> object:
        """Let a request of so many bytes pass, or raise."""
        ...


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of a service, and the classes of its messages."""

    answer: Callable[[None, Any], Any]
    """A coroutine of one answer, or an asynchronous generator of several."""
    streams: bool
    forms: Mapping[str, Form]
    request: type[Message] | None
    """None if there is no such method."""
    response: type[Message]


class Calls:
    """Takes services in place of a server of gRPC, and answers calls to them.

    Args:
        longest: bytes of a request.
        holdings: what calls hold, also of requests that are still to come in full.
        lane: where large messages are changed from and into JSON.
        charge: for a request in JSON.
    """

    def __init__(self, longest: int, holdings: Holdings, lane: Lane, charge: Charge) -> None:
        self.longest = longest
        self.holdings = holdings
        self._lane = lane
        self._charge = charge
        self._handlers: dict[str, Any] = {}
        self._methods: dict[str, _Method] = {}

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Take the methods of a service, as `Middleware` adds them."""
        self._handlers |= {f"/{service}/{name}": handler for name, handler in handlers.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call; its path is "/package.Service/Method"."""
        headers = [
            (key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"]
        ]
        method = self._method(scope["path"])
        if scope["method"] != "POST":
            await answer(send, 405, "calls are POST", [(b"allow", b"POST")])
            return
        kind = dict(headers).get("content-type", "").partition(";")[0].strip().lower()
        form = method.forms.get(kind)
        if form is None:
            accepted = ", ".join(method.forms)
            text = f"content-type must be one of {accepted}"
            await answer(send, 415, text, [(b"accept-post", accepted.encode())])
            return
        call = Call(self, peer_of(scope), headers, form, method.request, receive)
        if method.streams:
            await self._stream(method, call, send)
        else:
            await self._single(method, call, send)

    async def _single(self, method: _Method, call: "Call", send: Send) -> None:
        """Answer a call of one answer: everything is known before the first byte is sent."""
        pieces = []
        try:
            async with call:
                content: bytes = await method.answer(None, call)
                pieces = [call.form.message(await self._written(content, call, method))]
            pieces.append(call.form.end(*call.status))
            content = b"".join(pieces)
            await send(_start(call, len(content)))
            await _write(send, content, more=False)
        finally:
            call.finish()

    async def _stream(self, method: _Method, call: "Call", send: Send) -> None:
        """Answer a call of several answers, each when it is there."""
        started = False
        try:
            async with call, aclosing(method.answer(None, call)) as answers:
                async for content in answers:
                    written = await self._written(content, call, method)
                    if not started:
                        await send(_start(call))
                        started = True
                    await _write(send, call.form.message(written), more=True)
            if not started:
                await send(_start(call))
            await _write(send, call.form.end(*call.status), more=False)
        finally:
            call.finish()

    def _method(self, path: str) -> _Method:
        found = self._methods.get(path)
        return self._found(path) if found is None else found

    def _found(self, path: str) -> _Method:
        """Return the method of a path that is asked for the first time, or one that refuses."""
        handler = self._handlers.get(path, self._handlers["//"])
        streams = bool(handler.response_streaming)
        behaviour = handler.stream_stream if streams else handler.stream_unary
        described = _described(path)
        if described is None:
            every = {**forms.OF_STREAMS, **forms.OF_ONE}
            return _Method(behaviour, streams, every, None, Empty)
        self._methods[path] = method = _Method(
            behaviour,
            streams,
            forms.OF_STREAMS if streams else forms.OF_ONE,
            GetMessageClass(described.input_type),
            GetMessageClass(described.output_type),
        )
        return method

    async def read(self, content: bytes, call: "Call") -> bytes:
        """Return a request that came, in binary."""
        kind = call.request
        if kind is None or not call.form.in_json:
            return content
        if len(content) > _LONGEST_JSON:
            expected = f"at most {_LONGEST_JSON:,} bytes in JSON"
            raise ParameterError("size of a request", len(content), expected)
        content = unpacked(content, _LONGEST_JSON)
        self._charge(call.peer(), _JSON_COUNTS_AS * len(content))
        if len(content) < _FEW_BYTES:
            return forms.from_json(content, kind)
        return await self._lane.run(forms.from_json, content, kind)

    async def _written(self, content: bytes, call: "Call", method: _Method) -> bytes:
        """Return an answer as its caller asked for it."""
        if not call.form.in_json:
            return content
        if len(content) < _FEW_BYTES:
            return forms.to_json(content, method.response)
        return await self._lane.run(forms.to_json, content, method.response)


class Call:
    """Stands in for a context of gRPC, as far as `Middleware` and the servicers use one.

    As an asynchronous context manager it ends what is within it when the caller's patience does, or
    the caller is gone, and takes note of how that ended; errors do not leave it.
    """

    def __init__(
        self,
        calls: Calls,
        peer: str,
        headers: Sequence[tuple[str, str]],
        form: Form,
        request: type[Message] | None,
        receive: Receive,
    ) -> None:
        self.form = form
        self.request = request
        self.complete = False
        """Whether all that the caller sends has come."""
        self.ended: grpc.StatusCode | None = None
        self.gone = False
        self._text = ""
        self._calls = calls
        self._peer = peer
        self._metadata = headers
        self._headers = dict(headers)
        self._receive = receive
        self._body = bytearray()
        self._coming: Held | None = None
        self._read_one = self._timed = False
        self._trailing: Metadata = ()
        self._callbacks: list[Callable[[Any], None]] = []
        self._timeout = asyncio.timeout(None)
        self._looking: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None

    # What a context of gRPC has.

    def peer(self) -> str:
        """Return the address of the other side, as gRPC writes it."""
        return self._peer

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        """Return the headers."""
        return self._metadata

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Set what is sent when the call has ended."""
        self._trailing = metadata

    def trailing_metadata(self) -> Metadata:
        """Return what is sent when the call has ended."""
        return self._trailing

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Have something called when all is sent."""
        self._callbacks.append(callback)

    def code(self) -> grpc.StatusCode | None:
        """Return how the call ended, if it was aborted."""
        return self.ended

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> None:
        """End the call with an error."""
        self.ended, self._text = code, details
        self._trailing = trailing_metadata or self._trailing
        raise grpc.aio.AbortError

    async def read(self) -> Any:
        """Return the next request, in binary; `grpc.aio.EOF` if there are no more."""
        if not self._timed:
            self._timed = True
            patience = forms.timeout_s(self._headers)
            if patience is not None:
                self._timeout.reschedule(asyncio.get_running_loop().time() + patience)
        content = None
        try:
            async with asyncio.timeout(MESSAGE_S):
                content = await (self._frame() if self.form.framed else self._whole())
        except TimeoutError:
            text = f"a request must come within {MESSAGE_S:g} s"
            await self.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
        finally:
            self._hold_no_more()  # who asked for it counts it now
        return grpc.aio.EOF if content is None else await self._calls.read(content, self)

    # What the door uses.

    @property
    def status(self) -> tuple[grpc.StatusCode, str, Metadata]:
        """How the call ended, in words, and what goes with it."""
        return self.ended or grpc.StatusCode.OK, self._text, self._trailing

    def finish(self) -> None:
        """Tell those who wait for it that all is sent."""
        self._hold_no_more()
        if self._looking is not None:
            self._looking.cancel()
        if self._watching is not None:
            self._watching.cancel()
        for callback in self._callbacks:
            callback(self)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            self.ended, self._text = grpc.StatusCode.DEADLINE_EXCEEDED, "the call took too long"
            return True
        if error is None or isinstance(error, grpc.aio.AbortError):
            return True
        told = public(error) if isinstance(error, Exception) else _STOPPING
        if told.code is Code.INTERNAL:
            _LOG.error("defect", extra={"exception": traceback_without_values(error)})
        self.ended, self._text = grpc.StatusCode[told.status], told.text
        self._trailing = (*self._trailing, *trailing_metadata(told))
        return isinstance(error, Exception | CancelledError)

    async def _whole(self) -> bytes | None:
        """Return the body, which is one request."""
        if self._read_one:
            return None
        self._read_one = True
        await self._admit(self._length())
        while not self.complete:
            await self._more()
            await self._admit(len(self._body))
        await self._check_encoding("content-encoding")
        return self._taken(len(self._body))

    async def _frame(self) -> bytes | None:
        """Return what is in the next frame; None if there is no more."""
        head = forms.FRAME_HEADER.size
        while len(self._body) < head and not self.complete:
            await self._more()
        if not self._body:
            return None
        if len(self._body) >= head:
            flags, length = forms.FRAME_HEADER.unpack(self._body[:head])
            await self._admit(length)
            if flags & ~forms.PACKED:
                raise ParameterError("flags of a frame", flags, "0 or 1")
            while len(self._body) < head + length and not self.complete:
                await self._more()
            if len(self._body) >= head + length:
                content = self._taken(head + length)[head:]
                name = "grpc-encoding" if self.form.grpc_web else "connect-content-encoding"
                await self._check_encoding(name)
                return content
        raise ParameterError("request", f"{len(self._body)} bytes", "whole frames")

    def _length(self) -> int:
        text = self._headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() else 0

    async def _admit(self, size: int) -> None:
        most = self._calls.longest
        if size > most:
            text = f"Received message larger than max ({size} vs. {most})"  # as gRPC's core says it
            await self.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)

    async def _check_encoding(self, header: str) -> None:
        if self._headers.get(header, "identity") not in ("identity", "gzip"):
            text = f"{header} must be identity or gzip"
            await self.abort(grpc.StatusCode.UNIMPLEMENTED, text)

    def _taken(self, size: int) -> bytes:
        taken = bytes(memoryview(self._body)[:size])
        del self._body[:size]
        return taken

    async def _more(self) -> None:
        event = await self._receive()
        if event["type"] == "http.disconnect":
            self.gone = True
            raise CancelledError
        self._body += event.get("body", b"")
        if len(self._body) > _UNCOUNTED:
            if self._coming is None:
                self._coming = self._calls.holdings.begin(self._peer)
            self._calls.holdings.resize(self._coming, len(self._body))
        if not event.get("more_body", False):
            self.complete = True
            self._looking = asyncio.get_running_loop().call_later(_QUICK_S, self._watch)

    def _hold_no_more(self) -> None:
        if self._coming is not None:
            self._calls.holdings.end(self._coming)
            self._coming = None

    def _watch(self) -> None:
        self._watching = asyncio.create_task(self._notice(), name="notice who is gone")

    async def _notice(self) -> None:
        """End the call when its caller is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())


def _described(path: str) -> MethodDescriptor | None:
    """Return what is known of a method, in the contract and in what the server uses."""
    try:
        return descriptor_pool.Default().FindMethodByName(path[1:].replace("/", "."))
    except KeyError:
        return None


_STOPPING = PublicError(Code.STOPPING, CATALOGUE[Code.STOPPING].text, 2.0)


def _start(call: Call, size: int | None = None) -> Event:
    code, _, trailing = call.status
    form = call.form
    kind = form.content_type if form.framed or call.ended is None else "application/json"
    fields = [("content-type", kind), ("cache-control", "no-store")]
    if size is not None:
        fields.append(("content-length", str(size)))
    if not form.framed:
        fields += [(f"trailer-{key}", value) for key, value in forms.shown_metadata(trailing)]
    headers = [(key.encode(), value.encode()) for key, value in fields]
    if not call.complete:
        headers.append(CLOSE)  # the rest of the request is not waited for
    return {"type": "http.response.start", "status": form.start(code), "headers": headers}


async def _write(send: Send, content: bytes, *, more: bool) -> None:
    """Hand over a part of an answer; the last one only once most of the others is sent."""
    for at in range(0, len(content), _PIECE):
        piece = content[at : at + _PIECE]
        last = not more and len(content) <= _PIECE
        await send({"type": "http.response.body", "body": piece, "more_body": not last})
    if not more and (len(content) > _PIECE or not content):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def peer_of(scope: Scope) -> str:
    """Return who sends a request, as gRPC writes it."""
    host, port = scope["client"] or ("", 0)
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"


async def answer(send: Send, status: int, text: str, headers: Headers = ()) -> None:
    """Answer a request that is no call, or none that can be read."""
    content = f"{text}\n".encode()
    fields = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(content)).encode()),
        CLOSE,
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content, "more_body": False})
