"""Counts, times and logs every call; knows nothing of what is in it."""

import logging
import secrets
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio

from geoveil.aggregator.auth import RULES, Public
from geoveil.aggregator.interceptors.surround import (
    Context,
    Ended,
    Handler,
    PerMethod,
    surround,
)
from geoveil.aggregator.logs import CALLER, REQUEST_ID
from geoveil.aggregator.metrics import Metrics

_LOG = logging.getLogger(__name__)
REQUEST_ID_KEY = "geoveil-request-id"
"""In the trailing metadata of the calls of analysts: what to quote to the operator."""
_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


class ObservingInterceptor(grpc.aio.ServerInterceptor):
    """The outermost one.

    A line per call: at INFO those of analysts, with the name of their token, at DEBUG the others,
    of which there are many.

    Args:
        metrics: where calls are counted.
        timer: seconds, from any start.
    """

    def __init__(self, metrics: Metrics, timer: Callable[[], float] = time.perf_counter) -> None:
        self._metrics = metrics
        self._timer = timer
        self._surrounded = PerMethod(self._surround)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """See `grpc.aio.ServerInterceptor.intercept_service`."""
        REQUEST_ID.set(secrets.token_hex(8))
        handler = await continuation(handler_call_details)
        if handler is None:  # a name that the caller made up: no label, no line
            return None
        return self._surrounded(handler, handler_call_details.method)

    def _surround(self, handler: Handler, method: str) -> Handler:
        public = isinstance(RULES.get(method), Public)

        def begin(context: Context) -> Ended:
            if not public:
                context.set_trailing_metadata(((REQUEST_ID_KEY, REQUEST_ID.get() or ""),))
            started = self._timer()

            def ended(context: Context, error: BaseException | None) -> None:
                seconds = self._timer() - started
                code = _code(context, error)
                self._metrics.observe_call(method[1:], code, seconds)
                level = logging.DEBUG if public else logging.INFO
                if _LOG.isEnabledFor(level):
                    _LOG.log(level, "%s %s %.6f s%s", method[1:], code, seconds, _caller())

            return ended

        return surround(handler, begin)


def _code(context: Context, error: BaseException | None) -> str:
    """Return the name of the status that the caller gets."""
    if isinstance(error, CancelledError):
        return grpc.StatusCode.CANCELLED.name
    if error is not None and not isinstance(error, grpc.aio.AbortError):
        return grpc.StatusCode.UNKNOWN.name  # what gRPC makes of it
    code = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else _NAMES[code or 0]


def _caller() -> str:
    name = CALLER.get()
    return "" if name is None else f" token={name!r}"
