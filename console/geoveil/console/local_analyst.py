"""An analyst's client that asks the server of this process, through all that stands before it.

A call goes to the web door's application as if it came over HTTP: limits, access, metrics, log and
errors are those of every other caller, and the numbers are read by the code that all analysts use.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from geoveil.aggregator.web.calls import Calls
from geoveil.aggregator.web.forms import FRAME_HEADER
from geoveil.analyst import Analyst, ServerError
from geoveil.analyst.calls import Call
from geoveil.proto.v1 import analyst_pb2, collector_pb2

_ANALYST = analyst_pb2.DESCRIPTOR.services_by_name["Analyst"]
_COLLECTOR = collector_pb2.DESCRIPTOR.services_by_name["Collector"]
_TIMEOUT_S = 60.0
_END = 0x02
"""The flag of the frame that ends a stream of Connect."""
_Result = TypeVar("_Result")


class LocalAnalyst(Analyst):
    """`Analyst` for threads beside the event loop of the server that it asks.

    Args:
        calls: what answers the calls of the web door.
        loop: that runs it.
        token: of who asks; None where the server needs none.
        client: host and port of who asks.
    """

    def __init__(
        self,
        calls: Calls,
        loop: asyncio.AbstractEventLoop,
        token: str | None,
        client: tuple[str, int],
    ) -> None:
        self._calls = calls
        self._loop = loop
        self._client = client
        self._headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._timeout_s = _TIMEOUT_S

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def ask_in_bytes(self, method: str, request: bytes, timeout_s: float | None) -> bytes:
        """Return the answer to a call that somebody else has put into words."""
        asking = self._answered(method, request, timeout_s)
        answered: Future[bytes] = asyncio.run_coroutine_threadsafe(asking, self._loop)
        return answered.result()

    def _unary(self, call: Call[_Result]) -> _Result:
        content = self.ask_in_bytes(call.method, call.request.SerializeToString(), call.timeout_s)
        return call.read(described(call.method).FromString(content))

    def _stream(self, call: Call[_Result]) -> Iterator[_Result]:
        request = call.request.SerializeToString()
        for content in self.stream_in_bytes(call.method, request, call.timeout_s):
            yield call.read(described(call.method).FromString(content))

    def stream_in_bytes(
        self, method: str, request: bytes, timeout_s: float | None
    ) -> Generator[bytes, None, None]:
        """Yield the answers to a call that somebody else has put into words."""
        frames: asyncio.Queue[bytes | ServerError | None] = asyncio.Queue(2)
        filling = self._fill(method, request, timeout_s, frames)
        reading = asyncio.run_coroutine_threadsafe(filling, self._loop)
        try:
            while True:
                got = asyncio.run_coroutine_threadsafe(frames.get(), self._loop).result()
                if got is None:
                    return
                if isinstance(got, ServerError):
                    raise got
                yield got
        finally:
            reading.cancel()

    async def _answered(self, method: str, request: bytes, timeout_s: float | None) -> bytes:
        asked = self._asked(method, request, timeout_s, b"application/proto")
        parts = [part async for part in asked]
        return b"".join(parts)

    async def _fill(
        self, method: str, request: bytes, timeout_s: float | None, frames: "asyncio.Queue[Any]"
    ) -> None:
        """Put what a stream of answers brings into a queue, then None or the error."""
        held = bytearray()
        try:
            kind = b"application/connect+proto"
            async for part in self._asked(method, request, timeout_s, kind):
                held += part
                while len(held) >= FRAME_HEADER.size:
                    flags, length = FRAME_HEADER.unpack(held[: FRAME_HEADER.size])
                    end = FRAME_HEADER.size + length
                    if len(held) < end:
                        break
                    content = bytes(held[FRAME_HEADER.size : end])
                    del held[:end]
                    if flags & _END:
                        error = json.loads(content or b"{}").get("error")
                        await frames.put(None if error is None else _failed(error))
                    else:
                        await frames.put(content)
        except ServerError as error:
            await frames.put(error)

    async def _asked(
        self, method: str, content: bytes, timeout_s: float | None, kind: bytes
    ) -> AsyncIterator[bytes]:
        """Yield the body of the answer to a call."""
        if kind != b"application/proto":
            content = FRAME_HEADER.pack(0, len(content)) + content
        service = _ANALYST if method in _ANALYST.methods_by_name else _COLLECTOR
        headers = [(b"content-type", kind), *self._headers]
        if timeout_s is not None:
            headers.append((b"connect-timeout-ms", b"%d" % min(1e3 * timeout_s, 9e9)))
        scope = {
            "type": "http",
            "method": "POST",
            "path": f"/{service.full_name}/{method}",
            "headers": headers,
            "client": self._client,
        }
        asked = [{"type": "http.request", "body": content, "more_body": False}]
        parts: asyncio.Queue[Any] = asyncio.Queue(2)
        never = asyncio.Event()

        async def receive() -> Any:
            if asked:
                return asked.pop()
            await never.wait()  # the caller stays until the answer is there
            return {"type": "http.disconnect"}

        async def run() -> None:
            try:
                await self._calls(scope, receive, parts.put)
            except Exception:
                await parts.put(None)  # who waits for more is told by the error
                raise
            await parts.put(None)

        running = asyncio.create_task(run(), name="call of the console")
        status, body = 200, bytearray()
        try:
            while (event := await parts.get()) is not None:
                if event["type"] == "http.response.start":
                    status = event["status"]
                elif status == 200:
                    yield event.get("body", b"")
                else:
                    body += event.get("body", b"")
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
        if status != 200:
            try:
                told = json.loads(body)
            except ValueError:
                told = {"code": "unavailable", "message": body.decode("utf-8", "replace")}
            raise _failed(told)


def described(method: str) -> Any:
    """Return the class of the answers to a method."""
    of_analysts = method in _ANALYST.methods_by_name
    module, service = (analyst_pb2, _ANALYST) if of_analysts else (collector_pb2, _COLLECTOR)
    return getattr(module, service.methods_by_name[method].output_type.name)


def _failed(told: dict[str, Any]) -> ServerError:
    """Return the error that Connect tells in JSON."""
    delay = None
    for detail in told.get("details", ()):
        if detail.get("type") == "google.rpc.RetryInfo":
            with suppress(ValueError):
                delay = float(str(detail.get("debug", {}).get("retryDelay", "")).rstrip("s"))
    code = str(told.get("code", "unknown")).upper().replace("CANCELED", "CANCELLED")
    return ServerError(code, str(told.get("message", "")), retry_after_s=delay)
