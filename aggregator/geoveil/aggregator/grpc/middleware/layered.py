"""Services are added to a server with layers around each of their methods.

Every method is wrapped once, when it is added. Interceptors of gRPC would find, wrap and call
anew for every call, which takes as long as counting a report. Methods are added as generic ones:
of those that are registered, grpc.aio awaits the next call of each, and looks through all these
whenever a call comes.
"""

from collections.abc import Iterable, Mapping

import grpc
import grpc.aio

from geoveil.aggregator.grpc.middleware.wrapping import Context, Handler, Layer


class Layered:
    """Takes services in place of a server, as generated code adds them, and hands them on.

    Args:
        server: that gets them.
        layers: the outermost first.
    """

    def __init__(self, server: grpc.aio.Server, *layers: Layer) -> None:
        self._server = server
        self._layers = layers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Add the methods of a service.

        Args:
            service: its full name.
            handlers: by name of the method.
        """
        made = {
            name: self._wrap(handler, f"/{service}/{name}") for name, handler in handlers.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, made),)
        )

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Pass over: generated code adds the same by name."""

    def refuse_others(self, layer: Layer) -> None:
        """Refuse every method that was not added before, with a layer around that too."""
        self._server.add_generic_rpc_handlers((_Others(layer),))

    def _wrap(self, handler: Handler, method: str) -> Handler:
        for layer in reversed(self._layers):
            handler = layer(handler, method)
        return handler


class _Others(grpc.GenericRpcHandler):
    """Whatever a method is called, it is none."""

    def __init__(self, layer: Layer) -> None:
        self._handler = layer(grpc.unary_unary_rpc_method_handler(_refuse), "")

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        return self._handler


async def _refuse(message: bytes, context: Context) -> bytes:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")
    return b""  # abort raises
