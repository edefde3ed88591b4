"""The edge: malformed bytes and every error become a gRPC status, in one place."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from geoveil.aggregator.diagnostics import traceback_without_values
from geoveil.aggregator.errors import CATALOGUE, Code, public
from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Tells callers what `errors.public` permits; logs defects, without any content of requests."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["_Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler | None":
        """See `grpc.aio.ServerInterceptor.intercept_service`."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        return _guarded(handler, handler_call_details.method)


def _guarded(handler: "_Handler", method: str) -> "_Handler":
    """Return a handler that reads the request itself: gRPC calls malformed bytes UNKNOWN."""
    behaviour: Callable[[Any, Any], Awaitable[Any]] = handler.unary_unary  # type: ignore[assignment]  # of grpc.aio
    deserialize = handler.request_deserializer

    async def guarded(message: bytes, context: "grpc.aio.ServicerContext[bytes, Any]") -> object:
        try:
            request = message if deserialize is None else _read(deserialize, message)
            return await behaviour(request, context)
        except grpc.aio.AbortError:  # the status is set already
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            status, text = public(error)
            if status == CATALOGUE[Code.INTERNAL].status:
                _LOG.error("defect in %s\n%s", method, traceback_without_values(error))
            await context.abort(grpc.StatusCode[status], text)

    return grpc.unary_unary_rpc_method_handler(
        guarded, request_deserializer=None, response_serializer=handler.response_serializer
    )


def _read(deserialize: Callable[[bytes], Any], message: bytes) -> Any:
    try:
        return deserialize(message)
    except DecodeError:
        raise ParameterError(
            "request", f"{len(message)} bytes", "a message of the wire contract"
        ) from None
