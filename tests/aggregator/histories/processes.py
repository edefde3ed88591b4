"""Replicas in processes of their own, which SIGKILL ends at any instruction.

They are forked from one process that has everything loaded, so that hundreds can be started.
"""

import asyncio
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import grpc
import grpc.aio

from geoveil.aggregator.store.maintenance import check_database
from geoveil.proto.v1 import analyst_pb2, collector_pb2

from ..postgres import PostgresServer  # noqa: TID252 - tests are no package
from .campaigns import SKEW, require
from .machine import Machine
from .operations import History
from .playing import play_many
from .world import Lost, Refused, Unreachable, Watching, World, copy_database

_PROGRAM = """
import asyncio, json, logging, os, signal, sys
from datetime import datetime
from pathlib import Path
from geoveil.aggregator import Settings, serve
from geoveil.aggregator.store.database_url import DatabaseURL

def run(database, clock, skew_s):
    logging.disable()
    settings = Settings(
        database=DatabaseURL(database) if "://" in database else Path(database),
        port=0, clock_skew_s=skew_s, health_interval_s=3600, queue_limit=64, commit_limit=16)
    now = lambda: datetime.fromisoformat(Path(clock).read_text())
    tell = lambda address: print(json.dumps([os.getpid(), address]), flush=True)
    asyncio.run(serve(settings, clock=now, started=tell))

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in iter(sys.stdin.readline, ""):
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run(*json.loads(line))
        os._exit(0)
"""
_SERVICES = {
    method.name: service.full_name
    for service in (
        collector_pb2.DESCRIPTOR.services_by_name["Collector"],
        analyst_pb2.DESCRIPTOR.services_by_name["Analyst"],
    )
    for method in service.methods
}
_CLIENT_STREAMING = {"SubmitReportStream"}
_STEP_S = 0.0003
"""Between the moments at which a replica may die while it works."""
_PATIENCE_S = 60


class Nursery:
    """The process that replicas are forked from. Use it as a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def fork(self, database: str, clock: Path) -> tuple[int, str]:
        """Start a replica; return its process id and address."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = json.dumps([database, str(clock), SKEW.total_seconds()])
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_S)
        require(bool(ready), "a replica starts", order)
        pid, address = json.loads(self._process.stdout.readline())
        return pid, address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=_PATIENCE_S)


class _Process:
    """A running replica."""

    def __init__(self, pid: int, address: str) -> None:
        self.pid = pid
        self.channel = grpc.aio.insecure_channel(address)
        self.condemned: int | None = None
        """When it is to die, in steps after the next call begins."""
        self.death: asyncio.TimerHandle | None = None

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def end(self) -> None:
        """Kill it and wait until it is gone."""
        if self.death is not None:
            self.death.cancel()
        self.signal(signal.SIGKILL)
        for _ in range(_PATIENCE_S * 1000):
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                break
            await asyncio.sleep(0.001)
        await self.channel.close()


class _Watch(Watching):
    """Looks once: a server looks again when a second has passed, which would be long here."""

    def __init__(self, answers: AsyncIterator[bytes]) -> None:
        self._answers: Any = answers

    async def look(self) -> tuple[list[bytes], bool]:
        """Return what came; whether there is more is only known of one that ends at once."""
        return [await anext(self._answers)], True

    async def close(self) -> None:
        await self._answers.aclose()


def _path(method: str) -> str:
    return f"/{_SERVICES[method]}/{method}"


class Processes(World):
    """Replicas of one database, each started when it is first needed.

    Args:
        nursery: forks them.
        folder: empty.
        postgres: server and URL of a database; None: a SQLite file in the folder.
        tag: of this history.
    """

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        postgres: tuple[PostgresServer, str] | None = None,
        tag: str = "",
    ) -> None:
        self.replicas = 2 if postgres is None else 3
        self.looks_again = False
        super().__init__()
        self.tag = tag
        self._nursery = nursery
        self._folder = folder
        self._postgres = postgres
        self._generation = 0
        self._full = False
        self._alive: list[_Process | None] = [None] * self.replicas
        self._dead = [False] * self.replicas
        self._starting = asyncio.Lock()

    @property
    def database(self) -> str:
        """Path or URL."""
        if self._postgres is None:
            return str(self._folder / f"{self._generation}.sqlite")
        return self._postgres[1]

    async def _started(self, i: int) -> _Process:
        if self._dead[i]:
            raise Unreachable
        async with self._starting:
            process = self._alive[i]
            if process is None:
                clock = self._folder / f"clock{i}"
                clock.write_text(self.now[i].isoformat())
                process = _Process(
                    *await asyncio.to_thread(self._nursery.fork, self.database, clock)
                )
                self._alive[i] = process
                self._limit(process)
            return process

    async def start(self, replica: int) -> None:
        await self._started(replica)

    async def call(self, replica: int, method: str, request: bytes) -> bytes:
        process = await self._asked(replica)
        send = process.channel.unary_unary(_path(method))
        async with self._hearing(replica, process):
            return bytes(await send(request, timeout=_PATIENCE_S))
        raise AssertionError("what ends otherwise raises")

    async def converse(
        self, replica: int, method: str, requests: Sequence[bytes]
    ) -> AsyncIterator[bytes]:
        process = await self._asked(replica)
        answered: asyncio.Queue[None] = asyncio.Queue()

        async def in_turn() -> AsyncIterator[bytes]:
            """Send the next after the answer: else a refusal may be heard as INTERNAL."""
            for request in requests:
                yield request
                await answered.get()

        if method in _CLIENT_STREAMING:
            call = process.channel.stream_stream(_path(method))(in_turn(), timeout=_PATIENCE_S)
        else:
            call = process.channel.unary_stream(_path(method))(requests[0], timeout=_PATIENCE_S)
        try:
            while True:
                async with self._hearing(replica, process):
                    answer = await call.read()
                if answer is grpc.aio.EOF:
                    return
                answered.put_nowait(None)
                yield answer
        finally:
            call.cancel()

    def watch(self, replica: int, request: bytes) -> Watching:
        return _Watch(self.converse(replica, "WatchEstimate", [request]))

    async def _asked(self, replica: int) -> _Process:
        """Return a replica that knows the time and, if it is condemned, has not long to live."""
        process = await self._started(replica)
        temporary = self._folder / f"clock{replica}.{os.getpid()}"
        temporary.write_text(self.now[replica].isoformat())
        temporary.replace(self._folder / f"clock{replica}")
        if process.condemned is not None and process.death is None:
            process.death = asyncio.get_running_loop().call_later(
                process.condemned * _STEP_S, process.signal, signal.SIGKILL
            )
        return process

    @asynccontextmanager
    async def _hearing(self, replica: int, process: _Process) -> AsyncIterator[None]:
        """Raise what is heard of a call that fails."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            if self._alive[replica] is not process:
                raise Lost from error
            if process.death is not None and error.code() is grpc.StatusCode.UNAVAILABLE:
                await self._end(replica, dead=True)
                raise Lost from error
            mismatch = error.code() is grpc.StatusCode.FAILED_PRECONDITION
            raise Refused("DIGEST_MISMATCH" if mismatch else error.code().name) from error
        except asyncio.CancelledError as error:
            # Another call saw the death first, and closed the channel below this one.
            task = asyncio.current_task()
            if self._alive[replica] is process or (task is not None and task.cancelling()):
                raise
            raise Lost from error

    async def _end(self, i: int, *, dead: bool) -> None:
        process, self._alive[i] = self._alive[i], None
        self._dead[i] = dead
        if process is not None:
            await process.end()

    def troubled(self, replica: int) -> bool:
        process = self._alive[replica]
        return self._full or (process is not None and process.condemned is not None)

    async def kill(self, replica: int, at: int, *, all_replicas: bool) -> None:
        """Send SIGKILL at once, or some moment after the next call begins."""
        for i in range(self.replicas) if all_replicas else [replica]:
            if at == 0:
                await self._end(i, dead=True)
            elif not self._dead[i]:
                (await self._started(i)).condemned = at

    async def restart(self, replica: int) -> None:
        self._dead[replica] = False

    async def cut(self, replica: int, at: int, *, done: bool) -> None:
        """Stop a replica for a while, whatever it holds."""
        process = self._alive[replica]
        if process is not None:
            process.signal(signal.SIGSTOP)
            loop = asyncio.get_running_loop()
            loop.call_later(at * 5 * _STEP_S, process.signal, signal.SIGCONT)

    async def fill_disk(self, full: bool) -> None:
        """Let every write to a file fail; a database server has a disk of its own."""
        if self._postgres is None:
            self._full = full
            for process in self._alive:
                if process is not None:
                    self._limit(process)

    def _limit(self, process: _Process) -> None:
        if self._postgres is None:
            unlimited = resource.RLIM_INFINITY
            with suppress(ProcessLookupError):
                resource.prlimit(
                    process.pid, resource.RLIMIT_FSIZE, (1 if self._full else unlimited, unlimited)
                )

    async def restart_database(self) -> None:
        """Kill all and open a copy of the files; or end all connections of the server."""
        if self._postgres is not None:
            server, url = self._postgres
            server.kill_connections(url)
            return
        for i in range(self.replicas):
            await self._end(i, dead=self._dead[i])
        old = self.database
        self._generation += 1
        copy_database(Path(old), Path(self.database))

    async def heal(self) -> None:
        self._full = False
        await self.close()
        if self._postgres is not None:
            server, url = self._postgres
            server.kill_connections(url)  # what a dead process asked last has been done by then

    async def close(self) -> None:
        """Kill everything."""
        for i in range(self.replicas):
            await self._end(i, dead=False)

    def check(self) -> None:
        database = self.database if self._postgres else Path(self.database)
        require(check_database(database).faults == (), "what is stored is what is counted")


def play_with_processes(number: int, postgres: tuple[PostgresServer, str] | None = None) -> None:
    """Play so many histories, each with processes of its own; see `Processes`."""
    numbers = count()
    with Nursery() as nursery:

        async def play(history: History) -> None:
            with TemporaryDirectory() as folder:
                world = Processes(nursery, Path(folder), postgres, f"-{next(numbers)}")
                try:
                    await Machine(world).play(history)
                finally:
                    await world.close()

        play_many(play, number)
