"""Settings of one aggregator process."""

from dataclasses import dataclass
from pathlib import Path

from geoveil.gp import ParameterError
from geoveil.gp.validation import between

MOST_REPORTS = 10_000
"""In one request: a bound of the wire contract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Validated when made.

    Limits on reports bound memory, so there a report to a campaign with allocation "split" counts
    once per answer.

    Raises:
        ParameterError: naming the setting, its value and what is permitted.

    Example:
        >>> Settings(database=Path("reports.db"), port=65_536)
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: port must be an integer from 0 to 65,535, got port=65536
    """

    database: Path
    """File of the SQLite database; made if absent. Not shared over a network file system."""
    host: str = "127.0.0.1"
    """Address to listen on: a name, IPv4 or IPv6."""
    port: int = 7717
    """Port to listen on; 0 lets the operating system choose."""
    tls_certificate: Path | None = None
    """PEM file with the chain of certificates. None: no encryption."""
    tls_key: Path | None = None
    """PEM file with the private key of the certificate."""
    max_batch: int = MOST_REPORTS
    """Reports in one request."""
    max_message_bytes: int = 4 << 20
    """Size of one request, in bytes."""
    queue_limit: int = 100_000
    """Reports that may wait to be written; beyond it requests get RESOURCE_EXHAUSTED."""
    commit_limit: int = 16_384
    """Reports written in one transaction; a single larger request is still written in one."""
    commit_latency_s: float = 0.0
    """How long to wait, in seconds, for more reports before writing those there are. While a
    transaction is being written the next one fills by itself, so 0 groups well under load."""
    busy_timeout_s: float = 5.0
    """How long to wait, in seconds, for another process that writes to the database."""
    grace_s: float = 5.0
    """How long requests in progress may take, in seconds, once the server is told to stop."""
    clock_skew_s: float = 60.0
    """Reports are taken this many seconds before a campaign opens and after it closes, because the
    clocks of devices and server differ. A campaign closed by its analyst closes at once."""

    def __post_init__(self) -> None:
        if not isinstance(self.database, Path) or self.database.name in ("", ":memory:"):
            raise ParameterError("database", self.database, "a Path to a file")
        if not isinstance(self.host, str) or not self.host or not self.host.isprintable():
            raise ParameterError("host", self.host, "a name or an address")
        _integer("port", self.port, 0, 65_535)
        for name in ("tls_certificate", "tls_key"):
            path = getattr(self, name)
            if path is not None and not isinstance(path, Path):
                raise ParameterError(name, path, "a Path to a PEM file, or None")
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_certificate" if self.tls_certificate is None else "tls_key"
            raise ParameterError(missing, None, "given together with the other of the two")
        _integer("max_batch", self.max_batch, 1, MOST_REPORTS)
        _integer("max_message_bytes", self.max_message_bytes, 1 << 10, 64 << 20)
        _integer("queue_limit", self.queue_limit, 1, 100_000_000)
        _integer("commit_limit", self.commit_limit, 1, 1_000_000)
        between("commit_latency_s", self.commit_latency_s, 0, 10)
        between("busy_timeout_s", self.busy_timeout_s, 0, 600)
        between("grace_s", self.grace_s, 0, 3600)
        between("clock_skew_s", self.clock_skew_s, 0, 86_400)


def _integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ParameterError(name, value, f"an integer from {low:,} to {high:,}")
