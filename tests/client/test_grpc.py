"""The gRPC transports against small servers: errors, time-outs, close, fork, and no residue."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import aio

from geoveil.client import GrpcAioTransport, GrpcTransport, InMemoryCollector, TransportError
from geoveil.client.retry import retryable
from geoveil.proto.v1 import collector_pb2, collector_pb2_grpc, report_pb2

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


@either
async def test_requests_and_answers_pass_with_their_deadline(
    kind: Any, collector: InMemoryCollector
) -> None:
    async with (
        serving(lambda request, context: collector(request)) as (target, servicer),
        opened(kind, target) as transport,
    ):
        answer = await transport.get_campaign(REQUEST, 30.0)
        assert answer == collector(REQUEST)
        batch = collector_pb2.SubmitReportsRequest(
            campaign_id="income",
            campaign_digest=b"another",
            reports=[report_pb2.Report(report_id=bytes(16))],
        )
        with pytest.raises(TransportError, match="FAILED_PRECONDITION"):
            await transport.submit_reports(batch, 30.0)
    assert len(servicer.time_left) == 2
    assert all(0 < left <= 30.1 for left in servicer.time_left)


@either
@pytest.mark.parametrize("status", [s for s in grpc.StatusCode if s is not grpc.StatusCode.OK])
async def test_every_status_becomes_one_transport_error(kind: Any, status: grpc.StatusCode) -> None:
    def refuse(request: Any, context: Any) -> None:
        raise TransportError(status.name, "because\nof this")

    async with serving(refuse) as (target, servicer), opened(kind, target) as transport:
        error = await failure(transport)
    assert (error.code, error.detail, error.retry_after_s) == (
        status.name,
        "because\nof this",
        None,
    )
    assert str(error) == f"{status.name}: because\\nof this"
    assert isinstance(error.__cause__, grpc.RpcError)
    assert len(servicer.time_left) == 1  # trying again is not the transport's


def details(*messages: Any) -> bytes:
    """Return google.rpc.Status with these details, for trailing metadata."""
    packed = []
    for message in messages:
        packed.append(AnyMessage())
        packed[-1].Pack(message)
    status: bytes = Status(code=8, message="later", details=packed).SerializeToString()
    return status


def retry_info(seconds: int, nanos: int = 0) -> Any:
    return RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanos))


TOLD = {
    "a delay": (details(retry_info(1, 500_000_000)), 1.5),
    "a delay among others": (details(ErrorInfo(reason="QUEUE_FULL"), retry_info(2)), 2.0),
    "no delay, which is none to wait": (details(RetryInfo()), 0.0),
    "eleven days": (details(retry_info(10**6)), 3600.0),
    "the largest delay": (details(retry_info(2**63 - 1)), 3600.0),
    "a delay in the past": (details(retry_info(-5)), 0.0),
    "other details": (details(ErrorInfo(reason="QUEUE_FULL")), None),
    "no details": (details(), None),
    "nothing": (b"", None),
    "rubbish": (b"\xff\xff\xff", None),
    "rubbish in a detail": (
        Status(
            details=[AnyMessage(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff")]
        ).SerializeToString(),
        None,
    ),
}


@either
@pytest.mark.parametrize(("told", "heard"), TOLD.values(), ids=TOLD)
async def test_a_transport_hears_when_to_come_back(
    kind: Any, told: bytes, heard: float | None
) -> None:
    async def refuse(request: Any, context: Any) -> None:
        trailing = (("other", "text"), ("grpc-status-details-bin", told))
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "later", trailing)

    async with serving(refuse) as (target, _), opened(kind, target) as transport:
        error = await failure(transport)
    assert (error.code, error.retry_after_s) == ("RESOURCE_EXHAUSTED", heard)
    assert retryable(error) == (heard is not None)


@either
async def test_a_server_that_hangs_costs_the_timeout_and_no_more(kind: Any) -> None:
    async with serving(hang) as (target, _), opened(kind, target) as transport:
        started = time.monotonic()
        assert (await failure(transport, 0.3)).code == "DEADLINE_EXCEEDED"
        assert time.monotonic() - started < 10  # no default of gRPC's is as short


@either
async def test_close_ends_calls_under_way(kind: Any) -> None:
    started = asyncio.Event()

    async def hang_and_say_so(request: Any, context: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    async with serving(hang_and_say_so) as (target, _), opened(kind, target) as transport:
        calls = [asyncio.create_task(failure(transport, 600.0)) for _ in range(3)]
        await started.wait()
        await transport.aclose()
        async with asyncio.timeout(5):
            assert {error.code for error in await asyncio.gather(*calls)} == {"CANCELLED"}


@either
async def test_a_call_that_meets_a_closed_channel_is_cancelled(kind: Any) -> None:
    """As when another thread closes the transport at that moment."""
    async with serving(empty) as (target, _), opened(kind, target) as transport:
        await transport.get_campaign(REQUEST, 10.0)
        transport._channel.close()
        assert (await failure(transport)).code == "CANCELLED"


@either
async def test_a_transport_can_be_used_again_after_close(kind: Any) -> None:
    async with serving(empty) as (target, _), opened(kind, target) as transport:
        for _ in range(3):
            await transport.get_campaign(REQUEST, 10.0)
            await transport.aclose()


@either
async def test_a_server_that_comes_back_is_found_again(kind: Any, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/collector.sock"
    async with opened(kind, address) as transport:
        for _ in range(2):
            assert (await failure(transport)).code == "UNAVAILABLE"
            async with serving(empty, address), asyncio.timeout(30):
                while (code := await outcome(transport)) != "OK":
                    assert code == "UNAVAILABLE"


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


async def speak_http_1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def speak_rubbish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00" * 1000)
    await reader.read()


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    await asyncio.Event().wait()


@either
@pytest.mark.parametrize(
    ("talk", "codes"),
    [
        (speak_http_1, {"UNAVAILABLE"}),
        (hang_up, {"UNAVAILABLE"}),
        (speak_rubbish, {"UNAVAILABLE", "DEADLINE_EXCEEDED"}),
        (say_nothing, {"DEADLINE_EXCEEDED"}),
    ],
)
async def test_a_server_that_is_not_grpc_is_a_transport_error(
    kind: Any, talk: Any, codes: set[str]
) -> None:
    async with listening(talk) as target, opened(kind, target) as transport:
        error = await failure(transport, 1.0)
    assert error.code in codes
    assert retryable(error)


@either
async def test_an_answer_that_is_no_message_is_a_transport_error(kind: Any) -> None:
    async def rubbish(request: bytes, context: Any) -> bytes:
        return b"\xff\xff\xff"

    server = aio.server()
    method: Any = grpc.unary_unary_rpc_method_handler(rubbish)
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                "geoveil.proto.v1.Collector", {"GetCampaign": method}
            )
        ]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with opened(kind, f"127.0.0.1:{port}") as transport:
            assert (await failure(transport)).code == "INTERNAL"
    finally:
        await server.stop(None)


@either
async def test_an_answer_that_is_too_long_is_not_read(kind: Any) -> None:
    def flood(request: Any, context: Any) -> Any:
        answer = collector_pb2.GetCampaignResponse()
        answer.envelope.campaign = bytes(5 << 20)
        return answer

    async with serving(flood) as (target, _), opened(kind, target) as transport:
        error = await failure(transport)
    assert error.code == "RESOURCE_EXHAUSTED"
    assert not retryable(error)


async def forward(
    target: str,
    seen: Callable[[bytes], Any],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Connect to a server, and show what a client sends to it."""
    back, forth = await asyncio.open_connection(*target.split(":"))

    async def answers() -> None:
        while data := await back.read(1 << 16):
            writer.write(data)

    task = asyncio.create_task(answers())
    try:
        while data := await reader.read(1 << 16):
            seen(data)
            forth.write(data)
    finally:
        task.cancel()
        forth.close()
        with suppress(ConnectionError):
            await forth.wait_closed()


@either
async def test_a_slow_network_has_time_to_connect(kind: Any) -> None:
    async with serving(empty) as (target, servicer):

        async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.5)  # the network, not the test, takes its time
            await forward(target, lambda data: None, reader, writer)

        async with listening(slowly) as between, opened(kind, between) as transport:
            await transport.get_campaign(REQUEST, 20.0)
    assert len(servicer.time_left) == 1


def batch_of(count: int) -> collector_pb2.SubmitReportsRequest:
    return collector_pb2.SubmitReportsRequest(
        campaign_id="income",
        campaign_digest=bytes(32),
        reports=[
            report_pb2.Report(
                report_id=i.to_bytes(16), answers=[report_pb2.Answer(query_index=0, value=i)]
            )
            for i in range(count)
        ],
    )


def long_report() -> collector_pb2.SubmitReportsRequest:
    """One report, as a campaign with a thousand questions asks for, of more than 1 KiB."""
    request = batch_of(1)
    request.reports[0].answers.extend(
        report_pb2.Answer(query_index=i, value=1000) for i in range(1, 1000)
    )
    return request


def messages(wire: bytes) -> list[tuple[bool, int]]:
    """Return (compressed, bytes) of every gRPC message in what an HTTP/2 client has sent.

    RFC 9113 §4.1: frames of 3 bytes length, type (0: DATA), flags, 4 bytes stream; gRPC over
    HTTP/2: a message is a flag for compression, 4 bytes length, and the message.
    """
    wire = wire.removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    streams: dict[bytes, bytes] = {}
    while wire:
        length, kind, stream = int.from_bytes(wire[:3]), wire[3], wire[5:9]
        if kind == 0:
            streams[stream] = streams.get(stream, b"") + wire[9 : 9 + length]
        wire = wire[9 + length :]
    found = [(data[0] == 1, int.from_bytes(data[1:5])) for data in streams.values()]
    assert [5 + length for _, length in found] == [len(data) for data in streams.values()]
    return found


@either
@pytest.mark.parametrize(
    ("request_", "compressed"),
    [(batch_of(1), False), (long_report(), False), (batch_of(10), False), (batch_of(500), True)],
    ids=["one report", "one long report", "a short batch", "a long batch"],
)
async def test_only_long_batches_are_compressed(
    kind: Any, request_: collector_pb2.SubmitReportsRequest, compressed: bool
) -> None:
    """Read from the wire, between the transport and a server that understands it."""
    received: list[Any] = []
    wire: list[bytes] = []

    def keep(request: Any, context: Any) -> Any:
        received.append(request)
        return collector_pb2.SubmitReportsResponse()

    async with serving(keep) as (target, _):
        relay = partial(forward, target, wire.append)
        async with listening(relay) as between, opened(kind, between) as transport:
            await transport.submit_reports(request_, 10.0)
    assert received == [request_]
    ((was_compressed, length),) = messages(b"".join(wire))
    assert was_compressed == compressed
    assert (length < request_.ByteSize()) == compressed


@either
async def test_no_thread_or_task_is_left_after_close(kind: Any) -> None:
    await asyncio.to_thread(lambda: None)  # the loop's own executor has its thread now
    tasks = asyncio.all_tasks()
    async with serving(empty) as (target, _):
        before = set(threading.enumerate())
        async with opened(kind, target) as transport:
            await transport.get_campaign(REQUEST, 10.0)

        left = [t for t in set(threading.enumerate()) - before if "asyncio_" not in t.name]
        for thread in left:  # gRPC's own ends a moment after its last call
            await asyncio.to_thread(thread.join, 10.0)
        assert [thread.name for thread in left if thread.is_alive()] == []
    assert asyncio.all_tasks() == tasks


async def test_an_awaiting_call_can_be_cancelled() -> None:
    """The app's cancellation stays one, and the server hears of it."""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang_until_stopped(request: Any, context: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with (
        serving(hang_until_stopped) as (target, _),
        opened(GrpcAioTransport, target) as transport,
    ):
        task = asyncio.create_task(transport.get_campaign(REQUEST, 600.0))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            await stopped.wait()


def test_one_asyncio_transport_serves_loop_after_loop() -> None:
    """Even if a loop ends with a call under way."""
    transport = GrpcAioTransport("127.0.0.1:1")

    async def abandoned() -> None:
        task = asyncio.create_task(transport.get_campaign(REQUEST, 600.0))
        await asyncio.sleep(0)
        task.cancel()

    for _ in range(3):
        asyncio.run(abandoned())
        assert asyncio.run(failure(transport)).code == "UNAVAILABLE"
    asyncio.run(transport.aclose())


async def test_one_transport_serves_many_callers() -> None:
    async with serving(empty) as (target, servicer), opened(GrpcAioTransport, target) as transport:
        await asyncio.gather(*(transport.get_campaign(REQUEST, 30.0) for _ in range(200)))
    assert len(servicer.time_left) == 200


def test_many_threads_make_one_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    genuine = grpc.insecure_channel

    def counted(*args: Any, **more: Any) -> Any:
        made.append(genuine(*args, **more))
        return made[-1]

    monkeypatch.setattr(grpc, "insecure_channel", counted)
    transport = GrpcTransport("127.0.0.1:1")
    barrier = threading.Barrier(8)

    def call() -> None:
        barrier.wait()
        with pytest.raises(TransportError):
            transport.get_campaign(REQUEST, 5.0)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transport.close()
    assert len(made) == 1


def test_the_channel_is_silent_without_calls_and_leaves_trying_again_to_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings: dict[str, Any] = {}
    genuine = grpc.insecure_channel

    def recorded(target: str, options: Any) -> Any:
        settings.update(options)
        return genuine(target, options)

    monkeypatch.setattr(grpc, "insecure_channel", recorded)
    transport = GrpcTransport("127.0.0.1:1")
    with pytest.raises(TransportError):
        transport.get_campaign(REQUEST, 5.0)
    transport.close()
    assert settings["grpc.keepalive_time_ms"] == 210_000
    assert settings["grpc.keepalive_permit_without_calls"] == 0
    assert settings["grpc.enable_retries"] == 0
    assert settings["grpc.use_local_subchannel_pool"] == 1


FORK = """
import asyncio, os, sys
from geoveil.client import GrpcAioTransport, GrpcTransport
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest

kind, target = sys.argv[1:]
request = GetCampaignRequest(campaign_id="income")
transport = {"blocking": GrpcTransport, "aio": GrpcAioTransport}[kind](target)

def call():
    answer = transport.get_campaign(request, 20.0)
    if kind == "aio":
        answer = asyncio.run(asyncio.wait_for(answer, 20.0))
    assert answer.state == 1

def close():
    if kind == "aio":
        asyncio.run(transport.aclose())
    else:
        transport.close()

def child(generations):
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        transport.forget()
        call()
        if generations > 1:
            assert child(generations - 1) == 0
            call()
        close()
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
    os._exit(0)

call()
for _ in range(3):
    assert child(2) == 0
    call()
close()
print("done")
"""


@pytest.mark.parametrize("kind", ["blocking", "aio"])
async def test_a_forked_child_makes_its_own_channel_and_the_parent_goes_on(kind: str) -> None:
    def open_campaign(request: Any, context: Any) -> Any:
        return collector_pb2.GetCampaignResponse(state=1)

    async with serving(open_campaign) as (target, servicer):
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FORK, kind, target),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(120):
                out, errors = await done.communicate()
        finally:
            if done.returncode is None:
                done.kill()
    assert (out, done.returncode) == (b"done\n", 0), errors.decode()
    # The parent's first call; three times child, grandchild, child again and parent again.
    assert len(servicer.time_left) == 1 + 3 * 4


def test_forget_does_not_wait_for_a_lock_that_nobody_will_open() -> None:
    """As when another thread of the parent was making the channel during the fork."""
    transport = GrpcTransport("127.0.0.1:1")
    transport._lock.acquire()
    transport.forget()
    with pytest.raises(TransportError, match="UNAVAILABLE"):
        transport.get_campaign(REQUEST, 5.0)
    transport.close()


LAZY = """
import json, sys
from geoveil.client import GrpcAioTransport, GrpcTransport, TransportError
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest

def loaded():
    return sorted({"grpc", "google.rpc", "asyncio", "scipy", "cryptography"} & set(sys.modules))

made = GrpcTransport("127.0.0.1:1"), GrpcAioTransport("127.0.0.1:1")
before = loaded()
try:
    made[0].get_campaign(GetCampaignRequest(), 5.0)
except TransportError:
    pass
print(json.dumps([before, "google.rpc" in loaded(), "scipy" in loaded()]))
"""


def test_a_transport_loads_what_it_needs_when_it_needs_it() -> None:
    """Nothing before the first call; the types of details only for an error that has details."""
    done = subprocess.run(
        [sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(done.stdout) == [[], False, False]
