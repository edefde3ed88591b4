"""HTTP/2 at the web door: it is there, and what hostile clients of it can't do."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, StreamEnded, StreamReset
from h2.settings import SettingCodes, Settings
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from geoveil.aggregator import Aggregator
from geoveil.aggregator.web import door, http2
from geoveil.proto.v1 import collector_pb2 as collector

from .conftest import Published
from .tls_files import for_server, new_authority, written
from .web_client import COLLECTOR, WebCaller

WEB = "127.0.0.1:0"
HEALTH = "/grpc.health.v1.Health/Check"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize()
SERVING = b'{"status": "SERVING"}'
CALM = 0xB


class Peer:
    """A client that sends what it is told to, and understands what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h2 = H2Connection(config=H2Configuration(client_side=True))
        self.events: list[Event] = []

    def begin(self, **changes: int) -> None:
        """Speak as one should, with settings of one's own."""
        changed = {SettingCodes[name]: value for name, value in changes.items()}
        self.h2.local_settings = Settings(client=True, initial_values=changed)
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def ask(self, path: str = HEALTH, *, more: bool = False, kind: str = "application/json") -> int:
        """Begin a call, in JSON, and return its stream."""
        number = self.h2.get_next_available_stream_id()
        self.h2.send_headers(number, fields(path, kind=kind))
        if not more:
            self.h2.send_data(number, b"{}", end_stream=True)
        self.flush()
        return number

    async def until(self, wanted: Callable[[Event], bool], seconds: float = 5) -> Event:
        """Return the first event that is wanted."""
        async with asyncio.timeout(seconds):
            while True:
                found = next((one for one in self.events if wanted(one)), None)
                if found is not None:
                    return found
                data = await self.reader.read(1 << 16)
                if not data:
                    raise ConnectionError
                for event in self.h2.receive_data(data):
                    self.events.append(event)
                    if isinstance(event, DataReceived):
                        counted = event.flow_controlled_length or 0
                        self.h2.acknowledge_received_data(counted, event.stream_id)
                self.flush()

    async def answered(self, number: int) -> bytes:
        """Return the body of an answer."""
        await self.until(lambda one: isinstance(one, StreamEnded) and one.stream_id == number)
        return b"".join(self.data(number))

    def data(self, number: int) -> list[bytes]:
        """Return what came of an answer, as it came."""
        return [
            one.data or b""
            for one in self.events
            if isinstance(one, DataReceived) and one.stream_id == number
        ]


def fields(
    path: str = HEALTH, *more: tuple[str, str], kind: str = "application/json"
) -> list[tuple[str, str]]:
    return [
        *((":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", path)),
        ("content-type", kind),
        *more,
    ]


@asynccontextmanager
async def peer(aggregator: Aggregator) -> AsyncIterator[Peer]:
    host, port = aggregator.web_address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


async def released(aggregator: Any) -> None:
    """Wait until no call holds anything."""
    held, tasks = aggregator._keeper.holdings, aggregator._door._state.tasks
    await until(lambda: not held.held and not tasks)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_browsers_and_the_server_agree_on_it(start_server: Any, tmp_path: Path) -> None:
    """By ALPN; and who knows of HTTP/1.1 only gets that, from the same port."""
    authority = new_authority("first")
    certificate, key = written(for_server(authority), tmp_path, "server")
    server = await start_server(web=WEB, tls_certificate=certificate, tls_key=key)
    url = f"https://{server.aggregator.web_address}{HEALTH}"
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    for two, spoken in ((True, "HTTP/2"), (False, "HTTP/1.1")):
        async with httpx.AsyncClient(verify=context, http2=two) as client:
            answers = [await client.post(url, json={}) for _ in range(2)]
        assert [(one.http_version, one.json()) for one in answers] == 2 * [
            (spoken, {"status": "SERVING"})
        ]
    # A renewed certificate is used by new connections, whichever HTTP they speak.
    renewed = for_server(new_authority("second"))
    certificate.write_bytes(renewed.certificate)
    key.write_bytes(renewed.key)
    async with httpx.AsyncClient(verify=context, http2=True) as client:
        with pytest.raises(httpx.ConnectError):
            await client.post(url, json={})


async def test_many_calls_share_a_connection(start_server: Any) -> None:
    aggregator = (await start_server(web=WEB)).aggregator
    async with peer(aggregator) as one:
        one.begin()
        numbers = [one.ask() for _ in range(http2.MOST_STREAMS)]
        for number in numbers:
            assert await one.answered(number) == SERVING
        assert len(aggregator._door._state.connections) == 1
    await released(aggregator)


async def test_requests_and_answers_of_any_size_come_through(
    start_server: Any, publish: Callable[..., Published], wire_report: Any
) -> None:
    """Both sides make room as they read; a request that is refused halfway hinders no other."""
    server = await start_server(web=WEB, max_message_bytes=1_000_000)
    campaign = publish("income", queries=700)
    await server.wire.create(campaign)
    async with WebCaller(
        server.aggregator.web_address, "connect", in_json=False, http2=True
    ) as caller:

        async def submitted(first: int) -> str:
            reports = [wire_report(first + n, (0, 5)) for n in range(9_000)]
            request = collector.SubmitReportsRequest(
                campaign_id="income", campaign_digest=campaign.digest, reports=reports
            ).SerializeToString()
            assert len(request) > 200_000
            return (await caller.call(COLLECTOR + "SubmitReports", request)).code

        async def fetched() -> str:
            request = collector.GetCampaignRequest(campaign_id="income").SerializeToString()
            return (await caller.call(COLLECTOR + "GetCampaign", request)).code

        codes = await asyncio.gather(submitted(0), fetched(), submitted(9_000), fetched())
    assert codes == ["OK"] * 4


async def test_a_stream_is_answered_while_its_requests_come(
    start_server: Any, publish: Callable[..., Published], wire_report: Any
) -> None:
    """Over HTTP/1.1 an answer comes when all of the request has."""
    server = await start_server(web=WEB)
    campaign = publish("income")
    await server.wire.create(campaign)
    async with peer(server.aggregator) as one:
        one.begin()
        path = COLLECTOR + "SubmitReportStream"
        number = one.ask(path, more=True, kind="application/connect+proto")
        for sent in range(1, 4):
            content = collector.SubmitReportsRequest(
                campaign_id="income",
                campaign_digest=campaign.digest,
                reports=[wire_report(sent, (0, 5))],
            ).SerializeToString()
            one.h2.send_data(number, b"\0" + len(content).to_bytes(4, "big") + content)
            one.flush()
            await one.until(lambda _, many=sent: len(one.data(number)) >= many)
            assert len(one.data(number)) == sent
        one.h2.end_stream(number)
        one.flush()
        assert (await one.answered(number)).endswith(b"\x02\0\0\0\x02{}")


async def test_a_request_that_is_refused_halfway_hinders_no_other(start_server: Any) -> None:
    aggregator = (await start_server(web=WEB, max_message_bytes=70_000)).aggregator
    path = COLLECTOR + "GetCampaign"
    async with peer(aggregator) as one:
        one.begin()
        for _ in range(5):  # each takes nearly all the room that the connection has
            number = one.h2.get_next_available_stream_id()
            one.h2.send_headers(number, fields(path, ("content-length", "1000000")))
            for _ in range(4):
                one.h2.send_data(number, b"a" * 16_000)
            one.flush()
            assert b"resource_exhausted" in await one.answered(number)
            ended = await one.until(
                lambda event, number=number: (
                    isinstance(event, StreamReset) and event.stream_id == number
                )
            )
            assert isinstance(ended, StreamReset)
            assert ended.error_code == 0
        await one.until(lambda event: one.h2.outbound_flow_control_window > 60_000)
    await released(aggregator)


HEADERS = Encoder().encode(fields())


def headers(number: int, block: bytes = HEADERS, *flags: str) -> bytes:
    return HeadersFrame(number, data=block, flags=flags or ("END_HEADERS",)).serialize()


def settings(**changes: int) -> bytes:
    codes = {int(SettingCodes[name]): value for name, value in changes.items()}
    return SettingsFrame(0, settings=codes).serialize()


def frames(kind: type[Frame], number: int, **content: Any) -> bytes:
    return kind(number, **content).serialize()


BOMB = Encoder()
BOMB.encode([("x", "y" * 3_000)])
FLOODS: dict[str, Callable[[int], bytes]] = {
    "pings": lambda n: frames(PingFrame, 0, opaque_data=b"8 bytes!"),
    "settings": lambda n: settings(MAX_FRAME_SIZE=16_384 + n % 9),
    "settings of many": lambda n: (
        SettingsFrame(0).serialize()[:2]
        + bytes([0xFC])
        + SettingsFrame(0).serialize()[3:]
        + bytes([0, 99, 0, 0, 0, 1]) * 42
    ),
    "priorities": lambda n: frames(PriorityFrame, 2 * n + 1, depends_on=2 * n + 3),
    "unknown": lambda n: ExtensionFrame(0xF0, 0, body=b"a" * 100).serialize(),
    "room": lambda n: frames(WindowUpdateFrame, 0, window_increment=1),
    "calls taken back": lambda n: headers(2 * n + 1) + frames(RstStreamFrame, 2 * n + 1),
    # The server is made to take them back: a stream's room beyond 2^31 is its mistake alone.
    "calls that break a rule": lambda n: (
        headers(2 * n + 1) + frames(WindowUpdateFrame, 2 * n + 1, window_increment=(1 << 31) - 1)
    ),
    "nothing, as a request": lambda n: (headers(1) if n == 0 else b"") + frames(DataFrame, 1),
    "drops, as a request": lambda n: (
        (headers(1) if n == 0 else b"") + frames(DataFrame, 1, data=b"a")
    ),
    "headers without an end": lambda n: (
        headers(1, b"", "END_STREAM")
        if n == 0
        else frames(ContinuationFrame, 1, data=b"\x00\x01a\x01b" * 20)
    ),
    "headers that unpack": lambda n: headers(
        2 * n + 1, BOMB.encode(fields()) + BOMB.encode([("x", "y" * 3_000)]) * 50
    ),
    "a frame too long": lambda n: b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"a" * 1000,
    "streams that are too many": lambda n: headers(2 * n + 1),
}


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("name", FLOODS)
async def test_floods_of_what_asks_for_nothing_end_the_connection(
    start_server: Any, name: str
) -> None:
    """And soon, with little kept; others don't notice."""
    aggregator = (await start_server(web=WEB, call_rate=1e6)).aggregator
    sent = 0
    async with peer(aggregator) as one:
        one.writer.write(PREFACE)
        with suppress(ConnectionError):
            for n in range(200_000):
                one.writer.write(FLOODS[name](n))
                if n % 50 == 49:
                    await one.writer.drain()
                    await asyncio.sleep(0)
                    if one.reader.at_eof() or one.reader.exception():
                        break
                    assert_little_is_kept(aggregator)
                sent = n
            await asyncio.sleep(0.05)
    assert 2 < sent < 30_000
    await released(aggregator)
    async with peer(aggregator) as other:
        other.begin()
        assert await other.answered(other.ask()) == SERVING


def assert_little_is_kept(aggregator: Any) -> None:
    for one in aggregator._door._state.connections:
        if isinstance(one, http2.Http2):
            assert one.transport.get_write_buffer_size() < 400_000
            assert len(one._streams) <= http2.MOST_STREAMS
            assert len(one._connection.incoming_buffer._data) < 70_000
            assert len(one._connection._closed_streams) <= 2 * http2.MOST_STREAMS


async def test_who_floods_is_told_to_be_calm(start_server: Any) -> None:
    aggregator = (await start_server(web=WEB)).aggregator
    async with peer(aggregator) as one:
        one.begin()
        one.writer.write(frames(PingFrame, 0, opaque_data=b"8 bytes!") * 1_200)
        ended = await one.until(lambda event: isinstance(event, ConnectionTerminated))
        assert isinstance(ended, ConnectionTerminated)
        assert ended.error_code == CALM


async def test_clients_that_read_much_may_say_so_as_often(start_server: Any) -> None:
    """Room for more of an answer is no flood: each piece that is sent allows two frames."""
    watched = http2.Frames(lambda: 0.0)
    watched.look(PREFACE[:24])
    room = frames(WindowUpdateFrame, 0, window_increment=16_384)
    with pytest.raises(http2.TooMuch):
        watched.look(room * 2_000)
    watched = http2.Frames(lambda: 0.0)
    watched.look(PREFACE[:24])
    for _ in range(10_000):
        watched.allow(http2._PER_ANSWER)
        watched.look(room * 2)


@pytest.mark.parametrize("cut", [1, 2, 5, 9, 10, 24, 100, 10_000])
def test_frames_are_counted_however_they_are_cut(cut: int) -> None:
    content = PREFACE + frames(PingFrame, 0, opaque_data=b"8 bytes!") * 500 + headers(1)
    content += frames(DataFrame, 1, data=b"a" * 300) * 3 + settings(MAX_FRAME_SIZE=16_400)
    whole, pieces = http2.Frames(lambda: 0.0), http2.Frames(lambda: 0.0)
    whole.look(content)
    for at in range(0, len(content), cut):
        pieces.look(content[at : at + cut])
    assert whole._credit == pieces._credit == 1_000 - 500 * (1 + 8 / 64) - 1 - (1 + 6 / 64)
    assert (whole._skip, whole.block) == (pieces._skip, pieces.block) == (0, 0)


@pytest.mark.deep
async def test_answers_that_are_not_read_are_given_up(
    start_server: Any, publish: Callable[..., Published], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room is made for them: they are in nobody's way, and not forever."""
    monkeypatch.setattr(http2, "STALLED_S", 0.3)
    server = await start_server(web=WEB)
    for i in range(4):
        await server.wire.create(publish(f"large-{i}", queries=700))
    aggregator = server.aggregator
    async with peer(aggregator) as one:
        one.begin(INITIAL_WINDOW_SIZE=0)
        numbers = [one.ask(COLLECTOR + "BrowseCampaigns") for _ in range(20)]
        await until(lambda: aggregator._keeper.holdings.held >= 20 * (32 << 10))
        waiting = [
            len(each._connection._data_to_send)
            for each in aggregator._door._state.connections
            if isinstance(each, http2.Http2)
        ]
        assert max(waiting) < 1 << 16
        for number in numbers:
            await one.until(
                lambda event, number=number: (
                    isinstance(event, StreamReset) and event.stream_id == number
                )
            )
    await released(aggregator)


async def test_who_reads_nothing_is_heard_no_more(start_server: Any) -> None:
    aggregator = (await start_server(web=WEB)).aggregator
    async with peer(aggregator) as one:
        one.begin()
        one.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of asyncio's own
        await asyncio.sleep(0.05)
        (at_server,) = aggregator._door._state.connections
        at_server.pause_writing()  # as its transport does when 64 KiB wait
        one.ask()
        await asyncio.sleep(0.1)
        assert not aggregator._door._state.tasks
        at_server.resume_writing()
        one.writer.transport.resume_reading()  # type: ignore[attr-defined]  # see above
        assert await one.answered(1) == SERVING


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize(
    "first",
    [b"", b"P", PREFACE[:10], PREFACE, PREFACE + headers(1, HEADERS[:5], "END_STREAM")],
    ids=["nothing", "a letter", "half a preface", "settings", "half of the headers"],
)
async def test_who_does_not_say_what_it_asks_for_is_hung_up_on(
    start_server: Any, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(door, "_HEADERS_S", 0.2)
    aggregator = (await start_server(web=WEB)).aggregator
    async with peer(aggregator) as one:
        one.writer.write(first)
        with suppress(ConnectionError):
            await asyncio.wait_for(one.reader.read(), 5)
        await asyncio.sleep(0)
    await released(aggregator)
    assert not aggregator._door._state.connections


@pytest.mark.deep
async def test_half_of_the_headers_of_a_later_request_end_it_too(
    start_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_HEADERS_S", 0.2)
    aggregator = (await start_server(web=WEB)).aggregator
    async with peer(aggregator) as one:
        one.begin()
        await one.answered(one.ask())
        await asyncio.sleep(0.3)  # it may stay without a request for longer
        await one.answered(one.ask())
        one.writer.write(headers(5, HEADERS[:5], "END_STREAM"))
        await one.until(lambda event: isinstance(event, ConnectionTerminated))


@pytest.mark.deep
async def test_connections_without_a_call_are_closed_in_time(start_server: Any) -> None:
    aggregator = (await start_server(web=WEB, connection_idle_s=1)).aggregator
    async with peer(aggregator) as one:
        one.begin()
        await one.answered(one.ask())
        ended = await one.until(lambda event: isinstance(event, ConnectionTerminated))
        assert isinstance(ended, ConnectionTerminated)
        assert (ended.error_code, ended.last_stream_id) == (0, 1)


@pytest.mark.parametrize("way", ["taken back", "hung up"])
async def test_a_call_ends_when_its_caller_is_gone(
    start_server: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    server = await start_server(web=WEB)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow(*_: object, **__: object) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    monkeypatch.setattr(server.aggregator._service, "get_campaign", slow)
    async with peer(server.aggregator) as one:
        one.begin()
        number = one.ask(COLLECTOR + "GetCampaign")
        await asyncio.wait_for(begun.wait(), 5)
        if way == "taken back":
            one.h2.reset_stream(number)
            one.flush()
            assert await one.answered(one.ask()) == SERVING
        else:
            one.writer.close()
        await asyncio.wait_for(ended.wait(), 5)
    await released(server.aggregator)


async def test_a_server_that_stops_answers_first(
    start_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start_server(web=WEB, grace_s=0.2)
    begun = asyncio.Event()

    async def slow(*_: object, **__: object) -> None:
        begun.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(server.aggregator._service, "get_campaign", slow)
    async with peer(server.aggregator) as idle, peer(server.aggregator) as one:
        for each in (idle, one):
            each.begin()
            await each.answered(each.ask())
        number = one.ask(COLLECTOR + "GetCampaign")
        await asyncio.wait_for(begun.wait(), 5)
        stopping = asyncio.create_task(server.aggregator.stop())
        await idle.until(lambda event: isinstance(event, ConnectionTerminated))
        # The library takes nothing more after a farewell: read what comes as it is.
        came = await asyncio.wait_for(one.reader.read(), 5)
        assert b"STOPPING" in came
        assert number == 3
        await stopping


@pytest.mark.deep
async def test_little_is_remembered_however_much_a_client_asks_for(start_server: Any) -> None:
    """Names of headers, to send them shorter: 4 KiB, though a client may offer gigabytes."""
    aggregator = (await start_server(web=WEB)).aggregator
    async with peer(aggregator) as one:
        one.h2.decoder.max_allowed_table_size = (1 << 32) - 1
        one.begin(HEADER_TABLE_SIZE=(1 << 32) - 1)
        for _ in range(200):
            await one.answered(one.ask())
        (at_server,) = aggregator._door._state.connections
        assert at_server._connection.remote_settings.header_table_size > 1 << 31
        assert at_server._connection.encoder.header_table_size <= 4_096
        assert at_server._connection.decoder.max_header_list_size == http2.HEADER_BYTES


async def test_of_too_many_connections_the_idle_are_closed(start_server: Any) -> None:
    """One account for both kinds."""
    aggregator = (await start_server(web=WEB, max_connections=5)).aggregator
    host, port = aggregator.web_address.split(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(12)]
    for n, (_, writer) in enumerate(opened):
        if n % 2:
            writer.write(PREFACE)
    await until(lambda: len(aggregator._door._state.connections) <= 5)
    async with peer(aggregator) as one:
        one.begin()
        assert await one.answered(one.ask()) == SERVING
    for _, writer in opened:
        writer.close()
