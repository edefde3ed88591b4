"""What a device takes in place of gRPC: every request by itself, sealed, through a relay."""

import asyncio
import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import RetryInfo

from geoveil.campaign import PublicKey, is_loopback
from geoveil.client import AsyncTransport, PlaintextRefused, Transport, TransportError
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2
from geoveil.relay.binary_http import (
    InnerRequest,
    MessageInvalid,
    read_response,
    write_request,
)
from geoveil.relay.encapsulation import SIZES, padded_request, seal_request
from geoveil.relay.keys import SIGNED, PublishedKey

_Response = TypeVar("_Response", bound=Message)
REQUEST_TYPE, RESPONSE_TYPE = "message/ohttp-req", "message/ohttp-res"
KEYS_TYPE = "application/ohttp-keys"
_LONGEST = SIZES[-1] + 1
_COLLECTOR = "/geoveil.proto.v1.Collector/"
_OF_HTTP: Mapping[int, str] = {
    403: "PERMISSION_DENIED",
    404: "UNIMPLEMENTED",
    405: "UNIMPLEMENTED",
    413: "UNIMPLEMENTED",
    415: "UNIMPLEMENTED",
}
"""What a status of a relay means; of others a later try may succeed."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content: bytes
    headers: Mapping[str, str]


@dataclass(slots=True)
class RelayTransport(Transport):
    """Asks a collector through a relay, which sees addresses, but nothing of what travels.

    The gateway behind it sees what travels and no addresses. Every request has a connection of its
    own, and one of two sizes.

    Args:
        relay: its URL; https:// unless it is on this machine.
        operator: key of whoever runs the gateway: its keys are taken with this signature only.
        root_certificates: PEM of the authorities to trust; None: those of the system.
        clock: seconds since 1970.

    Raises:
        ParameterError: if the relay is no URL.
        PlaintextRefused: if it is elsewhere and has no TLS.

    Example:
        >>> key = PublicKey(bytes([1, *range(31)]))
        >>> RelayTransport("https://relay.example/reports", operator=key).relay
        'https://relay.example/reports'
    """

    relay: str
    operator: PublicKey = field(kw_only=True)
    root_certificates: bytes | None = field(default=None, kw_only=True)
    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    _key: PublishedKey | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.relay)
            host = parts.hostname if parts.port != 0 and parts.scheme in ("http", "https") else ""
        except (ValueError, AttributeError, TypeError):
            host = ""
        if not host:
            raise ParameterError("relay", self.relay, "a URL such as https://relay.example/reports")
        if self.relay.startswith("http:") and not is_loopback(host):
            raise PlaintextRefused(self.relay)
        if not isinstance(self.operator, PublicKey):
            raise ParameterError("operator", type(self.operator).__name__, "a PublicKey")

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        kind = collector_pb2.GetCampaignResponse
        # Of the larger size, as its answer is longer than it.
        return self._call("GetCampaign", request, kind, timeout_s, SIZES[-1])

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        if len(request.reports) > 1:
            raise ParameterError("reports", len(request.reports), "one in a request")
        kind = collector_pb2.SubmitReportsResponse
        return self._call("SubmitReports", request, kind, timeout_s, SIZES[0])

    def _call(
        self, method: str, request: Message, kind: type[_Response], timeout_s: float, least: int
    ) -> _Response:
        end = time.monotonic() + timeout_s
        inner = InnerRequest(
            b"POST",
            b"https",
            b"",
            (_COLLECTOR + method).encode(),
            ((b"content-type", b"application/proto"),),
            request.SerializeToString(),
        )
        message = padded_request(write_request(inner), least)
        try:
            try:
                content = self._exchange(message, end)
            except _OldKeyError:
                self._key = None
                content = self._exchange(message, end)
            return kind.FromString(content)
        except (MessageInvalid, DecodeError) as error:
            raise TransportError("DATA_LOSS", str(error)) from None
        except _OldKeyError:
            text = "the gateway has another key than it publishes"
            raise TransportError("UNAVAILABLE", text) from None

    def _exchange(self, message: bytes, end: float) -> bytes:
        """Send a message, and return the content of the answer to it."""
        key = self._key
        if key is None or key.expires <= self.clock():
            answer = self._ask("GET", b"", end)
            signed = answer.headers.get(SIGNED, "")
            fresh = PublishedKey.read(answer.content, signed, self.operator, self.clock())
            if key is not None and fresh.serial < key.serial:
                raise MessageInvalid("the gateway's key is older than one before it")
            self._key = key = fresh
        sealed, opened = seal_request(key.key_id, key.public, message)
        answer = self._ask("POST", sealed, end)
        if len(answer.content) != len(sealed):
            raise MessageInvalid("the answer has not the size of its request")
        response = read_response(opened(answer.content))
        if response.status != 200:
            raise _refused(response.content)
        return response.content

    def _ask(self, method: str, content: bytes, end: float) -> _Answer:
        """Ask the relay for something over a connection of its own."""
        left_s = end - time.monotonic()
        if left_s <= 0:
            raise TransportError("DEADLINE_EXCEEDED", "no time is left")
        connection = self._connection(left_s)
        timer = threading.Timer(left_s, _hang_up, (connection,))
        timer.daemon = True
        try:
            connection.connect()
            timer.start()  # the timeout of a connection is for each piece that comes
            head = {"Content-Type": REQUEST_TYPE} if content else {"Accept": KEYS_TYPE}
            connection.request(method, self._path, content or None, head)
            response = connection.getresponse()
            body = response.read(_LONGEST)
            if time.monotonic() >= end:  # then what came is cut short
                raise TimeoutError
        except (OSError, http.client.HTTPException) as error:
            late = isinstance(error, TimeoutError) or time.monotonic() >= end
            code = "DEADLINE_EXCEEDED" if late else "UNAVAILABLE"
            text = f"the relay did not answer ({type(error).__name__})"
            raise TransportError(code, text, answered=False) from None
        finally:
            timer.cancel()
            connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        answer = _Answer(response.status, body, headers)
        if answer.status == 200:
            return answer
        if answer.status == 400 and b"#ohttp-key" in body:
            raise _OldKeyError
        after = headers.get("retry-after", "")
        raise TransportError(
            _OF_HTTP.get(answer.status, "UNAVAILABLE"),
            f"the relay answered with status {answer.status}",
            retry_after_s=float(after) if after.isascii() and after.isdigit() else None,
        )

    @property
    def _path(self) -> str:
        return urlsplit(self.relay).path or "/"

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.relay)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        roots = self.root_certificates
        context = ssl.create_default_context(cadata=None if roots is None else roots.decode())
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)


class AsyncRelayTransport(AsyncTransport):
    """`RelayTransport` for asyncio: each request on a thread.

    Args:
        relay: a transport for threads.
    """

    def __init__(self, relay: RelayTransport) -> None:
        self._relay = relay
        self.operator = relay.operator

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        return await asyncio.to_thread(self._relay.get_campaign, request, timeout_s)

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        return await asyncio.to_thread(self._relay.submit_reports, request, timeout_s)


class _OldKeyError(Exception):
    """The gateway has no longer the key that a request was sealed for."""


def _hang_up(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(2)


def _refused(content: bytes) -> TransportError:
    """Return the error that Connect's JSON tells of."""
    try:
        error: dict[str, Any] = json.loads(content)
        code, wait_s = str(error["code"]).upper(), None
        for detail in error.get("details", ()):
            if detail["type"] == RetryInfo.DESCRIPTOR.full_name:
                packed = base64.b64decode(detail["value"] + "==")
                delay = RetryInfo.FromString(packed).retry_delay
                wait_s = delay.seconds + delay.nanos * 1e-9
    except (ValueError, TypeError, LookupError, AttributeError, DecodeError):
        return TransportError("INTERNAL", "the gateway answered with an error of no known form")
    code = "CANCELLED" if code == "CANCELED" else code
    return TransportError(code, str(error.get("message", "")), retry_after_s=wait_s)
