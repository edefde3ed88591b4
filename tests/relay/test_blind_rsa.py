"""Test blind signatures and tokens: the vectors of RFC 9474 and RFC 9578, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateNumbers,
    RSAPublicNumbers,
    rsa_crt_dmp1,
    rsa_crt_dmq1,
    rsa_crt_iqmp,
)

from geoveil.campaign.tokens import TokenRule, token_key_id
from geoveil.gp import ParameterError
from geoveil.relay import IssuerKey, MessageInvalid
from geoveil.relay.blind_rsa import blind, encode_pss, unblind

VECTORS = json.loads((Path(__file__).parent / "tokens.json").read_text())
KEY = IssuerKey.generate()


def test_blind_signatures_are_those_of_rfc_9474() -> None:
    vector = VECTORS["rfc9474"]
    p, q, n, d = (int(vector[name], 16) for name in "pqnd")
    crt = (rsa_crt_dmp1(d, p), rsa_crt_dmq1(d, q), rsa_crt_iqmp(p, q))
    numbers = RSAPrivateNumbers(p, q, d, *crt, RSAPublicNumbers(65_537, n))
    key = IssuerKey(numbers.private_key())
    message, salt = bytes.fromhex(vector["msg"]), bytes.fromhex(vector["salt"])
    assert encode_pss(message, salt, n.bit_length()).hex() == vector["encoded_msg"]
    factor = pow(int(vector["inv"], 16), -1, n)
    blinded = blind(key.public, message, salt, factor)
    assert blinded.hex() == vector["blinded_msg"]
    signed = key.sign(blinded)
    assert signed.hex() == vector["blind_sig"]
    assert unblind(key.public, signed, factor).hex() == vector["sig"]


@pytest.mark.parametrize("vector", VECTORS["rfc9578"])
def test_tokens_are_those_of_rfc_9578(vector: dict[str, Any]) -> None:
    key = IssuerKey.from_pem(bytes.fromhex(vector["skS"]))
    token, request = bytes.fromhex(vector["token"]), bytes.fromhex(vector["token_request"])
    message = token[:98]
    assert token_key_id(key.public) == message[-32:]
    assert message[2:34].hex() == vector["nonce"]
    # The RFC calls what blinds `blind`.
    factor, salt = int(vector["blind"], 16), bytes.fromhex(vector["salt"])
    blinded = blind(key.public, message, salt, factor)
    assert request == b"\0\2" + message[-1:] + blinded
    signed = key.sign(blinded)
    assert signed.hex() == vector["token_response"]
    assert unblind(key.public, signed, factor) == token[98:]


def test_a_token_serves_one_report_of_one_campaign() -> None:
    rule = TokenRule("income", b"campaign", KEY.public)
    message = rule.message(bytes(16))
    factor = 3**99
    token = unblind(KEY.public, KEY.sign(blind(KEY.public, message, bytes(48), factor)), factor)
    assert rule.is_sound(bytes(16), token)
    assert not rule.is_sound(bytes(15) + b"\1", token)
    assert not rule.is_sound(bytes(16), token[:-1] + bytes([token[-1] ^ 1]))
    assert not rule.is_sound(bytes(16), b"")
    assert not TokenRule("other", b"campaign", KEY.public).is_sound(bytes(16), token)
    assert not TokenRule("income", b"other", KEY.public).is_sound(bytes(16), token)
    assert not TokenRule("income", b"campaign", IssuerKey.generate().public).is_sound(
        bytes(16), token
    )


def test_an_issuer_sees_no_message_twice_alike() -> None:
    message = TokenRule("income", b"campaign", KEY.public).message(bytes(16))
    blinded = {blind(KEY.public, message, bytes(48), 3**n) for n in range(9, 12)}
    assert len(blinded) == 3


def test_keys_and_messages_that_are_none_are_refused() -> None:
    for pem in (b"", b"-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----"):
        with pytest.raises(ParameterError, match="an RSA private key in PEM") as caught:
            IssuerKey.from_pem(pem)
        assert "SECRET" not in str(caught.value)
    assert IssuerKey.from_pem(KEY.to_pem()).public == KEY.public
    for blinded in (b"", bytes(256), b"\xff" * 256, KEY.public):
        with pytest.raises(MessageInvalid, match="not a blinded message"):
            KEY.sign(blinded)
    assert str(int.from_bytes(KEY.public, "big")) not in repr(KEY)
