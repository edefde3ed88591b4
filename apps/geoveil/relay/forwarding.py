"""A relay for tests and first tries, which forwards requests without their headers.

For many users nginx does the same; see docs/operating.md.
"""

import http.client
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from geoveil.campaign import is_loopback
from geoveil.gp import ParameterError
from geoveil.relay.encapsulation import SIZES
from geoveil.relay.keys import PATH, SIGNED
from geoveil.relay.transport import REQUEST_TYPE

_TIMEOUT_S = 30.0
CROSS_ORIGIN = {
    "access-control-allow-origin": "*",
    "access-control-allow-headers": "content-type",
    "access-control-expose-headers": SIGNED,
}
"""Permits requests from pages of any origin, since responses depend on no cookie or origin."""


class Relay(ThreadingHTTPServer):
    """Forwards devices' requests to a gateway. Use `serve_forever` and `shutdown`.

    Args:
        listen: host and port; port 0 takes a free one.
        gateway: the gateway's URL, such as "https://collector.example".

    Raises:
        ParameterError: if the gateway is not such a URL.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, listen: tuple[str, int], gateway: str) -> None:
        parts = urlsplit(gateway if isinstance(gateway, str) else "")
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if not (parts.hostname and (local or parts.scheme == "https")):
            expected = "a URL with https://, or http:// on this machine"
            raise ParameterError("gateway", gateway, expected)
        kind = http.client.HTTPConnection if local else http.client.HTTPSConnection
        self.connect = partial(kind, parts.hostname, parts.port, timeout=_TIMEOUT_S)
        super().__init__(listen, _Handler)


class _Handler(BaseHTTPRequestHandler):
    """Answers one device."""

    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        self._forward(b"")

    def do_OPTIONS(self) -> None:
        self._answer(204, b"")

    def do_POST(self) -> None:
        size = self.headers.get("content-length", "")
        if self.headers.get("content-type") != REQUEST_TYPE:
            self._answer(415, b"")
        elif size not in map(str, SIZES):
            self._answer(413, b"")
        else:
            self._forward(self.rfile.read(int(size)))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing about callers."""

    def _forward(self, content: bytes) -> None:
        relay: Any = self.server
        connection = relay.connect()
        head = {"Content-Type": REQUEST_TYPE} if content else {}
        try:
            connection.request("POST" if content else "GET", PATH, content or None, head)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self._answer(502, b"")
            return
        finally:
            connection.close()
        kept = {name: answer.headers.get(name, "") for name in ("content-type", SIGNED)}
        self._answer(answer.status, body, **kept)

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        for name, value in CROSS_ORIGIN.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)
