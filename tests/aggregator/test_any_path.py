"""Test that no bytes in the path of a call stop a server or count as its defect."""

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, StreamReset, TrailersReceived

from geoveil.aggregator.grpc import any_path
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub

from .refusals import refused

_HEADERS = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":authority", b"a"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]
_NO_TEXT = (b"/\xff\xfe/\x80", b"/a/\xc3(")
_STRANGE = (b"", b"//", b"/" + 9_000 * b"a", b"*")


async def call(address: str, path: bytes) -> list[dict[bytes, bytes]]:
    """Return the headers and trailers that answer a call."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = H2Connection(
        H2Configuration(header_encoding=None, validate_outbound_headers=False)
    )
    connection.initiate_connection()
    connection.send_headers(1, [*_HEADERS[:3], (b":path", path), *_HEADERS[3:]])
    connection.send_data(1, b"\0\0\0\0\0", end_stream=True)
    writer.write(connection.data_to_send())
    answers: list[dict[bytes, bytes]] = []
    try:
        async with asyncio.timeout(2):
            while content := await reader.read(65_536):
                for event in connection.receive_data(content):
                    if isinstance(event, ResponseReceived | TrailersReceived):
                        answers.append(dict(event.headers))
                    if isinstance(event, StreamReset) or b"grpc-status" in (answers or [{}])[-1]:
                        return answers
                writer.write(connection.data_to_send())
    except TimeoutError:
        pass
    finally:
        writer.close()
    return answers


async def test_a_path_that_is_no_text_is_that_of_no_method(start_server, caplog):
    server = await start_server()
    for path in _NO_TEXT:
        ((answer),) = await call(server.address, path)
        assert answer[b"grpc-status"] == str(grpc.StatusCode.UNIMPLEMENTED.value[0]).encode()
    await asyncio.gather(*(call(server.address, path) for path in _STRANGE))
    async with grpc.aio.insecure_channel(server.address) as channel:
        sound = CollectorStub(channel).GetCampaign(GetCampaignRequest(campaign_id="a"))
        await refused(grpc.StatusCode.NOT_FOUND, sound)  # it still answers
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


class _Gone:
    """A call whose caller has gone: whatever is done with it fails, as grpc.aio has it."""

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "abort"):
            return self._fail
        return {"peer": lambda: "ipv4:192.0.2.1:5", "code": lambda: 0}.get(name, lambda *_: ())

    async def _fail(self, *_: Any) -> None:
        raise grpc.aio.InternalError("Failed grpc_call_start_batch")


@pytest.mark.parametrize("path", ["//", "/geoveil.proto.v1.Collector/GetCampaign"])
async def test_a_caller_that_is_gone_is_no_defect(start_server, monkeypatch, caplog, path):
    made: dict[str, Any] = {}
    server_of = any_path.server

    def spying(options: Any) -> Any:
        server = server_of(options)
        register = server.add_registered_method_handlers

        def record(service: str, handlers: Any) -> None:
            made.update({f"/{service}/{name}": handler for name, handler in handlers.items()})
            register(service, handlers)

        monkeypatch.setattr(server, "add_registered_method_handlers", record)
        return server

    monkeypatch.setattr(any_path, "server", spying)
    await start_server()
    with pytest.raises(asyncio.CancelledError):
        await made[path].stream_unary(None, _Gone())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


async def _echo(request: bytes, context: Any) -> bytes:
    return request


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("guarded", [True, False])
async def test_a_server_of_grpc_alone_is_stopped_by_one_such_call(guarded):
    """The control. Once grpc.aio takes any path, this fails, and `any_path` can go."""
    server = any_path.server([]) if guarded else grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(_echo)
    server.add_registered_method_handlers(
        *("", {"": handler}) if guarded else ("a", {"b": handler})
    )
    if not guarded:
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("a", {"b": handler}),)
        )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    ended = asyncio.ensure_future(server.wait_for_termination())
    await call(f"127.0.0.1:{port}", _NO_TEXT[0])
    await asyncio.wait([ended], timeout=1)
    assert ended.done() is not guarded
    if guarded:
        await server.stop(None)
        await ended
    else:
        assert isinstance(ended.exception(), UnicodeDecodeError)


async def test_many_calls_at_once_are_answered_and_none_outlives_the_server():
    """More calls than are accepted at once, of two methods and of none, all under way together."""
    server = any_path.server([])
    together = asyncio.Event()

    async def wait(request: bytes, context: Any) -> bytes:
        await together.wait()
        return request

    handler = grpc.unary_unary_rpc_method_handler(wait)
    server.add_registered_method_handlers("a", {"b": handler, "c": handler})
    server.add_registered_method_handlers("", {"": handler})
    before = asyncio.all_tasks()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        paths = ("/a/b", "/a/c", "/other")
        numbers = [b"%d" % number for number in range(3 * any_path._AT_ONCE)]
        calls = [channel.unary_unary(path)(number) for path in paths for number in numbers]
        asyncio.get_running_loop().call_later(0.2, together.set)
        assert await asyncio.gather(*calls) == 3 * numbers
    await server.stop(None)
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == before
