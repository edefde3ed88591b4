"""Certificates and keys in PEM files, for servers and their callers."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from geoveil.gp import ParameterError


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """A certificate and its key in PEM."""

    chain: bytes
    key: bytes
    expires: datetime
    """The end of the certificate's validity."""


def read_pair(certificate: tuple[str, Path], key: tuple[str, Path]) -> KeyPair:
    """Read a certificate file (own certificate first) and its key without a passphrase.

    Each comes with its setting's name, which ParameterError states if a file is unusable.
    """
    chain, secret = read_pem(*certificate), read_pem(*key)
    own = _certificates(*certificate, chain)[0]
    name, path = key
    try:
        public = load_pem_private_key(secret, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it needs a passphrase
        expected = "a PEM file with a private key without a passphrase"
        raise ParameterError(name, str(path), expected) from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if public.public_bytes(*form) != own.public_key().public_bytes(*form):
        raise ParameterError(name, str(path), f"the key of {certificate[0]}")
    return KeyPair(chain, secret, own.not_valid_after_utc)


def read_authorities(name: str, path: Path) -> bytes:
    """Return a file's certificates in PEM; ParameterError names the setting."""
    pem = read_pem(name, path)
    _certificates(name, path, pem)
    return pem


def _certificates(name: str, path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise ParameterError(name, str(path), "a PEM file with certificates") from None


def read_pem(name: str, path: Path) -> bytes:
    """Return the content of a file; ParameterError names the setting if it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(name, str(path), f"a file to read ({error.strerror})") from error
