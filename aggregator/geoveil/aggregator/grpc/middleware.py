"""The steps around every method of a server, between the network and the servicers.

The middleware counts and times each call, limits its memory, authorises the caller before parsing
the request, checks the request against the token's campaigns, and turns errors into statuses. It
wraps each method once; gRPC's interceptors would wrap it anew per call, which takes as long as
counting a report.
"""

import logging
import secrets
import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from inspect import isasyncgenfunction
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from geoveil.aggregator.domain.errors import (
    Code,
    PublicError,
    ServiceError,
    public,
    traceback_without_values,
)
from geoveil.aggregator.domain.rates import Rate, RateLimits, TokenBuckets, peer_address
from geoveil.aggregator.grpc.loop_tuning import OTHERS
from geoveil.aggregator.grpc.memory_budget import HeldCall, MemoryBudget
from geoveil.aggregator.grpc.submissions import unpacked
from geoveil.aggregator.ops.authorizer import (
    ERROR_DOMAIN,
    RULES,
    TOKEN,
    Authorizer,
    DeniedError,
    confine,
)
from geoveil.aggregator.ops.logs import REQUEST_ID
from geoveil.aggregator.ops.metrics import Metrics
from geoveil.aggregator.ops.tracing import Tracing, end_call
from geoveil.gp import ParameterError

if TYPE_CHECKING:
    Handler: TypeAlias = grpc.RpcMethodHandler[Any, Any]
    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
else:  # generic in their stubs only
    Handler = grpc.RpcMethodHandler
    Context = grpc.aio.ServicerContext

_LOG = logging.getLogger(__name__)
REQUEST_ID_KEY = "geoveil-request-id"
"""The key in an analyst's trailing metadata of the id to quote to the operator."""
DETAILS_KEY = "grpc-status-details-bin"
"""The key under which gRPC's libraries look for google.rpc.Status."""
_NAMES = {code.value[0]: code.name for code in grpc.StatusCode} | {
    code: code.name for code in grpc.StatusCode
}
_LONGEST_OF_ANYONE = 4096
"""The most bytes of a public request parsed here, which holds a name, a page or a service."""
_IN_VAIN = Rate(per_second=100.0, burst=200.0)
"""The rate of cancelled or excess calls per address beyond which connections above
`_IN_VAIN_EACH` are silenced."""
_IN_VAIN_EACH = Rate(per_second=2.0, burst=20.0)
_ONCE = Rate(per_second=0.01, burst=1.0)
_AT_ONCE_S = 0.5
"""Seconds after which the caller of a cancelled call counts as having waited."""


class _Method(NamedTuple):
    """A service's method with its name and limits."""

    path: str
    """ "/package.Service/Method"; empty for unknown methods."""
    public: bool
    """Whether anyone may call it."""
    several: bool
    """Whether a call may have several requests or none."""
    behaviour: Callable[[Any, Context], Any]
    deserialize: Callable[[bytes], Any] | None
    """None if the servicer takes requests as bytes and limits their memory."""
    longest: int
    """The most bytes of a parsed request, including after decompression."""
    serialize: Callable[[Any], bytes]
    level: int
    """The log level, which is lower for devices, since they make many calls."""


class Middleware:
    """Replaces a server when generated code adds services, and passes the wrapped methods on.

    It logs a line per call, at INFO with the token's name for analysts, otherwise at DEBUG.
    Requests have at most `longest` bytes; `silence` and `shut_out` act on connections and
    addresses.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        *,
        metrics: Metrics,
        memory: MemoryBudget,
        limits: RateLimits,
        authorizer: Authorizer,
        silence: Callable[[str], object],
        shut_out: Callable[[str], object],
        longest: int,
        tracing: Tracing | None,
    ) -> None:
        self._server = server
        self._metrics = metrics
        self._memory = memory
        self._limits = limits
        self._authorizer = authorizer
        self._silence = silence
        self._shut_out = shut_out
        self._longest = longest
        self._tracing = tracing
        # Ids are distinct, not secret; the system's generator would cost a system call for each.
        self._ids = Random(secrets.randbits(128))  # noqa: S311 - see above
        self._in_vain = TokenBuckets(_IN_VAIN)
        self._in_vain_each = TokenBuckets(_IN_VAIN_EACH)
        self._given_up = TokenBuckets(_ONCE)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Add a service's methods by name: unary coroutines, or asynchronous generators."""
        made = {
            name: self._around(handler, f"/{service}/{name}") for name, handler in handlers.items()
        }
        self._server.add_registered_method_handlers(service, made)

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Do nothing: generated code adds the same methods by name."""

    def refuse_others(self) -> None:
        """Refuse every method that was not added."""
        others = self._around(grpc.unary_unary_rpc_method_handler(_refuse), "")
        service, name = OTHERS
        self._server.add_registered_method_handlers(service, {name: others})

    def _around(self, handler: Handler, path: str) -> Handler:
        """Return a handler that takes a stream of bytes, parses its request and returns bytes."""
        several, streams = bool(handler.request_streaming), bool(handler.response_streaming)
        kind = f"{'stream' if several else 'unary'}_{'stream' if streams else 'unary'}"
        anyone = not path or (path in RULES and RULES[path].public)
        parsed = handler.request_deserializer not in (None, bytes)
        method = _Method(
            path,
            anyone,
            several,
            getattr(handler, kind),
            handler.request_deserializer if parsed else None,
            _LONGEST_OF_ANYONE if anyone and parsed else self._longest,
            handler.response_serializer or bytes,
            logging.DEBUG if anyone else logging.INFO,
        )

        async def answer(_: Any, context: Context) -> bytes:
            started = time.perf_counter()
            request = response = None
            try:
                call = self._begin(method, context)
                request = await self._next(method, call, context)
                response = method.serialize(await method.behaviour(request, context))
                self._memory.resize(call, len(response))  # until it has been sent
            except BaseException as error:  # noqa: BLE001 - it is raised again
                ended = error
            else:
                self._observe(method, context, None, started)
                return response
            request = response = None  # see _end
            raise await self._end(ended, method, context, started)

        async def answers(_: Any, context: Context) -> AsyncIterator[bytes]:
            started = time.perf_counter()
            requests = response = message = None
            try:
                call = self._begin(method, context)
                requests = (
                    self._each(method, call, context)
                    if several
                    else await self._next(method, call, context)
                )
                async for response in method.behaviour(requests, context):
                    if not method.public:
                        self._authorise(method, context)  # again, since hours may have passed
                    message = method.serialize(response)
                    # Until the next message, since its producer may still hold it.
                    self._memory.resize(call, len(message))
                    yield message
            except BaseException as error:  # noqa: BLE001 - it is raised again
                ended = error
            else:
                self._observe(method, context, None, started)
                return
            requests = response = message = None  # see _end
            raise await self._end(ended, method, context, started)

        if isasyncgenfunction(method.behaviour):  # gRPC distinguishes them the same way
            return grpc.stream_stream_rpc_method_handler(answers)
        return grpc.stream_unary_rpc_method_handler(answer)

    def _begin(self, method: _Method, context: Context) -> HeldCall:
        request_id = f"{self._ids.getrandbits(64):016x}"
        REQUEST_ID.set(request_id)
        if self._tracing is not None and method.path:
            self._tracing.begin(method.path[1:], context.invocation_metadata() or ())
        if not method.public:
            context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
        peer = context.peer()
        try:
            call = self._memory.begin(peer)
            ends: Any = partial(self._memory.end, call)  # the stubs declare another type
            context.add_done_callback(ends)
            self._limits.calls.admit(peer)
        except ServiceError:
            self._count_in_vain(peer)
            raise
        return call

    async def _each(self, method: _Method, call: HeldCall, context: Context) -> AsyncIterator[Any]:
        """Yield a call's requests as they arrive; each after the first counts as another call."""
        while (request := await self._next(method, call, context)) is not None:
            yield request
            self._limits.calls.admit(context.peer())
            self._memory.read(call)

    async def _next(self, method: _Method, call: HeldCall, context: Context) -> Any:
        """Return a call's next request, or None after the last."""
        message: Any = await context.read()
        if message is grpc.aio.EOF:
            self._memory.resize(call, 0)
            if method.several:
                return None
            self._count_in_vain(context.peer())
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "there is no request")
        self._memory.resize(call, len(message))
        if not method.public:
            self._authorise(method, context)
        return (
            message if method.deserialize is None else _parsed(method, method.deserialize, message)
        )

    def _authorise(self, method: _Method, context: Context) -> None:
        metadata = context.invocation_metadata() or ()
        presented = [str(value) for key, value in metadata if key == "authorization"]
        TOKEN.set(self._authorizer.admit(method.path, presented))

    async def _end(
        self, error: BaseException, method: _Method, context: Context, started: float
    ) -> BaseException:
        """Return the error to raise for a failed call, without its frames.

        gRPC keeps the error, whose frames would keep the request until garbage collection.
        """
        if isinstance(error, grpc.aio.InternalError):  # the caller disconnected: no defect
            error = CancelledError()
        if isinstance(error, CancelledError):
            self._count_taken_back(context.peer(), time.perf_counter() - started < _AT_ONCE_S)
        elif isinstance(error, Exception) and not isinstance(error, grpc.aio.AbortError):
            if isinstance(error, DeniedError):
                self._metrics.count_denial(error.denial)
            aborted = await _abort(error, method.path, context)
            error.__traceback__ = None
            error = aborted
        self._observe(method, context, error, started)
        error.__traceback__ = error.__context__ = None
        return error

    def _observe(
        self, method: _Method, context: Context, error: BaseException | None, started: float
    ) -> None:
        """Count, time and log a finished call, without its content."""
        if not method.path:
            return
        code = _NAMES[context.code() or 0]
        if isinstance(error, CancelledError):
            code = grpc.StatusCode.CANCELLED.name
        elif error is not None and not isinstance(error, grpc.aio.AbortError):
            code = grpc.StatusCode.UNKNOWN.name  # gRPC's status for it
        seconds, name = time.perf_counter() - started, method.path[1:]
        self._metrics.observe_call(name, code, seconds)
        if self._tracing is not None:
            end_call(code)
        level = method.level
        if _LOG.isEnabledFor(level):
            token = TOKEN.get()
            caller = {} if token is None else {"token": token.name}
            fields = {"method": name, "code": code, "seconds": round(seconds, 6)} | caller
            _LOG.log(level, "call", extra=fields)

    def _count_taken_back(self, peer: str, at_once: bool) -> None:
        self._count_in_vain(peer)
        first = at_once and not self._given_up.take(peer.encode(), 1)
        if first and not self._limits.admit_given_up(peer):
            self._shut_out(peer)

    def _count_in_vain(self, peer: str) -> None:
        of_all = self._in_vain.take(peer_address(peer), 1)
        of_one = self._in_vain_each.take(peer.encode(), 1)
        if of_all and of_one:
            self._silence(peer)


async def _refuse(message: bytes, context: Context) -> bytes:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")
    return b""  # abort raises


def _parsed(method: _Method, deserialize: Callable[[bytes], Any], message: bytes) -> Any:
    """Return the parsed and permitted request. For bad bytes gRPC itself would say UNKNOWN."""
    if len(message) > method.longest:
        raise ParameterError("size of a request", len(message), f"at most {method.longest:,} bytes")
    message = unpacked(message, method.longest)
    try:
        request = deserialize(message)
    except DecodeError:
        raise ParameterError(
            "request", f"{len(message)} bytes", "a message of the wire contract"
        ) from None
    confine(method.path, request)
    return request


async def _abort(error: Exception, path: str, context: Context) -> BaseException:
    """End a call with the error's public part; log a defect without content."""
    if isinstance(error, DeniedError):
        status, text = error.denial.value.status, str(error)
        scope = {} if error.scope is None else {"scope": error.scope.value}
        info = ErrorInfo(reason=error.denial.name, domain=ERROR_DOMAIN, metadata=scope)
        trailing = _trailing_metadata(status, text, info)
    else:
        shown = public(error)
        status, text, trailing = shown.status, shown.text, trailing_metadata(shown)
        if shown.code is Code.INTERNAL:
            fields = {"method": path[1:], "exception": traceback_without_values(error)}
            _LOG.error("defect", extra=fields)
    try:
        await context.abort(
            grpc.StatusCode[status], text, (*(context.trailing_metadata() or ()), *trailing)
        )
    except grpc.aio.InternalError:  # the caller is gone
        return CancelledError()
    except BaseException as ended:  # noqa: BLE001 - it is raised by the caller
        return ended


def trailing_metadata(told: PublicError) -> tuple[tuple[str, bytes], ...]:
    """Return the details of an error: ErrorInfo, and RetryInfo or BadRequest where they apply.

    Example:
        >>> error = PublicError(Code.QUEUE_FULL, "full", retry_after_s=1.0)
        >>> ((key, value),) = trailing_metadata(error)
        >>> [detail.TypeName() for detail in Status.FromString(value).details]
        ['google.rpc.ErrorInfo', 'google.rpc.RetryInfo']
    """
    details: list[Message] = [ErrorInfo(reason=told.code.name, domain=ERROR_DOMAIN)]
    if told.retry_after_s is not None:
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(round(1000 * told.retry_after_s))
        details.append(retry)
    if told.violation is not None:
        field, permitted = told.violation
        of_field = BadRequest.FieldViolation(field=field, description=f"must be {permitted}")
        details.append(BadRequest(field_violations=[of_field]))
    return _trailing_metadata(told.status, told.text, *details)


def _trailing_metadata(status: str, text: str, *details: Message) -> tuple[tuple[str, bytes], ...]:
    rich = Status(code=grpc.StatusCode[status].value[0], message=text)
    for detail in details:
        rich.details.add().Pack(detail)
    return ((DETAILS_KEY, rich.SerializeToString()),)
