"""Do something before and after a handler of any of the four kinds."""

import inspect
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import grpc
import grpc.aio

if TYPE_CHECKING:
    Handler: TypeAlias = grpc.RpcMethodHandler[Any, Any]
    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
else:  # generic in their stubs only
    Handler = grpc.RpcMethodHandler
    Context = grpc.aio.ServicerContext
Behaviour: TypeAlias = Callable[[Any, Context], Any]

_KINDS: dict[tuple[bool, bool], tuple[str, Callable[..., Handler]]] = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}
"""(request is a stream, response is one) → where the behaviour stands, what makes a handler."""


class Ended(Protocol):
    """Told once how a call ended."""

    def __call__(self, context: Context, error: BaseException | None) -> object:
        """Take the error that ended the call, or None."""


def behaviour_of(handler: Handler) -> Behaviour:
    """Return the function that a handler calls."""
    attribute, _ = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
    behaviour: Behaviour = getattr(handler, attribute)
    return behaviour


def with_behaviour(handler: Handler, behaviour: Behaviour, *, parsed: bool = True) -> Handler:
    """Return a handler of the same kind that calls another function, requests parsed or not."""
    _, make = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
    return make(
        behaviour,
        request_deserializer=handler.request_deserializer if parsed else None,
        response_serializer=handler.response_serializer,
    )


class PerMethod:
    """Makes handlers of handlers, once per method and not once per call.

    Args:
        make: takes a handler and the name of its method.
    """

    def __init__(self, make: Callable[[Handler, str], Handler]) -> None:
        self._make = make
        self._made: dict[str, tuple[Handler, Handler]] = {}

    def __call__(self, handler: Handler, method: str) -> Handler:
        """Return what is made of a handler."""
        known = self._made.get(method)
        if known is None or known[0] is not handler:
            known = self._made[method] = (handler, self._make(handler, method))
        return known[1]


def surround(handler: Handler, begin: Callable[[Context], Ended]) -> Handler:
    """Return a handler that says when a call begins, and how it ends.

    Plain functions, as every call pays for them.

    Args:
        handler: asynchronous, as all of this server are.
        begin: called before; returns what is called after.
    """
    behaviour = behaviour_of(handler)
    # gRPC tells generators from those that write to the context by what kind of function they are.
    wrap = _generator if inspect.isasyncgenfunction(behaviour) else _coroutine
    return with_behaviour(handler, wrap(behaviour, begin))


def _coroutine(behaviour: Behaviour, begin: Callable[[Context], Ended]) -> Behaviour:
    async def surrounded(request: Any, context: Context) -> Any:
        ended = begin(context)
        try:
            response = await behaviour(request, context)
        except BaseException as error:
            ended(context, error)
            raise
        ended(context, None)
        return response

    return surrounded


def _generator(behaviour: Behaviour, begin: Callable[[Context], Ended]) -> Behaviour:
    async def surrounded(request: Any, context: Context) -> AsyncIterator[Any]:
        ended = begin(context)
        try:
            async for response in behaviour(request, context):
                yield response
        except BaseException as error:
            ended(context, error)
            raise
        ended(context, None)

    return surrounded
