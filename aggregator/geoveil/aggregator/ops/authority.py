"""Certificates for TLS: an authority, and the certificates that it signs.

All keys use the curve P-256, with which a new TLS connection costs a ninth of RSA with 4,096 bits.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from geoveil.gp import ParameterError

_MOST_NAME = 64
"""The most characters of a common name [RFC 5280, ub-common-name]."""
_SKEW = timedelta(hours=1)
"""How far the clock that checks a certificate may be behind."""
_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(\*\.)?({_LABEL}\.)*{_LABEL}", re.IGNORECASE)
_MOST_HOST = 253
_AUTHORITY = "the certificate and the key that 'geoveil certificate authority' wrote"


@dataclass(frozen=True, slots=True, repr=False)
class Issued:
    """A certificate and its private key in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates of servers and clients with its own certificate and key, from `create`.

    Raises:
        ParameterError: if they do not belong to an authority. The error does not quote the key.

    Example:
        >>> authority = Authority(Authority.create("example", timedelta(days=3650)))
        >>> server = authority.issue("server", timedelta(days=365), ["aggregator.example"])
        >>> server.certificate.splitlines()[0]
        b'-----BEGIN CERTIFICATE-----'
    """

    def __init__(self, issued: Issued) -> None:
        try:
            self._certificate = x509.load_pem_x509_certificate(issued.certificate)
            key = load_pem_private_key(issued.key, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise ParameterError("authority", "...", _AUTHORITY) from None
        sound = self._certificate.public_key() == key.public_key()
        if not sound or not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ParameterError("authority", "...", _AUTHORITY)
        self._key = key
        self.certificate = issued.certificate
        """The certificate that servers and clients must trust, in PEM."""

    @classmethod
    def create(cls, name: str, lasts: timedelta) -> Issued:
        """Return a new authority's self-signed certificate and its key; see `issue`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject, now = _name(name), datetime.now(UTC)
        builder = _builder(subject, subject, key.public_key(), now, now + lasts, authority=True)
        return _issued(builder.sign(key, hashes.SHA256()), key)

    def issue(self, name: str, lasts: timedelta, hosts: Sequence[str] = ()) -> Issued:
        """Return a certificate with a new key; it must not outlast the authority's.

        Args:
            name: a name for people, 1 to 64 printable characters.
            lasts: the validity from now on.
            hosts: a server's names and IP addresses; none for a client.

        Raises:
            ParameterError: if an argument is out of range.
        """
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        end = self._certificate.not_valid_after_utc
        if now + lasts > end:
            raise ParameterError(
                "expires",
                f"{now + lasts:%Y-%m-%d}",
                f"no later than the authority's, {end:%Y-%m-%d}",
            )
        builder = _builder(
            _name(name), self._certificate.subject, key.public_key(), now, now + lasts
        )
        usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        return _issued(builder.sign(self._key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    end: datetime,
    *,
    authority: bool = False,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    constraints = x509.BasicConstraints(ca=authority, path_length=0 if authority else None)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(end)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    if not text.isprintable() or not 0 < len(text) <= _MOST_NAME:
        raise ParameterError("name", text, f"1 to {_MOST_NAME} printable characters")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        pass
    if len(text) > _MOST_HOST or not _HOST.fullmatch(text):
        raise ParameterError("hosts", text, "a name in ASCII or an IP address, without a port")
    return x509.DNSName(text)


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Issued(certificate.public_bytes(Encoding.PEM), pem)
