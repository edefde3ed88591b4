"""Test the gateway: permitted callers, TLS, limits, and stopping."""

import asyncio
import importlib
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from geoveil.aggregator import Settings
from geoveil.aggregator.ops.authority import Authority
from geoveil.gateway import calls, ledger, listener
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2
from tests.aggregator.tls_files import for_client, for_server, new_authority, written

from .conftest import RunningGateway
from .web_client import ANALYST, COLLECTOR, WebCaller

HEALTH = "/grpc.health.v1.Health/Check"
ELSEWHERE = "https://survey.example.org"


@asynccontextmanager
async def connected(
    running: RunningGateway,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = running.web.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


def open_in(running: RunningGateway) -> list[Any]:
    assert running.gateway._listener is not None
    return [*running.gateway._listener._state.connections]


def url(running: RunningGateway, path: str = HEALTH, scheme: str = "http") -> str:
    return f"{scheme}://{running.web}{path}"


async def post(running: RunningGateway, path: str = HEALTH, **more: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as client:
        return await client.post(url(running, path), **{"json": {}, **more})


# Who may call from where.


@pytest.mark.deep
async def test_pages_of_other_origins_may_call_if_they_are_listed(start_web):
    running = await start_web(web_origins=(ELSEWHERE,))
    listed = await post(running, headers={"origin": ELSEWHERE})
    assert listed.status_code == 200
    assert listed.headers["access-control-allow-origin"] == ELSEWHERE
    assert "geoveil-request-id" in listed.headers["access-control-expose-headers"]
    own = await post(running, headers={"origin": f"http://{running.web}"})
    assert own.status_code == 200
    for other in ("https://survey.example.org.evil.org", "http://survey.example.org", "null", ""):
        refused = await post(running, headers={"origin": other})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


async def test_browsers_that_ask_first_are_told_what_a_page_may_send(start_web):
    running = await start_web(web_origins=(ELSEWHERE,))
    asked = {"access-control-request-method": "POST"}
    async with httpx.AsyncClient() as client:
        listed = await client.options(url(running), headers={"origin": ELSEWHERE, **asked})
        other = await client.options(url(running), headers={"origin": "http://x.org", **asked})
    assert listed.status_code == 204
    assert listed.headers["access-control-allow-origin"] == ELSEWHERE
    assert {"content-type", "connect-protocol-version", "authorization"} <= set(
        listed.headers["access-control-allow-headers"].split(", ")
    )
    assert other.status_code == 403


async def test_what_a_page_may_send_unasked_is_no_call(running):
    """A browser sends forms and text to anywhere without asking."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = await post(running, headers={"content-type": kind})
        assert answer.status_code == 415
        assert "application/json" in answer.headers["accept-post"]


@pytest.mark.deep
async def test_a_name_that_points_at_this_machine_is_not_enough(start_web, tmp_path):
    """DNS rebinding: the page of another site, served under a name of 127.0.0.1."""
    running = await start_web(web_origins=("http://survey.example.org",))
    path = ANALYST + "ListCampaigns"
    for name in ("evil.org", "evil.org:80", "127.0.0.1.evil.org", "[", ""):
        answer = await post(running, path, headers={"host": name})
        assert answer.status_code in (400, 421), name
        # What anybody may ask anywhere needs no trust.
        assert (await post(running, headers={"host": name})).status_code in (200, 400)
    for name in ("localhost:1", "127.0.0.1", "[::1]:7", "survey.example.org"):
        assert (await post(running, path, headers={"host": name})).status_code == 200
    # With tokens, nobody is trusted for where they are.
    file = tmp_path / "tokens.json"
    file.write_text('{"version": 2, "tokens": []}')
    file.chmod(0o600)
    other = await start_web(tokens_file=file, database=tmp_path / "other.db")
    assert (await post(other, path, headers={"host": "evil.org"})).status_code == 401


def test_a_gateway_to_the_network_opens_the_server_to_it():
    """Analysts without a token are let in on the loopback only, by either way."""
    assert Settings(web="127.0.0.1:1").on_loopback
    assert Settings(web="[::1]:1").on_loopback
    assert not Settings(web="0.0.0.0:1").on_loopback
    assert not Settings(web="[::]:1").on_loopback


async def test_analysts_without_a_token_are_refused_if_the_gateway_is_public(start_web):
    server = await start_web(web="0.0.0.0:0")
    address = server.web.replace("0.0.0.0", "127.0.0.1")
    async with WebCaller(address, "connect", in_json=True) as caller:
        found = await caller.call(ANALYST + "ListCampaigns", b"")
    assert (found.code, found.reason) == ("PERMISSION_DENIED", "ANALYST_CLOSED")


async def test_a_public_gateway_lends_nobody_the_trust_of_its_machine(start_web):
    """The aggregator listens on the loopback and asks for no token; a gateway elsewhere may not."""
    running = await start_web(gateway={"web": "0.0.0.0:0"})
    port = running.web.rpartition(":")[2]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        refused = await client.post(ANALYST + "ListCampaigns", json={})
        forged = {"authorization": "Bearer anything"}
        also = await client.post(ANALYST + "ListCampaigns", json={}, headers=forged)
        health = await client.post(HEALTH, json={})
    assert [one.status_code for one in (refused, also, health)] == [403, 403, 200]


async def test_a_proxy_says_who_pays(start_web, monkeypatch):
    """Behind a proxy that is named each address pays for itself; nobody else may say who it is."""
    monkeypatch.setattr(ledger, "_BURST", 2_600.0)
    monkeypatch.setattr(ledger, "_SHARE", 1e-9)
    for proxies, others in (((), 429), (("127.0.0.1",), 200)):
        running = await start_web(gateway={"proxies": proxies})
        async with httpx.AsyncClient(base_url=f"http://{running.web}") as client:
            first = [
                (await client.get("/take-part/", headers={"x-forwarded-for": "192.0.2.1"}))
                for _ in range(6)
            ]
            told = {"x-forwarded-for": "192.0.2.1, 198.51.100.2"}
            other = await client.get("/take-part/", headers=told)
        assert first[-1].status_code == 429
        assert other.status_code == others


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        *(({"web": text}, "web") for text in ("7718", ":7718", "::1:7718", "h:99999", "h:-1")),
        ({"web": "h:1", "web_origins": ("https://example.org/",)}, "web_origins"),
        ({"web": "h:1", "web_origins": ("*",)}, "web_origins"),
        ({"web_origins": ("https://example.org",)}, "web"),
        ({"web_proxies": ("127.0.0.1",)}, "web"),
        ({"web": "h:1", "web_proxies": ("proxy",)}, "web_proxies"),
    ],
)
def test_settings_of_the_gateway_are_checked(changes, name):
    with pytest.raises(ParameterError) as caught:
        Settings(**changes)
    assert caught.value.name == name


async def test_an_address_that_is_taken_is_told(start_web, tmp_path):
    first = await start_web()
    with pytest.raises(ParameterError) as caught:
        await start_web(web=first.web, database=tmp_path / "other.db")
    assert caught.value.name == "web"


# TLS.


async def test_tls_follows_its_files(start_web, tmp_path):
    first, second = new_authority("first"), new_authority("second")
    certificate, key = written(for_server(first), tmp_path, "server")
    server = await start_web(tls_certificate=certificate, tls_key=key)

    async def healthy(authority: Authority) -> bool:
        context = ssl.create_default_context(cadata=authority.certificate.decode())
        async with httpx.AsyncClient(verify=context) as client:
            try:
                answer = await client.post(url(server, scheme="https"), json={})
            except httpx.ConnectError:
                return False
            return answer.json() == {"status": "SERVING"}

    assert await healthy(first)
    assert not await healthy(second)
    renewed = for_server(second)
    certificate.write_bytes(renewed.certificate)
    key.write_bytes(renewed.key)
    assert await healthy(second)
    assert not await healthy(first)


async def test_clients_need_a_certificate_if_they_do_for_grpc(start_web, tmp_path):
    authority, clients = new_authority("first"), new_authority("clients")
    certificate, key = written(for_server(authority), tmp_path, "server")
    roots = tmp_path / "clients.pem"
    roots.write_bytes(clients.certificate)
    server = await start_web(tls_certificate=certificate, tls_key=key, tls_client_ca=roots)
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    async with httpx.AsyncClient(verify=context) as client:
        with pytest.raises(httpx.TransportError):
            await client.post(url(server, scheme="https"), json={})
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.load_cert_chain(*written(for_client(clients), tmp_path, "phone"))
    async with httpx.AsyncClient(verify=context) as client:
        answer = await client.post(url(server, scheme="https"), json={})
    assert answer.status_code == 200


# What callers can't do.


async def test_who_does_not_say_what_it_asks_for_is_hung_up_on(start_web, monkeypatch):
    """Silent from the start; drop by drop; and again after a call that was sound."""
    monkeypatch.setattr(listener, "HEAD_S", 0.3)
    running = await start_web()
    sound = b"POST /x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"
    for first in (b"", b"POST / HTTP/1.1\r\nx: ", sound + b"POST /"):
        async with connected(running) as (reader, writer):
            writer.write(first)

            async def drip(to: asyncio.StreamWriter = writer, one: bytes = first[:1]) -> None:
                while True:
                    await asyncio.sleep(0.05)
                    to.write(one)

            dripping = asyncio.create_task(drip())
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(10_000), 5)
            dripping.cancel()


async def test_a_request_that_is_slow_to_come_is_given_up(start_web, monkeypatch):
    monkeypatch.setattr(calls, "MESSAGE_S", 0.2)
    running = await start_web()
    async with connected(running) as (reader, writer):
        writer.write(head(HEALTH, "content-length: 100") + b"{")
        answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"deadline_exceeded" in answer
    assert running.gateway.ledger.held == 0


@pytest.mark.parametrize("flood", [b"x-%d: y\r\n", b"x-%d: " + b"y" * 900 + b"\r\n"])
async def test_a_flood_of_headers_is_refused(running, flood):
    lines = b"".join(flood % i for i in range(20_000))
    async with connected(running) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\n" + lines)
        answer = b""
        with _Reset():
            answer = await asyncio.wait_for(reader.read(), 5)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
    assert (await post(running)).status_code == 200


class _Reset:
    """A reset while we still send is as good as an answer."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return isinstance(error, ConnectionError)


def head(path: str, *more: str, kind: str = "application/json") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-type: {kind}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_not_read(start_web, chunked):
    running = await start_web(max_message_bytes=100_000)
    path = COLLECTOR + "SubmitReports"
    said = "transfer-encoding: chunked" if chunked else "content-length: 1000000000000"
    sent = 0
    async with connected(running) as (reader, writer):
        writer.write(head(path, said, kind="application/proto"))
        answer = asyncio.create_task(reader.read())
        with _Reset():
            while not answer.done() and sent < 50_000_000:
                writer.write(b"10000\r\n" + b"a" * 65_536 + b"\r\n" if chunked else b"a" * 65_536)
                sent += 65_536
                await writer.drain()
                await asyncio.sleep(0)
        with _Reset():
            assert b"resource_exhausted" in await answer
    assert sent < 50_000_000
    assert running.gateway.ledger.held == 0


async def test_json_that_is_no_request_is_refused_as_such(running):
    for content in (
        *(b"[" * 30_000, b'{"reports":' * 5_000, b" " * 65_537),
        b'{"pageSize": ' + b"9" * 50_000 + b"}",
        *(b'{"campaignId": "\xff"}', b'{"pageToken": "\\ud800"}', b'{"nothing": 1}', b"null", b""),
    ):
        sent = {"content": content, "json": None, "headers": {"content-type": "application/json"}}
        answer = await post(running, COLLECTOR + "BrowseCampaigns", **sent)
        assert answer.status_code == 400, content[:16]
        told = answer.json()
        assert told["code"] == "invalid_argument"
        assert told["details"][0]["debug"] == {"reason": "INVALID_ARGUMENT", "domain": "geoveil"}
        assert len(answer.content) < 1_500


async def test_json_is_charged_before_it_is_read(start_web, monkeypatch):
    monkeypatch.setattr(ledger, "_BURST", 120_000.0)
    monkeypatch.setattr(ledger, "_SHARE", 1e-4)
    running = await start_web()
    content = b'{"pageToken": "' + b"a" * 50_000 + b'"}'
    sent = {"content": content, "json": None, "headers": {"content-type": "application/json"}}
    codes = [
        (await post(running, COLLECTOR + "BrowseCampaigns", **sent)).status_code for _ in range(4)
    ]
    assert codes[0] == 400
    assert codes[-1] == 429


async def test_frames_that_are_none_are_refused(running):
    headers = {"content-type": "application/grpc-web+proto"}
    for frames, status in (
        (b"", 3),
        (b"\0\0", 3),
        (b"\0\0\0\0\5abc", 3),
        (b"\x04\0\0\0\0", 3),
        (b"\0\xff\xff\xff\xff", 8),
    ):
        answer = await post(
            running, COLLECTOR + "GetCampaign", content=frames, json=None, headers=headers
        )
        assert answer.status_code == 200
        assert b"grpc-status: %d\r\n" % status in answer.content


@pytest.mark.deep
async def test_who_does_not_read_its_answers_holds_no_more_than_it_may(running, publish):
    for i in range(8):
        await running.wire.create(publish(f"large-{i}", queries=700))
    request = head(COLLECTOR + "BrowseCampaigns", "content-length: 2") + b"{}"
    async with connected(running) as (_, writer):
        writer.write(request * 8)  # pipelined
        await asyncio.sleep(0.5)
        # One call at a time: the next is not begun before the answer to this one is on its way.
        assert len(running.aggregator._reaper.memory.busy()) <= 1
        waiting = [one.transport.get_write_buffer_size() for one in open_in(running)]
        assert max(waiting) < 256 << 10
    await asyncio.sleep(0.1)
    assert running.gateway.ledger.held == 0


@pytest.mark.deep
async def test_who_reads_nothing_holds_little_and_not_for_long(start_web, monkeypatch):
    monkeypatch.setattr(listener, "STALLED_S", 0.5)
    running = await start_web()
    asked = b"GET /pages/geoveil-client.js HTTP/1.1\r\nhost: localhost\r\n\r\n"
    host, port = running.web.split(":")
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        silent.setblocking(False)
        await asyncio.get_running_loop().sock_connect(silent, (host, int(port)))
        silent.send(asked * 4)
        await asyncio.sleep(0.3)
        (opened,) = open_in(running)
        assert 0 < opened.transport.get_write_buffer_size() < 64 << 10
        await asyncio.sleep(0.5)
        assert not open_in(running)


async def test_pipelined_requests_are_few(running):
    async with connected(running) as (reader, writer):
        writer.write((head(HEALTH, "content-length: 2") + b"{}") * 500)
        answer = b""
        with _Reset():
            answer = await asyncio.wait_for(reader.read(), 5)
    assert answer.count(b"SERVING") < 20
    assert (await post(running)).status_code == 200


@pytest.mark.deep
async def test_of_too_many_connections_those_of_the_address_with_most_are_closed(start_web):
    running = await start_web(gateway={"connections": 5})
    opened = [await asyncio.open_connection(*running.web.split(":")) for _ in range(30)]
    await asyncio.sleep(0.2)
    assert running.gateway.ledger.open <= 5
    assert (await post(running)).status_code == 200
    for _, writer in opened:
        writer.close()


async def test_an_address_that_spent_its_share_is_hung_up_on(start_web, monkeypatch):
    """Bytes one at a time, connections, and requests: all are paid for by the address."""
    monkeypatch.setattr(ledger, "_BURST", 5_000.0)
    monkeypatch.setattr(ledger, "_SHARE", 1e-9)
    running = await start_web()
    async with connected(running) as (reader, writer):
        with _Reset():
            for byte in b"GET /take-part/x HTTP/1.1\r\nhost: localhost\r\n" + b"a" * 3_000:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
        with _Reset():
            assert await asyncio.wait_for(reader.read(), 5) == b""
    running = await start_web()
    refused = 0
    for _ in range(70):
        try:
            reader, writer = await asyncio.open_connection(*running.web.split(":"))
            writer.write(b"x")
            await asyncio.wait_for(reader.read(), 5)
            writer.close()
        except ConnectionError:
            refused += 1
    assert refused > 10


# Streams, and the end.


async def test_a_watch_is_given_up_when_its_watcher_is_gone(start_web, publish, wire_report):
    server = await start_web()
    campaign = publish(queries=1)
    await server.wire.create(campaign)
    await server.wire.submit(campaign, wire_report(1, (0, 5)))
    request = analyst_pb2.WatchEstimateRequest(campaign_id="income").SerializeToString()
    content = b"\0" + len(request).to_bytes(4, "big") + request
    async with connected(server) as (reader, writer):
        said = head(
            ANALYST + "WatchEstimate",
            f"content-length: {len(content)}",
            kind="application/connect+proto",
        )
        writer.write(said + content)
        first = await asyncio.wait_for(reader.readuntil(b"above 1"), 10)
        assert b" 200 " in first
        assert server.aggregator._reaper.memory.held > 0
    for _ in range(50):
        await asyncio.sleep(0.05)
        if server.aggregator._reaper.memory.held == 0:
            break
    assert server.aggregator._reaper.memory.held == 0


async def test_a_server_that_stops_tells_those_who_wait(start_web, monkeypatch):
    server = await start_web(grace_s=0.2)

    async def slow(*_: object, **__: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(server.aggregator._service, "get_campaign", slow)
    async with WebCaller(server.web, "connect", in_json=False) as caller:
        asked = asyncio.create_task(caller.call(COLLECTOR + "GetCampaign", b""))
        await asyncio.sleep(0.2)
        await server.aggregator.stop()
        found = await asyncio.wait_for(asked, 5)
        assert found.code == "UNAVAILABLE"
        later = await caller.call(COLLECTOR + "GetCampaign", b"")
    assert (later.code, later.text) == (
        "UNAVAILABLE",
        "the server can't be reached: try again later",
    )


@pytest.mark.deep(rest=0)
async def test_browsers_that_are_idle_take_little(monkeypatch):
    """`python -m benchmarks web` has 500 of them for longer."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    web = importlib.import_module("benchmarks.web")
    found = await asyncio.to_thread(web.crowd, browsers=400, seconds=1.0)
    assert found.open == 400
    assert found.resident_mb < 200
