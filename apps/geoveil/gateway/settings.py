"""A gateway's settings."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from geoveil.campaign import TLS, address_to_listen_on, is_loopback, tls_for, together
from geoveil.gp import ParameterError

_MAGIC = b"PMTiles\x03"
_ISSUER = re.compile(r"http(s)?://([A-Za-z0-9.-]+)(?::\d{1,5})?(?:/[\w./~-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """A gateway's validated settings.

    Raises:
        ParameterError: if a setting is out of range.
    """

    server: str
    """The aggregator's gRPC address."""
    tls: TLS | None = field(default=None, repr=False)
    """The aggregator's TLS; optional if it is on this machine."""
    web: str = "127.0.0.1:7718"
    """Address "HOST:PORT" to listen on; with port 0 the operating system chooses one."""
    origins: tuple[str, ...] = ()
    """Origins, such as "https://example.org", of other sites' pages that may call."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies whose header X-Forwarded-For the gateway trusts."""
    streets: Path | None = None
    """PMTiles file of streets with Protomaps' layers. None: only towns and borders."""
    issuer: str | None = None
    """URL of the issuer from which pages get tokens for invitation codes. None: they get none."""
    tls_certificate: Path | None = None
    """PEM file with the certificate chain. None: no encryption."""
    tls_key: Path | None = None
    """PEM file with the certificate's private key."""
    tls_client_ca: Path | None = None
    """PEM file with the authorities of client certificates; clients then need one."""
    relay_keys: Path | None = None
    """File of the keys that open relayed requests: `geoveil.relay.GatewayKeys`. None: it answers
    none."""
    console: bool = False
    """Serve the console for analysts and operators under /console/."""
    results_token_file: Path | None = None
    """File with a token, whose campaigns' results are shown to anybody under /results/. None: it
    shows none."""
    results_frames: tuple[str, ...] = ()
    """Origins of other sites' pages that may frame those results."""
    shown: str = "COLLECTOR"
    """The aggregator's address in the code that the console shows."""
    longest: int = 4 << 20
    """The most bytes of a request, like the aggregator's max_message_bytes."""
    connections: int = 512
    """The most open connections; beyond it one of the address with most is closed."""
    held_bytes: int = 64 << 20
    """The most bytes of requests and responses under way on all connections."""
    idle_s: float = 60.0
    """Seconds for which a connection without a request stays open."""

    def __post_init__(self) -> None:
        tls_for(self.server, self.tls)
        _ = self.address  # refuses what is none
        if self.streets is not None and not _is_map(self.streets):
            raise ParameterError("web_streets", str(self.streets), "a PMTiles file, version 3")
        if self.issuer is not None:
            address = _ISSUER.fullmatch(self.issuer)
            if address is None or not (address[1] or is_loopback(address[2])):
                expected = "a URL such as https://issuer.example, or http:// on this machine"
                raise ParameterError("web_issuer", self.issuer, expected)
        together("tls_certificate", self.tls_certificate, "tls_key", self.tls_key)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port to listen on.

        Example:
            >>> GatewaySettings(server="127.0.0.1:7717", web="[::1]:7718").address
            ('::1', 7718)
        """
        return address_to_listen_on("web", self.web)

    @property
    def public(self) -> bool:
        """Whether other machines can reach the gateway."""
        return not is_loopback(self.address[0])


def _is_map(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
