"""Test the gRPC transports against small servers: statuses, details, time-outs, other protocols."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import aio

from geoveil.client import TransportError
from geoveil.proto.v1 import collector_pb2, report_pb2
from tests.client.grpc_servers import (
    REQUEST,
    either,
    empty,
    failure,
    hang,
    listening,
    opened,
    serving,
)


@either
async def test_requests_and_answers_pass_with_their_deadline(kind, collector):
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
async def test_every_status_becomes_one_transport_error(kind, status):
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
async def test_a_transport_hears_when_to_come_back(kind, told, heard):
    async def refuse(request: Any, context: Any) -> None:
        trailing = (("other", "text"), ("grpc-status-details-bin", told))
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "later", trailing)

    async with serving(refuse) as (target, _), opened(kind, target) as transport:
        error = await failure(transport)
    assert (error.code, error.retry_after_s) == ("RESOURCE_EXHAUSTED", heard)
    assert error.retryable == (heard is not None)


@either
async def test_a_server_that_hangs_costs_the_timeout_and_no_more(kind):
    async with serving(hang) as (target, _), opened(kind, target) as transport:
        started = time.monotonic()
        assert str(await failure(transport, 0.3)) == "DEADLINE_EXCEEDED: no answer came in time"
        assert time.monotonic() - started < 10  # no default of gRPC's is as short


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


@pytest.mark.deep(keep=3)
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
async def test_a_server_that_is_not_grpc_is_a_transport_error(kind, talk, codes):
    async with listening(talk) as target, opened(kind, target) as transport:
        error = await failure(transport, 1.0)
    assert error.code in codes
    assert error.retryable


@either
async def test_an_answer_that_is_no_message_is_a_transport_error(kind):
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
async def test_an_answer_that_is_too_long_is_not_read(kind):
    def flood(request: Any, context: Any) -> Any:
        answer = collector_pb2.GetCampaignResponse()
        answer.envelope.campaign = bytes(5 << 20)
        return answer

    async with serving(flood) as (target, _), opened(kind, target) as transport:
        error = await failure(transport)
    assert error.code == "RESOURCE_EXHAUSTED"
    assert not error.retryable


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


@pytest.mark.deep(keep=1)
@either
async def test_a_slow_network_has_time_to_connect(kind):
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
async def test_only_long_batches_are_compressed(kind, request_, compressed):
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
