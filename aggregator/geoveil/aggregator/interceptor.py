"""The edge: malformed bytes and every error become a gRPC status, in one place."""

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from inspect import isasyncgenfunction
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from geoveil.aggregator.diagnostics import traceback_without_values
from geoveil.aggregator.errors import Code, public
from geoveil.aggregator.interceptors.surround import PerMethod
from geoveil.aggregator.status_details import trailing_metadata
from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Tells callers what `errors.public` permits; logs defects, without any content of requests.

    Handlers are coroutines (one answer) or asynchronous generators (many); handlers of other kinds
    are left alone.
    """

    def __init__(self) -> None:
        self._guarded = PerMethod(_guarded)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["_Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler | None":
        """See `grpc.aio.ServerInterceptor.intercept_service`."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        return self._guarded(handler, handler_call_details.method)


def _guarded(handler: "_Handler", method: str) -> "_Handler":
    """Return a handler that reads the requests itself: gRPC calls malformed bytes UNKNOWN."""

    async def fail(error: Exception, context: _Context) -> NoReturn:
        told = public(error)
        if told.code is Code.INTERNAL:
            _LOG.error("defect in %s\n%s", method, traceback_without_values(error))
        trailing = (*(context.trailing_metadata() or ()), *trailing_metadata(told))
        await context.abort(grpc.StatusCode[told.status], told.text, trailing)

    # What the interfaces of grpc and grpc.aio share has the types of the former.
    unary: Any = handler.unary_unary
    stream: Any = handler.stream_stream if handler.request_streaming else handler.unary_stream
    read = _reader(handler.request_deserializer)
    read_all = _all_reader(read) if handler.request_streaming else read

    async def answer(message: bytes, context: _Context) -> object:
        try:
            return await unary(read(message), context)
        except grpc.aio.AbortError:  # the status is set already
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            await fail(error, context)

    async def answers(messages: Any, context: _Context) -> AsyncIterator[object]:
        try:
            async for response in stream(read_all(messages), context):
                yield response
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            await fail(error, context)

    if unary is not None:
        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=None, response_serializer=handler.response_serializer
        )
    if not isasyncgenfunction(stream):
        return handler
    wrap: Any = (
        grpc.stream_stream_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_stream_rpc_method_handler
    )
    guarded: _Handler = wrap(
        answers, request_deserializer=None, response_serializer=handler.response_serializer
    )
    return guarded


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
