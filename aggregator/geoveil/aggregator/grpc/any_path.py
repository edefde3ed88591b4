"""A grpc.aio server that no path of a call can stop.

grpc.aio decodes the path of an unregistered method as UTF-8 in the task that takes calls; other
bytes end that task, and the server. Here every method is registered, and any other path has one
name.
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import grpc.aio
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # no stubs

OTHERS = ("", "")
"""Service and method that receive calls of unregistered paths."""
_PATH_OF_OTHERS = b"//"


class _Server(cygrpc.AioServer):  # type: ignore[misc]
    def _make_request_call_future(self, path: bytes | None) -> Any:
        """Return the next call of a registered path, or of any other if the path is None."""
        if path is None:  # asked for once, and its calls would be decoded
            return asyncio.get_running_loop().create_future()
        return super()._make_request_call_future(None if path == _PATH_OF_OTHERS else path)


def server(options: Sequence[tuple[str, Any]]) -> grpc.aio.Server:
    """Return a server; its methods are to be registered, a handler of `OTHERS` among them."""
    with patch.object(cygrpc, "AioServer", _Server):
        return grpc.aio.server(options=options)
