"""Forward calls from HTTP to the aggregator over gRPC, on behalf of their callers.

Binary messages pass through unread; JSON is converted from and to Protocol Buffers. The server sees
a single peer, and alone decides on permissions and outcomes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import grpc.aio
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # no types

from geoveil.gateway import forms
from geoveil.gateway.forms import DETAILS_KEY, Metadata, WireFormat
from geoveil.gateway.http import (
    CLOSE,
    MESSAGE_S,
    Body,
    Event,
    GoneError,
    Receive,
    Scope,
    Send,
    TooMuchError,
    after,
    answer,
    write,
)
from geoveil.gateway.ledger import BYTE_OF_JSON, CALL, Account, HeldConnection, Ledger
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, collector_pb2

_LONGEST_JSON = 64 << 10
"""The most bytes of a JSON request, which takes a hundred times as long to read as a binary one."""
_FEW_BYTES = 2 << 10
"""The most bytes of a message that is converted from or to JSON within a millisecond."""
_MOST_CALLS, _MOST_STREAMS, _MOST_STREAMS_EACH = 40, 50, 10
"""The most unary calls, streams, and streams per address under way; the server accepts 100 on a
connection."""
_LONGEST_S = 120.0
"""The longest unary call in seconds."""
_UNREACHABLE = "the server can't be reached: try again later"


@dataclass(frozen=True, slots=True)
class _Method:
    """A service's method and its message classes."""

    path: str
    takes_several: bool
    gives_several: bool
    reads: bool
    """Whether it has no side effects, so that GET is permitted."""
    request: type[Message]
    response: type[Message]

    @property
    def of_several(self) -> bool:
        return self.takes_several or self.gives_several

    @property
    def forms(self) -> Mapping[str, WireFormat]:
        return forms.OF_STREAMS if self.of_several else forms.OF_ONE


_METHODS = {
    f"/{service.full_name}/{method.name}": _Method(
        f"/{service.full_name}/{method.name}",
        method.client_streaming,
        method.server_streaming,
        method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS,
        GetMessageClass(method.input_type),
        GetMessageClass(method.output_type),
    )
    for file in (analyst_pb2, collector_pb2, health_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Path → callable method."""


class _EndedError(Exception):
    """A call has ended with a status other than OK."""

    def __init__(self, code: grpc.StatusCode, text: str, trailing: Metadata = ()) -> None:
        super().__init__(code)
        self.status = (code, text, trailing)


class Calls:
    """Answers HTTP calls, with requests of at most `longest` bytes, through gRPC calls."""

    def __init__(self, channel: grpc.aio.Channel, longest: int, ledger: Ledger) -> None:
        self._channel: Any = channel  # whose messages are bytes
        self._longest = longest
        self._ledger = ledger
        self._free = asyncio.Semaphore(_MOST_CALLS)
        self._streams: Counter[Account] = Counter()

    @staticmethod
    def reads(path: str) -> bool:
        """Return whether a path belongs to a call that permits GET."""
        method = _METHODS.get(path)
        return method is not None and method.reads

    async def __call__(self, scope: Scope, receive: Receive, send: Send, account: Account) -> None:
        """Answer a call to the path "/package.Service/Method"."""
        method = _METHODS.get(scope["path"])
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "GET" and method is not None and method.reads:
            try:
                kind, content = forms.of_query(scope["query_string"])
            except ParameterError as error:
                await answer(send, 400, str(error))
                return
            receive = after(content, receive)
        elif scope["method"] != "POST":
            await answer(send, 405, "calls are POST", [(b"allow", b"POST")])
            return
        every = {**forms.OF_STREAMS, **forms.OF_ONE}
        form = (every if method is None else method.forms).get(kind)
        if form is None:
            accepted = ", ".join(every if method is None else method.forms)
            text = f"content-type must be one of {accepted}"
            await answer(send, 415, text, [(b"accept-post", accepted.encode())])
            return
        connection: HeldConnection = scope["state"]["connection"]
        body = Body(receive, self._ledger, connection)
        call = _Call(self._ledger, account, connection, method, form, headers, body, self._longest)
        with suppress(GoneError):
            await self._answered(call, send)
        self._ledger.hold(connection, -connection.held)

    async def _answered(self, call: "_Call", send: Send) -> None:
        """Make a call and send its responses."""
        started, pieces = False, []
        status: tuple[grpc.StatusCode, str, Metadata] = (grpc.StatusCode.OK, "", ())
        try:
            async for content in self._made(call):
                piece = call.form.message(content)
                if not call.of_streams:
                    pieces.append(piece)
                    continue
                if not started:
                    await send(call.start(status))
                    started = True
                await write(send, piece, more=True)
            status = (grpc.StatusCode.OK, "", call.trailing)
        except _EndedError as error:
            status, pieces = error.status, pieces if call.form.framed else []
        if not started:
            whole = b"".join([*pieces, call.form.end(*status)])
            await send(call.start(status, None if call.of_streams else len(whole)))
            await write(send, whole)
        else:
            await write(send, call.form.end(*status))

    async def _made(self, call: "_Call") -> AsyncIterator[bytes]:
        """Yield a call's responses in its caller's format.

        Raises:
            _EndedError: if the call ends with an error.
            GoneError: if its caller has disconnected.
        """
        method, account = call.method, call.account
        if not self._ledger.charge(account, CALL):
            raise _limited(self._ledger.wait_s(account))
        if method is None:
            raise _EndedError(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")
        try:
            patience = forms.timeout_s(call.texts)
            first = await call.next()
            if first is None and not method.takes_several:
                raise _EndedError(grpc.StatusCode.INVALID_ARGUMENT, "there is no request")
            async with (
                self._slot(method, account),
                aclosing(self._asked(method, call, patience, first)) as answers,
            ):
                async for content in answers:
                    yield content
        except ParameterError as error:
            raise _unsound(error) from None
        except TimeoutError:
            text = f"a request must come within {MESSAGE_S:g} s"
            raise _EndedError(grpc.StatusCode.DEADLINE_EXCEEDED, text) from None
        except TooMuchError:
            raise _limited(1.0) from None

    async def _asked(
        self, method: _Method, call: "_Call", patience: float | None, first: bytes | None
    ) -> AsyncGenerator[bytes, None]:
        """Call the server, and yield its responses in the caller's format."""
        if patience is None and not method.gives_several:
            patience = _LONGEST_S
        # A stream of one request and one answer would take half as much time again.
        options: dict[str, Any] = {"metadata": call.metadata, "timeout": patience}
        made: Any = (
            self._channel.stream_stream(method.path)(**options)
            if method.of_several
            else self._channel.unary_unary(method.path)(first, **options)
        )
        watching = asyncio.ensure_future(call.gone(made.cancel))
        try:
            async for content in _answers(made, method, call, first):
                if not self._ledger.hold(call.connection, len(content)):
                    raise _limited(1.0)
                yield await call.written(content)
                if call.of_streams:
                    self._ledger.hold(call.connection, -len(content))
            call.trailing = _shown(await made.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            raise _ended(error) from None
        except asyncio.CancelledError:
            if call.left:
                raise GoneError from None
            raise
        finally:
            watching.cancel()
            made.cancel()

    @asynccontextmanager
    async def _slot(self, method: _Method, account: Account) -> AsyncIterator[None]:
        """Wait for a free slot at the server; refuse streams beyond the limits."""
        if not method.of_several:
            async with self._free:
                yield
            return
        own = self._streams[account]
        if own >= _MOST_STREAMS_EACH or self._streams.total() >= _MOST_STREAMS:
            raise _limited(10.0)
        self._streams[account] += 1
        try:
            yield
        finally:
            self._streams[account] -= 1
            if not self._streams[account]:
                del self._streams[account]


async def _answers(
    made: Any, method: _Method, call: "_Call", first: bytes | None
) -> AsyncIterator[bytes]:
    """Yield the server's responses while sending it further requests."""
    if not method.of_several:
        yield await made
        return
    request = first
    if method.takes_several:  # each gets its response before the next is sent
        while request is not None:
            await made.write(request)
            content: Any = await made.read()
            if content is grpc.aio.EOF:
                break
            yield content
            request = await call.next()
        await made.done_writing()
    else:
        await made.write(request)
        await made.done_writing()
    while (content := await made.read()) is not grpc.aio.EOF:
        yield content
    if await made.code() is not grpc.StatusCode.OK:
        raise grpc.aio.AioRpcError(
            await made.code(),
            await made.initial_metadata(),
            await made.trailing_metadata(),
            await made.details(),
        )


class _Call:
    """An incoming call."""

    def __init__(
        self,
        ledger: Ledger,
        account: Account,
        connection: HeldConnection,
        method: _Method | None,
        form: WireFormat,
        headers: Mapping[bytes, str],
        body: Body,
        longest: int,
    ) -> None:
        self.account = account
        self.connection = connection
        self.method = method
        self.form = form
        self.of_streams = method is not None and method.gives_several
        self.texts = {key.decode("latin-1"): value for key, value in headers.items()}
        self.trailing: Metadata = ()
        self.left = False
        """Whether the caller has disconnected."""
        self._ledger = ledger
        self._body = body
        self._longest = longest
        self._read_one = False

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """The caller's metadata for the server."""
        said = self.texts.get("authorization")
        return [] if said is None else [("authorization", said.encode("ascii", "replace").decode())]

    async def next(self) -> bytes | None:
        """Return the next request in binary; None at the end."""
        async with asyncio.timeout(MESSAGE_S):
            content = await (self._frame() if self.form.framed else self._whole())
        if content is None or not self.form.in_json or self.method is None:
            return content
        if len(content) > _LONGEST_JSON:
            expected = f"at most {_LONGEST_JSON:,} bytes in JSON"
            raise ParameterError("size of a request", len(content), expected)
        if not self._ledger.charge(self.account, BYTE_OF_JSON * len(content)):
            raise _limited(self._ledger.wait_s(self.account))
        return await _changed(partial(forms.from_json, content, self.method.request), len(content))

    async def written(self, content: bytes) -> bytes:
        """Return a response in the caller's format."""
        if not self.form.in_json or self.method is None:
            return content
        return await _changed(partial(forms.to_json, content, self.method.response), len(content))

    async def gone(self, cancel: Any) -> None:
        """Cancel the call when its caller disconnects."""
        while self._body.complete:
            try:
                await self._body.more()
            except GoneError:
                self.left = True
                cancel()
                return

    def start(
        self, status: tuple[grpc.StatusCode, str, Metadata], size: int | None = None
    ) -> Event:
        """Return the head of the response."""
        code, _, trailing = status
        form = self.form
        well = form.framed or code is grpc.StatusCode.OK
        kind = form.content_type if well else "application/json"
        fields = [("content-type", kind), ("cache-control", "no-store")]
        if size is not None:
            fields.append(("content-length", str(size)))
        if not form.framed:
            fields += [(f"trailer-{key}", value) for key, value in forms.shown_metadata(trailing)]
        headers = [(key.encode(), value.encode()) for key, value in fields]
        if not self._body.complete or code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            headers.append(CLOSE)  # the rest of the request is not read
        return {"type": "http.response.start", "status": form.start(code), "headers": headers}

    async def _whole(self) -> bytes | None:
        """Return the whole body, which is one request."""
        if self._read_one:
            return None
        self._read_one = True
        said = self.texts.get("content-length", "")
        self._admit(int(said) if said.isascii() and said.isdigit() else 0)
        body = self._body
        while not body.complete:
            await body.more()
            self._admit(len(body.content))
        self._check_encoding("content-encoding")
        return body.take(len(body.content))

    async def _frame(self) -> bytes | None:
        """Return the content of the next frame; None at the end."""
        head, body = forms.FRAME_HEADER.size, self._body
        while len(body.content) < head and not body.complete:
            await body.more()
        if not body.content:
            return None
        if len(body.content) >= head:
            flags, length = forms.FRAME_HEADER.unpack(body.content[:head])
            self._admit(length)
            if flags & ~forms.PACKED:
                raise ParameterError("flags of a frame", flags, "0 or 1")
            while len(body.content) < head + length and not body.complete:
                await body.more()
            if len(body.content) >= head + length:
                content = body.take(head + length)[head:]
                name = "grpc-encoding" if self.form.grpc_web else "connect-content-encoding"
                self._check_encoding(name)
                return content
        raise ParameterError("request", f"{len(body.content)} bytes", "whole frames")

    def _admit(self, size: int) -> None:
        if size > self._longest:
            # In the words of gRPC's core.
            text = f"Received message larger than max ({size} vs. {self._longest})"
            raise _EndedError(grpc.StatusCode.RESOURCE_EXHAUSTED, text)

    def _check_encoding(self, header: str) -> None:
        if self.texts.get(header, "identity") not in ("identity", "gzip"):
            text = f"{header} must be identity or gzip"
            raise _EndedError(grpc.StatusCode.UNIMPLEMENTED, text)


async def _changed(change: Any, size: int) -> bytes:
    """Return a message converted from or to JSON, off the event loop if large."""
    changed: bytes = change() if size < _FEW_BYTES else await asyncio.to_thread(change)
    return changed


def _shown(trailing: Any) -> Metadata:
    """Return the server's own trailing metadata."""
    return [
        (key, value)
        for key, value in trailing or ()
        if key == DETAILS_KEY or key.startswith("geoveil-")
    ]


def _ended(error: grpc.aio.AioRpcError) -> _EndedError:
    trailing = _shown(error.trailing_metadata())
    text = error.details() or ""
    if error.code() is grpc.StatusCode.UNAVAILABLE and not trailing:
        text = _UNREACHABLE  # gRPC's own text names the socket
    elif error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = "the call took too long"
    return _EndedError(error.code(), text, trailing)


def _unsound(error: ParameterError) -> _EndedError:
    of_field = BadRequest.FieldViolation(field=error.name, description=f"must be {error.expected}")
    info = ErrorInfo(reason="INVALID_ARGUMENT", domain="geoveil")
    details = [info, BadRequest(field_violations=[of_field])]
    return _said(grpc.StatusCode.INVALID_ARGUMENT, str(error), *details)


def _limited(wait_s: float) -> _EndedError:
    retry = RetryInfo()
    retry.retry_delay.FromMilliseconds(round(1000 * wait_s))
    info = ErrorInfo(reason="RATE_LIMITED", domain="geoveil")
    text = "too many calls at once: try again later"
    return _said(grpc.StatusCode.RESOURCE_EXHAUSTED, text, info, retry)


def _said(code: grpc.StatusCode, text: str, *details: Message) -> _EndedError:
    status = Status(code=code.value[0], message=text)
    for detail in details:
        status.details.add().Pack(detail)
    return _EndedError(code, text, [(DETAILS_KEY, status.SerializeToString())])
