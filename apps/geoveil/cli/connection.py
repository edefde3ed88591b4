"""The shared options of commands that connect to an aggregator."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geoveil.campaign import TLS, CallError, open_channel, together
from geoveil.cli.options import (
    SERVER,
    TLS as TLS_ALONE,
    TLS_CLIENT_CERTIFICATE,
    TLS_CLIENT_KEY,
    TLS_ROOTS,
    TOKEN,
    TOKEN_FILE,
    options_of,
    takes,
)
from geoveil.gp import GeoVeilError, needed_for

if TYPE_CHECKING:
    from geoveil.analyst import Analyst
    from geoveil.client import GrpcTransport

TIMEOUT_S = 15.0
"""Seconds that the server may take to give the campaign, and again to take the report."""
DEFAULT_SERVER = "127.0.0.1:7717"

_EAGER = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1_000))
"""The longest pause is a second, so that a starting server is reached soon after it listens."""
_CERTIFICATE, _KEY = "--tls-client-certificate", "--tls-client-key"


def _file(option: str, variable: str, help_text: str) -> Any:
    return typer.Option(option, envvar=variable, dir_okay=False, help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The address and security of an aggregator, from options.

    Raises:
        ParameterError: if only one of certificate and key is given; naming the option.
    """

    server: Annotated[
        str,
        typer.Option("--server", "-s", envvar=SERVER, help="Address of the aggregator, HOST:PORT."),
    ] = DEFAULT_SERVER
    tls: Annotated[
        bool,
        typer.Option(
            "--tls", envvar=TLS_ALONE, help="Use TLS, and trust public certificate authorities."
        ),
    ] = False
    tls_roots: Annotated[
        Path | None,
        _file("--tls-roots", TLS_ROOTS, "Use TLS, and trust the certificates in this PEM file."),
    ] = None
    tls_client_certificate: Annotated[
        Path | None,
        _file(
            _CERTIFICATE,
            TLS_CLIENT_CERTIFICATE,
            "PEM file of your certificate and its chain, for a server that asks for one.",
        ),
    ] = None
    tls_client_key: Annotated[
        Path | None,
        _file(_KEY, TLS_CLIENT_KEY, "PEM file of the private key of that certificate."),
    ] = None

    def __post_init__(self) -> None:
        together(_CERTIFICATE, self.tls_client_certificate, _KEY, self.tls_client_key)

    def security(self) -> TLS | None:
        """Read the files; None if there is no TLS.

        Raises:
            ParameterError: naming the option of a file that can't be used.
        """
        if self.tls_roots is None and self.tls_client_certificate is None:
            return TLS() if self.tls else None
        # Imported here: without TLS nobody pays for it.
        from geoveil.campaign.pem_files import read_authorities, read_pair

        roots = read_authorities("tls_roots", self.tls_roots) if self.tls_roots else None
        if self.tls_client_certificate is None or self.tls_client_key is None:
            return TLS(root_certificates=roots)
        pair = read_pair(
            (_CERTIFICATE, self.tls_client_certificate),
            (_KEY, self.tls_client_key),
        )
        return TLS(root_certificates=roots, certificate_chain=pair.chain, private_key=pair.key)


connects = takes("connection", options_of(Connection), Connection)
"""Replaces a command's argument `connection` by the options of a connection."""


def advice(tls: TLS | None) -> str:
    """Return the likely reason why a connection fails."""
    if tls is None:
        return "or, if it uses TLS, give --tls or --tls-roots"
    roots = (
        "a public authority (else give --tls-roots)"
        if tls.root_certificates is None
        else "--tls-roots"
    )
    own = (
        "it asks for --tls-client-certificate"
        if tls.certificate_chain is None
        else "yours is not from its tls_client_ca"
    )
    return f"or its certificate is not from {roots} or is for another name, or {own}"


class CommandError(GeoVeilError):
    """A command failed; the message says why, and what to do."""


def unanswered(server: str, tls: TLS | None, error: CallError) -> CommandError | None:
    """Return the message for a call that no aggregator answered; None if one did."""
    if error.code == "UNAVAILABLE" and not error.answered:
        return CommandError(
            f"no aggregator answers at {server}: start one with 'geoveil serve', or name another"
            f" with --server, {advice(tls)}"
        )
    if error.code == "UNKNOWN" and "http2 header" in str(error):
        return CommandError(
            f"what answers at {server} does not speak gRPC: --server takes the port of 'geoveil"
            " serve --port', 7717 unless it says otherwise, and not that of --web"
        )
    return None


def health_of(
    server: str, tls: TLS, service: str = "", *, timeout_s: float, wait: bool = False
) -> Iterator[str]:
    """Yield the status of a server: once, or with `wait` whenever it changes.

    Args:
        service: a gRPC service; empty: the server.
        timeout_s: seconds for all of it.

    Raises:
        grpc.RpcError: if it does not answer.
    """
    with needed_for("health checks"):
        from grpc_health.v1 import (  # type: ignore[import-untyped]  # no types
            health_pb2,
            health_pb2_grpc,
        )

    request = health_pb2.HealthCheckRequest(service=service)
    names = {value: name for name, value in health_pb2.HealthCheckResponse.ServingStatus.items()}
    with open_channel(server, tls, _EAGER) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        if wait:
            answers = stub.Watch(request, timeout=timeout_s, wait_for_ready=True)
        else:
            answers = [stub.Check(request, timeout=timeout_s)]
        for answer in answers:
            yield names.get(answer.status, f"status {answer.status}")


@contextmanager
def device_at(connection: Connection) -> "Iterator[GrpcTransport]":
    """Yield the calls of a device, which need no token.

    Raises:
        ParameterError: if a file of TLS can't be used.
        CommandError: if TLS is missing, or nobody answers: with what to do about it.
    """
    from geoveil.client import GrpcTransport, PlaintextRefused, TransportError

    tls = connection.security()
    try:
        transport = GrpcTransport(connection.server, tls=tls)
    except PlaintextRefused:
        raise CommandError(
            f"{connection.server!r} is not on this machine, so it needs TLS: give --tls or"
            " --tls-roots"
        ) from None
    try:
        yield transport
    except TransportError as error:
        raise (unanswered(connection.server, tls, error) or error) from error
    finally:
        transport.close()


@contextmanager
def analyst_at(connection: Connection) -> "Iterator[Analyst]":
    """Yield a client for the options, with the environment's token.

    Raises:
        ParameterError: if a file of TLS can't be used.
        CommandError: if a token is missing, can't be read or would have to be sent in the clear,
            or nobody answers: with what to do about it.
        ServerError: from every call that the server refuses.
    """
    # Imported here: a command that only reports, or asks for the health, has no need of it.
    from geoveil.analyst import Analyst, ServerError, TokenInClearError

    tls = connection.security()
    try:
        with Analyst(connection.server, tls=tls or TLS(insecure=True), token=_token()) as analyst:
            yield analyst
    except TokenInClearError as error:
        raise CommandError(f"{error}: give --tls or --tls-roots") from None
    except ServerError as error:
        if (explained := unanswered(connection.server, tls, error)) is not None:
            raise explained from error
        if error.code != "UNAUTHENTICATED":
            raise
        hint = f"; set {TOKEN}, or {TOKEN_FILE} to the name of a file"
        raise CommandError(f"{error}{hint}") from error


def _token() -> str | None:
    name, token = os.environ.get(TOKEN_FILE), os.environ.get(TOKEN)
    if name is None:
        if token is not None and not token.isascii():
            raise CommandError(f"{TOKEN} holds no token: a token has only ASCII characters")
        return token
    try:
        return Path(name).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{TOKEN_FILE} names no file with a token:"
            f" {getattr(error, 'strerror', 'a token has only ASCII characters')}"
        ) from None
