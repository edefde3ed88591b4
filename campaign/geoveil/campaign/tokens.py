"""Tokens by which each person has one report: Privacy Pass (RFC 9578), type 2.

An issuer signs blindly, with a key of the campaign alone, once for each person: it can't know its
signature again when a report comes with it. The nonce of a token is made from the id of the report:
a token serves one report, and a report that comes twice is counted once.
"""

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from geoveil.gp import ParameterError, lazy, sha256

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    from geoveil.campaign.model import Campaign

TOKEN_KEY_BYTES = 256
"""The length of a key's modulus, and of a signature."""
EXPONENT = 65_537
SALT_BYTES = 48
_TYPE = 2
_NONCE = b"geoveil report v1\n"
_ISSUER = b"geoveil"
_INFO = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d"
    "010108300b0609608648016503040202a2030201300382010f003082010a0282010100"
)
"""What stands before the modulus of a key for RSASSA-PSS with SHA-384 and 48 bytes of salt."""
_AFTER = bytes.fromhex("0203010001")


def check_token_key(key: object) -> None:
    """Refuse what is no modulus of a key.

    Raises:
        ParameterError: saying what is.
    """
    sound = isinstance(key, bytes) and len(key) == TOKEN_KEY_BYTES and key[0] >> 7 and key[-1] & 1
    if not sound:
        shown = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise ParameterError("token_key", shown, f"the {TOKEN_KEY_BYTES} bytes of an RSA modulus")


def token_key_id(key: bytes) -> bytes:
    """Return what names a key: SHA-256 of it as SubjectPublicKeyInfo."""
    return sha256(_INFO + key + _AFTER).digest()


@dataclass(frozen=True)
class TokenRule:
    """What a token of a campaign says, and whether its issuer made it.

    Args:
        campaign_id: of the campaign.
        campaign: its bytes.
        key: modulus of its issuer's key.
    """

    campaign_id: str
    campaign: bytes = field(repr=False)
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, campaign: "Campaign") -> Self | None:
        """Return the rule of a campaign; None if it asks for no tokens."""
        key = campaign.token_key
        return None if key is None else cls(campaign.campaign_id, campaign.encoded, key)

    def message(self, report_id: bytes) -> bytes:
        """Return what an issuer signs for a report: RFC 9578, 6.2."""
        nonce = sha256(_NONCE + report_id).digest()
        return struct.pack(">H", _TYPE) + nonce + self._challenge + token_key_id(self.key)

    def is_sound(self, report_id: bytes, token: bytes) -> bool:
        """Return whether a token is one that the issuer made for a report."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
        from cryptography.hazmat.primitives.hashes import SHA384

        if len(token) != TOKEN_KEY_BYTES:
            return False
        padding = PSS(MGF1(SHA384()), SALT_BYTES)
        try:
            self._public.verify(token, self.message(report_id), padding, SHA384())
        except InvalidSignature:
            return False
        return True

    @lazy
    def _challenge(self) -> bytes:
        """SHA-256 of the TokenChallenge of RFC 9577, 2.1."""
        origin, digest = self.campaign_id.encode(), sha256(self.campaign).digest()
        issuer = struct.pack(">HH", _TYPE, len(_ISSUER)) + _ISSUER
        context = bytes([len(digest)]) + digest
        return sha256(issuer + context + struct.pack(">H", len(origin)) + origin).digest()

    @lazy
    def _public(self) -> "RSAPublicKey":
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        return RSAPublicNumbers(EXPONENT, int.from_bytes(self.key, "big")).public_key()
