"""Settings of a gateway."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from geoveil.campaign import TLS, is_loopback, tls_for
from geoveil.gp import ParameterError

_MAGIC = b"PMTiles\x03"
_ISSUER = re.compile(r"http(s)?://([A-Za-z0-9.-]+)(?::\d{1,5})?(?:/[\w./~-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Validated when made.

    Raises:
        ParameterError: naming the setting, its value and what is permitted.
    """

    server: str
    """gRPC address of the aggregator."""
    tls: TLS | None = field(default=None, repr=False)
    """The aggregator's TLS; optional for one on this machine."""
    web: str = "127.0.0.1:7718"
    """Address to listen on, "HOST:PORT"; port 0 lets the operating system choose."""
    origins: tuple[str, ...] = ()
    """Origins, such as "https://example.org", of pages elsewhere that may call."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies whose header X-Forwarded-For says who is behind them."""
    streets: Path | None = None
    """PMTiles file of streets, with layers as those of Protomaps. None: towns and borders only."""
    issuer: str | None = None
    """URL of the issuer that pages ask for tokens with people's invitation codes. None: no page."""
    tls_certificate: Path | None = None
    """PEM file with the chain of certificates. None: no encryption."""
    tls_key: Path | None = None
    """PEM file with the private key of the certificate."""
    tls_client_ca: Path | None = None
    """PEM file with the certificates that sign those of clients, who then need one."""
    relay_keys: Path | None = None
    """File of the keys that open what comes through relays: `geoveil.relay.GatewayKeys`. None:
    nothing comes through relays."""
    console: bool = False
    """Serve the console for analysts and operators under /console/."""
    results_token_file: Path | None = None
    """File that holds a token: what its campaigns say is shown to anybody under /results/. None:
    nothing is."""
    results_frames: tuple[str, ...] = ()
    """Origins of pages elsewhere that may hold those results."""
    shown: str = "COLLECTOR"
    """Where programs reach the aggregator, as the console's code shows it."""
    longest: int = 4 << 20
    """Bytes of a request; as the aggregator's max_message_bytes."""
    connections: int = 512
    """Connections that are open. Of more, one of the address with most is closed."""
    held_bytes: int = 64 << 20
    """Memory, in bytes, of requests and answers under way, of all connections."""
    idle_s: float = 60.0
    """Seconds that a connection without a request stays open."""

    def __post_init__(self) -> None:
        tls_for(self.server, self.tls)
        host, _, port = self.web.rpartition(":")
        if not (host and port.isascii() and port.isdigit() and int(port) <= 65_535):
            raise ParameterError("web", self.web, 'HOST:PORT, such as "127.0.0.1:7718"')
        if self.streets is not None and not _is_map(self.streets):
            raise ParameterError("web_streets", str(self.streets), "a file of PMTiles, version 3")
        if self.issuer is not None:
            address = _ISSUER.fullmatch(self.issuer)
            if address is None or not (address[1] or is_loopback(address[2])):
                expected = "a URL such as https://issuer.example, or http:// on this machine"
                raise ParameterError("web_issuer", self.issuer, expected)
        if (self.tls_certificate is None) != (self.tls_key is None):
            both = ("tls_key", "tls_certificate")
            given, missing = both if self.tls_certificate is None else both[::-1]
            raise ParameterError(missing, None, f"given, as {given} is")

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on.

        Example:
            >>> GatewaySettings(server="127.0.0.1:7717", web="[::1]:7718").address
            ('::1', 7718)
        """
        host, _, port = self.web.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def public(self) -> bool:
        """Whether other machines reach the gateway."""
        return not is_loopback(self.address[0])


def _is_map(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
