"""A relay for tests and first tries, which forwards requests without their headers.

For many users nginx does the same; see docs/operating.md.
"""

import http.client
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from geoveil.campaign import is_loopback
from geoveil.gp import ParameterError
from geoveil.relay.encapsulation import SIZES
from geoveil.relay.keys import PATH, SIGNED
from geoveil.relay.transport import REQUEST_TYPE
from geoveil.relay.web import TIMEOUT_S, SmallHandler, SmallServer


class Relay(SmallServer):
    """Forwards devices' requests to a gateway. Use `serve_forever` and `shutdown`.

    Args:
        listen: host and port; port 0 takes a free one.
        gateway: the gateway's URL, such as "https://collector.example".

    Raises:
        ParameterError: if the gateway is not such a URL.
    """

    def __init__(self, listen: tuple[str, int], gateway: str) -> None:
        parts = urlsplit(gateway if isinstance(gateway, str) else "")
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if not (parts.hostname and (local or parts.scheme == "https")):
            expected = "a URL with https://, or http:// on this machine"
            raise ParameterError("gateway", gateway, expected)
        kind = http.client.HTTPConnection if local else http.client.HTTPSConnection
        self.connect = partial(kind, parts.hostname, parts.port, timeout=TIMEOUT_S)
        super().__init__(listen, _Handler)


class _Handler(SmallHandler):
    page_headers = MappingProxyType(
        {
            "access-control-allow-headers": "content-type",
            "access-control-expose-headers": SIGNED,
        }
    )

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        self._forward(b"")

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        size = self.headers.get("content-length", "")
        if self.headers.get("content-type") != REQUEST_TYPE:
            self.answer(415, b"", {})
        elif size not in map(str, SIZES):
            self.answer(413, b"", {})
        else:
            self._forward(self.rfile.read(int(size)))

    def _forward(self, content: bytes) -> None:
        relay: Any = self.server
        connection = relay.connect()
        head = {"Content-Type": REQUEST_TYPE} if content else {}
        try:
            connection.request("POST" if content else "GET", PATH, content or None, head)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self.answer(502, b"", {})
            return
        finally:
            connection.close()
        kept = {name: answer.headers.get(name, "") for name in ("content-type", SIGNED)}
        self.answer(answer.status, body, kept)
