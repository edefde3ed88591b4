"""Malformed bytes and every error become a gRPC status, in one place."""

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import grpc.aio
from google.protobuf.message import DecodeError

from geoveil.aggregator.edge.failure import fail
from geoveil.aggregator.edge.surround import (
    Context,
    Handler,
    behaviour_of,
    generates,
    with_behaviour,
)
from geoveil.gp import ParameterError


def guard(handler: Handler, method: str) -> Handler:
    """Return a handler that reads the requests itself: gRPC calls malformed bytes UNKNOWN.

    Callers are told what `errors.public` permits; defects are logged, without any content of
    requests. Handlers are coroutines of one answer to one request, or asynchronous generators;
    others are left alone.
    """
    behaviour = behaviour_of(handler)
    read = _reader(handler.request_deserializer)
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


def _reader(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Return what makes a request of bytes, and says so if it can't."""

    def read(message: bytes) -> Any:
        if deserialize is None:
            return message
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
