"""Transports of requests to a server: two interfaces, and gRPC, which is loaded at the first call.

gRPC may crash a child that is forked during a request. A child would also wait forever for a module
that another thread was loading, or for gRPC's lock during its shutdown (up to a third of a second).
So a fork waits for requests and loading, and keeps gRPC running meanwhile.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from geoveil.campaign import TLS, failed, open_channel, result_of, tls_for
from geoveil.client.contributions import MOST_BYTES
from geoveil.client.errors import PlaintextRefused, TransportError
from geoveil.proto.v1 import collector_pb2

if TYPE_CHECKING:
    import grpc

    from geoveil.proto.v1.collector_pb2_grpc import CollectorStub


class Transport(Protocol):
    """Carries requests to one collector. Threads may share it; its creator closes it.

    Both methods make one attempt, and return or raise TransportError within `timeout_s` seconds.
    """

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """Return the published campaign."""
        ...

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """Return one result per report, once every accepted report is on the server's disk."""
        ...


class AsyncTransport(Protocol):
    """Carries requests to one collector, like `Transport` but for asyncio."""

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """Return the published campaign."""
        ...

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """Return one result per report, once every accepted report is on the server's disk."""
        ...


FORK_GRACE_S = 0.5
"""Seconds for requests under way at a fork to end by themselves."""
_STUBS = "geoveil.proto.v1.collector_pb2_grpc"
_LOADING = threading.Lock()
_FORKING = threading.local()
_of_parents: list[object] = []
"""The parent's objects that children keep, since destroying them may wait for missing threads."""
_used = False


class ForkBarrier:
    """Counts the requests under way, and can wait until there are none. Threads may share it.

    `hurry` ends the requests under way, if possible.
    """

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self._hurry = hurry
        self.reset()

    def reset(self) -> None:
        """Reset the counts in a child, since the requests and waiting threads are its parent's."""
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = 0

    def enter(self) -> None:
        """Count a request, after waiting while the barrier is shut."""
        with self._changed:
            while self._shut:
                self._changed.wait()
            self._inside += 1

    def leave(self) -> None:
        """Note the end of a counted request."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def shut(self, grace_s: float) -> None:
        """Block new requests, and wait until none is under way.

        Requests have `grace_s` seconds to end by themselves; then they are ended within as long.
        """
        with self._changed:
            self._shut += 1
            if self._changed.wait_for(self._is_empty, grace_s):
                return
        self._hurry()  # without the lock, which ending requests need
        with self._changed:
            self._changed.wait_for(self._is_empty, grace_s)

    def open(self) -> None:
        """Let requests pass again, once it has been opened as often as shut."""
        with self._changed:
            self._shut = max(0, self._shut - 1)  # it may be newer than the shut
            self._changed.notify_all()

    def _is_empty(self) -> bool:
        return self._inside == 0


_Client = TypeVar("_Client")
_CLIENTS: "weakref.WeakKeyDictionary[Any, tuple[ForkBarrier, Callable[[Any], None]]]" = (
    weakref.WeakKeyDictionary()
)


def follow_forks(client: _Client, barrier: ForkBarrier, go_on: Callable[[_Client], None]) -> None:
    """Shut a barrier at each fork of this process while its client lives.

    In a child, whose threads and connections are the parent's, `go_on` is called with the client.
    """
    _register()
    _CLIENTS[client] = barrier, go_on


@cache
def _register() -> None:
    """Register the clients' fork hooks last, so that they run before those of their parts."""
    os.register_at_fork(before=_shut_all, after_in_parent=_open_all, after_in_child=_renew_all)


def _shut_all() -> None:
    for barrier, _ in list(_CLIENTS.values()):
        barrier.shut(FORK_GRACE_S)


def _open_all() -> None:
    for barrier, _ in list(_CLIENTS.values()):
        barrier.open()


def _renew_all() -> None:
    for client, (barrier, go_on) in list(_CLIENTS.items()):
        barrier.reset()
        go_on(client)


def is_loaded() -> bool:
    """Return whether gRPC is loaded; loading it stops all threads for a tenth of a second."""
    return _STUBS in sys.modules


def loaded() -> ModuleType:
    """Return grpc, loading it at the first call."""
    with _LOADING:
        import_module(_STUBS)  # the transports need it
        return import_module("grpc")


def hold() -> object:
    """Return a cheap object, without a thread, that keeps gRPC running while referenced."""
    global _used
    _used = True
    return loaded().local_server_credentials()


def leak_on_fork(of_parent: object) -> None:
    """Keep the parent's gRPC objects, if any, for the lifetime of this process."""
    if of_parent is not None:
        _of_parents.append(of_parent)


def _hold_library() -> None:
    if _used:
        _FORKING.held = hold()
    _LOADING.acquire()


def _release_library() -> None:
    _LOADING.release()
    _FORKING.__dict__.clear()


def _leak_library() -> None:
    _LOADING.release()
    leak_on_fork(_FORKING.__dict__.pop("held", None))


os.register_at_fork(
    before=_hold_library, after_in_parent=_release_library, after_in_child=_leak_library
)


# gzip would lengthen a single report.
_LEAST_COMPRESSED_BYTES = 1 << 10
_OPTIONS = (
    # The client itself retries, with one deadline for all attempts and a journal.
    ("grpc.enable_retries", 0),
    # Clouds drop connections after four idle minutes. A device with nothing to send stays
    # silent, since servers treat pings without calls as abuse.
    ("grpc.keepalive_time_ms", 210_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.max_receive_message_length", MOST_BYTES),
    # Reconnect at least as often as the client retries. The least back-off stays at 20 s, since
    # it bounds the time to connect, and slow networks need seconds for TLS.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Closing this channel closes its connections, even if the process uses gRPC elsewhere.
    ("grpc.use_local_subchannel_pool", 1),
)


class _Grpc:
    """Common parts of both transports: the checked target, a lazily created channel, and a barrier.

    A `Client` passes the barrier around each call; asyncio calls pass it themselves.
    """

    _channel: "grpc.Channel | None" = None
    _held: object = None
    """Keeps gRPC from stopping and starting with each channel, perhaps during a fork."""
    _stub: "CollectorStub"

    def __init__(self, target: str, *, tls: TLS | None = None) -> None:
        self._tls = tls_for(target, tls, PlaintextRefused)
        self._target = target
        self._lock = threading.Lock()
        self.barrier = ForkBarrier(self.disconnect)

    def forget(self) -> None:
        """Abandon the parent's channel; for a forked child before its first call."""
        self.barrier.reset()
        self._lock = threading.Lock()  # another thread of the parent may have held the old lock
        leak_on_fork(self._channel)
        leak_on_fork(self._held)
        self._channel = self._held = None

    def disconnect(self) -> None:
        """Close the channel; calls under way end as CANCELLED, and a later call opens a new one."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _connected(self) -> "CollectorStub":
        from geoveil.proto.v1.collector_pb2_grpc import CollectorStub

        with self._lock:
            if self._channel is None:
                self._held = self._held or hold()
                self._channel = open_channel(self._target, self._tls, _OPTIONS)
                self._stub = CollectorStub(self._channel)
            return self._stub


class GrpcTransport(_Grpc, Transport):
    """Blocking gRPC for any number of threads, with a channel from the first call on.

    A process that forks after that must call `forget` in the child. The target is a gRPC address
    such as "collector.example:443"; `tls` may be None only for targets on this machine.

    Raises:
        PlaintextRefused: if the target is another machine and `tls` is None.
    """

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        response: collector_pb2.GetCampaignResponse = self._call("GetCampaign", request, timeout_s)
        return response

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        response: collector_pb2.SubmitReportsResponse = self._call(
            "SubmitReports", request, timeout_s
        )
        return response

    def close(self) -> None:
        """Disconnect, and let go of gRPC; a later call connects again."""
        self.disconnect()
        self._held = None

    def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        grpc = loaded()
        try:
            call = getattr(self._connected(), method)
            return call(request, timeout=timeout_s, compression=_compression(request))
        except grpc.RpcError as error:
            raise failed(error, TransportError) from error
        except ValueError as error:
            raise _closed() from error


class GrpcAioTransport(_Grpc, AsyncTransport):
    """gRPC for asyncio in any number of event loops; otherwise like `GrpcTransport`.

    It waits for futures of the blocking channel, which is as fast as grpc.aio, whose engine serves
    only one event loop and does not survive a fork. Its calls end on gRPC's threads, so that a fork
    can wait for them although the event loop is blocked.

    Raises:
        PlaintextRefused: if the target is another machine and `tls` is None.
    """

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        response: collector_pb2.GetCampaignResponse = await self._call(
            "GetCampaign", request, timeout_s
        )
        return response

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        response: collector_pb2.SubmitReportsResponse = await self._call(
            "SubmitReports", request, timeout_s
        )
        return response

    async def aclose(self) -> None:
        """Disconnect, and let go of gRPC; a later call connects again."""
        self.disconnect()
        self._held = None

    async def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        import asyncio

        if not is_loaded():
            await asyncio.to_thread(loaded)
        self.barrier.enter()
        try:
            call: Any = getattr(self._connected(), method).future(
                request, timeout=timeout_s, compression=_compression(request)
            )
        except BaseException as error:
            self.barrier.leave()
            if isinstance(error, ValueError):
                raise _closed() from error
            raise
        call.add_done_callback(lambda _: self.barrier.leave())
        return await result_of(call, TransportError)


def _compression(request: Any) -> "grpc.Compression | None":
    batch = isinstance(request, collector_pb2.SubmitReportsRequest) and len(request.reports) > 1
    if not batch or request.ByteSize() <= _LEAST_COMPRESSED_BYTES:
        return None
    import grpc

    return grpc.Compression.Gzip


def _closed() -> TransportError:
    """Return the error for a call on a closed channel, for which grpc raises ValueError."""
    return TransportError("CANCELLED", "the transport was closed")
