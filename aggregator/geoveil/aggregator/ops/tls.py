"""TLS: each new connection uses the latest certificates in the files."""

import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from geoveil.aggregator.ops.reloading_file import ReloadingFile
from geoveil.aggregator.ops.settings import Settings
from geoveil.campaign.pem_files import read_authorities, read_pair, read_pem
from geoveil.gp import ParameterError

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class _Loaded:
    configuration: grpc.ServerCertificateConfiguration
    expires: datetime


class Certificates:
    """A server's certificate files, checked before use.

    Connections use the last readable and matching files; the log names bad files once.

    Args:
        certificate: PEM file that begins with the server's own certificate.
        key: PEM file with its private key, without a passphrase.
        client_ca: PEM file with the authorities of client certificates; None: clients need none.

    Raises:
        ParameterError: if a file is unusable, with the setting's name.
    """

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        paths = [certificate, key, *([client_ca] if client_ca else [])]
        for name, path in zip(("tls_certificate", "tls_key", "tls_client_ca"), paths, strict=False):
            read_pem(name, path)  # names a missing file
        self._watched = ReloadingFile(paths, self._load)
        self._current = self._watched.get()
        self._failed = False

    @property
    def expires(self) -> datetime:
        """When the server's certificate expires."""
        return self._current.expires

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that follow changes in the files."""
        renewed: Any = self._renewed  # it may return None, which the stubs do not declare
        # gRPC for Python can require client certificates or ignore them, nothing in between.
        return grpc.dynamic_ssl_server_credentials(
            self._current.configuration,
            renewed,
            require_client_authentication=self._client_ca is not None,
        )

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the configuration if it changed; any thread calls this for each new connection."""
        try:
            latest = self._watched.get()
        except (OSError, ParameterError) as error:
            if not self._failed:
                name = error.name if isinstance(error, ParameterError) else "tls_certificate"
                _LOG.error("tls_files_wrong", extra={"setting": name})
            self._failed = True
            return None
        self._failed = False
        if latest is self._current:
            return None
        self._current = latest
        _LOG.info("tls_files_replaced", extra={"expires": latest.expires.isoformat()})
        return latest.configuration

    def _load(self) -> _Loaded:
        pair = read_pair(("tls_certificate", self._certificate), ("tls_key", self._key))
        ca = self._client_ca
        roots = None if ca is None else read_authorities("tls_client_ca", ca)
        configuration = grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)], roots)
        return _Loaded(configuration, pair.expires)


def certificates(settings: Settings) -> Certificates | None:
    """Return the settings' certificates, or None; raises like `Certificates`."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    return Certificates(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
