"""The server process: the services and their health over gRPC, from start to graceful stop."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Self

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no types

from geoveil.aggregator.domain.errors import ServiceError
from geoveil.aggregator.domain.rates import Rate, RateLimits
from geoveil.aggregator.domain.service import Clock, Service, utc_now
from geoveil.aggregator.domain.store_contract import Store
from geoveil.aggregator.domain.threads import Reader, Room, Writer
from geoveil.aggregator.grpc import loop_tuning
from geoveil.aggregator.grpc.connection_reaper import ConnectionReaper
from geoveil.aggregator.grpc.connections import MARGIN, allow, allowed
from geoveil.aggregator.grpc.health import Readiness, ReadinessServicer, writable
from geoveil.aggregator.grpc.loop_tuning import for_serving, serving_loop
from geoveil.aggregator.grpc.middleware import Middleware
from geoveil.aggregator.grpc.servicers import (
    AnalystServicer,
    CollectorServicer,
    ConsoleServicer,
    add_collector,
)
from geoveil.aggregator.ops.authorizer import Authorizer
from geoveil.aggregator.ops.logs import handle_loop_errors
from geoveil.aggregator.ops.metrics import Metrics, MetricsServer, ObservedStore
from geoveil.aggregator.ops.settings import Settings
from geoveil.aggregator.ops.tls import Certificates, certificates
from geoveil.aggregator.ops.tracing import Tracing, commit_span
from geoveil.aggregator.store.opening import open_any_store
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, collector_pb2
from geoveil.proto.v1.analyst_pb2_grpc import add_AnalystServicer_to_server
from geoveil.proto.v1.console_pb2_grpc import add_ConsoleServicer_to_server

_LOG = logging.getLogger(__name__)

_SERVICES = (
    collector_pb2.DESCRIPTOR.services_by_name["Collector"].full_name,
    analyst_pb2.DESCRIPTOR.services_by_name["Analyst"].full_name,
)
# Networks drop TCP connections after 4 idle minutes, so clients ping every 210 s; by default a
# server treats more than one ping in 5 minutes as abuse.
_LEAST_PING_INTERVAL_MS = 200_000
_SOCKET = "grpc"
"""The name of the gateway's socket, in a separate folder."""
_MOST_CALLS = 100
"""The most calls under way on one connection."""
_HANDSHAKE_MS = 10_000
"""Milliseconds for a new connection's handshakes, TLS if used and HTTP/2."""
_NONE_OR_GZIP = 1 << 0 | 1 << 2
"""A bit for each accepted compression: gRPC numbers none, deflate and gzip from 0."""
_KEEPALIVE_MS, _KEEPALIVE_TIMEOUT_MS = 60_000, 20_000
"""Unanswered pings reveal dead peers with calls under way."""
_COUNT_CAMPAIGNS_S = 60.0
"""Seconds between two counts of the open campaigns, which read all of them."""
_NOTE_FIRST_S, _NOTE_S = 10.0, 600.0
"""Seconds before and between recordings of the number of reports and deletions of due reports."""


class Aggregator:
    """One server: use it as an asynchronous context manager, or call `start` and `stop` once.

    `open_store` opens the database, by default the settings' one: once for writing and once for
    reading, each in the thread that uses it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = utc_now,
        open_store: Callable[[], Store] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = Metrics()
        self._metrics_server: MetricsServer | None = None
        self._tracing: Tracing | None = None
        opener = open_store or partial(
            open_any_store, settings.database, busy_timeout_s=settings.busy_timeout_s
        )

        def observed() -> Any:  # it has all methods of the store
            return ObservedStore(opener(), self._metrics, self._readiness.commit_failed)

        writer = self._writer = Writer(
            observed,
            queue_limit=settings.queue_limit,
            commit_limit=settings.commit_limit,
            latency_s=settings.commit_latency_s,
            room=Room(settings.campaign_quota, settings.least_free_bytes),
            waiting=nullcontext if settings.traces is None else commit_span,
        )
        self._metrics.queue_weight.set_function(lambda: writer.weight)
        self._reader = Reader(observed)
        self._limits = RateLimits(
            per_campaign=_rate(settings.campaign_rate, settings.campaign_burst),
            per_peer=_rate(settings.peer_rate, settings.peer_burst),
            calls=_rate(settings.call_rate, settings.call_burst),
        )
        self._most_connections = allowed(settings.max_connections)
        self._reaper = ConnectionReaper(
            self._most_connections,
            max(settings.max_held_bytes, 4 * settings.max_message_bytes),
            settings.max_message_bytes,
        )
        self._service = Service(writer, self._reader, settings, clock, limits=self._limits)
        self._readiness = Readiness(
            partial(writable, self._writer, settings.busy_timeout_s),
            self._tell,
            settings.health_interval_s,
        )
        self._health = ReadinessServicer(_SERVICES)
        self._server: grpc.aio.Server | None = None
        self._counting: list[asyncio.Task[None]] = []
        self._address = ""
        self._folder: TemporaryDirectory[str] | None = None
        self._ready: bool | None = None

    @property
    def address(self) -> str:
        """The server's address "host:port"; empty before the start."""
        return self._address

    @property
    def local_address(self) -> str:
        """The private socket for the gateway on this machine; empty without a gateway."""
        return "" if self._folder is None else f"unix:{self._folder.name}/{_SOCKET}"

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics; None if they are not served."""
        return None if self._metrics_server is None else self._metrics_server.port

    async def start(self) -> str:
        """Open the database, listen, and return the address.

        Raises:
            ServiceError: DATABASE_UNUSABLE.
            ParameterError: if an address is taken, or a TLS or token file is unusable.
        """
        tls = certificates(self._settings)
        authorizer = Authorizer.of(self._settings, self._clock)
        if self._settings.traces is not None:
            self._tracing = Tracing(self._settings.traces)
        await self._writer.start()
        try:
            await self._writer.call(lambda store: store.verify())
            await self._reader.start()
            self._serve_metrics(tls)
            await self._listen(tls, authorizer)
        except BaseException:
            await self.stop(grace_s=0)
            raise
        self._readiness.start()
        self._counting.append(asyncio.create_task(self._note_days(), name="note days"))
        self._describe(tls, authorizer)
        return self._address

    async def stop(self, grace_s: float | None = None) -> None:
        """Report NOT_SERVING, take no new requests, finish those in progress, write all reports.

        Requests in progress have `grace_s` seconds, by default the settings' value. Idempotent.
        """
        grace = self._settings.grace_s if grace_s is None else grace_s
        server, self._server = self._server, None
        await self._readiness.stop()
        self._health.stop()
        self._metrics.ready.set(0)
        if server is not None:
            if self._address:  # started, so a load balancer may use it
                await asyncio.sleep(self._settings.drain_s)
            self._service.drain()
            await server.stop(grace)
            await self._reaper.stop()
        counting, self._counting = self._counting, []
        for task in counting:
            task.cancel()
        await asyncio.gather(*counting, return_exceptions=True)
        await self._writer.stop()
        await self._reader.stop()
        metrics_server, self._metrics_server = self._metrics_server, None
        if metrics_server is not None:
            await asyncio.to_thread(metrics_server.close)
        tracing, self._tracing = self._tracing, None
        if tracing is not None:
            await asyncio.to_thread(tracing.close)
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()
        if server is not None:
            _LOG.info("stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _listen(self, tls: Certificates | None, authorizer: Authorizer) -> None:
        server = self._server = loop_tuning.server(
            options=[
                ("grpc.max_receive_message_length", self._settings.max_message_bytes),
                # `submissions` unpacks requests, off the event loop, and supports only gzip.
                ("grpc.per_message_decompression", 0),
                ("grpc.compression_enabled_algorithms_bitset", _NONE_OR_GZIP),
                ("grpc.max_concurrent_streams", _MOST_CALLS),
                # It would count ended calls, and refuse well-behaved clients.
                ("grpc.http.overload_protection", 0),
                ("grpc.max_allowed_incoming_connections", MARGIN * self._most_connections),
                ("grpc.max_connection_idle_ms", round(1000 * self._settings.connection_idle_s)),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.http2.settings_timeout", _HANDSHAKE_MS),
                ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
                ("grpc.http2.min_ping_interval_without_data_ms", _LEAST_PING_INTERVAL_MS),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.so_reuseport", 0),  # otherwise two servers could share a port
            ],
        )
        middleware = self._offer(server, authorizer)
        if self._settings.reflection:
            _add_reflection(middleware)
        middleware.refuse_others()
        self._tell(True)  # both stores are open
        host = self._settings.host
        host = f"[{host}]" if ":" in host else host
        wanted = f"{host}:{self._settings.port}"
        try:
            if tls is None:
                port = server.add_insecure_port(wanted)
            else:
                port = server.add_secure_port(wanted, tls.credentials())
        except RuntimeError as error:
            raise ParameterError("address", wanted, "free, and one of this machine") from error
        if self._settings.web is not None:
            self._folder = TemporaryDirectory(prefix="geoveil-")  # private to this user
            server.add_insecure_port(self.local_address)
        await server.start()
        self._reaper.start([port])
        self._address = f"{host}:{port}"

    def _offer(self, server: grpc.aio.Server, authorizer: Authorizer) -> Middleware:
        """Register all services with a server."""
        middleware = Middleware(
            server,
            metrics=self._metrics,
            memory=self._reaper.memory,
            limits=self._limits,
            authorizer=authorizer,
            silence=self._reaper.silence,
            shut_out=self._reaper.shut_out,
            longest=self._settings.max_message_bytes,
            tracing=self._tracing,
        )
        collector = CollectorServicer(
            self._service, self._settings.max_message_bytes, self._metrics.count_reports
        )
        add_collector(collector, middleware)
        # Generated code calls two methods of a server, which the middleware has.
        offered: Any = middleware
        add_AnalystServicer_to_server(AnalystServicer(self._service), offered)
        console = ConsoleServicer(self._service, self._metrics, self._settings)
        add_ConsoleServicer_to_server(console, offered)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, middleware)
        return middleware

    def _tell(self, ready: bool) -> None:
        """Set health and metrics by whether reports can be counted, and log changes."""
        self._health.set(ready)
        if self._ready is not None and ready != self._ready:
            if ready:
                _LOG.info("ready")
            else:
                _LOG.error("not_ready", extra={"reason": "the database can't be written"})
        self._ready = ready
        self._metrics.ready.set(ready)

    def _serve_metrics(self, tls: Certificates | None) -> None:
        if tls is not None:
            self._metrics.certificate_expires.set_function(lambda: tls.expires.timestamp())
        if self._settings.metrics_port is not None:
            self._metrics_server = MetricsServer(
                self._metrics, self._settings.metrics_host, self._settings.metrics_port
            )
            counting = asyncio.create_task(self._count_campaigns(), name="count campaigns")
            self._counting.append(counting)

    async def _count_campaigns(self) -> None:
        while True:
            try:
                opened = await self._service.count_open_campaigns()
            except ServiceError:
                _LOG.warning("campaigns_not_counted")
            else:
                self._metrics.campaigns_open.set(opened)
            await asyncio.sleep(_COUNT_CAMPAIGNS_S)

    async def _note_days(self) -> None:
        await asyncio.sleep(_NOTE_FIRST_S)
        while True:
            try:
                await self._service.note_day()
            except ServiceError:
                _LOG.warning("reports_of_today_not_noted")
            try:
                await self._service.delete_due()
            except ServiceError:
                _LOG.warning("reports_not_deleted")
            await asyncio.sleep(_NOTE_S)

    def _describe(self, tls: Certificates | None, authorizer: Authorizer) -> None:
        """Log what operators should know about a server that other machines can reach."""
        fields: dict[str, object] = {"address": self._address, "analysts": authorizer.analysts}
        fields["tls"] = tls is not None
        if self._metrics_server is not None:
            fields["metrics"] = f"http://{self._settings.metrics_host}:{self.metrics_port}/metrics"
        _LOG.info("listening", extra=fields)
        if self._settings.on_loopback:
            return
        if tls is None:
            meaning = "reports and tokens travel in the clear, unless a proxy adds TLS"
            _LOG.warning("without_tls", extra={"meaning": meaning})
        if self._settings.insecure_open_analyst:
            meaning = "anyone who reaches this server may create, close and estimate campaigns"
            _LOG.warning("open_to_analysts", extra={"meaning": meaning})


def _add_reflection(server: Any) -> None:
    """Let a server describe its services, and reflection itself."""
    # Imported here, since it registers descriptors with the whole process.
    from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # no types
        reflection,
        reflection_pb2_grpc,
    )

    health = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    # `enable_server_reflection` would mistake the middleware for a synchronous server.
    servicer = reflection.aio.ReflectionServicer((*_SERVICES, health, reflection.SERVICE_NAME))
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)


def check_files(settings: Settings) -> None:
    """Check the certificate and token files; ParameterError if one is unusable."""
    certificates(settings)
    Authorizer.of(settings, utc_now)


def _rate(per_second: float | None, burst: float | None) -> Rate | None:
    if per_second is None:
        return None
    ten_seconds = max(1.0, 10.0 * per_second)
    return Rate(per_second=per_second, burst=ten_seconds if burst is None else burst)


async def serve(
    settings: Settings,
    *,
    clock: Clock = utc_now,
    started: Callable[[str], object] | None = None,
    beside: Callable[[Aggregator], AbstractAsyncContextManager[object]] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then stop gracefully and return.

    A second signal ends the process at once, without losing acknowledged reports. `started` gets
    the address once requests are accepted; `beside`, such as a gateway, runs alongside the server.

    It raises as `Aggregator.start` does.
    """
    allow(settings.max_connections)
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(handle_loop_errors)
    signals = (signal.SIGTERM, signal.SIGINT)

    def stop() -> None:
        signalled.set()
        for number in signals:
            # The kernel's handler, which works even if this process is busy.
            signal.signal(number, signal.SIG_DFL)

    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        async with Aggregator(settings, clock=clock) as aggregator:
            async with nullcontext() if beside is None else beside(aggregator):
                with for_serving():
                    if started is not None:
                        started(aggregator.address)
                    await signalled.wait()
            _LOG.info("stopping")
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def run(
    settings: Settings,
    *,
    started: Callable[[str], object] | None = None,
    beside: Callable[[Aggregator], AbstractAsyncContextManager[object]] | None = None,
) -> None:
    """Run `serve` from synchronous code."""
    with asyncio.Runner(loop_factory=serving_loop) as runner:
        runner.run(serve(settings, started=started, beside=beside))
