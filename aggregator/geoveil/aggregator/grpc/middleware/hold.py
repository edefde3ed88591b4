"""What a caller may hold, however it behaves: the bytes of its calls, and how many it makes.

Requests are read here, so that a call is known before its request has come, and responses are
serialised here, so that their size is.
"""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio

from geoveil.aggregator.domain.errors import ServiceError
from geoveil.aggregator.grpc.holdings import Call, Holdings
from geoveil.aggregator.grpc.middleware.failure import fail
from geoveil.aggregator.grpc.middleware.wrapping import (
    Context,
    Handler,
    behaviour_of,
    generates,
    of_bytes,
)
from geoveil.aggregator.ops.rates import Rate, RateLimits, TokenBuckets, peer_address

_IN_VAIN = Rate(per_second=100.0, burst=200.0)
"""Calls of one address that were taken back or came too fast: beyond it, those of its connections
are silenced that are beyond `_IN_VAIN_EACH` too."""
_IN_VAIN_EACH = Rate(per_second=2.0, burst=20.0)


class Hold:
    """A layer around those that work; only what observes is outside of it.

    Args:
        holdings: what calls hold.
        limits: how fast they may come.
        silence: hears no more of the connection of a peer.
    """

    def __init__(
        self, holdings: Holdings, limits: RateLimits, silence: Callable[[str], object]
    ) -> None:
        self._holdings = holdings
        self._limits = limits
        self._silence = silence
        self._in_vain = TokenBuckets(_IN_VAIN)
        self._in_vain_each = TokenBuckets(_IN_VAIN_EACH)

    def __call__(self, handler: Handler, method: str) -> Handler:
        """Return a handler of bytes, which are counted."""
        behaviour, several = behaviour_of(handler), handler.request_streaming
        serialize = handler.response_serializer or bytes

        async def answer(_: Any, context: Context) -> bytes:
            call = await self._begin(context, method)
            try:
                response = await behaviour(await self._only(call, context), context)
                return self._held(call, serialize(response))
            except BaseException as error:  # noqa: BLE001 - it is raised again
                response = None  # see _end
                await self._end(error, context, method)

        async def answers(_: Any, context: Context) -> AsyncIterator[bytes]:
            call = await self._begin(context, method)
            response: Any = None
            try:
                requests: Any = (
                    self._each(call, context) if several else await self._only(call, context)
                )
                async for response in behaviour(requests, context):
                    # Until the next one, as whoever made it still knows of it.
                    yield self._held(call, serialize(response))
            except BaseException as error:  # noqa: BLE001 - it is raised again
                requests = response = None
                await self._end(error, context, method)

        return of_bytes(handler, answers if generates(behaviour) else answer)

    async def _begin(self, context: Context, method: str) -> Call:
        peer = context.peer()
        try:
            call = self._holdings.begin(peer)
            context.add_done_callback(self._ends(call))
            self._limits.admit_call(peer)
        except ServiceError as error:
            self._count_in_vain(peer)
            await fail(error, context, method)
        return call

    def _held(self, call: Call, response: bytes) -> bytes:
        """Return a response that the call holds until it is sent."""
        self._holdings.resize(call, len(response))
        return response

    async def _end(self, error: BaseException, context: Context, method: str) -> NoReturn:
        """End a call that failed, so that it holds nothing."""
        # gRPC keeps the error with the call, of which the frames of the error know: whatever they
        # hold, such as a request, would stay until garbage is collected.
        error.__traceback__ = error.__context__ = None
        if isinstance(error, CancelledError):
            self._count_in_vain(context.peer())
        if isinstance(error, ServiceError):
            await fail(error, context, method)
        raise error

    def _ends(self, call: Call) -> Any:  # the stubs want more of a callback than it is given
        return lambda context: self._holdings.end(call)

    async def _only(self, call: Call, context: Context) -> bytes:
        """Return the request of a call that has one."""
        message = await self._next(call, context)
        if message is None:
            self._count_in_vain(context.peer())
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "there is no request")
        return message

    async def _each(self, call: Call, context: Context) -> AsyncIterator[bytes]:
        """Yield the requests of a call as they come; each after the first counts as a call."""
        while (message := await self._next(call, context)) is not None:
            yield message
            self._limits.admit_call(context.peer())

    async def _next(self, call: Call, context: Context) -> bytes | None:
        self._holdings.read(call)
        message: Any = await context.read()
        if message is grpc.aio.EOF:
            message = None
        self._holdings.has_read(call, len(message or b""))
        return message  # type: ignore[no-any-return]  # bytes, as nothing deserialises them

    def _count_in_vain(self, peer: str) -> None:
        of_all = self._in_vain.take(peer_address(peer), 1)
        of_one = self._in_vain_each.take(peer.encode(), 1)
        if of_all and of_one:
            self._silence(peer)
