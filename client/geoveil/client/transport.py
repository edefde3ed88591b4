"""How requests reach a server: two small interfaces, and what TLS a target needs."""

import ipaddress
from dataclasses import dataclass, field
from typing import Protocol

from geoveil.client.errors import ParameterError, PlaintextRefused
from geoveil.proto.v1 import collector_pb2


class Transport(Protocol):
    """Carries requests to one collector. Shared by threads; whoever made it closes it.

    Both methods return or raise TransportError within `timeout_s` seconds, and try only once.
    """

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """Return the campaign as it was published."""
        ...

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """Return one result per report, once every accepted report is on the server's disk."""
        ...


class AsyncTransport(Protocol):
    """See `Transport`; for asyncio."""

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        ...

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        ...


_PEM = ("root_certificates", "certificate_chain", "private_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """How to know that a server is the right one, and how the server knows this app.

    Raises:
        ParameterError: if a field is not of its kind, only one of the chain and its key is given,
            or anything is given for a connection without TLS. Keys are not repeated.
    """

    root_certificates: bytes | None = None
    """PEM of the authorities to trust; None: those that gRPC comes with."""
    certificate_chain: bytes | None = None
    """PEM of this app's own certificate and those up to its authority, for servers that ask."""
    private_key: bytes | None = field(default=None, repr=False)
    """PEM of the key of that certificate."""
    server_name: str | None = None
    """What the server's certificate must be for, if not the host of the target: for a server that
    is reached by an address or through a tunnel."""
    insecure: bool = False
    """Send in the clear: anybody on the way can read reports and withhold campaigns. The values
    stay protected by their perturbation, and the policy still holds; the rest does not."""

    def __post_init__(self) -> None:
        for name in _PEM:
            pem = getattr(self, name)
            if pem is not None and not (isinstance(pem, bytes) and b"-----BEGIN " in pem):
                shown = "other bytes" if isinstance(pem, bytes) else type(pem).__name__
                raise ParameterError(name, shown, "bytes in PEM format, or None")
        if self.server_name is not None and (
            not isinstance(self.server_name, str) or not self.server_name
        ):
            raise ParameterError("server_name", self.server_name, "a name, or None")
        for missing, given in (_PEM[1:], _PEM[:0:-1]):
            if getattr(self, missing) is None and getattr(self, given) is not None:
                raise ParameterError(missing, None, f"given together with {given}")
        for name in (*_PEM, "server_name"):
            if self.insecure and getattr(self, name) is not None:
                raise ParameterError("insecure", True, f"False if {name} is given")


def tls_for(target: str, tls: TLS | None) -> TLS:
    """Return `tls`, or its default: none is needed on this machine, and refused elsewhere.

    Raises:
        ParameterError: if the target is not a string with at least a character.
        PlaintextRefused: if the target is not on this machine and `tls` is None.
    """
    if not isinstance(target, str) or not target:
        raise ParameterError("target", target, 'an address, for example "collector.example:443"')
    if tls is not None:
        return tls
    if not is_local(target):
        raise PlaintextRefused(target)
    return TLS(insecure=True)


def is_local(target: str) -> bool:
    """Return whether a gRPC target can only be this machine.

    Example:
        >>> [is_local(t) for t in ("localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/run/a.sock")]
        [True, True, True, True]
        >>> [is_local(t) for t in ("example.org:443", "localhost.example.org:1", "0.0.0.0:1")]
        [False, False, False]
    """
    scheme, colon, rest = target.partition(":")
    if scheme in ("unix", "unix-abstract"):
        return True
    if scheme in ("dns", "ipv4", "ipv6") and colon:
        # "dns://authority/host" asks a name server of its own choice, so it is not local.
        authority, _, path = rest.removeprefix("//").partition("/")
        if rest.startswith("//"):
            return not authority and is_local(path)
        return all(is_local(address) for address in rest.split(","))
    host = target.rpartition(":")[0] if target.count(":") == 1 or "]:" in target else target
    host = host.removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
