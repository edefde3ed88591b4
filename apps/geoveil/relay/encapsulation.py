"""Messages sealed for a gateway, and its responses sealed for the sender (RFC 9458, 4).

They use HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM, registered as 32, 1 and 1. Every
message has one of two sizes, and a response has its request's: a relay that counts bytes learns
only which of the two it is.
"""

import hmac
import os
import struct
from collections.abc import Callable
from functools import partial

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from geoveil.gp import ParameterError
from geoveil.relay.binary_http import MessageInvalid

SIZES = (1 << 10, 4 << 10)
"""The two sizes of sealed messages in bytes."""
PUBLIC_BYTES = 32
HEADER = struct.Struct(">BHHH")
"""The ids of the key, KEM, KDF and AEAD."""
ALGORITHMS = (0x0020, 0x0001, 0x0001)
_KEM_SUITE = b"HPKE-v1KEM" + struct.pack(">H", ALGORITHMS[0])
_SUITE = b"HPKE-v1HPKE" + struct.pack(">HHH", *ALGORITHMS)
_KEY, _NONCE, _SALT, _TAG, _HASH = 16, 12, 16, 16, 32
_OVERHEAD_OF_REQUEST = HEADER.size + PUBLIC_BYTES + _TAG
_OVERHEAD_OF_RESPONSE = _SALT + _TAG
_REQUEST, _RESPONSE = b"message/bhttp request", b"message/bhttp response"


def seal_request(
    key_id: int, public: bytes, message: bytes, ephemeral: X25519PrivateKey | None = None
) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Return a message sealed for a gateway's key, and the opener of its response.

    The message has a new key of its own, or the `ephemeral` one of a test vector.
    """
    header = HEADER.pack(key_id, *ALGORITHMS)
    own = ephemeral or X25519PrivateKey.generate()
    encapsulated = own.public_key().public_bytes_raw()
    shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    cipher, nonce, secret = _schedule(shared, encapsulated + public, header)
    sealed = header + encapsulated + cipher.encrypt(nonce, message, None)
    return sealed, partial(_open_response, secret, encapsulated)


def open_request(private: X25519PrivateKey, sealed: bytes) -> tuple[bytes, Callable[..., bytes]]:
    """Return the message sent to a gateway, and the sealer of its response.

    Raises:
        MessageInvalid: if it was not sealed for that key with these algorithms.
    """
    header, encapsulated = sealed[: HEADER.size], sealed[HEADER.size :][:PUBLIC_BYTES]
    if len(sealed) < _OVERHEAD_OF_REQUEST or HEADER.unpack(header)[1:] != ALGORITHMS:
        raise MessageInvalid("it is not sealed with X25519, HKDF-SHA256 and AES-128-GCM")
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(encapsulated))
        both = encapsulated + private.public_key().public_bytes_raw()
        cipher, nonce, secret = _schedule(shared, both, header)
        message = cipher.decrypt(nonce, sealed[HEADER.size + PUBLIC_BYTES :], None)
    except (InvalidTag, ValueError):  # ValueError: a public key of small order
        raise MessageInvalid("it was not sealed for this key") from None
    return message, partial(_seal_response, secret, encapsulated)


def padded_request(message: bytes, least: int = SIZES[0]) -> bytes:
    """Return a message with zeros that give it one of the two sizes, from `least` on, once sealed.

    Raises:
        ParameterError: if it does not fit in the larger size.
    """
    for size in SIZES:
        if size >= least and len(message) <= (room := size - _OVERHEAD_OF_REQUEST):
            return message.ljust(room, b"\0")
    most = SIZES[-1] - _OVERHEAD_OF_REQUEST
    raise ParameterError("size of a request", len(message), f"at most {most:,} through a relay")


def room_in_response(size: int) -> int:
    """Return the most bytes of a response with a given sealed size."""
    return size - _OVERHEAD_OF_RESPONSE


def _seal_response(
    secret: bytes, encapsulated: bytes, message: bytes, salt: bytes | None = None
) -> bytes:
    """Return a sealed response; a salt is for test vectors, None for a new one."""
    drawn = os.urandom(_SALT) if salt is None else salt
    cipher, nonce = _cipher(secret, encapsulated + drawn)
    return drawn + cipher.encrypt(nonce, message, None)


def _open_response(secret: bytes, encapsulated: bytes, sealed: bytes) -> bytes:
    """Return a gateway's opened response; MessageInvalid if it answers another request."""
    cipher, nonce = _cipher(secret, encapsulated + sealed[:_SALT])
    try:
        return cipher.decrypt(nonce, sealed[_SALT:], None)
    except InvalidTag:
        raise MessageInvalid("it was not sealed in answer to this request") from None


def _schedule(exchanged: bytes, public: bytes, header: bytes) -> tuple[AESGCM, bytes, bytes]:
    """Return a request's cipher and nonce, and its response's secret (RFC 9180, 4.1 and 5.1).

    `exchanged` is the Diffie–Hellman secret of the message's own key and the gateway's, whose
    public halves are in `public`.
    """
    extracted = hmac.digest(b"", _KEM_SUITE + b"eae_prk" + exchanged, "sha256")
    shared = _expanded(extracted, _KEM_SUITE + b"shared_secret" + public, _HASH)
    hashed = hmac.digest(b"", _SUITE + b"info_hash" + _REQUEST + b"\0" + header, "sha256")
    context = b"\0" + _NO_PSK + hashed
    secret = hmac.digest(shared, _SUITE + b"secret", "sha256")
    key = _expanded(secret, _SUITE + b"key" + context, _KEY)
    nonce = _expanded(secret, _SUITE + b"base_nonce" + context, _NONCE)
    exporter = _expanded(secret, _SUITE + b"exp" + context, _HASH)
    return AESGCM(key), nonce, _expanded(exporter, _SUITE + b"sec" + _RESPONSE, _KEY)


_NO_PSK = hmac.digest(b"", _SUITE + b"psk_id_hash", "sha256")


def _expanded(secret: bytes, labeled: bytes, size: int) -> bytes:
    """Return up to 32 bytes by RFC 9180's LabeledExpand, one block of HKDF."""
    return hmac.digest(secret, size.to_bytes(2, "big") + labeled + b"\1", "sha256")[:size]


def _cipher(secret: bytes, salt: bytes) -> tuple[AESGCM, bytes]:
    """Return a response's cipher and nonce (RFC 9458, 4.4)."""
    extracted = hmac.digest(salt, secret, "sha256")
    key, nonce = (hmac.digest(extracted, info + b"\1", "sha256") for info in (b"key", b"nonce"))
    return AESGCM(key[:_KEY]), nonce[:_NONCE]
