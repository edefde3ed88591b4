"""Messages through a relay: sealed messages, binary HTTP, keys of gateways, and tokens."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from geoveil.campaign import (
    Asker,
    PublicKey,
    SigningKey,
    TokenRule,
    encode,
    token_key_id,
    who_asks,
    who_learns,
)
from geoveil.relay import (
    InnerRequest,
    InnerResponse,
    IssuerKey,
    MessageInvalid,
    PublishedKey,
    write_response,
)
from geoveil.relay.binary_http import read_response, write_request
from geoveil.relay.encapsulation import open_request, seal_request
from tools.vectors.campaigns import SIGNER
from tools.vectors.chance import OPENS
from tools.vectors.examples import small_campaign

# RFC 9458, appendix A: the gateway's key, the message's key, and the answer's salt.
_PRIVATE = "3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a"
_EPHEMERAL = "bc51d5e930bda26589890ac7032f70ad12e4ecb37abb1b65b1256c9c48999c73"
_SALT = "c789e7151fcba46158ca84b04464910d"
# RFC 9292, figure 13: with a trailer; and of indeterminate length after an informational one.
_TRAILED = (
    "0140c8001d5468697320636f6e74656e7420636f6e7461696e732043524c462e0d0a0d07747261696c6572047465"
    "7874"
)
_PIECES = "034066016101620040c80163016400026162016300" + 4 * "00"
_NOW = 1_800_000_000
_TOKENS = Path(__file__).parents[2] / "tests" / "relay" / "tokens.json"


def relay_vectors() -> list[dict[str, Any]]:
    """Return messages of each kind: {"kind": ..., ...}."""
    example = bytes.fromhex("00034745540568747470730b6578616d706c652e636f6d012f")
    call = _call("GetCampaign", b"\n\x06income")
    found = [_sealed(example, bytes.fromhex("0140c8")), _sealed(call, bytes(9))]
    for content in (b"", b"\n\x06income", bytes(63), bytes(64)):
        message = _call("SubmitReports", content)
        found.append({"kind": "request", "content": content.hex(), "message": message.hex()})
    plain = write_response(InnerResponse(200, ((b"content-type", b"a/b"),), b"told"))
    large = write_response(InnerResponse(503, (), bytes(64)))
    wrong = ("", "00", "0140c7", "014063", "0140c80101", "0140c8020001", "0140c8030161016200")
    right = (plain.hex(), plain.hex() + "0000", large.hex(), "0140c8", _TRAILED, _PIECES)
    answers = (*right, plain.hex() + "01", "014258", "0240c8", *wrong)
    found += [_response(bytes.fromhex(message)) for message in answers]
    return [*found, *map(_key, range(8)), *_tokens(), *_learned(), *_asked()]


def _tokens() -> Iterator[dict[str, Any]]:
    """Yield a token of RFC 9578, and what tokens sign for campaigns with and without periods."""
    vector = json.loads(_TOKENS.read_text("ascii"))["rfc9578"][0]
    issuer = IssuerKey.from_pem(bytes.fromhex(vector["skS"]))
    yield {
        "kind": "token", "key": issuer.public.hex(), "key_id": token_key_id(issuer.public).hex(),
        "message": vector["token"][:196], "salt": vector["salt"], "factor": vector["blind"],
        "request": vector["token_request"], "signed": vector["token_response"],
        "token": vector["token"][196:],
    }  # fmt: skip
    ids = bytes(range(64))
    for key, recurs, period in ((issuer.public, False, 0), (ids, True, 1)):
        rule = TokenRule("income", b"campaign", key, recurs)
        report_id = bytes(range(16))
        yield {
            "kind": "message", "campaign_id": rule.campaign_id, "campaign": rule.campaign.hex(),
            "key_id": rule.key_id(period).hex(), "report_id": report_id.hex(),
            "message": rule.message(report_id, period).hex(),
        }  # fmt: skip


def _learned() -> Iterator[dict[str, Any]]:
    """Yield the sentences that tell people about relays and issuers."""
    operator = SigningKey.from_pem(SIGNER).public
    for relay, token, recurs in ((False, False, False), (True, False, False), (True, True, True)):
        period = timedelta(days=45) if recurs else None
        plain = small_campaign("income", period=period)
        key = bytes(range(32 * plain.periods)) if recurs else b"\x81" * 256
        changes = {
            "relay_operator": operator if relay else None,
            "token_key": key if token else None,
        }
        campaign = replace(plain, **changes)
        yield {"kind": "learns", "campaign": encode(campaign).hex(), "said": who_learns(campaign)}


def _asked() -> Iterator[dict[str, Any]]:
    """Yield sentences about who asks, and how long single answers are kept."""
    asker = Asker(organisation="City", purpose="Buses", contact="x@y.z")
    until = OPENS + timedelta(days=200, minutes=61, microseconds=1)
    for changes in (
        {},
        {"asker": asker},
        {"asker": replace(asker, notice="https://y.z/n"), "delete_after": until},
    ):
        campaign = replace(small_campaign("income"), **changes)
        yield {"kind": "asks", "campaign": encode(campaign).hex(), "said": who_asks(campaign)}


def _call(method: str, content: bytes) -> bytes:
    path = f"/geoveil.proto.v1.Collector/{method}".encode()
    fields = ((b"content-type", b"application/proto"),)
    return write_request(InnerRequest(b"POST", b"https", b"", path, fields, content))


def _sealed(request: bytes, response: bytes) -> dict[str, Any]:
    """Return a request sealed with the keys of the RFC, and its answer."""
    private, ephemeral = (
        X25519PrivateKey.from_private_bytes(bytes.fromhex(key)) for key in (_PRIVATE, _EPHEMERAL)
    )
    public = private.public_key().public_bytes_raw()
    sealed, _ = seal_request(1, public, request, ephemeral)
    _, answer = open_request(private, sealed)
    halves = {"private": _EPHEMERAL, "public": ephemeral.public_key().public_bytes_raw().hex()}
    return {
        "kind": "sealed", "key": public.hex(), "ephemeral": halves, "request": request.hex(),
        "sealed": sealed.hex(), "response": response.hex(),
        "answer": answer(response, bytes.fromhex(_SALT)).hex(),
    }  # fmt: skip


def _response(message: bytes) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        response = read_response(message)
        return {"status": response.status, "content": response.content.hex()}

    return {"kind": "response", "message": message.hex(), **_or_refused(read)}


def _key(change: int) -> dict[str, Any]:
    """Return a key that an operator signed, unchanged or changed."""
    operator = SigningKey.from_pem(SIGNER)
    key = PublishedKey(300, _NOW + 60, bytes(range(32)), b"")
    key = replace(key, signature=operator.sign(key._statement, b"geoveil relay key v1\n"))
    content, signed, now, who = key.configuration, key.signed, _NOW, operator.public
    if change == 1:
        now += 60
    elif change == 2:
        signed = replace(key, serial=556).signed
    elif change == 3:
        signed = replace(key, expires=_NOW + 61).signed
    elif change == 4:
        content = replace(key, public=bytes(range(1, 33))).configuration
    elif change == 5:
        content += b"\0"
    elif change == 6:
        signed = f"300 {_NOW + 60} {base64.b64encode(operator.sign(key._statement)).decode()}"
    elif change == 7:
        who = PublicKey(bytes([1, *range(31)]))

    def read() -> dict[str, Any]:
        found = PublishedKey.read(content, signed, who, now)
        return {"serial": found.serial, "expires": found.expires, "key": found.public.hex()}

    given = {"content": content.hex(), "signed": signed, "operator": str(who), "now": now}
    return {"kind": "key", **given, **_or_refused(read)}


def _or_refused(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return read()
    except MessageInvalid as error:
        return {"refused": error.args[0]}
