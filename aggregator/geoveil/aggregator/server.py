"""The server process: two services and their health over gRPC, from start to graceful stop."""

import asyncio
import logging
import signal
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no types
from grpc_health.v1.health import aio as health_aio  # type: ignore[import-untyped]  # no types

from geoveil.aggregator.config import Settings
from geoveil.aggregator.interceptor import ErrorInterceptor
from geoveil.aggregator.reader import Reader
from geoveil.aggregator.service import Clock, Service, utc_now
from geoveil.aggregator.servicers import AnalystServicer, CollectorServicer
from geoveil.aggregator.store import SQLiteStore, Store
from geoveil.aggregator.writer import Writer
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, collector_pb2
from geoveil.proto.v1.analyst_pb2_grpc import add_AnalystServicer_to_server
from geoveil.proto.v1.collector_pb2_grpc import add_CollectorServicer_to_server

_LOG = logging.getLogger(__name__)

_SERVICES = (
    collector_pb2.DESCRIPTOR.services_by_name["Collector"].full_name,
    analyst_pb2.DESCRIPTOR.services_by_name["Analyst"].full_name,
)
# Networks drop TCP connections that were idle for 4 minutes, so clients ping every 210 s; a server
# takes pings oftener than every 5 minutes for abuse unless told otherwise.
_LEAST_PING_INTERVAL_MS = 200_000


class Aggregator:
    """One server. Use it as an asynchronous context manager, or `start` and `stop` it once.

    Args:
        settings: see `Settings`.
        clock: tells the time.
        open_store: opens the database; called once for writing and once for reading, each on the
            thread that uses it. By default the SQLite file of the settings.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = utc_now,
        open_store: Callable[[], Store] | None = None,
    ) -> None:
        self._settings = settings
        if open_store is None:
            open_store = partial(
                SQLiteStore, settings.database, busy_timeout_s=settings.busy_timeout_s
            )
        self._writer = Writer(
            open_store,
            queue_limit=settings.queue_limit,
            commit_limit=settings.commit_limit,
            latency_s=settings.commit_latency_s,
        )
        self._reader = Reader(open_store)
        self._service = Service(self._writer, self._reader, settings, clock)
        self._health = health_aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._address = ""

    @property
    def address(self) -> str:
        """Where it listens, as "host:port"; empty before it is started."""
        return self._address

    async def start(self) -> str:
        """Open the database, listen, and return the address.

        Raises:
            ServiceError: DATABASE_UNUSABLE.
            ParameterError: if the address is taken, or a TLS file can't be read.
        """
        credentials = _credentials(self._settings)
        await self._writer.start()
        try:
            await self._reader.start()
            await self._listen(credentials)
        except BaseException:
            await self.stop(grace_s=0)
            raise
        _LOG.info("listening on %s", self._address)
        return self._address

    async def stop(self, grace_s: float | None = None) -> None:
        """Report NOT_SERVING, take no new requests, finish those in progress, write all that waits.

        Idempotent.

        Args:
            grace_s: seconds for requests in progress; by default that of the settings.
        """
        grace = self._settings.grace_s if grace_s is None else grace_s
        await self._health.enter_graceful_shutdown()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace)
        await self._writer.stop()
        await self._reader.stop()
        if server is not None:
            _LOG.info("stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _listen(self, credentials: grpc.ServerCredentials | None) -> None:
        server = self._server = grpc.aio.server(
            interceptors=[ErrorInterceptor()],
            options=[
                ("grpc.max_receive_message_length", self._settings.max_message_bytes),
                ("grpc.http2.min_ping_interval_without_data_ms", _LEAST_PING_INTERVAL_MS),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.so_reuseport", 0),  # two servers on one port would share its requests
            ],
        )
        add_CollectorServicer_to_server(CollectorServicer(self._service), server)
        add_AnalystServicer_to_server(AnalystServicer(self._service), server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        for name in _SERVICES:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        host = self._settings.host
        host = f"[{host}]" if ":" in host else host
        wanted = f"{host}:{self._settings.port}"
        try:
            if credentials is None:
                port = server.add_insecure_port(wanted)
            else:
                port = server.add_secure_port(wanted, credentials)
        except RuntimeError as error:
            raise ParameterError("address", wanted, "free, and one of this machine") from error
        await server.start()
        self._address = f"{host}:{port}"


def _credentials(settings: Settings) -> grpc.ServerCredentials | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    pair = []
    for name in ("tls_key", "tls_certificate"):
        path = getattr(settings, name)
        try:
            pair.append(path.read_bytes())
        except OSError as error:
            raise ParameterError(name, str(path), f"a file to read ({error.strerror})") from error
    return grpc.ssl_server_credentials([(pair[0], pair[1])])


async def serve(
    settings: Settings,
    *,
    clock: Clock = utc_now,
    started: Callable[[str], object] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then stop gracefully and return.

    Args:
        settings: see `Settings`.
        clock: tells the time.
        started: called with the address once requests are taken.

    Raises:
        ServiceError, ParameterError: as `Aggregator.start`.
    """
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, told.set)
    try:
        async with Aggregator(settings, clock=clock) as aggregator:
            if started is not None:
                started(aggregator.address)
            await told.wait()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def run(settings: Settings, *, started: Callable[[str], object] | None = None) -> None:
    """Do what `serve` does, from code that is not asynchronous."""
    asyncio.run(serve(settings, started=started))
