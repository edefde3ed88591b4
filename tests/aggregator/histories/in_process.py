"""Replicas in this process, with requests as bytes of the wire and injected clocks.

A replica dies by having the thread that writes end at a chosen statement, its connection closed on
the spot; whatever it was doing is answered to nobody.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
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
from geoveil.aggregator.domain.errors import public
from geoveil.aggregator.domain.rates import Rate, RateLimits
from geoveil.aggregator.domain.threads import Reader
from geoveil.aggregator.domain.watching import PollTimer
from geoveil.aggregator.grpc.servicers import add_collector
from geoveil.aggregator.store.maintenance import check_database
from geoveil.proto.v1.analyst_pb2_grpc import add_AnalystServicer_to_server

from .campaigns import SKEW, require
from .sharing import InlineReader
from .traps import Death, Trap, trapped
from .world import Lost, Refused, Unreachable, Watching, World, copy_database

_NO_LIMIT = 4_294_967_294
_SETTINGS = Settings(clock_skew_s=SKEW.total_seconds(), queue_limit=16, commit_limit=8)
_RATE = Rate(per_second=1.0, burst=18.0)
_PAUSE_S = 1000.0
"""Fills every bucket."""
_END = object()


@dataclass(frozen=True)
class Parts:
    """What a replica is made of; a control has a broken one."""

    store: Callable[[Path], SQLiteStore] = SQLiteStore
    writer: type[Writer] = Writer
    collector: Callable[[Service, int], CollectorServicer] = CollectorServicer


class _Handlers:
    """Takes the place of a gRPC server: keeps what is to be called."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Pass over: the same come by name."""

    def add_registered_method_handlers(self, _service: str, handlers: dict[str, Any]) -> None:
        self.by_name |= handlers


class _Context:
    """What servicers ask of a call."""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:50000"


class Replica:
    """A service, and the future of its death.

    Args:
        open_writer: opens the store that writes.
        reader: started; of any number of replicas.
        clock: its own.
        parts: that it is made of.
    """

    def __init__(
        self, open_writer: Callable[[], Store], reader: Reader, clock: Any, parts: Parts
    ) -> None:
        self.trap = Trap()
        self.loop = asyncio.get_running_loop()
        self.death: asyncio.Future[None] = self.loop.create_future()
        self.doomed = False
        """Whether nothing that it does from now on is heard of."""
        self.asleep = asyncio.Event()
        """Whether its watch waits."""
        self.woken = asyncio.Event()
        self.writer = parts.writer(
            lambda: trapped(open_writer(), self.trap),
            queue_limit=_SETTINGS.queue_limit,
            commit_limit=_SETTINGS.commit_limit,
        )
        self._under_way = 0
        self._seconds = 0.0
        limits = RateLimits(per_campaign=_RATE, clock=lambda: self._seconds)
        pace = PollTimer(self._sleep)
        service = Service(self.writer, reader, _SETTINGS, clock, limits=limits, pace=pace)
        server: Any = _Handlers()
        add_collector(parts.collector(service, _SETTINGS.max_message_bytes), server)
        add_AnalystServicer_to_server(AnalystServicer(service), server)
        self._handlers = server.by_name

    async def start(self) -> None:
        await self.writer.start()

    async def stop(self) -> None:
        """Release everything, dead or alive."""
        await self.writer.stop()

    def die(self, _connection: Any = None) -> None:
        """Die; from any thread."""
        self.doomed = True
        self.loop.call_soon_threadsafe(self._told)

    def _told(self) -> None:
        if not self.death.done():
            self.death.set_result(None)

    async def _sleep(self, _seconds: float) -> None:
        self.asleep.set()
        await self.woken.wait()
        self.woken.clear()

    async def call(self, method: str, request: bytes) -> bytes:
        handler = self._begun(method)
        try:
            message = handler.request_deserializer(request)
            answer = await self.mortal(handler.unary_unary(message, _Context()))
        finally:
            self._under_way -= 1
        return _serialized(handler, answer)

    async def converse(self, method: str, requests: Sequence[bytes]) -> AsyncIterator[bytes]:
        handler = self._begun(method)

        async def messages() -> AsyncIterator[Any]:
            for request in requests:
                yield handler.request_deserializer(request)

        try:
            if handler.request_streaming:
                answers = handler.stream_stream(messages(), _Context())
            else:
                message = handler.request_deserializer(requests[0])
                answers = handler.unary_stream(message, _Context())
            async with aclosing(answers):
                while (answer := await self.mortal(anext(answers, _END))) is not _END:
                    yield _serialized(handler, answer)
        finally:
            self._under_way -= 1

    def _begun(self, method: str) -> Any:
        if not self._under_way:
            self._seconds += _PAUSE_S  # only those at once, and streams, come too fast
        self._under_way += 1
        return self._handlers[method]

    async def mortal(self, work: Awaitable[Any]) -> Any:
        """Return what work returns, or raise what is heard of it."""
        task = asyncio.ensure_future(work)
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
        return task.result()


def _serialized(handler: Any, answer: Any) -> bytes:
    return bytes(handler.response_serializer(answer) if handler.response_serializer else answer)


class _Watch(Watching):
    """Looks when it is told to."""

    def __init__(self, world: "InProcess", i: int, request: bytes) -> None:
        self._world = world
        self._i = i
        self._request = request
        self._replica: Replica | None = None
        self._answers: Any = None
        self._next: asyncio.Future[Any] | None = None

    async def look(self) -> tuple[list[bytes], bool]:
        if self._replica is None:
            self._replica = await self._world.started(self._i)
            self._answers = self._replica.converse("WatchEstimate", [self._request])
        replica = self._replica
        if replica.doomed:
            raise Lost
        replica.asleep.clear()
        if self._next is not None:
            replica.woken.set()
        found: list[bytes] = []
        while True:
            self._next = self._next or asyncio.ensure_future(anext(self._answers, _END))
            asleep = asyncio.ensure_future(replica.asleep.wait())
            await asyncio.wait((self._next, asleep), return_when=asyncio.FIRST_COMPLETED)
            asleep.cancel()
            await asyncio.gather(asleep, return_exceptions=True)
            if not self._next.done():
                return found, True
            answer, self._next = self._next, None
            if answer.result() is _END:
                return found, False
            found.append(answer.result())

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        if self._answers is not None:
            await self._answers.aclose()
        if self._replica is not None:
            self._replica.woken.clear()


class InProcess(World):
    """Replicas in this process, each started when it is first needed."""

    def __init__(self) -> None:
        super().__init__()
        self._alive: list[Replica | None] = [None] * self.replicas
        self._dead = [False] * self.replicas
        self._abandoned: list[Replica] = []
        self._starting = asyncio.Lock()

    async def _replica(self, i: int) -> Replica:
        raise NotImplementedError

    async def started(self, i: int) -> Replica:
        """Return a replica that is not dead."""
        if self._dead[i]:
            raise Unreachable
        async with self._starting:
            replica = self._alive[i]
            if replica is None:
                replica = await self._replica(i)
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
        await self.started(replica)

    async def call(self, replica: int, method: str, request: bytes) -> bytes:
        running = await self.started(replica)
        try:
            return await running.call(method, request)
        finally:
            self._bury_the_dead()

    async def converse(
        self, replica: int, method: str, requests: Sequence[bytes]
    ) -> AsyncIterator[bytes]:
        running = await self.started(replica)
        try:
            async with aclosing(running.converse(method, requests)) as answers:
                async for answer in answers:
                    yield answer
        finally:
            self._bury_the_dead()

    def watch(self, replica: int, request: bytes) -> Watching:
        return _Watch(self, replica, request)

    def _bury_the_dead(self) -> None:
        for i, one in self._living():
            if one.death.done():
                self._bury(i)

    def troubled(self, replica: int) -> bool:
        return any(one.trap.armed for i, one in self._living() if i == replica)

    async def kill(self, replica: int, at: int, *, all_replicas: bool) -> None:
        if at == 0:
            for i in range(self.replicas) if all_replicas else [replica]:
                self._bury(i)
            return
        with suppress(Unreachable):
            running = await self.started(replica)
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
        self._dead[replica] = False

    async def heal(self) -> None:
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
        parts: of its replicas.
    """

    replicas = 2

    def __init__(self, folder: Path, parts: Parts | None = None) -> None:
        super().__init__()
        self._folder = folder
        self._parts = parts or Parts()
        self._readers: dict[Path, Reader] = {}
        self._generation = 0
        self._full = False
        self.database.write_bytes(_template())

    @property
    def database(self) -> Path:
        """The file."""
        return self._folder / f"{self._generation}.sqlite"

    async def _replica(self, i: int) -> Replica:
        path = self.database

        def open_writer() -> Store:
            store = self._parts.store(path)
            _limit(store, 1 if self._full else _NO_LIMIT)
            return store

        if path not in self._readers:
            self._readers[path] = InlineReader(partial(self._parts.store, path))
            await self._readers[path].start()
        return Replica(open_writer, self._readers[path], lambda: self.now[i], self._parts)

    async def close(self) -> None:
        await super().close()
        for reader in self._readers.values():
            await reader.stop()
        self._readers.clear()

    def troubled(self, replica: int) -> bool:
        return self._full or super().troubled(replica)

    async def cut(self, replica: int, at: int, *, done: bool) -> None:
        """Let a statement fail; one that fails in a file is never done."""
        with suppress(Unreachable):
            (await self.started(replica)).trap.arm(at, _fail)

    async def fill_disk(self, full: bool) -> None:
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
        require(check_database(self.database).faults == (), "what is stored is what is counted")


def _limit(store: Any, limit: int) -> None:
    store.run(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {limit}"))


def _fail(connection: Any) -> None:
    if connection is not None:
        raise OperationalError("", None, sqlite3.OperationalError("disk I/O error"))
