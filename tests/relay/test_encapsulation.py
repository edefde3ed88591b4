"""Sealed messages: the example of RFC 9458, appendix A, their sizes, and changed bytes."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from geoveil.gp import ParameterError
from geoveil.relay import SIZES, MessageInvalid
from geoveil.relay.encapsulation import (
    open_request,
    padded_request,
    room_in_response,
    seal_request,
)

PRIVATE = X25519PrivateKey.from_private_bytes(
    bytes.fromhex("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a")
)
PUBLIC = bytes.fromhex("31e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e798155")
EPHEMERAL = X25519PrivateKey.from_private_bytes(
    bytes.fromhex("bc51d5e930bda26589890ac7032f70ad12e4ecb37abb1b65b1256c9c48999c73")
)
REQUEST = bytes.fromhex("00034745540568747470730b6578616d706c652e636f6d012f")
SEALED = bytes.fromhex(
    "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906"
    "992e1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2c0185204b4d63525"
)
RESPONSE = bytes.fromhex("0140c8")
SALT = bytes.fromhex("c789e7151fcba46158ca84b04464910d")
SEALED_RESPONSE = bytes.fromhex(
    "c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd"
)


def test_the_example_of_the_standard_is_made_to_the_byte() -> None:
    sealed, opened = seal_request(1, PUBLIC, REQUEST, EPHEMERAL)
    assert sealed == SEALED
    message, seal = open_request(PRIVATE, SEALED)
    assert message == REQUEST
    assert seal(RESPONSE, SALT) == SEALED_RESPONSE
    assert opened(SEALED_RESPONSE) == RESPONSE


def test_two_requests_of_the_same_message_have_nothing_in_common() -> None:
    first, second = (seal_request(1, PUBLIC, REQUEST)[0] for _ in range(2))
    assert first[:7] == second[:7]
    assert sum(a == b for a, b in zip(first[7:], second[7:], strict=True)) < 10


@pytest.mark.parametrize("at", [1, 4, 6, 8, 38, 40, -1])
def test_a_changed_request_is_refused(at: int) -> None:
    changed = bytearray(SEALED)
    changed[at] ^= 1
    with pytest.raises(MessageInvalid):
        open_request(PRIVATE, bytes(changed))


@pytest.mark.parametrize(
    "sealed", [b"", SEALED[:40], SEALED[:7] + bytes(32) + SEALED[39:]]
)  # the last: a key of small order
def test_what_is_no_request_is_refused(sealed: bytes) -> None:
    with pytest.raises(MessageInvalid):
        open_request(PRIVATE, sealed)


@pytest.mark.parametrize("sealed", [b"", SEALED_RESPONSE[:20], SEALED_RESPONSE[:-1] + b"\0"])
def test_a_changed_answer_is_refused_and_so_is_that_to_another_request(sealed: bytes) -> None:
    opened = seal_request(1, PUBLIC, REQUEST, EPHEMERAL)[1]
    other = seal_request(1, PUBLIC, REQUEST)[1]
    for attempt in (lambda: opened(sealed), lambda: other(SEALED_RESPONSE)):
        with pytest.raises(MessageInvalid):
            attempt()


def test_what_travels_has_one_of_two_sizes() -> None:
    seen = set()
    for length in (1, 100, 969, 970, 4041):
        sealed, opened = seal_request(1, PUBLIC, padded_request(bytes([7]) * length))
        _, seal = open_request(PRIVATE, sealed)
        response = seal(bytes(room_in_response(len(sealed))))
        assert len(response) == len(sealed)
        assert len(opened(response)) == room_in_response(len(sealed))
        seen.add(len(sealed))
    assert seen == set(SIZES)
    assert len(padded_request(b"", SIZES[1])) == 4041
    with pytest.raises(ParameterError, match=r"size of a request must be at most 4,041"):
        padded_request(bytes(4042))
