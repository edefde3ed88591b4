"""Messages sealed for a gateway, and its answers for who asked: RFC 9458, 4.

HPKE (RFC 9180) over X25519 with HKDF-SHA256 and AES-128-GCM, which its registry has as 32, 1 and 1.
Whatever travels has one of two sizes, and an answer has that of its request: a relay that counts
bytes learns no more than which of the two it is.
"""

import os
import struct
from collections.abc import Callable
from functools import partial

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pyhpke import (
    AEADId,
    CipherSuite,
    ContextInterface,
    KDFId,
    KEMId,
    KEMKey,
    KEMKeyPair,
    PyHPKEError,
)

from geoveil.gp import ParameterError
from geoveil.relay.binary_http import MessageInvalid

SIZES = (1 << 10, 4 << 10)
"""Bytes of what travels."""
PUBLIC_BYTES = 32
HEADER = struct.Struct(">BHHH")
"""The id of a key, and of KEM, KDF and AEAD."""
ALGORITHMS = (0x0020, 0x0001, 0x0001)
_SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
_KEY, _NONCE, _SALT, _TAG = 16, 12, 16, 16
_OVERHEAD_OF_REQUEST = HEADER.size + PUBLIC_BYTES + _TAG
_OVERHEAD_OF_RESPONSE = _SALT + _TAG
_REQUEST, _RESPONSE = b"message/bhttp request", b"message/bhttp response"


def seal_request(
    key_id: int, public: bytes, message: bytes, ephemeral: X25519PrivateKey | None = None
) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Return a message sealed for a gateway, and what opens its answer.

    Args:
        key_id: of the gateway's key.
        public: its 32 bytes.
        ephemeral: a key for this message alone; None: a new one. For test vectors.
    """
    header = HEADER.pack(key_id, *ALGORITHMS)
    own = None
    if ephemeral is not None:
        halves = (ephemeral, ephemeral.public_key())
        own = KEMKeyPair(*map(KEMKey.from_pyca_cryptography_key, halves))
    encapsulated, context = _SUITE.create_sender_context(
        _SUITE.kem.deserialize_public_key(public), info=_info(header), eks=own
    )
    sealed = header + encapsulated + context.seal(message)
    return sealed, partial(_open_response, context, encapsulated)


def open_request(private: X25519PrivateKey, sealed: bytes) -> "tuple[bytes, ResponseSeal]":
    """Return the message that a gateway was sent, and what seals its answer.

    Raises:
        MessageInvalid: if it was not sealed for that key, in that way.
    """
    header, encapsulated = sealed[: HEADER.size], sealed[HEADER.size :][:PUBLIC_BYTES]
    if len(sealed) < _OVERHEAD_OF_REQUEST or HEADER.unpack(header)[1:] != ALGORITHMS:
        raise MessageInvalid("it is not sealed with X25519, HKDF-SHA256 and AES-128-GCM")
    key = KEMKey.from_pyca_cryptography_key(private)
    try:
        context = _SUITE.create_recipient_context(encapsulated, key, info=_info(header))
        message = context.open(sealed[HEADER.size + PUBLIC_BYTES :])
    except (PyHPKEError, ValueError):  # ValueError: a public key of small order
        raise MessageInvalid("it was not sealed for this key") from None
    return message, ResponseSeal(context, encapsulated)


class ResponseSeal:
    """Seals the answer to one request."""

    def __init__(self, context: ContextInterface, encapsulated: bytes) -> None:
        self._secret = context.export(_RESPONSE, _KEY)
        self._encapsulated = encapsulated

    def __call__(self, message: bytes, salt: bytes | None = None) -> bytes:
        """Return an answer, sealed.

        Args:
            salt: 16 random bytes; None: new ones. For test vectors.
        """
        drawn = os.urandom(_SALT) if salt is None else salt
        cipher, nonce = _cipher(self._secret, self._encapsulated + drawn)
        return drawn + cipher.encrypt(nonce, message, None)


def padded_request(message: bytes, least: int = SIZES[0]) -> bytes:
    """Return a message with the zeros that give it, once sealed, one of the two sizes.

    Args:
        least: bytes that it has at least.

    Raises:
        ParameterError: if it is longer than the larger of them.
    """
    for size in SIZES:
        if size >= least and len(message) <= (room := size - _OVERHEAD_OF_REQUEST):
            return message.ljust(room, b"\0")
    most = SIZES[-1] - _OVERHEAD_OF_REQUEST
    raise ParameterError("size of a request", len(message), f"at most {most:,} through a relay")


def room_in_response(size: int) -> int:
    """Return the most bytes of an answer that has a size once it is sealed."""
    return size - _OVERHEAD_OF_RESPONSE


def _open_response(context: ContextInterface, encapsulated: bytes, sealed: bytes) -> bytes:
    """Return what a gateway answered.

    Raises:
        MessageInvalid: if it is no answer to this request.
    """
    secret = context.export(_RESPONSE, _KEY)
    cipher, nonce = _cipher(secret, encapsulated + sealed[:_SALT])
    try:
        return cipher.decrypt(nonce, sealed[_SALT:], None)
    except InvalidTag:
        raise MessageInvalid("it was not sealed in answer to this request") from None


def _info(header: bytes) -> bytes:
    return _REQUEST + b"\0" + header


def _cipher(secret: bytes, salt: bytes) -> tuple[AESGCM, bytes]:
    key, nonce = (
        HKDF(SHA256(), length, salt, info).derive(secret)
        for length, info in ((_KEY, b"key"), (_NONCE, b"nonce"))
    )
    return AESGCM(key), nonce
