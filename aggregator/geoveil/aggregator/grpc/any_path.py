"""A grpc.aio server that no call's path can stop, and that accepts calls of each method separately.

grpc.aio decodes an unregistered method's path as UTF-8 in the task that accepts calls; other bytes
end this task, and with it the server. Here every method is registered, and all other paths share
one name. For each call that task also waits for all methods together, which takes longer the more
there are; here each method has tasks of its own, so that the task of grpc.aio only ends the server.
"""

import asyncio
from collections.abc import Mapping, Sequence
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


class _Server(cygrpc.AioServer):  # type: ignore[misc]
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._handlers: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add_registered_method_handlers(self, handlers: Mapping[str, Any]) -> None:
        """Register methods by path."""
        super().add_registered_method_handlers(handlers)
        self._handlers.update(handlers)

    def _make_request_call_future(self, path: bytes | None) -> asyncio.Future[None]:
        """Accept calls of a path; return a future that fails when no more can be accepted.

        Without a path, it accepts none: calls of unregistered paths would be decoded.
        """
        ended = asyncio.get_running_loop().create_future()
        if path is not None:
            methods = _INSIDE._MethodResolver([], self._handlers)
            for _ in range(_AT_ONCE):
                self._keep(self._accept(path, methods, ended))
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
            self._keep(_INSIDE._schedule_rpc_coro(answer, call, loop, name))

    def _keep(self, work: Any) -> None:
        """Run a coroutine; the loop alone would not keep it from the garbage collector."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def server(options: Sequence[tuple[str, Any]]) -> grpc.aio.Server:
    """Return a server; register all its methods, including a handler for `OTHERS`."""
    with patch.object(cygrpc, "AioServer", _Server):
        return grpc.aio.server(options=options)
