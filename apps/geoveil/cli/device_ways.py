"""By which way a device's reports leave: straight, through a relay, with tokens."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from geoveil.campaign import PublicKey
from geoveil.cli.connection import Connection, device_at
from geoveil.client import PlaintextRefused, Transport
from geoveil.gp import ParameterError


def with_tokens(
    transport: Transport,
    issuer: str | None,
    invitation: Path | None,
    state_dir: Path,
    connection: Connection,
) -> Transport:
    """Return a transport that gets tokens, if there is an issuer."""
    if issuer is None and invitation is None:
        return transport
    if issuer is None or invitation is None:
        names = ("issuer", "invitation")
        missing, given = names if issuer is None else names[::-1]
        raise ParameterError(missing, None, f"given together with {given}")
    from geoveil.relay import TokenTransport  # loaded where there is an issuer

    tls = connection.security()
    return TokenTransport(
        transport,
        issuer=issuer,
        credential=invitation.read_text(encoding="utf-8").strip(),
        state_dir=state_dir,
        root_certificates=None if tls is None else tls.root_certificates,
    )


def way_of(
    connection: Connection, relay: str | None, operator: str | None
) -> AbstractContextManager[Transport]:
    """Return the transport to the server, through a relay if one is named."""
    if relay is None and operator is None:
        return device_at(connection)
    if relay is None or operator is None:
        names = ("relay", "relay-operator")
        missing, given = names if relay is None else names[::-1]
        raise ParameterError(missing, None, f"given together with {given}")
    from geoveil.relay import RelayTransport  # loaded where there is a relay

    tls = connection.security()
    roots = None if tls is None else tls.root_certificates
    key = PublicKey.parse(operator)
    try:
        return nullcontext(RelayTransport(relay, operator=key, root_certificates=roots))
    except PlaintextRefused:
        expected = "a URL with https://, unless it is of this machine"
        raise ParameterError("relay", relay, expected) from None
