"""Ed25519 signatures of campaigns, so that a device knows whose question it answers.

The server only relays campaigns: it can't invent or change one whose signature devices check. The
key belongs to the analyst, and never needs to be on the server.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from geoveil.gp import GeoVeilError, ParameterError
from geoveil.proto.v1 import campaign_pb2 as pb

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
_PREFIX = "ed25519:"
_TEXT = re.compile(_PREFIX + "([0-9a-fA-F]{64})")
# The points of order 1, 2, 4 and 8, as y with the sign bit cleared, in canonical and other forms:
# anybody can sign for such a key without a secret.
_SMALL_ORDER = frozenset(
    bytes.fromhex(y)
    for y in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
# Signed messages begin with this, so that signatures for other purposes are invalid here.
_CONTEXT = b"geoveil campaign v1\n"


class SignatureInvalid(GeoVeilError):  # noqa: N818 - says what happened, as the client's errors do
    """A campaign's signature is invalid, for a reason."""

    def __str__(self) -> str:
        return f"the signature of the campaign is not valid: {self.args[0]}"


@dataclass(frozen=True, slots=True, repr=False)
class PublicKey:
    """An Ed25519 public key, which identifies an analyst; apps list the keys they trust.

    Args:
        data: 32 bytes; see `parse` for text.

    Raises:
        ParameterError: if it has another length, or is a point of small order, for which anybody
            can sign.

    Example:
        >>> PublicKey.parse("ed25519:" + 32 * "0a")
        PublicKey.parse('ed25519:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a')
    """

    data: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes) or len(self.data) != PUBLIC_KEY_BYTES:
            raise ParameterError("public key", self.data, f"{PUBLIC_KEY_BYTES} bytes")
        if self.data[:-1] + bytes([self.data[-1] & 0x7F]) in _SMALL_ORDER:
            raise ParameterError("public key", self.data.hex(), "a key that somebody can own")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key in a text made by `str`.

        Raises:
            ParameterError: unless the text is "ed25519:" followed by 64 hexadecimal digits.
        """
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            expected = f"{_PREFIX!r} and {2 * PUBLIC_KEY_BYTES} hexadecimal digits"
            raise ParameterError("public key", text, expected)
        return cls(bytes.fromhex(match[1]))

    def signed(self, context: bytes, data: bytes, signature: bytes) -> bool:
        """Return whether this key made the signature of given bytes in a context."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.data).verify(signature, context + data)
        except (InvalidSignature, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return _PREFIX + self.data.hex()

    def __repr__(self) -> str:
        return f"PublicKey.parse({str(self)!r})"


class SigningKey:
    """An analyst's private key. Its repr hides it; keep its file readable only by its owner.

    Example:
        >>> key = SigningKey.generate()
        >>> SigningKey.from_pem(key.to_pem()).public == key.public
        True
        >>> key
        SigningKey(not shown)
    """

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    @classmethod
    def generate(cls) -> Self:
        """Return a new key from the operating system's randomness."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Return the key in the PEM of `to_pem` (PKCS #8, not encrypted).

        Raises:
            ParameterError: unless it has an Ed25519 private key. The error does not quote the text.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = None
        with suppress(ValueError, TypeError):  # raised below, since the error may quote the key
            key = load_pem_private_key(pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ParameterError(
                "signing key", "(not shown)", "an Ed25519 private key in PEM, without a password"
            )
        return cls(key)

    def to_pem(self) -> bytes:
        """Return the key in PEM (PKCS #8, unencrypted)."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def public(self) -> PublicKey:
        """The public key."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, data: bytes, context: bytes = _CONTEXT) -> bytes:
        """Return the 64-byte deterministic signature of a message, by default of a campaign.

        Args:
            context: the prefix of the signed message; a signature is valid in one context only.
        """
        return self._key.sign(context + data)

    def __repr__(self) -> str:
        return "SigningKey(not shown)"


def seal(campaign: bytes, key: SigningKey | None = None) -> bytes:
    """Return the envelope of a campaign, signed if there is a key.

    Args:
        campaign: the result of `encode`.
        key: the asking analyst's key; None leaves it unsigned.
    """
    envelope = pb.CampaignEnvelope(campaign=campaign)
    if key is not None:
        envelope.signature.public_key = key.public.data
        envelope.signature.signature = key.sign(campaign)
    return envelope.SerializeToString(deterministic=True)


def signer(envelope: pb.CampaignEnvelope) -> PublicKey | None:
    """Return the key that signed a campaign; None if it is unsigned.

    Raises:
        SignatureInvalid: if its signature is invalid.
    """
    if not envelope.HasField("signature"):
        return None
    key, signature = envelope.signature.public_key, envelope.signature.signature
    if len(key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        raise SignatureInvalid("its key or signature has the wrong length")
    try:
        named = PublicKey(key)
    except ParameterError:
        raise SignatureInvalid("its key is one that anybody can sign for") from None
    if not named.signed(_CONTEXT, envelope.campaign, signature):
        raise SignatureInvalid(f"it was not made by {named} for these bytes")
    return named
