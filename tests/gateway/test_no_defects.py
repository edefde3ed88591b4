"""Test that nothing from an outsider counts as a defect, at gRPC or at the gateway."""

import asyncio
import logging
import socket
import ssl
import struct
from pathlib import Path

import pytest

from geoveil.proto.v1.collector_pb2 import GetCampaignRequest
from tests.aggregator.tls_files import for_server, new_authority, written

_PATH = "/geoveil.proto.v1.Collector/GetCampaign"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def _post(head: str, body: bytes = b"", path: str = _PATH) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n".encode("latin-1") + body


_PROTO, _CHUNKED = "content-type: application/proto", "transfer-encoding: chunked"
SENT = {
    "nothing": b"",
    "a zero": b"\0",
    "no protocol": b"\xff" * 300,
    "another protocol": b"SSH-2.0-scan\r\n",
    "part of a handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(80),
    "HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "a chunk of no size": _post(f"{_PROTO}\r\n{_CHUNKED}", b"zz\r\n"),
    "a chunk of a negative size": _post(f"{_PROTO}\r\n{_CHUNKED}", b"-1\r\n\r\n"),
    "a chunk of too large a size": _post(f"{_PROTO}\r\n{_CHUNKED}", b"f" * 40 + b"\r\n"),
    "a chunk that goes on": _post(f"{_PROTO}\r\n{_CHUNKED}", b"1\r\naa\r\n0\r\n\r\n"),
    "two lengths": _post(f"{_PROTO}\r\ncontent-length: 1\r\ncontent-length: 2", b"aa"),
    "a length and chunks": _post(f"{_PROTO}\r\n{_CHUNKED}\r\ncontent-length: 5", b"0\r\n\r\n"),
    "a negative length": _post(f"{_PROTO}\r\ncontent-length: -1"),
    "a length that is no number": _post(f"{_PROTO}\r\ncontent-length: \xb2"),
    "a body cut short": _post(f"{_PROTO}\r\ncontent-length: 100", b"a"),
    "a message that is none": _post(f"{_PROTO}\r\ncontent-length: 3", b"\xff\xff\xff"),
    "JSON that is none": _post("content-type: application/json\r\ncontent-length: 2", b"{["),
    "JSON of no text": _post("content-type: application/json\r\ncontent-length: 2", b"\xff\xfe"),
    "nested JSON": _post("content-type: application/json\r\ncontent-length: 9000", b"[" * 9_000),
    "a frame of wrong flags": _post(
        "content-type: application/grpc-web\r\ncontent-length: 5", b"\x7f\0\0\0\0"
    ),
    "half a frame": _post("content-type: application/grpc-web\r\ncontent-length: 3", b"\0\0\0"),
    "gzip that is none": _post(f"{_PROTO}\r\ncontent-encoding: gzip\r\ncontent-length: 2", b"aa"),
    "a timeout that is none": _post(f"{_PROTO}\r\ngrpc-timeout: xS\r\ncontent-length: 0"),
    "a token of no text": _post(f"{_PROTO}\r\nauthorization: \xff\xfe\r\ncontent-length: 0"),
    "a path of no text": _post(f"{_PROTO}\r\ncontent-length: 0", path="/\xff\xfe/\x80"),
    "a path of percents": _post(f"{_PROTO}\r\ncontent-length: 0", path="/%ff%fe/%zz"),
    "a path above its root": b"GET /pages/..%2f..%2fetc/passwd HTTP/1.1\r\nhost: a\r\n\r\n",
    "a path with a host": b"GET http://[::1/ HTTP/1.1\r\nhost: [::1\r\n\r\n",
    "a header with a zero": b"GET / HTTP/1.1\r\nx: a\0b\r\n\r\n",
    "a cookie of backslashes": b'GET /console/ HTTP/1.1\r\nhost: localhost\r\ncookie: a="'
    + b"\\" * 15_000
    + b'"\r\n\r\n',
    "a page of no form": _post("content-type: multipart/form-data", path="/console/sign-in"),
    "a form of no text": _post(
        "origin: http://localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n"
        "content-length: 9",
        b"%ff%\xff=&&;",
        "/console/sign-in",
    ),
    "a query of no text": b"GET /console/?%ff=%\xff&&a&a=b HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "HTTP/2": _PREFACE,
    "HTTP/2 and no frame": _PREFACE + b"\xff" * 200,
    "HTTP/2 and an empty head": _PREFACE + b"\0\0\0\1\5\0\0\0\1",
    "HTTP/2 and a head without end": _PREFACE
    + b"\0\0\1\1\0\0\0\0\1\x88"
    + b"\0\0\1\x09\0\0\0\0\1a",
}


def complaints(records: list[logging.LogRecord]) -> list[str]:
    return [one.getMessage() for one in records if one.levelno >= logging.WARNING]


@pytest.fixture(params=[False, True], ids=["in the clear", "with TLS"])
async def places(request, start_web, tmp_path):
    """Where an aggregator and its gateway listen, and whether with TLS."""
    files: dict[str, Path] = {}
    if request.param:
        names = ("tls_certificate", "tls_key")
        made = written(for_server(new_authority("a")), tmp_path, "server")
        files = dict(zip(names, made, strict=True))
    running = await start_web(console=True, **files)
    return [running.address, running.web], request.param


async def send(address: str, content: bytes, *, secure: bool, reset: bool) -> None:
    """Send something to a server of this machine, hear what it says, and leave."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if secure else None
    if context is not None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    except (OSError, ssl.SSLError):
        return
    try:
        writer.write(content)
        if reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        else:
            async with asyncio.timeout(0.3):
                await reader.read(1)
    except (OSError, TimeoutError, ssl.SSLError):
        pass
    finally:
        writer.transport.abort()


async def test_nothing_that_is_sent_is_a_defect(places, caplog):
    addresses, has_tls = places
    await asyncio.gather(
        *(
            send(address, content, secure=secure, reset=reset)
            for address in addresses
            for content in SENT.values()
            for secure in {False, has_tls}
            for reset in (False, True)
        )
    )
    await asyncio.sleep(0.1)
    assert complaints(caplog.records) == []


async def test_a_defect_would_be_noticed(running, caplog, monkeypatch):
    """The control."""

    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(running.gateway._site, "_mount", broken)
    request = GetCampaignRequest(campaign_id="a").SerializeToString()
    content = _post(f"{_PROTO}\r\ncontent-length: {len(request)}", request)
    await send(running.web, content, secure=False, reset=False)
    assert complaints(caplog.records) == ["defect"]
