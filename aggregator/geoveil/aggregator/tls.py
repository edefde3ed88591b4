"""TLS: certificates are read again when their files change, for every new connection."""

import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from geoveil.aggregator.config import Settings
from geoveil.aggregator.watched import Watched
from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class _Loaded:
    configuration: grpc.ServerCertificateConfiguration
    expires: datetime


class Certificates:
    """The files of a server, checked before they are used.

    Files that are half replaced, unreadable or do not fit together are passed over: connections get
    the last ones that did, and the log says so once.

    Args:
        certificate: PEM file, the server's own certificate first.
        key: PEM file of its private key, without a passphrase.
        client_ca: PEM file of the certificates that sign those of clients; None asks for none.

    Raises:
        ParameterError: naming the setting of the file that can't be used.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        paths = [certificate, key, *([client_ca] if client_ca else [])]
        for name, path in zip(("tls_certificate", "tls_key", "tls_client_ca"), paths, strict=False):
            _bytes(name, path)  # names the one that is missing
        self._watched = Watched(paths, self._load)
        self._current = self._watched.get()
        self._failed = False

    @property
    def expires(self) -> datetime:
        """When the server's certificate ends."""
        return self._current.expires

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that follow the files."""
        renewed: Any = self._renewed  # it may return None, of which the stubs know nothing
        # gRPC for Python can require certificates of clients, or not ask; nothing between.
        return grpc.dynamic_ssl_server_credentials(
            self._current.configuration,
            renewed,
            require_client_authentication=self._client_ca is not None,
        )

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the configuration if it changed; called for each new connection, by any thread."""
        try:
            latest = self._watched.get()
        except (OSError, ParameterError) as error:
            if not self._failed:
                name = error.name if isinstance(error, ParameterError) else "a TLS file"
                _LOG.error("new TLS files are not used, the last ones are: %s is wrong", name)
            self._failed = True
            return None
        self._failed = False
        if latest is self._current:
            return None
        self._current = latest
        _LOG.info("new TLS files are used; the certificate ends %s", latest.expires.isoformat())
        return latest.configuration

    def _load(self) -> _Loaded:
        chain, key = _bytes("tls_certificate", self._certificate), _bytes("tls_key", self._key)
        roots = None if self._client_ca is None else _bytes("tls_client_ca", self._client_ca)
        own = _certificates("tls_certificate", self._certificate, chain)[0]
        if roots is not None and self._client_ca is not None:
            _certificates("tls_client_ca", self._client_ca, roots)
        try:
            public = load_pem_private_key(key, password=None).public_key()
        except (ValueError, TypeError):  # TypeError: it needs a passphrase
            expected = "a PEM file with a private key without a passphrase"
            raise ParameterError("tls_key", str(self._key), expected) from None
        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if public.public_bytes(*form) != own.public_key().public_bytes(*form):
            raise ParameterError("tls_key", str(self._key), "the key of tls_certificate")
        configuration = grpc.ssl_server_certificate_configuration([(key, chain)], roots)
        return _Loaded(configuration, own.not_valid_after_utc)


def certificates(settings: Settings) -> Certificates | None:
    """Return the certificates that settings name, or None.

    Raises:
        ParameterError: as `Certificates`.
    """
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)


def _certificates(name: str, path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise ParameterError(name, str(path), "a PEM file with certificates") from None


def _bytes(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(name, str(path), f"a file to read ({error.strerror})") from error
