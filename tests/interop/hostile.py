"""A server with hostile answers, for devices of either transport."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from geoveil.proto.v1 import campaign_pb2, collector_pb2

HANG_S = 0.6


@dataclass(frozen=True)
class Failure:
    """A call fails; `text` is what the server says about it."""

    code: str
    text: str = ""


@dataclass(frozen=True)
class Hang:
    """No answer comes, until the device has given up."""


@dataclass(frozen=True)
class Web:
    """What only a web door can answer: a status, headers, and a body that may be sent often."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    times: int = 1
    pause_s: float = 0.0
    """Before each time."""


Reply = bytes | Failure | Hang | Web
UNAVAILABLE = Failure("UNAVAILABLE")


def shown(envelope: bytes, state: int = campaign_pb2.CAMPAIGN_STATE_OPEN) -> bytes:
    """Return the answer that shows an envelope, whatever is in it."""
    # As bytes: a message would drop or refuse what is not sound.
    size, prefix = len(envelope), b"\x0a"
    while size > 127:
        prefix, size = prefix + bytes([size & 127 | 128]), size >> 7
    tail = collector_pb2.GetCampaignResponse()
    tail.state = state  # type: ignore[assignment]  # unknown ones as well
    return prefix + bytes([size]) + envelope + tail.SerializeToString()


@dataclass
class Server:
    """Gives its answers one after the other, the last for ever; remembers what it was sent."""

    campaigns: list[Reply]
    results: list[Reply]
    reports: list[collector_pb2.SubmitReportsRequest] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    written: int = 0
    """Bytes of answers of the web that a device has taken."""

    def reply(self, method: str, request: bytes) -> Reply:
        self.received.append(request)
        if method == "SubmitReports":
            self.reports.append(collector_pb2.SubmitReportsRequest.FromString(request))
        replies = self.results if method == "SubmitReports" else self.campaigns
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, Hang):
            time.sleep(HANG_S)
            return UNAVAILABLE
        return reply


class _Grpc(grpc.GenericRpcHandler):
    def __init__(self, server: Server) -> None:
        self._server = server

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]

        def answer(request: bytes, context: Any) -> bytes:
            reply = self._server.reply(method, request)
            if isinstance(reply, Failure):
                context.abort(grpc.StatusCode[reply.code], reply.text)
            assert isinstance(reply, bytes), "only of the web"
            return reply

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def grpc_door(server: Server) -> Iterator[str]:
    """Serve on a free port; yield the address."""
    door = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", 64 << 20)])
    door.add_generic_rpc_handlers((_Grpc(server),))
    port = door.add_insecure_port("127.0.0.1:0")
    door.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        door.stop(None)


_TO_ANYBODY = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Max-Age": "7200",
}


@contextmanager
def web_door(server: Server) -> Iterator[str]:
    """The same for clients of Connect."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["Content-Length"]))
            reply = server.reply(self.path.rpartition("/")[2], request)
            if isinstance(reply, Failure):
                text = {"code": reply.code.lower(), "message": reply.text}
                reply = Web(503, {"Content-Type": "application/json"}, json.dumps(text).encode())
            elif isinstance(reply, bytes):
                reply = Web(200, {"Content-Type": "application/proto"}, reply)
            assert isinstance(reply, Web)
            self.send_response(reply.status)
            for name, value in {**_TO_ANYBODY, **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for part in (reply.body,) * reply.times:
                    time.sleep(reply.pause_s)
                    self.wfile.write(part)
                    server.written += len(part)
            except ConnectionError:
                pass

        def do_OPTIONS(self) -> None:
            self.send_response(204)
            for name, value in _TO_ANYBODY.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    with _serving(Handler) as address:
        yield address


@contextmanager
def pages(files: Mapping[str, bytes]) -> Iterator[str]:
    """Serve files to browsers on a free port; yield the origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            self.send_response(200)
            kind = "javascript" if name.endswith(".js") else "html"
            self.send_header("Content-Type", f"text/{kind}")
            self.end_headers()
            self.wfile.write(files.get(name, b"<!doctype html>"))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    with _serving(Handler) as address:
        yield address


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    door = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    door.daemon_threads = True
    threading.Thread(target=door.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{door.server_port}"
    finally:
        door.shutdown()
        door.server_close()
