"""Blind signatures: RSABSSA-SHA384-PSS-Deterministic of RFC 9474, with keys of 2,048 bits.

An issuer signs a message that it can't see. The client unblinds the result, a signature that any
library can verify. "Deterministic" means that messages are signed without a random prefix; the salt
is random or derived.
"""

import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha384
from math import gcd
from typing import Self

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from flint import fmpz

from geoveil.campaign import TOKEN_KEY_BYTES
from geoveil.gp import ParameterError
from geoveil.relay.binary_http import MessageInvalid

EXPONENT = 65_537
SALT_BYTES = 48
_HASH_BYTES = 48
_BLOCK = re.compile(rb"-----BEGIN [^-]+-----[^-]+-----END [^-]+-----")


def encode_pss(message: bytes, salt: bytes, bits: int) -> bytes:
    """Return a message in PSS padding for a modulus of a given number of bits (RFC 8017, 9.1.1)."""
    size = (bits + 6) // 8
    hashed = sha384(bytes(8) + sha384(message).digest() + salt).digest()
    block = b"\x01" + salt
    block = block.rjust(size - _HASH_BYTES - 1, b"\0")
    masked = bytearray(a ^ b for a, b in zip(block, _mask(hashed, len(block)), strict=True))
    masked[0] &= 0xFF >> (8 * size - bits + 1)
    return bytes(masked) + hashed + b"\xbc"


def blind(key: bytes, message: bytes, salt: bytes, factor: int) -> bytes:
    """Return a message blinded for the modulus of the issuer's key.

    The salt of 48 bytes and the factor modulo the key are unpredictable to others.

    Raises:
        MessageInvalid: if the key is invalid: it shares a divisor with the message or factor.
    """
    modulus = int.from_bytes(key, "big")
    encoded = int.from_bytes(encode_pss(message, salt, modulus.bit_length()), "big")
    if gcd(encoded, modulus) != 1 or gcd(factor, modulus) != 1:
        raise MessageInvalid("the issuer's key is none")
    blinded = encoded * pow(factor, EXPONENT, modulus) % modulus
    return blinded.to_bytes(len(key), "big")


def unblind(key: bytes, signed: bytes, factor: int) -> bytes:
    """Return the signature in an issuer's response, without verifying it."""
    modulus = int.from_bytes(key, "big")
    signature = int.from_bytes(signed, "big") * pow(factor, -1, modulus) % modulus
    return signature.to_bytes(len(key), "big")


@dataclass(frozen=True)
class IssuerKey:
    """A private key for blind signatures, for one campaign or one of its periods.

    Example:
        >>> IssuerKey.generate()
        IssuerKey(not shown)
    """

    _private: RSAPrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """Return a new key."""
        return cls(generate_private_key(EXPONENT, 8 * TOKEN_KEY_BYTES))

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Return the key in the PEM of `to_pem`.

        Raises:
            ParameterError: if there is no key. The error does not quote the text.
        """
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, RSAPrivateKey):
            raise ParameterError("issuer key", "(not shown)", "an RSA private key in PEM")
        return cls(key)

    @classmethod
    def all_from_pem(cls, pem: bytes) -> list[Self]:
        """Return the keys in a PEM file, at least one; raises like `from_pem`."""
        return [cls.from_pem(block) for block in _BLOCK.findall(pem) or [pem]]

    def to_pem(self) -> bytes:
        """Return the key in PEM (PKCS #8, unencrypted)."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @cached_property
    def public(self) -> bytes:
        """The modulus, for the campaign."""
        modulus = self._private.public_key().public_numbers().n
        return modulus.to_bytes((modulus.bit_length() + 7) // 8, "big")

    def sign(self, blinded: bytes) -> bytes:
        """Return the deterministic signature of a blinded message.

        It uses the Chinese remainder theorem, a further blinding, so that the time reveals nothing
        about the key, and verification, since a single computing fault could reveal the key.

        Raises:
            MessageInvalid: if it is not a message for this key.
        """
        p, q, modulus, by_p, by_q, inverse = self._numbers
        message = fmpz(int.from_bytes(blinded, "big"))
        if len(blinded) != len(self.public) or not 0 < message < modulus:
            raise MessageInvalid("it is not a blinded message for this key")
        factor = fmpz(int.from_bytes(os.urandom(len(blinded)), "big") | 1) % modulus
        hidden = message * pow(factor, EXPONENT, modulus) % modulus
        of_p, of_q = pow(hidden % p, by_p, p), pow(hidden % q, by_q, q)
        signed = (of_q + q * ((of_p - of_q) * inverse % p)) * pow(factor, -1, modulus) % modulus
        if pow(signed, EXPONENT, modulus) != message:
            raise MessageInvalid("the processor of this machine computes wrongly")
        return int(signed).to_bytes(len(blinded), "big")

    @cached_property
    def _numbers(self) -> tuple[fmpz, ...]:
        numbers = self._private.private_numbers()
        p, q = fmpz(numbers.p), fmpz(numbers.q)
        return p, q, p * q, fmpz(numbers.dmp1), fmpz(numbers.dmq1), fmpz(numbers.iqmp)

    def __repr__(self) -> str:
        return "IssuerKey(not shown)"


def _mask(seed: bytes, size: int) -> bytes:
    """Return the mask of MGF1 (RFC 8017, B.2.1)."""
    blocks = (sha384(seed + at.to_bytes(4, "big")).digest() for at in range(-(-size // 48)))
    return b"".join(blocks)[:size]
