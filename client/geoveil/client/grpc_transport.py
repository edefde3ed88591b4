"""gRPC, blocking and asyncio. Grpc is loaded at the first call."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from geoveil.campaign.connection import TLS, failed, open_channel, tls_for
from geoveil.client.errors import PlaintextRefused, TransportError
from geoveil.client.fork_barrier import ForkBarrier
from geoveil.client.grpc_library import hold, is_loaded, leak_on_fork, loaded
from geoveil.proto.v1 import collector_pb2

if TYPE_CHECKING:
    import grpc

    from geoveil.proto.v1.collector_pb2_grpc import CollectorStub

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Method: TypeAlias = "Callable[[CollectorStub], grpc.UnaryUnaryMultiCallable[_Request, _Response]]"
_MOST_BYTES = 4 << 20
# gzip makes a single report longer.
_LEAST_COMPRESSED_BYTES = 1 << 10
_OPTIONS = (
    # Trying again is the client's, which has one deadline for all tries and a journal.
    ("grpc.enable_retries", 0),
    # Clouds drop connections that are idle for four minutes. A device that has nothing to send
    # stays silent: servers take pings without calls for abuse.
    ("grpc.keepalive_time_ms", 210_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.max_send_message_length", _MOST_BYTES),
    ("grpc.max_receive_message_length", _MOST_BYTES),
    # A dead server is looked for no slower than the client's own tries come. The least back-off
    # stays at its 20 s, as it bounds the time to connect: slow networks need seconds for TLS.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Closing this channel closes its connections, whatever else in the process uses gRPC.
    ("grpc.use_local_subchannel_pool", 1),
)


class _Grpc:
    """What both transports share: the checked target, and one channel made at its first use.

    Attributes:
        barrier: that calls pass. Who forks shuts it meanwhile, so that no call is under way.
    """

    _channel: "grpc.Channel | None" = None
    _held: object = None
    """While it is open: a gRPC that shuts down and starts again with each channel could be in the
    middle of that when a process forks."""
    _stub: "CollectorStub"

    def __init__(self, target: str, *, tls: TLS | None = None) -> None:
        self._tls = tls_for(target, tls, PlaintextRefused)
        self._target = target
        self._lock = threading.Lock()
        self.barrier = ForkBarrier(self._disconnect)

    def forget(self) -> None:
        """Drop, untouched, the channel of the process that this one was forked from.

        For the child, before its first call, which then makes a channel of its own. The parent
        goes on with its channel.
        """
        self.barrier.reset()
        self._lock = threading.Lock()  # another thread of the parent may have held the old one
        leak_on_fork(self._channel)
        leak_on_fork(self._held)
        self._channel = self._held = None

    def _connected(self) -> "CollectorStub":
        from geoveil.proto.v1.collector_pb2_grpc import CollectorStub

        with self._lock:
            if self._channel is None:
                self._held = self._held or hold()
                self._channel = open_channel(self._target, self._tls, _OPTIONS)
                self._stub = CollectorStub(self._channel)
            return self._stub

    def _disconnect(self) -> None:
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _close(self) -> None:
        self._disconnect()
        self._held = None


class GrpcTransport(_Grpc):
    """Blocking gRPC, for any number of threads.

    The channel is made at the first call. A process that forks after that calls `forget` in the
    child.

    Args:
        target: a gRPC address, for example "collector.example:443".
        tls: may be left out for targets on this machine only.

    Raises:
        PlaintextRefused: if the target is elsewhere and `tls` is None.
    """

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        return self._call(lambda stub: stub.GetCampaign, request, timeout_s)

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        return self._call(lambda stub: stub.SubmitReports, request, timeout_s)

    def close(self) -> None:
        """Close the channel; calls under way end as CANCELLED, and a later one makes a new one."""
        self._close()

    def _call(
        self, method: "_Method[_Request, _Response]", request: _Request, timeout_s: float
    ) -> _Response:
        grpc = loaded()
        try:
            with self.barrier.passing():
                call = method(self._connected())
                return call(request, timeout=timeout_s, compression=_compression(request))
        except grpc.RpcError as error:
            raise failed(error, TransportError) from error
        except ValueError as error:
            raise _closed() from error


class GrpcAioTransport(_Grpc):
    """See `GrpcTransport`; for asyncio.

    It waits for futures of the blocking channel: grpc.aio has one engine for the whole process,
    which does not survive a fork and serves one event loop; this serves any number of them, at the
    same speed. Its calls end on threads of gRPC's, so that a fork can wait for them although the
    event loop stands still.
    """

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        return await self._call(lambda stub: stub.GetCampaign, request, timeout_s)

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        return await self._call(lambda stub: stub.SubmitReports, request, timeout_s)

    async def aclose(self) -> None:
        """See `GrpcTransport.close`."""
        self._close()

    async def _call(
        self, method: "_Method[_Request, _Response]", request: _Request, timeout_s: float
    ) -> _Response:
        import asyncio

        loop = asyncio.get_running_loop()
        grpc = loaded() if is_loaded() else await loop.run_in_executor(None, loaded)
        ended = asyncio.Event()

        def wake(_: object) -> None:
            """Runs on a thread of gRPC's."""
            with suppress(RuntimeError):  # the loop was closed in the meantime
                loop.call_soon_threadsafe(ended.set)

        self.barrier.enter()
        try:
            call: Any = method(self._connected()).future(
                request, timeout=timeout_s, compression=_compression(request)
            )
        except BaseException as error:
            self.barrier.leave()
            if isinstance(error, ValueError):
                raise _closed() from error
            raise
        call.add_done_callback(lambda _: self.barrier.leave())
        call.add_done_callback(wake)
        try:
            await ended.wait()
        finally:
            call.cancel()  # nothing to a call that has ended
        if call.code() is not grpc.StatusCode.OK:
            raise failed(call, TransportError) from call
        response: _Response = call.result()
        return response


def _compression(request: Any) -> "grpc.Compression | None":
    batch = isinstance(request, collector_pb2.SubmitReportsRequest) and len(request.reports) > 1
    if not batch or request.ByteSize() <= _LEAST_COMPRESSED_BYTES:
        return None
    import grpc

    return grpc.Compression.Gzip


def _closed() -> TransportError:
    """Return the error for what grpc says as ValueError to a call on a channel just closed."""
    return TransportError("CANCELLED", "the transport was closed")
