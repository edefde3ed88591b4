"""Settings of one aggregator process."""

import re
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.campaign import MOST_REPORTS, PublicKey, address_to_listen_on, is_loopback, together
from geoveil.gp import ParameterError, validation

_ORIGIN = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")
WEB_OF_CONSOLE = "127.0.0.1:7718"
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("auto", "json", "human")


def _within(default: Any, least: float, most: float) -> Any:
    """Return the field of a number in a range, or of None if that is the default."""
    return field(default=default, metadata={"range": (least, most)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A server's validated settings; limits on reports count each answer of a report.

    Raises:
        ParameterError: if a setting is out of range.

    Example:
        >>> Settings(database=Path("reports.db"), port=65_536)
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: port must be an integer from 0 to 65,535, got port=65536
    """

    database: Path | DatabaseURL = Path("geoveil.db")
    """The SQLite file, created if absent and never on a network file system; or a PostgreSQL
    database's URL."""
    host: str = "127.0.0.1"
    """Address to listen on: a name, IPv4 or IPv6."""
    port: int = _within(7717, 0, 65_535)
    """Port to listen on; 0 lets the operating system choose."""
    web: str | None = None
    """Address "HOST:PORT" of the gateway, a separate process that serves the same calls over
    Connect, gRPC-Web and JSON, and the page on which people take part. With port 0 the operating
    system chooses one. None for no gateway."""
    web_origins: tuple[str, ...] = ()
    """Origins, such as "https://example.org", of other sites' pages that may call the gateway."""
    web_proxies: tuple[str, ...] = ()
    """Addresses of proxies before the gateway whose header X-Forwarded-For it trusts."""
    web_streets: Path | None = None
    """PMTiles file of streets for the maps of the gateway's pages. None: only towns and borders."""
    web_issuer: str | None = None
    """URL of the issuer from which the gateway's page gets tokens for invitation codes."""
    relay_keys: Path | None = None
    """Key file of `geoveil relay rotate`, with which the gateway answers relayed requests. None: it
    answers none."""
    console: bool = False
    """Serve the console for analysts and operators on the gateway under /console/; without `web`
    the gateway then listens at 127.0.0.1:7718."""
    results_token_file: Path | None = None
    """File with one token of scope estimate; the gateway shows its campaigns' results to anybody
    under /results/. None: it shows none."""
    results_frames: tuple[str, ...] = ()
    """Origins, such as "https://example.org", of other sites' pages that may frame results."""
    tls_certificate: Path | None = None
    """PEM file with the certificate chain. None: no encryption."""
    tls_key: Path | None = None
    """PEM file with the certificate's private key."""
    tls_client_ca: Path | None = None
    """PEM file with the authorities of client certificates; every client must then present one.
    None: clients need none."""
    tokens_file: Path | None = None
    """Token file of `geoveil token`; every Analyst call then needs a token. None: the server
    accepts Analyst calls only if it listens on the loopback."""
    insecure_open_analyst: bool = False
    """Accept Analyst calls without a token on any address."""
    reflection: bool = False
    """Describe the services to any client (gRPC server reflection)."""
    trusted_keys: tuple[PublicKey, ...] = ()
    """Public keys "ed25519:..."; each campaign needs a signature by one of them. Without keys the
    server accepts all campaigns."""
    max_batch: int = _within(MOST_REPORTS, 1, MOST_REPORTS)
    """The most reports in one request."""
    max_message_bytes: int = _within(4 << 20, 1 << 10, 64 << 20)
    """The largest request in bytes."""
    queue_limit: int = _within(100_000, 1, 100_000_000)
    """The most reports that may wait for writing; beyond it requests get RESOURCE_EXHAUSTED."""
    campaign_rate: float | None = None
    """Reports per second to one campaign in the long run. None: no limit."""
    campaign_burst: float | None = None
    """Reports to one campaign in a burst after a pause. None: ten seconds' worth."""
    campaign_quota: int | None = _within(None, 1, 1 << 40)
    """The most reports of one campaign. None: no limit."""
    least_free_bytes: int = _within(64 << 20, 0, 1 << 50)
    """Free bytes on a SQLite database's disk below which the server takes no new reports."""
    peer_rate: float | None = 100_000.0
    """Reports and other calls of devices per second from one address. None: no limit."""
    peer_burst: float | None = None
    """The same from one address in a burst after a pause. None: ten seconds' worth."""
    call_rate: float | None = 2_000.0
    """Calls of any kind per second from one address. None: no limit."""
    call_burst: float | None = None
    """Calls from one address in a burst after a pause. None: ten seconds' worth."""
    max_connections: int = _within(2_000, 1, 1_000_000)
    """The most open connections. Beyond it the server closes connections of the address that has
    most: first those without a call, oldest first. It accepts at most three times as many."""
    connection_idle_s: float = _within(300.0, 1, 86_400)
    """Seconds for which a connection without a call stays open."""
    max_held_bytes: int = _within(64 << 20, 1 << 16, 1 << 40)
    """Bytes of memory for requests and responses under way, at least four largest requests. Beyond
    it the server refuses requests of the connection that holds most, or closes it."""
    commit_limit: int = _within(16_384, 1, 1_000_000)
    """The most reports per transaction; a single larger request is still one transaction."""
    commit_latency_s: float = _within(0.0, 0, 10)
    """Seconds to wait for more reports before writing. The next transaction fills while one is
    written, so 0 groups well under load."""
    busy_timeout_s: float = _within(5.0, 0, 600)
    """Seconds to wait for another process that writes to the database."""
    clock_skew_s: float = _within(60.0, 0, 86_400)
    """Seconds before a campaign opens and after it closes in which its reports are accepted, since
    clocks differ. A campaign that its analyst closes stops at once."""
    drain_s: float = _within(0.0, 0, 3600)
    """Seconds for which a stopping server reports NOT_SERVING but still takes requests, until load
    balancers notice."""
    grace_s: float = _within(10.0, 0, 3600)
    """Seconds for requests in progress after the server stops taking new ones."""
    health_interval_s: float = _within(5.0, 0.01, 3600)
    """Seconds between probes of the database, which determine the status in `grpc.health.v1`."""
    metrics_host: str = "127.0.0.1"
    """Address of the metrics for Prometheus."""
    metrics_port: int | None = _within(None, 0, 65_535)
    """Port of the metrics; with 0 the operating system chooses one. None: no metrics."""
    traces: float | None = None
    """Share of calls, in (0, 1], whose spans go to the OpenTelemetry collector at
    OTEL_EXPORTER_OTLP_ENDPOINT. None: no spans."""
    log_level: str = "info"
    """The least severe level shown: debug (a line per call), info, warning or error."""
    log_format: str = "auto"
    """json, human, or auto: human on a terminal, otherwise json."""

    def __post_init__(self) -> None:
        if not isinstance(self.database, DatabaseURL):
            # A wrong value may be a URL with a password, so the error shows only its type.
            shown = self.database if isinstance(self.database, Path) else type(self.database)
            _file("database", shown, "a Path to a file or a DatabaseURL")
        _address("host", self.host)
        if self.console is True and self.web is None:
            object.__setattr__(self, "web", WEB_OF_CONSOLE)
        self._check_web()
        self._check_tls()
        for name in ("insecure_open_analyst", "reflection", "console"):
            if not isinstance(getattr(self, name), bool):
                raise ParameterError(name, getattr(self, name), "true or false")
        if self.insecure_open_analyst and self.tokens_file is not None:
            raise ParameterError("insecure_open_analyst", True, "false, as tokens_file is given")
        if self.console and self.tokens_file is None and not self.on_loopback:
            expected = "given, because the console can be reached from other machines"
            raise ParameterError("tokens_file", None, expected)
        if not isinstance(self.trusted_keys, tuple) or not all(
            isinstance(key, PublicKey) for key in self.trusted_keys
        ):
            raise ParameterError("trusted_keys", self.trusted_keys, 'a list of "ed25519:..." keys')
        for setting in fields(self):
            value = getattr(self, setting.name)
            if "range" in setting.metadata and not (value is setting.default is None):
                least, most = setting.metadata["range"]
                if setting.type is float:
                    validation.between(setting.name, value, least, most)
                else:
                    validation.require_count(setting.name, value, least, most)
        for which in ("campaign", "peer", "call"):
            self._check_rate(f"{which}_rate", f"{which}_burst")
        _address("metrics_host", self.metrics_host)
        if self.traces is not None:
            validation.between("traces", self.traces, 0, 1, low_open=True)
        validation.choice("log_level", self.log_level, LOG_LEVELS)
        validation.choice("log_format", self.log_format, LOG_FORMATS)

    def _check_tls(self) -> None:
        paths = ("tls_certificate", "tls_key", "tls_client_ca", "tokens_file", "results_token_file")
        for name in (*paths, "relay_keys"):
            path = getattr(self, name)
            if path is not None:
                _file(name, path, "a Path to a file, or None")
        together("tls_certificate", self.tls_certificate, "tls_key", self.tls_key)
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ParameterError("tls_certificate", None, "given, as tls_client_ca is")

    def _check_web(self) -> None:
        _ = self.web_address  # refuses what is none
        for which in (
            *("web_origins", "web_proxies", "results_token_file", "relay_keys"),
            *("web_issuer", "web_streets"),
        ):
            if self.web is None and getattr(self, which):
                raise ParameterError("web", None, f"given, as {which} is")
        if self.results_frames and self.results_token_file is None:
            raise ParameterError("results_token_file", None, "given, as results_frames is")
        if self.results_token_file is not None and self.tokens_file is None:
            raise ParameterError("tokens_file", None, "given, as results_token_file is")
        for proxy in self.web_proxies:
            try:
                ip_address(proxy)
            except ValueError:
                raise ParameterError("web_proxies", proxy, "addresses of proxies") from None
        for which in ("web_origins", "results_frames"):
            for origin in getattr(self, which):
                if not isinstance(origin, str) or not _ORIGIN.fullmatch(origin):
                    expected = 'origins in lower case, such as "https://example.org"'
                    raise ParameterError(which, origin, expected)

    def _check_rate(self, rate: str, burst: str) -> None:
        if getattr(self, rate) is not None:
            validation.between(rate, getattr(self, rate), 0, 1e9, low_open=True)
        elif getattr(self, burst) is not None:
            raise ParameterError(rate, None, f"given, as {burst} is")
        if getattr(self, burst) is not None:
            validation.between(burst, getattr(self, burst), 1, 1e12)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server.

        Example:
            >>> Settings(host="::1").on_loopback, Settings(host="0.0.0.0").on_loopback
            (True, False)
        """
        return is_loopback(self.host) and (self.web is None or is_loopback(self.web_address[0]))

    @property
    def web_address(self) -> tuple[str, int]:
        """Host and port of the gateway.

        Example:
            >>> Settings(web="[::1]:7718").web_address
            ('::1', 7718)
        """
        return address_to_listen_on("web", "localhost:0" if self.web is None else self.web)


def _file(name: str, value: object, expected: str) -> None:
    if not isinstance(value, Path) or value.name in ("", ":memory:") or "\0" in str(value):
        raise ParameterError(name, value, expected)


def _address(name: str, value: object) -> None:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ParameterError(name, value, "a name or an address")
