"""A device's transport through a relay, with every request sealed separately."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import RetryInfo

from geoveil.campaign import PublicKey
from geoveil.client import AsyncTransport, Transport, TransportError
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
from geoveil.relay.web import WebAddress, WebAnswer

_Response = TypeVar("_Response", bound=Message)
REQUEST_TYPE, RESPONSE_TYPE = "message/ohttp-req", "message/ohttp-res"
KEYS_TYPE = "application/ohttp-keys"
_COLLECTOR = "/geoveil.proto.v1.Collector/"
_OF_HTTP: Mapping[int, str] = {
    403: "PERMISSION_DENIED",
    404: "UNIMPLEMENTED",
    405: "UNIMPLEMENTED",
    413: "UNIMPLEMENTED",
    415: "UNIMPLEMENTED",
}
"""A relay's status → its meaning; after any other a retry may succeed."""


@dataclass(slots=True)
class RelayTransport(Transport):
    """Calls a collector through a relay, which sees addresses but no content.

    The gateway behind it sees contents but no addresses. Every request has a separate connection
    and one of two sizes.

    Args:
        relay: the relay's URL; https:// unless it is on this machine.
        operator: the gateway operator's key, which must have signed the gateway's keys.
        root_certificates: the trusted authorities in PEM; None for the system's.
        clock: returns seconds since 1970.

    Raises:
        ParameterError: if the relay is not a URL.
        PlaintextRefused: if the relay is another machine without TLS.

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
    _web: WebAddress = field(init=False)

    def __post_init__(self) -> None:
        self._web = WebAddress("relay", self.relay, self.root_certificates)
        if not isinstance(self.operator, PublicKey):
            raise ParameterError("operator", type(self.operator).__name__, "a PublicKey")

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        kind = collector_pb2.GetCampaignResponse
        # The larger size, since its response is longer than the request.
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
            text = "the gateway uses a key other than the one it publishes"
            raise TransportError("UNAVAILABLE", text) from None

    def _exchange(self, message: bytes, end: float) -> bytes:
        """Send a message, and return the content of its response."""
        key = self._key
        if key is None or key.expires <= self.clock():
            answer = self._ask("GET", b"", end)
            signed = answer.headers.get(SIGNED, "")
            fresh = PublishedKey.read(answer.content, signed, self.operator, self.clock())
            if key is not None and fresh.serial < key.serial:
                raise MessageInvalid("the gateway's key is older than an earlier one")
            self._key = key = fresh
        sealed, opened = seal_request(key.key_id, key.public, message)
        answer = self._ask("POST", sealed, end)
        if len(answer.content) != len(sealed):
            raise MessageInvalid("the answer differs in size from its request")
        response = read_response(opened(answer.content))
        if response.status != 200:
            raise _refused(response.content)
        return response.content

    def _ask(self, method: str, content: bytes, end: float) -> WebAnswer:
        """Send the relay a request, and return its successful response."""
        head = {"Content-Type": REQUEST_TYPE} if content else {"Accept": KEYS_TYPE}
        answer = self._web.ask(method, content, head, end)
        if answer.status == 200:
            return answer
        if answer.status == 400 and b"#ohttp-key" in answer.content:
            raise _OldKeyError
        raise TransportError(
            _OF_HTTP.get(answer.status, "UNAVAILABLE"),
            f"the relay answered with status {answer.status}",
            retry_after_s=answer.retry_after_s,
        )


class AsyncRelayTransport(AsyncTransport):
    """`RelayTransport` for asyncio, with each request in a thread.

    Args:
        relay: the blocking transport.

    Raises:
        ParameterError: if it is not a RelayTransport.
    """

    def __init__(self, relay: RelayTransport) -> None:
        if not isinstance(relay, RelayTransport):
            raise ParameterError("relay", relay, "a RelayTransport")
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
    """The gateway no longer has the key for which a request was sealed."""


def _refused(content: bytes) -> TransportError:
    """Return the error in Connect's JSON."""
    try:
        error: dict[str, Any] = json.loads(content)
        code, wait_s = str(error["code"]).upper(), None
        for detail in error.get("details", ()):
            if detail["type"] == RetryInfo.DESCRIPTOR.full_name:
                packed = base64.b64decode(detail["value"] + "==")
                delay = RetryInfo.FromString(packed).retry_delay
                wait_s = delay.seconds + delay.nanos * 1e-9
    except (ValueError, TypeError, LookupError, AttributeError, DecodeError):
        return TransportError("INTERNAL", "the gateway answered with an error of an unknown form")
    code = "CANCELLED" if code == "CANCELED" else code
    return TransportError(code, str(error.get("message", "")), retry_after_s=wait_s)
