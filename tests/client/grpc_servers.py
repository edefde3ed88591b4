"""Small gRPC servers, and one interface to both transports, for the tests of the transports."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from grpc import aio

from geoveil.client import GrpcAioTransport, GrpcTransport, TransportError
from geoveil.proto.v1 import collector_pb2, collector_pb2_grpc

REQUEST = collector_pb2.GetCampaignRequest(campaign_id="income")
Handler = Callable[[Any, Any], Any]


class Servicer(collector_pb2_grpc.CollectorServicer):
    """Gives requests to a handler; a TransportError that it raises becomes the status."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.time_left: list[float] = []

    async def _answer(self, request: Any, context: Any) -> Any:
        self.time_left.append(context.time_remaining())
        try:
            result = self._handler(request, context)
            return await result if asyncio.iscoroutine(result) else result
        except TransportError as error:
            await context.abort(grpc.StatusCode[error.code], error.detail)

    async def GetCampaign(self, request: Any, context: Any) -> Any:
        return await self._answer(request, context)

    async def SubmitReports(self, request: Any, context: Any) -> Any:
        return await self._answer(request, context)


@asynccontextmanager
async def serving(
    handler: Handler, address: str = "127.0.0.1:0"
) -> AsyncIterator[tuple[str, Servicer]]:
    server = aio.server(options=[("grpc.max_send_message_length", 64 << 20)])
    servicer = Servicer(handler)
    collector_pb2_grpc.add_CollectorServicer_to_server(servicer, server)
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield address.replace(":0", f":{port}"), servicer
    finally:
        await server.stop(None)


async def hang(request: Any, context: Any) -> Any:
    await asyncio.Event().wait()


def empty(request: Any, context: Any) -> Any:
    return collector_pb2.GetCampaignResponse()


class InThread:
    """A `GrpcTransport` behind the face of a `GrpcAioTransport`, so that one test serves both."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.blocking = GrpcTransport(*args, **settings)

    @property
    def _channel(self) -> Any:
        return self.blocking._channel

    async def get_campaign(self, request: Any, timeout_s: float) -> Any:
        return await asyncio.to_thread(self.blocking.get_campaign, request, timeout_s)

    async def submit_reports(self, request: Any, timeout_s: float) -> Any:
        return await asyncio.to_thread(self.blocking.submit_reports, request, timeout_s)

    async def aclose(self) -> None:
        self.blocking.close()


either = pytest.mark.parametrize("kind", [InThread, GrpcAioTransport], ids=["blocking", "aio"])


@asynccontextmanager
async def opened(kind: Any, target: str) -> AsyncIterator[Any]:
    transport = kind(target)
    try:
        yield transport
    finally:
        await transport.aclose()


async def failure(transport: Any, timeout_s: float = 10.0) -> TransportError:
    """Return the error of a call that must fail."""
    with pytest.raises(TransportError) as raised:
        await transport.get_campaign(REQUEST, timeout_s)
    return raised.value


async def outcome(transport: Any) -> str:
    try:
        await transport.get_campaign(REQUEST, 10.0)
    except TransportError as error:
        return error.code
    return "OK"


@asynccontextmanager
async def listening(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
) -> AsyncIterator[str]:
    """A server that speaks anything over TCP."""
    tasks: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks[asyncio.current_task()] = writer
        with suppress(asyncio.CancelledError, ConnectionError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task, writer in tasks.items():
            assert task is not None
            task.cancel()
            await task
            with suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


async def run_script(script: str, *arguments: str) -> None:
    """Run a program that must print "done", beside the servers of this loop.

    Args:
        script: in Python.
        arguments: of its command line.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(100):
            out, errors = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and its children, which have its pipes
        await process.communicate()
    assert (out, process.returncode) == (b"done\n", 0), errors.decode()
