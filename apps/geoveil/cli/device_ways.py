"""The ways for a device's reports: directly, through a relay, with tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from geoveil.campaign import PublicKey
from geoveil.cli.connection import Connection, device_at
from geoveil.cli.options import options_of, takes
from geoveil.client import PlaintextRefused, Transport
from geoveil.gp import ParameterError


@dataclass(frozen=True)
class DeviceWay:
    """The options of a relay and an issuer."""

    relay: Annotated[
        str | None,
        typer.Option(
            help="Send through the relay at this URL instead of --server: it learns your address"
            " and nothing else, the server everything but your address. Needs --relay-operator."
        ),
    ] = None
    relay_operator: Annotated[
        str | None,
        typer.Option(help="Key ed25519:... of the operator of the server behind the relay."),
    ] = None
    issuer: Annotated[
        str | None,
        typer.Option(
            help="Get a token from the issuer at this URL, if the campaign needs one. Needs"
            " --invitation."
        ),
    ] = None
    invitation: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="File with the invitation code for the issuer."
        ),
    ] = None

    @contextmanager
    def transport(self, connection: Connection, state_dir: Path) -> Iterator[Transport]:
        """Yield the transport for a device's calls."""
        _both("relay", self.relay, "relay-operator", self.relay_operator)
        _both("issuer", self.issuer, "invitation", self.invitation)
        tls = connection.security()
        roots = None if tls is None else tls.root_certificates
        if self.relay is None or self.relay_operator is None:
            with device_at(connection) as straight:
                yield self._with_tokens(straight, roots, state_dir)
            return
        from geoveil.relay import RelayTransport  # loaded where there is a relay

        key = PublicKey.parse(self.relay_operator)
        try:
            through = RelayTransport(self.relay, operator=key, root_certificates=roots)
        except PlaintextRefused:
            expected = "a URL with https://, unless it is of this machine"
            raise ParameterError("relay", self.relay, expected) from None
        yield self._with_tokens(through, roots, state_dir)

    def _with_tokens(self, transport: Transport, roots: bytes | None, state_dir: Path) -> Transport:
        if self.issuer is None or self.invitation is None:
            return transport
        from geoveil.relay import TokenTransport  # loaded where there is an issuer

        return TokenTransport(
            transport,
            issuer=self.issuer,
            credential=self.invitation.read_text(encoding="utf-8").strip(),
            state_dir=state_dir,
            root_certificates=roots,
        )


by_ways = takes("way", options_of(DeviceWay), DeviceWay)


def _both(name: str, given: object, other: str, beside: object) -> None:
    if (given is None) != (beside is None):
        names = (name, other) if given is None else (other, name)
        raise ParameterError(names[0], None, f"given together with {names[1]}")
