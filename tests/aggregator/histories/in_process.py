"""Replicas in this process: requests are the bytes of the wire, clocks are injected.

A replica dies by having the thread that writes end at a chosen statement, its connection closed on
the spot; whatever it was doing is answered to nobody.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.exc import OperationalError

from geoveil.aggregator import (
    AnalystServicer,
    Code,
    CollectorServicer,
    Service,
    ServiceError,
    Settings,
    SQLiteStore,
    Store,
    Writer,
)
from geoveil.aggregator.errors import public
from geoveil.aggregator.reader import Reader
from geoveil.aggregator.store.maintenance import check
from geoveil.proto.v1 import analyst_pb2, collector_pb2

from .campaigns import SKEW, require
from .traps import Death, Trap, trapped
from .world import Lost, Refused, Unreachable, World, copy_database

_NO_LIMIT = 4_294_967_294
_SETTINGS = Settings(clock_skew_s=SKEW.total_seconds(), queue_limit=16, commit_limit=8)
_REQUESTS: dict[str, Any] = {
    method.name: module
    for module, service in ((collector_pb2, "Collector"), (analyst_pb2, "Analyst"))
    for method in module.DESCRIPTOR.services_by_name[service].methods
}


class _Context:
    """What servicers ask of a call."""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:50000"


class Replica:
    """A service, and the future of its death.

    Args:
        open_writer: opens the store that writes.
        open_reader: opens the store that reads.
        clock: its own.
    """

    def __init__(
        self, open_writer: Callable[[], Store], open_reader: Callable[[], Store], clock: Any
    ) -> None:
        self.trap = Trap()
        self.loop = asyncio.get_running_loop()
        self.death: asyncio.Future[None] = self.loop.create_future()
        self.doomed = False
        """Whether nothing that it does from now on is heard of."""
        self.writer = Writer(
            lambda: trapped(open_writer(), self.trap),
            queue_limit=_SETTINGS.queue_limit,
            commit_limit=_SETTINGS.commit_limit,
        )
        self.reader = Reader(open_reader)
        service = Service(self.writer, self.reader, _SETTINGS, clock)
        self.servicers = (CollectorServicer(service), AnalystServicer(service))

    async def start(self) -> None:
        await self.writer.start()
        await self.reader.start()

    async def stop(self) -> None:
        """Release everything, dead or alive."""
        await self.writer.stop()
        await self.reader.stop()

    def die(self, _connection: Any = None) -> None:
        """Die; from any thread."""
        self.doomed = True
        self.loop.call_soon_threadsafe(self._told)

    def _told(self) -> None:
        if not self.death.done():
            self.death.set_result(None)

    async def call(self, method: str, request: bytes) -> bytes:
        """See `World.call`."""
        module = _REQUESTS[method]
        message = getattr(module, f"{method}Request").FromString(request)
        servicer = self.servicers[module is analyst_pb2]
        task = asyncio.ensure_future(getattr(servicer, method)(message, _Context()))
        try:
            await asyncio.wait((task, self.death), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self.doomed:
            await self.death
            with suppress(Exception, asyncio.CancelledError):
                task.exception()
            raise Lost
        error = task.exception()
        if isinstance(error, Exception):
            told = public(error)
            raise Refused(
                told.code.name if told.code is Code.DIGEST_MISMATCH else told.status
            ) from error
        return bytes(task.result().SerializeToString())


class InProcess(World):
    """Replicas in this process, each started when it is first needed."""

    def __init__(self) -> None:
        super().__init__()
        self._alive: list[Replica | None] = [None] * self.replicas
        self._dead = [False] * self.replicas
        self._abandoned: list[Replica] = []
        self._starting = asyncio.Lock()

    def _replica(self, i: int) -> Replica:
        raise NotImplementedError

    async def _started(self, i: int) -> Replica:
        """Return a replica that is not dead."""
        if self._dead[i]:
            raise Unreachable
        async with self._starting:
            replica = self._alive[i]
            if replica is None:
                replica = self._replica(i)
                troubled = self.troubled(i)
                try:
                    await replica.start()
                except ServiceError as error:
                    require(troubled, "starts while it can", error.code)
                    await replica.stop()
                    raise Unreachable from error
                self._alive[i] = replica
            return replica

    def _living(self) -> list[tuple[int, Replica]]:
        return [(i, replica) for i, replica in enumerate(self._alive) if replica is not None]

    def _bury(self, i: int, *, dead: bool = True) -> None:
        """Take a replica out of service without stopping it."""
        replica, self._alive[i] = self._alive[i], None
        self._dead[i] = dead
        if replica is not None:
            replica.trap.arm(1, self._end_thread)
            replica.die()
            self._abandoned.append(replica)

    def _end_thread(self, connection: Any) -> None:
        raise Death

    async def start(self, replica: int) -> None:
        """See `World.start`."""
        await self._started(replica)

    async def call(self, replica: int, method: str, request: bytes) -> bytes:
        """See `World.call`."""
        running = await self._started(replica)
        try:
            return await running.call(method, request)
        finally:
            for i, one in self._living():
                if one.death.done():
                    self._bury(i)

    def troubled(self, replica: int) -> bool:
        """See `World.troubled`."""
        return any(one.trap.armed for i, one in self._living() if i == replica)

    async def kill(self, replica: int, at: int, *, all_replicas: bool) -> None:
        """See `World.kill`."""
        if at == 0:
            for i in range(self.replicas) if all_replicas else [replica]:
                self._bury(i)
            return
        with suppress(Unreachable):
            running = await self._started(replica)
            running.trap.arm(at, partial(self._die, running, all_replicas))

    def _die(self, replica: Replica, all_replicas: bool, connection: Any) -> None:
        """Die, on the thread of the replica."""
        dying = [r for _, r in self._living()] if all_replicas else [replica]
        # First of all: what is acknowledged from here on need not be in the image.
        for one in dying:
            one.doomed = True
        if all_replicas:
            self._take_image()
        for one in dying:
            one.trap.arm(1, self._end_thread)
            one.die()
        self._end_thread(connection)

    def _take_image(self) -> None:
        """Keep what is stored at the moment when a machine dies."""

    async def restart(self, replica: int) -> None:
        """See `World.restart`."""
        self._dead[replica] = False

    async def heal(self) -> None:
        """See `World.heal`."""
        await self.fill_disk(False)
        for i in range(self.replicas):
            self._bury(i, dead=False)
        await self.close()

    async def close(self) -> None:
        """Release all that was ever started."""
        for i in range(self.replicas):
            self._bury(i, dead=self._dead[i])
        abandoned, self._abandoned = self._abandoned, []
        await asyncio.gather(*(replica.stop() for replica in abandoned))


@cache
def _template() -> bytes:
    """Return an empty database."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "reports.sqlite"
        SQLiteStore(path).close()
        return path.read_bytes()


class InProcessSQLite(InProcess):
    """Two replicas on one file.

    Args:
        folder: empty.
        store: opens the database for writing; a broken one is a control.
    """

    replicas = 2

    def __init__(self, folder: Path, store: Callable[[Path], SQLiteStore] = SQLiteStore) -> None:
        super().__init__()
        self._folder = folder
        self._store = store
        self._generation = 0
        self._full = False
        self.database.write_bytes(_template())

    @property
    def database(self) -> Path:
        """The file."""
        return self._folder / f"{self._generation}.sqlite"

    def _replica(self, i: int) -> Replica:
        path = self.database

        def open_writer() -> Store:
            store = self._store(path)
            _limit(store, 1 if self._full else _NO_LIMIT)
            return store

        return Replica(open_writer, partial(SQLiteStore, path), lambda: self.now[i])

    def troubled(self, replica: int) -> bool:
        """See `World.troubled`."""
        return self._full or super().troubled(replica)

    async def cut(self, replica: int, at: int, *, done: bool) -> None:
        """Let a statement fail; one that fails in a file is never done."""
        with suppress(Unreachable):
            (await self._started(replica)).trap.arm(at, _fail)

    async def fill_disk(self, full: bool) -> None:
        """See `World.fill_disk`."""
        self._full = full
        for i, replica in self._living():
            if replica.trap.armed:
                self._bury(i, dead=False)
                continue
            limit = 1 if full else _NO_LIMIT
            task = asyncio.ensure_future(replica.writer.call(partial(_limit, limit=limit)))
            # It may have died of a request whose caller was gone.
            await asyncio.wait((task, replica.death), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                self._bury(i)

    async def restart_database(self) -> None:
        """Open a copy of the file as it stands, with all replicas anew."""
        for i in range(self.replicas):
            self._bury(i, dead=self._dead[i])
        self._take_image()

    def _take_image(self) -> None:
        """Go on with a copy of the files."""
        old = self.database
        self._generation += 1
        copy_database(old, self.database)

    def check(self) -> None:
        """See `World.check`."""
        require(check(self.database).faults == (), "what is stored is what is counted")


def _limit(store: Any, limit: int) -> None:
    store.run(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {limit}"))


def _fail(connection: Any) -> None:
    if connection is not None:
        raise OperationalError("", None, sqlite3.OperationalError("disk I/O error"))
