"""HTTP requests, each over a separate connection, with a deadline; and small servers."""

import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from geoveil.campaign import is_loopback
from geoveil.client import PlaintextRefused, TransportError
from geoveil.gp import ParameterError

TIMEOUT_S = 30.0
_LONGEST = (4 << 10) + 1
"""The most bytes read of a response, one more than permitted."""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """An HTTP response."""

    status: int
    content: bytes
    headers: Mapping[str, str]

    @property
    def retry_after_s(self) -> float | None:
        """The delay in seconds that the other side requests."""
        after = self.headers.get("retry-after", "")
        return float(after) if after.isascii() and after.isdigit() else None


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The destination of requests.

    Args:
        name: the name of the URL's parameter, for errors.
        url: https:// unless it is on this machine.
        root_certificates: the trusted authorities in PEM; None for the system's.

    Raises:
        ParameterError: if it is not a URL.
        PlaintextRefused: if it is another machine without TLS.
    """

    name: str
    url: str
    root_certificates: bytes | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            host = parts.hostname if parts.port != 0 and parts.scheme in ("http", "https") else ""
        except (ValueError, AttributeError, TypeError):
            host = ""
        if not host:
            raise ParameterError(self.name, self.url, "a URL such as https://host.example/path")
        if self.url.startswith("http:") and not is_loopback(host):
            raise PlaintextRefused(self.url)

    def ask(
        self, method: str, content: bytes, head: Mapping[str, str], end: float, below: str = ""
    ) -> WebAnswer:
        """Send a request and return the response.

        Args:
            end: the deadline on `time.monotonic`.
            below: is appended to the URL's path.

        Raises:
            TransportError: if no response came in time.
        """
        left_s = end - time.monotonic()
        if left_s <= 0:
            raise TransportError("DEADLINE_EXCEEDED", "no time is left")
        connection = self._connection(left_s)
        timer = threading.Timer(left_s, _hang_up, (connection,))
        timer.daemon = True
        try:
            connection.connect()
            timer.start()  # a connection's own timeout applies to each piece
            path = (urlsplit(self.url).path or "/") + below
            connection.request(method, path, content or None, dict(head))
            response = connection.getresponse()
            body = response.read(_LONGEST)
            if time.monotonic() >= end:  # the response was cut short
                raise TimeoutError
        except (OSError, http.client.HTTPException) as error:
            late = isinstance(error, TimeoutError) or time.monotonic() >= end
            code = "DEADLINE_EXCEEDED" if late else "UNAVAILABLE"
            text = f"the {self.name} did not answer ({type(error).__name__})"
            raise TransportError(code, text, answered=False) from None
        finally:
            timer.cancel()
            connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return WebAnswer(response.status, body, headers)

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        parts, roots = urlsplit(self.url), self.root_certificates
        given: dict[str, Any] = {"timeout": timeout_s}
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname or "", parts.port, **given)
        cadata = None if roots is None else roots.decode()
        given["context"] = ssl.create_default_context(cadata=cadata)
        return http.client.HTTPSConnection(parts.hostname or "", parts.port, **given)


def _hang_up(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(2)


class SmallServer(ThreadingHTTPServer):
    """Answers each request in a thread. Use `serve_forever` and `shutdown`."""

    daemon_threads = True
    request_queue_size = 128


class SmallHandler(BaseHTTPRequestHandler):
    """Answers one request; pages of any origin may ask, since no cookie identifies their users."""

    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT_S
    page_headers: Mapping[str, str]
    """The headers that permit requests of pages with further headers."""

    def do_OPTIONS(self) -> None:
        self.answer(204, b"", {})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing about callers."""

    def answer(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        """Send a response, without headers that are empty, and close the connection."""
        self.send_response_only(status)
        self.send_header("access-control-allow-origin", "*")
        for name, value in {**self.page_headers, **headers}.items():
            if value:
                self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(content)
