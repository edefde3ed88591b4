"""Calls that the gate refuses end before their request is parsed."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from geoveil.aggregator.auth import ERROR_DOMAIN, Denial, DeniedError, Gate
from geoveil.aggregator.interceptors.surround import Context, Handler, with_behaviour
from geoveil.aggregator.logs import CALLER

_DETAILS_KEY = "grpc-status-details-bin"


class AuthorisingInterceptor(grpc.aio.ServerInterceptor):
    """Asks the gate before every call.

    Args:
        gate: decides.
        denied: told of every refusal.
    """

    def __init__(self, gate: Gate, denied: Callable[[Denial], object]) -> None:
        self._gate = gate
        self._denied = denied

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See `grpc.aio.ServerInterceptor.intercept_service`."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        metadata = handler_call_details.invocation_metadata or ()
        presented = [str(value) for key, value in metadata if key == "authorization"]
        try:
            token = self._gate.admit(handler_call_details.method, presented)
        except DeniedError as error:
            self._denied(error.denial)
            return _refusing(handler, error)
        if token is not None:
            CALLER.set(token.name)
        return handler


def _refusing(handler: Handler, error: DeniedError) -> Handler:
    """Return a handler of the same kind that refuses."""
    status, text = error.denial.value
    code = grpc.StatusCode[status]
    details = (_DETAILS_KEY, _details(code, text, error))

    async def refuse(request: Any, context: Context) -> None:
        await context.abort(code, text, (*(context.trailing_metadata() or ()), details))

    return with_behaviour(handler, refuse, parsed=False)


def _details(code: grpc.StatusCode, text: str, error: DeniedError) -> bytes:
    scope = {} if error.scope is None else {"scope": error.scope.value}
    number: int = code.value[0]
    status = Status(code=number, message=text)
    status.details.add().Pack(
        ErrorInfo(reason=error.denial.name, domain=ERROR_DOMAIN, metadata=scope)
    )
    return bytes(status.SerializeToString())
