"""Test that signatures are Ed25519 of RFC 8032, over the context and exactly the bytes."""

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given, strategies as st

from geoveil.campaign import PublicKey, SignatureInvalid, SigningKey, seal, signer, signing
from geoveil.gp import ParameterError
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

KEY, OTHER = SigningKey.generate(), SigningKey.generate()
CONTEXT = b"geoveil campaign v1\n"


def opened(published):
    return CampaignEnvelope.FromString(published)


# Points of the curve, from the formulas of RFC 8032 §5.1 and nothing else.

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def add(a, b):
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P,
    )


def times(n, point):
    result = (0, 1)
    while n:
        if n & 1:
            result = add(result, point)
        point, n = add(point, point), n >> 1
    return result


def point_of(data):
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (P - x if x & 1 != sign else x, y)


BASE = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def test_a_signature_is_what_the_standard_says():
    campaign = b"any bytes"
    envelope = opened(seal(campaign, KEY))
    key, signature = envelope.signature.public_key, envelope.signature.signature
    Ed25519PublicKey.from_public_bytes(key).verify(signature, CONTEXT + campaign)
    with pytest.raises(InvalidSignature):  # it was made for nothing else
        Ed25519PublicKey.from_public_bytes(key).verify(signature, campaign)


@given(st.binary(max_size=200))
def test_a_sealed_campaign_names_its_signer(campaign):
    assert signer(opened(seal(campaign, KEY))) == KEY.public
    assert signer(opened(seal(campaign))) is None
    assert opened(seal(campaign, KEY)).campaign == campaign
    assert seal(campaign, KEY) == seal(campaign, KEY)
    assert KEY.public != OTHER.public


@given(st.data())
def test_one_flipped_bit_anywhere_is_no_signature(data):
    envelope = opened(seal(b"a campaign", KEY))
    field = data.draw(st.sampled_from(["campaign", "public_key", "signature"]))
    holder = envelope if field == "campaign" else envelope.signature
    changed = bytearray(getattr(holder, field))
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << (bit % 8)
    setattr(holder, field, bytes(changed))
    with pytest.raises(SignatureInvalid):
        signer(envelope)


@pytest.mark.parametrize(
    ("key", "signature"),
    [(b"", b""), (bytes(31), bytes(64)), (bytes(32), bytes(65)), (b"\xff" * 32, bytes(64))],
)
def test_what_is_no_key_or_no_signature_is_not_valid(key, signature):
    envelope = opened(seal(b"a campaign", KEY))
    envelope.signature.public_key, envelope.signature.signature = key, signature
    with pytest.raises(SignatureInvalid):
        signer(envelope)


def test_keys_come_back_from_their_file_and_their_text():
    assert SigningKey.from_pem(KEY.to_pem()).public == KEY.public
    assert PublicKey.parse(str(KEY.public)) == KEY.public
    assert len({KEY.public, PublicKey(KEY.public.data)}) == 1
    assert KEY.to_pem().decode().splitlines()[1] not in repr(KEY)


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:0a", "rsa:" + 64 * "a",
                                  "ed25519:" + 64 * "g", "ed25519:" + 66 * "a", None])  # fmt: skip
def test_text_that_is_no_public_key_is_refused(text):
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        PublicKey.parse(text)


def test_files_that_hold_no_signing_key_are_refused_and_not_repeated():
    rsa = generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    locked = KEY._key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    for pem in (b"", b"not a key 4711", rsa, locked, KEY.to_pem()[:-40]):
        with pytest.raises(ParameterError, match="Ed25519") as caught:
            SigningKey.from_pem(pem)
        assert "4711" not in str(caught.value)
        assert caught.value.__context__ is None


def test_exactly_the_keys_of_small_order_are_refused():
    found = set()
    for encoded in signing._SMALL_ORDER:
        point = point_of(encoded)
        assert times(8, point) == (0, 1)
        found.add(point[1] % P)
        for sign in (0, 0x80):
            with pytest.raises(ParameterError, match="somebody can own"):
                PublicKey(encoded[:-1] + bytes([encoded[-1] | sign]))
    # The 8 points of order 1, 2, 4 and 8 have 5 different y, of which two fit in 255 bits twice.
    assert len(found) == 5
    assert len(signing._SMALL_ORDER) == 7
    assert times(8, BASE) != (0, 1)  # the control


def test_a_signature_that_anybody_can_make_is_not_valid():
    """With the neutral element as key, S = 0 and R = the neutral element satisfy the equation."""
    envelope = opened(seal(b"a campaign", KEY))
    neutral = (1).to_bytes(32, "little")
    envelope.signature.public_key, envelope.signature.signature = neutral, neutral + bytes(32)
    with pytest.raises(SignatureInvalid, match="anybody"):
        signer(envelope)
