"""Malformed bytes and every error become a gRPC status, in one place."""

import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from geoveil.aggregator.diagnostics import traceback_without_values
from geoveil.aggregator.edge.surround import (
    Context,
    Handler,
    behaviour_of,
    generates,
    with_behaviour,
)
from geoveil.aggregator.errors import Code, public
from geoveil.aggregator.status_details import trailing_metadata
from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)


def guard(handler: Handler, method: str) -> Handler:
    """Return a handler that reads the requests itself: gRPC calls malformed bytes UNKNOWN.

    Callers are told what `errors.public` permits; defects are logged, without any content of
    requests. Handlers are coroutines of one answer to one request, or asynchronous generators;
    others are left alone.
    """
    behaviour = behaviour_of(handler)
    read = _reader(handler.request_deserializer)
    read_all = _all_reader(read) if handler.request_streaming else read

    async def fail(error: Exception, context: Context) -> NoReturn:
        told = public(error)
        if told.code is Code.INTERNAL:
            fields = {"method": method[1:], "exception": traceback_without_values(error)}
            _LOG.error("defect", extra=fields)
        trailing = (*(context.trailing_metadata() or ()), *trailing_metadata(told))
        await context.abort(grpc.StatusCode[told.status], told.text, trailing)

    async def answer(message: bytes, context: Context) -> object:
        try:
            return await behaviour(read(message), context)
        except grpc.aio.AbortError:  # the status is set already
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            await fail(error, context)

    async def answers(messages: Any, context: Context) -> AsyncIterator[object]:
        try:
            async for response in behaviour(read_all(messages), context):
                yield response
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            await fail(error, context)

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
