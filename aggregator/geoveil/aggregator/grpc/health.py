"""grpc.health.v1: the standing of every service, for those who ask and those who watch.

Not the servicer of grpcio-health-checking: that one holds a lock while it writes to a watcher, so
one who does not read could keep a server from stopping, and its watches outlast the stop.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no types

WHOLE_SERVER = ""
"""How the protocol names it."""
pb: Any = health_pb2
_STATUS = pb.HealthCheckResponse


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # no types
    """All services of a server stand alike.

    Args:
        services: full names.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._services = (WHOLE_SERVER, *services)
        self._serving = False
        self._stopping = False
        self._changed = asyncio.Event()

    def set(self, serving: bool) -> None:
        """Say whether all services serve; without effect after `stop`."""
        self._serving = serving and not self._stopping
        self._wake()

    def stop(self) -> None:
        """Say NOT_SERVING for good, and end the watches once they have; idempotent."""
        self._stopping = True
        self._serving = False
        self._wake()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the protocol
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return _STATUS(status=self._status(request.service))

    async def List(self, request: Any, context: Any) -> Any:  # noqa: N802 - of the protocol
        found = {name: _STATUS(status=self._status(name)) for name in self._services}
        return pb.HealthListResponse(statuses=found)

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
