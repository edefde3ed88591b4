"""Calls that the gate refuses end before their request is parsed."""

from collections.abc import Callable

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from geoveil.aggregator.grpc.middleware.wrapping import Context, Handler, precede
from geoveil.aggregator.ops.authorizer import (
    ERROR_DOMAIN,
    RULES,
    TOKEN,
    Authorizer,
    Denial,
    DeniedError,
    Public,
)

_DETAILS_KEY = "grpc-status-details-bin"


class Authorise:
    """A layer that asks the gate before every call, except of methods that anyone may call.

    Args:
        gate: decides.
        denied: told of every refusal.
    """

    def __init__(self, gate: Authorizer, denied: Callable[[Denial], object]) -> None:
        self._gate = gate
        self._denied = denied

    def __call__(self, handler: Handler, method: str) -> Handler:
        """Return a handler that may refuse."""
        if isinstance(RULES.get(method), Public):
            return handler

        async def check(context: Context) -> None:
            metadata = context.invocation_metadata() or ()
            presented = [str(value) for key, value in metadata if key == "authorization"]
            try:
                token = self._gate.admit(method, presented)
            except DeniedError as error:
                self._denied(error.denial)
                await refuse(context, error)
            else:
                TOKEN.set(token)

        return precede(handler, check)


async def refuse(context: Context, error: DeniedError) -> None:
    """End a call that may not be made, saying why."""
    status, text = error.denial.value
    code = grpc.StatusCode[status]
    details = (_DETAILS_KEY, _details(code, text, error))
    await context.abort(code, text, (*(context.trailing_metadata() or ()), details))


def _details(code: grpc.StatusCode, text: str, error: DeniedError) -> bytes:
    scope = {} if error.scope is None else {"scope": error.scope.value}
    number: int = code.value[0]
    status = Status(code=number, message=text)
    status.details.add().Pack(
        ErrorInfo(reason=error.denial.name, domain=ERROR_DOMAIN, metadata=scope)
    )
    return bytes(status.SerializeToString())
