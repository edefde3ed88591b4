"""Do something before and after a handler of any of the four kinds."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
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
Layer: TypeAlias = Callable[[Handler, str], Handler]
"""Takes a handler and its method, "/package.Service/Method"; returns it with something around."""

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


def of_bytes(handler: Handler, behaviour: Behaviour) -> Handler:
    """Return a handler that reads its requests itself, and returns responses as bytes.

    On the wire a call of one request is a stream of one.
    """
    _, make = _KINDS[True, bool(handler.response_streaming)]
    return make(behaviour)


def surround(handler: Handler, begin: Callable[[Context], Ended]) -> Handler:
    """Return a handler that says when a call begins, and how it ends.

    Plain functions, as every call pays for them.

    Args:
        handler: asynchronous, as all of this server are.
        begin: called before; returns what is called after.
    """
    behaviour = behaviour_of(handler)

    async def answer(request: Any, context: Context) -> Any:
        ended = begin(context)
        try:
            response = await behaviour(request, context)
        except BaseException as error:
            ended(context, error)
            raise
        ended(context, None)
        return response

    async def answers(request: Any, context: Context) -> AsyncIterator[Any]:
        ended = begin(context)
        try:
            async for response in behaviour(request, context):
                yield response
        except BaseException as error:
            ended(context, error)
            raise
        ended(context, None)

    return with_behaviour(handler, answers if generates(behaviour) else answer)


def precede(handler: Handler, check: Callable[[Context], Awaitable[object]]) -> Handler:
    """Return a handler that awaits something first, whose errors end the call.

    Args:
        handler: asynchronous; it parses requests itself, if what is awaited should not wait for it.
        check: awaited before, and again before each response of a stream, which may be hours later.
    """
    behaviour = behaviour_of(handler)

    async def answer(request: Any, context: Context) -> Any:
        await check(context)
        return await behaviour(request, context)

    async def answers(request: Any, context: Context) -> AsyncIterator[Any]:
        await check(context)
        async for response in behaviour(request, context):
            await check(context)
            yield response

    return with_behaviour(handler, answers if generates(behaviour) else answer)


def generates(behaviour: Behaviour) -> bool:
    """Return whether a function yields responses; others return one, or write to the context."""
    # gRPC tells them apart likewise.
    return inspect.isasyncgenfunction(behaviour)
