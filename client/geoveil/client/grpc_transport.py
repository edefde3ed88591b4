"""gRPC, blocking and asyncio. This module alone knows grpc, which it loads at the first call."""

import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from geoveil.client.errors import TransportError
from geoveil.client.transport import TLS, is_local, tls_for
from geoveil.proto.v1 import collector_pb2

if TYPE_CHECKING:
    import grpc
    from grpc import aio

    from geoveil.proto.v1.collector_pb2_grpc import CollectorAsyncStub, CollectorStub

_Result = TypeVar("_Result")
_MOST_BYTES = 4 << 20
_OPTIONS = (
    # Trying again is the client's, which has one deadline for all tries and a journal.
    ("grpc.enable_retries", 0),
    # Clouds drop connections that are idle for four minutes.
    ("grpc.keepalive_time_ms", 210_000),
    ("grpc.max_send_message_length", _MOST_BYTES),
    ("grpc.max_receive_message_length", _MOST_BYTES),
    # A dead server is looked for no slower than the client's own tries come.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Closing this channel closes its connections, whatever else in the process uses gRPC.
    ("grpc.use_local_subchannel_pool", 1),
)


class _Grpc:
    """What both transports share: the checked target, and one channel made at its first use."""

    def __init__(self, target: str, *, tls: TLS | None = None) -> None:
        self._tls = tls_for(target, tls)
        self._target = target
        # A proxy from the environment could not reach a server on this machine.
        self._options = [*_OPTIONS, ("grpc.enable_http_proxy", int(not is_local(target)))]
        self._lock = threading.Lock()

    def _open(self, module: Any) -> Any:
        """Return a channel of `module`, grpc or grpc.aio."""
        import grpc

        if self._tls.insecure:
            return module.insecure_channel(self._target, options=self._options)
        credentials = grpc.ssl_channel_credentials(self._tls.root_certificates)
        return module.secure_channel(self._target, credentials, options=self._options)


class GrpcTransport(_Grpc):
    """Blocking gRPC.

    The channel is made at the first call: a process may fork before that, not after.

    Args:
        target: a gRPC address, for example "collector.example:443".
        tls: may be left out for targets on this machine only.

    Raises:
        PlaintextRefused: if the target is elsewhere and `tls` is None.
    """

    _channel: "grpc.Channel | None" = None
    _stub: "CollectorStub"

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        return self._call(lambda stub: stub.GetCampaign(request, timeout=timeout_s))

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        return self._call(lambda stub: stub.SubmitReports(request, timeout=timeout_s))

    def close(self) -> None:
        """Close the channel; a later call makes a new one."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _call(self, send: "Callable[[CollectorStub], _Result]") -> _Result:
        import grpc

        from geoveil.proto.v1.collector_pb2_grpc import CollectorStub

        with self._lock:
            if self._channel is None:
                channel = self._channel = self._open(grpc)
                self._stub = CollectorStub(channel)
        try:
            return send(self._stub)
        except grpc.RpcError as error:
            raise _mapped(error) from error


class GrpcAioTransport(_Grpc):
    """See `GrpcTransport`; for asyncio, and for one event loop."""

    _channel: "aio.Channel | None" = None
    _stub: "CollectorAsyncStub"

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        return await self._call(lambda stub: stub.GetCampaign(request, timeout=timeout_s))

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        return await self._call(lambda stub: stub.SubmitReports(request, timeout=timeout_s))

    async def aclose(self) -> None:
        """Close the channel; a later call makes a new one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _call(self, send: "Callable[[CollectorAsyncStub], Awaitable[_Result]]") -> _Result:
        from grpc import aio

        from geoveil.proto.v1.collector_pb2_grpc import CollectorStub

        if self._channel is None:
            channel = self._channel = self._open(aio)
            # One class at run time; to type checkers it depends on the channel.
            self._stub = cast("CollectorAsyncStub", CollectorStub(channel))
        try:
            response = await send(self._stub)
        except aio.AioRpcError as error:
            raise _mapped(error) from error
        if response is None:  # what grpc.aio makes of bytes that are no message
            raise TransportError("INTERNAL", "the server's answer can't be parsed")
        return response


def _mapped(error: Any) -> TransportError:
    """Return the client's error for one of grpc's that knows its status."""
    return TransportError(error.code().name, error.details() or "")
