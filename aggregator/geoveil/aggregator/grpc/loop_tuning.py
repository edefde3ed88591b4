"""Tune Python and grpc.aio for a server process.

grpc.aio decodes an unregistered method's path as UTF-8 in the task that accepts calls; other bytes
end this task, and with it the server. Here every method is registered, and all other paths share
one name. For each call that task also waits for all methods together, which takes longer the more
there are; here each method has tasks of its own, so that the task of grpc.aio only ends the server.
"""

import asyncio
import ctypes
import gc
import selectors
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import grpc.aio
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # no stubs

OTHERS = ("", "")
"""The service and method that receive calls with unregistered paths."""
_PATH_OF_OTHERS = b"//"
_AT_ONCE = 32
"""Calls of a method that are accepted at once."""
_INSIDE: Any = cygrpc
"""What grpc.aio's own task calls, of which its types say nothing."""

_SWITCH_S = 0.0005
"""The writer's wait for a busy event loop, several times per transaction; by default 5 ms."""
_YOUNG = 10_000
"""New objects before a collection; Python's default of 700 is reached by ten calls under way."""

_MMAP_THRESHOLD = -3
_LARGE = 1 << 20
"""Freed blocks of at least this many bytes return to the operating system."""
_PATIENCE_S = 0.002
"""Seconds between polls for events during other work, and so the longest wait of a call."""


@contextmanager
def for_serving() -> Iterator[None]:
    """Exempt existing objects from garbage collection, and let threads switch sooner.

    A scan of a server's few hundred thousand permanent objects stops all calls for tens of ms.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    frozen_before = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *thresholds[1:])
    _return_memory()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        if not frozen_before:  # freezing can't be undone in part
            gc.unfreeze()


def _return_memory() -> None:
    """Make the C library return large blocks of memory, which GNU's keeps by default."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


class _Patient(selectors.DefaultSelector):
    """Polls for events only occasionally while there is other work."""

    _next = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0 and time.monotonic() < self._next:
            return []
        events = super().select(timeout)
        self._next = time.monotonic() + _PATIENCE_S
        return events


def serving_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for a server under load.

    A grpc.aio call takes a dozen steps. Before most of them asyncio would poll for events and
    release the interpreter to the writer's thread.
    """
    return asyncio.SelectorEventLoop(_Patient())


class _Server(cygrpc.AioServer):  # type: ignore[misc]
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._handlers: dict[str, Any] = {}
        # The loop alone would not keep tasks from the garbage collector.
        self._accepting: list[asyncio.Task[None]] = []
        self._answering: set[asyncio.Task[None]] = set()

    def add_registered_method_handlers(self, handlers: Mapping[str, Any]) -> None:
        """Register methods by path."""
        super().add_registered_method_handlers(handlers)
        self._handlers.update(handlers)

    def _make_request_call_future(self, path: bytes | None) -> asyncio.Future[None]:
        """Accept calls of a path; return a future that fails when no more can be accepted.

        Without a path, it accepts none: calls of unregistered paths would be decoded.
        """
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        if path is not None:
            methods = _INSIDE._MethodResolver([], self._handlers)
            for _ in range(_AT_ONCE):
                self._accepting.append(loop.create_task(self._accept(path, methods, ended)))
        return ended

    async def _accept(self, path: bytes, methods: Any, ended: asyncio.Future[None]) -> None:
        loop, name = asyncio.get_running_loop(), path.decode()
        while not ended.done():
            try:
                if path == _PATH_OF_OTHERS:
                    call = await self._request_call()
                else:
                    call = await self._request_registered_call(path)
            except Exception as error:  # noqa: BLE001 - the server ends, or ends by it
                if not ended.done():
                    ended.set_exception(error)
                return
            answer = _INSIDE._handle_rpc(name, methods, (), call, loop, False)
            task = loop.create_task(_INSIDE._schedule_rpc_coro(answer, call, loop, name))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)


def server(options: Sequence[tuple[str, Any]]) -> grpc.aio.Server:
    """Return a server; register all its methods, including a handler for `OTHERS`."""
    with patch.object(cygrpc, "AioServer", _Server):
        return grpc.aio.server(options=options)
