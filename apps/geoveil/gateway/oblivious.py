"""Sealed calls of devices through a relay: Oblivious HTTP (RFC 9458, RFC 9540).

The inner request is answered like any call, with two exceptions: it may call only the collector,
without a token, and its response has the size of the request.
"""

import asyncio
import json

from geoveil.gateway.calls import Calls
from geoveil.gateway.http import (
    MESSAGE_S,
    Body,
    Event,
    GoneError,
    Receive,
    Scope,
    Send,
    TooMuchError,
    after,
    answer,
    answer_later,
    respond,
)
from geoveil.gateway.ledger import Account, Ledger
from geoveil.relay import (
    KEYS_TYPE,
    REQUEST_TYPE,
    RESPONSE_TYPE,
    SIGNED,
    SIZES,
    GatewayKeys,
    InnerRequest,
    InnerResponse,
    KeyUnknown,
    MessageInvalid,
    read_request,
    room_in_response,
    write_response,
)

_OF_DEVICES = "/geoveil.proto.v1.Collector/"
_TYPE = b"content-type"
_KEY_PROBLEM = b'{"type":"https://iana.org/assignments/http-problem-types#ohttp-key"}'
"""The problem that tells a device to fetch the key again (RFC 9458, 5.3)."""
_OPENING = 200.0
"""Microseconds for opening a request and sealing its response."""


class Oblivious:
    """Opens requests that come through a relay, and answers the inner ones by `calls`."""

    def __init__(self, keys: GatewayKeys, calls: Calls, ledger: Ledger) -> None:
        self._keys = keys
        self._calls = calls
        self._ledger = ledger

    async def __call__(self, scope: Scope, receive: Receive, send: Send, account: Account) -> None:
        """Answer a sealed request, or a request for the key."""
        connection = scope["state"]["connection"]
        try:
            if scope["method"] in ("GET", "HEAD"):
                await self._publish(send)
            elif scope["method"] != "POST":
                await answer(send, 405, "sealed calls are POST", [(b"allow", b"GET, HEAD, POST")])
            elif dict(scope["headers"]).get(_TYPE) != REQUEST_TYPE.encode():
                await answer(send, 415, f"content-type must be {REQUEST_TYPE}")
            elif not self._ledger.charge(account, _OPENING):
                await answer_later(send, self._ledger.wait_s(account))
            else:
                async with asyncio.timeout(MESSAGE_S):
                    sealed = await Body(receive, self._ledger, connection).whole(SIZES[-1])
                await self._opened(sealed, scope, receive, send, account)
        except TimeoutError:
            await answer(send, 408, f"a request must come within {MESSAGE_S:g} s")
        except TooMuchError:
            await answer(send, 413, f"a sealed request has at most {SIZES[-1]:,} bytes")
        except MessageInvalid as error:
            await answer(send, 422, str(error))
        except GoneError:
            pass
        finally:
            self._ledger.hold(connection, -connection.held)

    async def _publish(self, send: Send) -> None:
        try:
            key = self._keys.published()
        except KeyUnknown:
            await answer(send, 503, "the gateway's keys have expired: see 'geoveil relay rotate'")
            return
        fields = [(_TYPE, KEYS_TYPE.encode()), (SIGNED.encode(), key.signed.encode())]
        await respond(send, 200, key.configuration, fields)

    async def _opened(
        self, sealed: bytes, scope: Scope, receive: Receive, send: Send, account: Account
    ) -> None:
        """Answer a sealed request."""
        if len(sealed) not in SIZES:
            sizes = " or ".join(f"{size:,}" for size in SIZES)
            raise MessageInvalid(f"a sealed request has {sizes} bytes")
        try:
            message, seal = self._keys.open(sealed)
        except KeyUnknown:
            await respond(send, 400, _KEY_PROBLEM, [(_TYPE, b"application/problem+json")])
            return
        room = room_in_response(len(sealed))
        try:
            response = await self._inner(read_request(message), scope, receive, account)
        except MessageInvalid as error:
            response = _refusal("invalid_argument", str(error))
        content = write_response(response)
        if len(content) > room:
            text = f"the answer is longer than {room:,} bytes, the most that a relay carries"
            content = write_response(_refusal("failed_precondition", text))
        fields = [(_TYPE, RESPONSE_TYPE.encode()), (b"cache-control", b"no-store")]
        await respond(send, 200, seal(content.ljust(room, b"\0")), fields)

    async def _inner(
        self, request: InnerRequest, scope: Scope, receive: Receive, account: Account
    ) -> InnerResponse:
        """Answer an inner request as if it had come directly."""
        path = request.path.decode("latin-1")
        if request.method != b"POST" or not path.startswith(_OF_DEVICES):
            return _refusal("unimplemented", "only devices' calls may come through a relay")
        status, pieces, kind = 500, list[bytes](), b""

        async def send_inner(event: Event) -> None:
            nonlocal status, kind
            if event["type"] == "http.response.start":
                status, kind = event["status"], dict(event["headers"]).get(_TYPE, b"")
            else:
                pieces.append(event["body"])

        fields = [pair for pair in request.fields if pair[0] == _TYPE]
        inner = {"method": "POST", "path": path, "headers": fields, "state": scope["state"]}
        await self._calls(inner, after(request.content, receive), send_inner, account)
        return InnerResponse(status, ((_TYPE, kind),), b"".join(pieces))


def _refusal(code: str, text: str) -> InnerResponse:
    """Return an error in Connect's form."""
    content = json.dumps({"code": code, "message": text}).encode()
    return InnerResponse(400, ((_TYPE, b"application/json"),), content)
