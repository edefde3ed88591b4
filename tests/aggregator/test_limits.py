"""Limits of a caller's messages, calls and connections over raw HTTP/2, and odd paths."""

import asyncio
import gc
import gzip
import importlib
import logging
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, StreamReset, TrailersReceived

from geoveil.aggregator.grpc import loop_tuning
from geoveil.proto.v1 import collector_pb2
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
    server_of = loop_tuning.server

    def spying(options: Any) -> Any:
        server = server_of(options)
        register = server.add_registered_method_handlers

        def record(service: str, handlers: Any) -> None:
            made.update({f"/{service}/{name}": handler for name, handler in handlers.items()})
            register(service, handlers)

        monkeypatch.setattr(server, "add_registered_method_handlers", record)
        return server

    monkeypatch.setattr(loop_tuning, "server", spying)
    await start_server()
    with pytest.raises(asyncio.CancelledError):
        await made[path].stream_unary(None, _Gone())
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


async def _echo(request: bytes, context: Any) -> bytes:
    return request


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("guarded", [True, False])
async def test_a_server_of_grpc_alone_is_stopped_by_one_such_call(guarded):
    """The control. Once grpc.aio takes any path, this fails, and `_Server` may decode paths."""
    server = loop_tuning.server([]) if guarded else grpc.aio.server()
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
    server = loop_tuning.server([])
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
        numbers = [b"%d" % number for number in range(3 * loop_tuning._AT_ONCE)]
        calls = [channel.unary_unary(path)(number) for path in paths for number in numbers]
        asyncio.get_running_loop().call_later(0.2, together.set)
        assert await asyncio.gather(*calls) == 3 * numbers
    await server.stop(None)
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == before


KIB = 1 << 10
FETCH = "/geoveil.proto.v1.Collector/GetCampaign"
SUBMIT = "/geoveil.proto.v1.Collector/SubmitReports"
WATCH = "/grpc.health.v1.Health/Watch"
PATIENCE_S = 20.0


@pytest.fixture
def frames(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("benchmarks.hostile_frames")


@pytest.fixture
async def small(start_server, publish):
    """A server that lets callers hold 256 KiB, that is, eight calls with nothing in them."""
    server = await start_server(max_message_bytes=64 * KIB, max_held_bytes=64 * KIB)
    await server.wire.create(publish())
    return server


@pytest.fixture
def opened(frames):
    """Opens connections that send something; they are closed when the test ends."""
    with ExitStack() as stack:

        async def opened(address: str, count: int, data: bytes = b"") -> list[Any]:
            connections = []
            for _ in range(count):
                one = await asyncio.to_thread(frames.Connection, address, 65_535, True)
                stack.callback(one.close)
                one.send(data)
                connections.append(one)
            return connections

        yield opened


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - of sockets, which tell nobody
            await asyncio.sleep(0.01)


def alive(connections: list[Any]) -> int:
    return sum(connection.alive() for connection in connections)


async def test_requests_that_do_not_end_are_let_go(frames, opened, small, publish, wire_report):
    begun = b"\x00" + (60 * KIB).to_bytes(4, "big") + bytes(30 * KIB)
    calls = b"".join(frames.call(stream, SUBMIT, more=begun) for stream in (1, 3))
    connections = await opened(small.address, 6, calls)
    await until(lambda: alive(connections) <= 2)
    (result,) = await small.wire.submit(publish(), wire_report(1, (0, 5)))
    assert result.status == 1
    assert alive(connections) >= 1, "what fits stays"


@pytest.mark.deep
async def test_small_requests_that_are_slow_to_come_are_waited_for(
    frames, opened, small, publish, wire_report
):
    """More of them than there could be large ones."""
    campaign = publish()
    head = collector_pb2.SubmitReportsRequest(
        campaign_id=campaign.campaign_id, campaign_digest=campaign.digest
    )
    connections = []
    for number in range(6):
        request = collector_pb2.SubmitReportsRequest(reports=[wire_report(number, (0, 5))])
        request.MergeFrom(head)
        whole = frames.call(1, SUBMIT, [request.SerializeToString()])
        headers = 9 + int.from_bytes(whole[:3], "big")
        (connection,) = await opened(small.address, 1, whole[:headers])
        connections.append((connection, whole[headers:]))
    memory = small.aggregator._reaper.memory
    await until(lambda: len(memory.slow()) == len(connections))
    await asyncio.sleep(0.3)  # the server looks every 0.1 s
    assert alive([connection for connection, _ in connections]) == len(connections)
    for connection, rest in connections:
        connection.send(rest)
    async with asyncio.timeout(PATIENCE_S):
        while (await small.wire.sums(campaign))[0][0] < len(connections):  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "method", [FETCH, "/geoveil.proto.v1.Collector/BrowseCampaigns", WATCH], ids=str
)
async def test_requests_that_need_no_token_are_short(small, method):
    call = small.wire.channel.unary_unary(method)(b"\x78\x01" * 2100, timeout=PATIENCE_S)
    error = await refused(grpc.StatusCode.INVALID_ARGUMENT, call)
    assert "size of a request must be at most 4,096 bytes" in error.details()


async def test_what_is_compressed_is_unpacked_as_far_as_a_request_may_be_long(small):
    """Nothing is unpacked by gRPC: 4 kB of gzip that unpack to 4 MB would hold up everybody."""
    call = small.wire.channel.unary_unary(FETCH)
    bomb = call(bytes(4 << 20), compression=grpc.Compression.Gzip, timeout=PATIENCE_S)
    error = await refused(grpc.StatusCode.INVALID_ARGUMENT, bomb)
    assert "size of a request must be at most 4,096 bytes" in error.details()
    name = collector_pb2.GetCampaignRequest(campaign_id="none" * 10).SerializeToString()
    for compression, status in (
        (grpc.Compression.Gzip, grpc.StatusCode.NOT_FOUND),
        (grpc.Compression.Deflate, grpc.StatusCode.UNIMPLEMENTED),
    ):
        await refused(status, call(name, compression=compression, timeout=PATIENCE_S))


@pytest.mark.parametrize(
    "damage",
    [b"\x1f\x8b", gzip.compress(bytes(9), mtime=0)[:-1], b"\x1f\x8bno"],
    ids=["begun", "cut", "none"],
)
async def test_damaged_gzip_is_refused(small, damage):
    for method in (FETCH, "/geoveil.proto.v1.Collector/SubmitReports"):
        call = small.wire.channel.unary_unary(method)(damage, timeout=PATIENCE_S)
        error = await refused(grpc.StatusCode.INVALID_ARGUMENT, call)
        assert "request must be sound gzip" in error.details()


async def test_a_compressed_batch_counts(small, publish, wire_report):
    campaign = publish("compressed")
    await small.wire.create(campaign)
    request = collector_pb2.SubmitReportsRequest(
        campaign_id=campaign.campaign.campaign_id,
        campaign_digest=campaign.digest,
        reports=[wire_report(number, (0, 1)) for number in range(50)],
    )
    await small.wire.channel.unary_unary("/geoveil.proto.v1.Collector/SubmitReports")(
        request.SerializeToString(), compression=grpc.Compression.Gzip, timeout=PATIENCE_S
    )
    assert (await small.wire.sums(campaign))[0][0] == 50


@pytest.mark.deep
async def test_streams_that_say_nothing_more_take_no_more_than_there_is(
    frames, opened, small, publish, wire_report
):
    calls = b"".join(frames.call(stream, WATCH, [b""]) for stream in range(1, 13, 2))
    memory = small.aggregator._reaper.memory
    async with asyncio.timeout(PATIENCE_S):
        while memory.held < 200 * KIB:  # some are refused while others end
            await opened(small.address, 4, calls)
            await asyncio.sleep(0.1)
    (result,) = await small.wire.submit(publish(), wire_report(1, (0, 5)))
    assert memory.held <= 256 * KIB
    assert result.status == 1


@pytest.mark.deep
async def test_of_many_connections_those_that_say_nothing_are_closed(
    frames, opened, start_server, publish, wire_report
):
    server = await start_server(max_connections=10)
    await server.wire.create(publish())
    connections = await opened(server.address, 19)
    await until(lambda: alive(connections) <= 10)
    async with grpc.aio.insecure_channel(server.address) as channel:
        wire = type(server.wire)(channel)
        for number in range(3):
            (result,) = await wire.submit(publish(), wire_report(number, (0, 5)))
            assert result.status == 1
    assert alive(connections) >= 7


@pytest.mark.deep(keep=0)
async def test_who_takes_calls_back_all_the_time_is_heard_no_more(
    frames, opened, start_server, monkeypatch
):
    monkeypatch.setattr("geoveil.aggregator.grpc.connection_reaper._SILENT_S", 3.0)
    other, connection = await opened((await start_server()).address, 2)
    streams = iter(range(1, 1 << 20, 2))

    async def take_back() -> None:
        for _ in range(100):
            some = [next(streams) for _ in range(10)]
            begun = (frames.call(stream, SUBMIT, more=b"\x00") for stream in some)
            connection.send(b"".join(begun))
            await asyncio.sleep(0.01)
            connection.send(b"".join(map(frames.reset, some)))

    await asyncio.wait_for(take_back(), PATIENCE_S)
    while await asyncio.to_thread(connection.pong):  # noqa: ASYNC110 - of sockets
        await asyncio.sleep(0.1)
    assert connection.alive(), "else it would be opened again at once"
    assert await asyncio.to_thread(other.pong)
    await until(lambda: not connection.alive())


@pytest.mark.deep(keep=0)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is shut out")
async def test_an_address_that_gives_up_on_ever_new_connections_is_shut_out(
    frames, start_server, monkeypatch
):
    """Others are not, nor are the connections that it has; after a while it may come again.

    Whoever takes calls back after having waited is not shut out.
    """
    monkeypatch.setattr("geoveil.aggregator.grpc.connection_reaper._SHUT_OUT_S", 2.0)
    address = (await start_server(call_rate=200.0)).address
    calls = b"".join(
        frames.call(stream, SUBMIT, more=b"\x00") + frames.reset(stream)
        for stream in range(1, 9, 2)
    )

    def connect(source: str) -> Any:
        return frames.Connection(address, 65_535, True, source)

    def give_up_until_shut_out(most: int) -> int:
        for count in range(most):
            try:
                connection = connect("127.0.0.2")
            except TimeoutError:
                return count
            connection.send(calls)
            connection.pong()
            connection.close()
        return most

    monkeypatch.setattr("geoveil.aggregator.grpc.middleware._AT_ONCE_S", -1.0)
    assert await asyncio.to_thread(give_up_until_shut_out, 20) == 20
    monkeypatch.setattr("geoveil.aggregator.grpc.middleware._AT_ONCE_S", 0.5)
    older = await asyncio.to_thread(connect, "127.0.0.2")
    assert 10 <= await asyncio.to_thread(give_up_until_shut_out, 200) < 200
    assert await asyncio.to_thread(older.pong)
    older.close()
    (await asyncio.to_thread(connect, "127.0.0.1")).close()
    await asyncio.sleep(2.5)
    (await asyncio.to_thread(connect, "127.0.0.2")).close()


async def test_calls_above_the_rate_are_refused_then_cut_off(
    frames, opened, start_server, monkeypatch
):
    monkeypatch.setattr("geoveil.aggregator.grpc.connection_reaper._SILENT_S", 0.1)
    server = await start_server(call_rate=1.0, call_burst=5.0)
    request = collector_pb2.GetCampaignRequest(campaign_id="nobody")
    codes = []
    for _ in range(8):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await server.wire.collector.GetCampaign(request, timeout=PATIENCE_S)
        codes.append(caught.value.code())
    assert codes[:5] == [grpc.StatusCode.NOT_FOUND] * 5
    assert codes[-1] is grpc.StatusCode.RESOURCE_EXHAUSTED
    for method in (FETCH, "/no.Such/Method"):
        (connection,) = await opened(server.address, 1)
        streams = iter(range(1, 1 << 20, 2))
        async with asyncio.timeout(PATIENCE_S):
            while connection.alive():  # however slow the machine is
                some = (frames.call(next(streams), method, [b""]) for _ in range(30))
                connection.send(b"".join(some))
                await asyncio.sleep(0.02)


async def test_unknown_methods_and_calls_without_a_request_are_told(small):
    channel = small.wire.channel
    unknown = channel.unary_unary("/no.Such/Method")(b"", timeout=PATIENCE_S)
    await refused(grpc.StatusCode.UNIMPLEMENTED, unknown)
    empty = channel.stream_unary(FETCH)(iter(()), timeout=PATIENCE_S)
    error = await refused(grpc.StatusCode.INVALID_ARGUMENT, empty)
    assert error.details() == "there is no request"


async def test_a_refused_request_is_held_by_nothing(start_server):
    """gRPC keeps an error with its call, and the call is known to the error: a circle."""
    server = await start_server()
    call = server.wire.channel.unary_unary(FETCH)

    async def send(times: int) -> None:
        for _ in range(times):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"\xff" * (1 << 20), timeout=PATIENCE_S)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            caught.value.__traceback__ = None
            del caught

    await send(2)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        await send(20)
        assert tracemalloc.get_traced_memory()[0] < 8 << 20
    finally:
        tracemalloc.stop()
        gc.enable()
