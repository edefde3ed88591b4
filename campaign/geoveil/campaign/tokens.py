"""Tokens that give each person one report: Privacy Pass (RFC 9578), type 2.

An issuer signs blindly, once per person, with a key for each campaign and period, and can't
recognise its signature on a report. A token's nonce is derived from the report's id: a token serves
one report, and a repeated report counts once.
"""

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from geoveil.gp import ParameterError, lazy, sha256

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    from geoveil.campaign.model import Campaign

TOKEN_KEY_BYTES = 256
"""The length of a key's modulus, and of a signature."""
EXPONENT = 65_537
SALT_BYTES = 48
_ID_BYTES = 32
_TYPE = 2
_NONCE = b"geoveil report v1\n"
_ISSUER = b"geoveil"
_INFO = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d"
    "010108300b0609608648016503040202a2030201300382010f003082010a0282010100"
)
"""The bytes before the modulus in a key for RSASSA-PSS with SHA-384 and 48 bytes of salt."""
_AFTER = bytes.fromhex("0203010001")


def check_token_key(key: object, periods: int | None) -> None:
    """Refuse an invalid key modulus or, for a campaign with periods, invalid key ids.

    Raises:
        ParameterError: if it is invalid.
    """
    if isinstance(key, bytes):
        ids = {key[at : at + _ID_BYTES] for at in range(0, len(key), _ID_BYTES)}
        modulus = len(key) == TOKEN_KEY_BYTES and key[0] >> 7 and key[-1] & 1
        several = len(key) == _ID_BYTES * len(ids) and len(ids) == periods
        if modulus if periods is None else several:
            return
    shown = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
    expected = f"the {TOKEN_KEY_BYTES} bytes of an RSA modulus"
    if periods is not None:
        expected = (
            f"the {_ID_BYTES} bytes of a key's id for each of {periods:,} periods, all different"
        )
    raise ParameterError("token_key", shown, expected)


def token_key_id(key: bytes) -> bytes:
    """Return the id of a key: SHA-256 of its SubjectPublicKeyInfo."""
    return sha256(_INFO + key + _AFTER).digest()


@dataclass(frozen=True)
class TokenRule:
    """Checks a campaign's tokens.

    Args:
        campaign_id: the campaign's id.
        campaign: the campaign's bytes.
        key: the modulus of the issuer's key or, with periods, the ids of one key per period.
        recurs: whether the campaign has periods.
    """

    campaign_id: str
    campaign: bytes = field(repr=False)
    key: bytes = field(repr=False)
    recurs: bool = False

    @classmethod
    def of(cls, campaign: "Campaign") -> Self | None:
        """Return a campaign's rule; None if it needs no tokens."""
        key = campaign.token_key
        recurs = campaign.period is not None
        return None if key is None else cls(campaign.campaign_id, campaign.encoded, key, recurs)

    def key_id(self, period: int) -> bytes:
        """Return the id of a period's key; empty if there is no such period."""
        if not self.recurs:
            return token_key_id(self.key)
        return self.key[_ID_BYTES * period :][:_ID_BYTES]

    def message(self, report_id: bytes, period: int = 0) -> bytes:
        """Return the message that an issuer signs for a report (RFC 9578, 6.2)."""
        nonce = sha256(_NONCE + report_id).digest()
        return struct.pack(">H", _TYPE) + nonce + self._challenge + self.key_id(period)

    def is_sound(self, report_id: bytes, token: bytes, period: int = 0) -> bool:
        """Return whether a token is the issuer's for a report.

        In a campaign with periods, the token begins with the modulus of the period's key.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
        from cryptography.hazmat.primitives.hashes import SHA384

        key = self.key
        if self.recurs:
            key, token = token[:TOKEN_KEY_BYTES], token[TOKEN_KEY_BYTES:]
            if token_key_id(key) != self.key_id(period):
                return False
        if len(token) != TOKEN_KEY_BYTES:
            return False
        padding = PSS(MGF1(SHA384()), SALT_BYTES)
        try:
            _public(key).verify(token, self.message(report_id, period), padding, SHA384())
        except (InvalidSignature, ValueError):  # ValueError: the bytes are not a key
            return False
        return True

    @lazy
    def _challenge(self) -> bytes:
        """SHA-256 of the TokenChallenge of RFC 9577, 2.1."""
        origin, digest = self.campaign_id.encode(), sha256(self.campaign).digest()
        issuer = struct.pack(">HH", _TYPE, len(_ISSUER)) + _ISSUER
        context = bytes([len(digest)]) + digest
        return sha256(issuer + context + struct.pack(">H", len(origin)) + origin).digest()


@lru_cache(maxsize=64)
def _public(key: bytes) -> "RSAPublicKey":
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    return RSAPublicNumbers(EXPONENT, int.from_bytes(key, "big")).public_key()
