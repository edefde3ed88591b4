"""grpc.health.v1: whether the server can count reports now.

It replaces grpcio-health-checking's servicer, whose lock lets a slow watcher keep the server from
stopping.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no types

from geoveil.aggregator.domain.errors import ServiceError
from geoveil.aggregator.domain.threads import Writer

WHOLE_SERVER = ""
"""The whole server's name in the protocol."""
pb: Any = health_pb2
_STATUS = pb.HealthCheckResponse
_PATIENCE_S = 5.0
"""Seconds beyond the time for which the database may wait for another process."""


class ReadinessServicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # no types
    """One status for all services, each under its full name."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = (WHOLE_SERVER, *services)
        self._serving = False
        self._stopping = False
        self._changed = asyncio.Event()

    def set(self, serving: bool) -> None:
        """Set the status of all services; no effect after `stop`."""
        self._serving = serving and not self._stopping
        self._wake()

    def stop(self) -> None:
        """Report NOT_SERVING permanently, then end the watches; idempotent."""
        self._stopping = True
        self._serving = False
        self._wake()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the protocol
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return _STATUS(status=self._status(request.service))

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the protocol
        of_service = {name: _STATUS(status=self._status(name)) for name in self._services}
        return pb.HealthListResponse(statuses=of_service)

    async def Watch(  # noqa: N802 - of the protocol
        self, request: Any, context: Any
    ) -> AsyncIterator[Any]:
        last = None
        while True:
            changed = self._changed
            status = self._status(request.service)
            if status != last:
                yield _STATUS(status=status)
                last = status
            elif self._stopping:
                return
            else:
                await changed.wait()

    def _status(self, service: str) -> int:
        if service not in self._services:
            return int(_STATUS.SERVICE_UNKNOWN)
        return int(_STATUS.SERVING if self._serving else _STATUS.NOT_SERVING)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Readiness:
    """Probes the database every `interval_s` seconds and reports whether the server is ready.

    A failed transaction takes effect at once; the next probe comes after the interval.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[bool]],
        tell: Callable[[bool], object],
        interval_s: float,
    ) -> None:
        self._probe = probe
        self._tell = tell
        self._interval_s = interval_s
        self._failed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start probing on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="readiness")

    async def stop(self) -> None:
        """Stop probing; idempotent."""
        self._loop = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def commit_failed(self) -> None:
        """Note that a transaction failed; callable from any thread."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._failed.set)

    async def _run(self) -> None:
        while True:
            self._tell(await self._probe())
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._failed.wait()
            except TimeoutError:
                continue
            self._failed.clear()
            self._tell(False)
            await asyncio.sleep(self._interval_s)


async def writable(writer: Writer, busy_timeout_s: float) -> bool:
    """Return whether the writer's database takes transactions, within a bounded time.

    It does not try reads, since a reader may be busy with an estimate.
    """
    try:
        async with asyncio.timeout(busy_timeout_s + _PATIENCE_S):
            await writer.call(lambda store: store.probe())
    except (ServiceError, TimeoutError):
        return False
    return True
