"""A grpc.aio server that no call's path can stop.

grpc.aio decodes an unregistered method's path as UTF-8 in the task that accepts calls; other bytes
end this task, and with it the server. Here every method is registered, and all other paths share
one name.
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import grpc.aio
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # no stubs

OTHERS = ("", "")
"""The service and method that receive calls with unregistered paths."""
_PATH_OF_OTHERS = b"//"


class _Server(cygrpc.AioServer):  # type: ignore[misc]
    def _make_request_call_future(self, path: bytes | None) -> Any:
        """Return the next call with a registered path; with None, one with any other path."""
        if path is None:  # requested once; calls with it would be decoded
            return asyncio.get_running_loop().create_future()
        return super()._make_request_call_future(None if path == _PATH_OF_OTHERS else path)


def server(options: Sequence[tuple[str, Any]]) -> grpc.aio.Server:
    """Return a server; register all its methods, including a handler for `OTHERS`."""
    with patch.object(cygrpc, "AioServer", _Server):
        return grpc.aio.server(options=options)
