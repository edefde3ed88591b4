"""Counts, times and logs every call; knows nothing of what is in it."""

import logging
import secrets
import time
from asyncio import CancelledError
from collections.abc import Callable
from random import Random

import grpc
import grpc.aio

from geoveil.aggregator.grpc.middleware.wrapping import Context, Ended, Handler, surround
from geoveil.aggregator.ops.authorizer import RULES, TOKEN, Public
from geoveil.aggregator.ops.logs import REQUEST_ID
from geoveil.aggregator.ops.metrics import Metrics

_LOG = logging.getLogger(__name__)
REQUEST_ID_KEY = "geoveil-request-id"
"""In the trailing metadata of the calls of analysts: what to quote to the operator."""
_NAMES = {code.value[0]: code.name for code in grpc.StatusCode} | {
    code: code.name for code in grpc.StatusCode
}


class Observe:
    """The outermost layer.

    A line per call: at INFO those of analysts, with the name of their token, at DEBUG the others,
    of which there are many.

    Args:
        metrics: where calls are counted.
        timer: seconds, from any start.
    """

    def __init__(self, metrics: Metrics, timer: Callable[[], float] = time.perf_counter) -> None:
        self._metrics = metrics
        self._timer = timer
        # Told apart, not secret; the operating system's own would cost a system call for each.
        self._ids = Random(secrets.randbits(128))  # noqa: S311

    def __call__(self, handler: Handler, method: str) -> Handler:
        """Return a handler whose calls are observed."""
        public = isinstance(RULES.get(method), Public)
        level = logging.DEBUG if public else logging.INFO
        name = method[1:]

        def begin(context: Context) -> Ended:
            request_id = f"{self._ids.getrandbits(64):016x}"
            REQUEST_ID.set(request_id)
            if not public:
                context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
            started = self._timer()

            def ended(context: Context, error: BaseException | None) -> None:
                seconds = self._timer() - started
                code = _code(context, error)
                self._metrics.observe_call(name, code, seconds)
                if _LOG.isEnabledFor(level):
                    fields = {"method": name, "code": code, "seconds": round(seconds, 6)}
                    _LOG.log(level, "call", extra=fields | _caller())

            return ended

        return surround(handler, begin)


def _code(context: Context, error: BaseException | None) -> str:
    """Return the name of the status that the caller gets."""
    if isinstance(error, CancelledError):
        return grpc.StatusCode.CANCELLED.name
    if error is not None and not isinstance(error, grpc.aio.AbortError):
        return grpc.StatusCode.UNKNOWN.name  # what gRPC makes of it
    return _NAMES[context.code() or 0]


def _caller() -> dict[str, str]:
    token = TOKEN.get()
    return {} if token is None else {"token": token.name}
