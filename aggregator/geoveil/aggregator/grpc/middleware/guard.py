"""Malformed bytes and every error become a gRPC status, in one place."""

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import grpc.aio
from google.protobuf.message import DecodeError

from geoveil.aggregator.grpc.middleware.failure import fail
from geoveil.aggregator.grpc.middleware.wrapping import (
    Context,
    Handler,
    behaviour_of,
    generates,
    with_behaviour,
)
from geoveil.aggregator.grpc.unpacking import unpacked
from geoveil.aggregator.ops.authorizer import RULES, Public
from geoveil.gp import ParameterError

_LONGEST = 4096
"""Bytes of a request that anyone may make and that is parsed here: a name, a page or a service."""


def guard(handler: Handler, method: str, *, longest: int) -> Handler:
    """Return a handler that reads the requests itself: gRPC calls malformed bytes UNKNOWN.

    Requests of devices with reports come as bytes, and whoever takes them bounds what they hold.
    Other requests that need no token are refused before they are parsed if they are long.

    Callers are told what `errors.public` permits; defects are logged, without any content of
    requests. Handlers are coroutines of one answer to one request, or asynchronous generators;
    others are left alone.

    Args:
        handler: the handler of a method.
        method: the full name of the method.
        longest: the most bytes of a request, also of what a compressed one unpacks to.
    """
    behaviour = behaviour_of(handler)
    deserialize = handler.request_deserializer
    bounded = isinstance(RULES.get(method), Public) and deserialize is not bytes
    read = _reader(deserialize, _LONGEST if bounded else longest)
    read_all = _all_reader(read) if handler.request_streaming else read

    async def answer(message: bytes, context: Context) -> object:
        try:
            return await behaviour(read(message), context)
        except grpc.aio.AbortError:  # the status is set already
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            await fail(error, context, method)

    async def answers(messages: Any, context: Context) -> AsyncIterator[object]:
        try:
            async for response in behaviour(read_all(messages), context):
                yield response
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            await fail(error, context, method)

    if generates(behaviour):
        return with_behaviour(handler, answers, parsed=False)
    if handler.request_streaming or handler.response_streaming:
        return handler
    return with_behaviour(handler, answer, parsed=False)


def _reader(deserialize: Callable[[bytes], Any] | None, longest: int) -> Callable[[bytes], Any]:
    """Return what makes a request of bytes, and says so if it can't."""

    def read(message: bytes) -> Any:
        if deserialize is None or deserialize is bytes:
            return message
        if len(message) > longest:
            raise ParameterError("size of a request", len(message), f"at most {longest:,} bytes")
        message = unpacked(message, longest)
        try:
            return deserialize(message)
        except DecodeError:
            raise ParameterError(
                "request", f"{len(message)} bytes", "a message of the wire contract"
            ) from None

    return read


def _all_reader(
    read: Callable[[bytes], Any],
) -> Callable[[AsyncIterable[bytes]], AsyncIterator[Any]]:
    async def read_all(messages: AsyncIterable[bytes]) -> AsyncIterator[Any]:
        async for message in messages:
            yield read(message)

    return read_all
