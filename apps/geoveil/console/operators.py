"""The page for operators: rejections, rates, the queue, the store, certificates, and warnings.

All its numbers come from the server's metrics, the same that Prometheus reads.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from geoveil.analyst import cell_text
from geoveil.console.http import GatewayRequest, Response, Route
from geoveil.console.rendering import date_text, span_text
from geoveil.proto.v1.console_pb2 import GetStatusResponse

_SINCE_S = 5.0
"""The shortest time in seconds over which a rate is computed."""
_KEPT_S = 60.0
_MOST_ACTIONS = 200
_EXPIRES_SOON_DAYS = 21
_MANY_REJECTED = 0.05
_FULL = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """The metrics at a moment."""

    at_s: float
    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    @classmethod
    def of(cls, status: GetStatusResponse, at_s: float) -> "Sample":
        """Return the metrics in the server's status."""
        values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for sample in status.samples
        }
        return cls(at_s, values)

    def get(self, name: str, **labels: str) -> float:
        """Return one metric; 0 if the server does not report it."""
        return self.values.get((name, frozenset(labels.items())), 0.0)

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return a metric by one label, summed over its other labels, largest first."""
        sums: dict[str, float] = {}
        for (metric, labels), value in self.values.items():
            if metric == name:
                key = dict(labels).get(label, "")
                sums[key] = sums.get(key, 0.0) + value
        return dict(sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])))

    def quantile(self, name: str, level: float, **labels: str) -> float | None:
        """Return a quantile of a histogram, interpolated in its bucket; None if it is empty."""
        wanted = set(labels.items())
        buckets = sorted(
            (float(dict(of_one)["le"]), value)
            for (metric, of_one), value in self.values.items()
            if metric == f"{name}_bucket" and wanted <= set(of_one)
        )
        if not buckets or not buckets[-1][1]:
            return None
        rank, low, before = level * buckets[-1][1], 0.0, 0.0
        for high, count in buckets:
            if count >= rank:
                part = (rank - before) / (count - before) if count > before else 1.0
                return low if high == float("inf") else low + part * (high - low)
            low, before = high, count
        return low


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """A number with its name."""

    name: str
    text: str
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """A user's action in the console."""

    at: datetime
    who: str
    action: str
    about: str


class Operators:
    """The page for operators, with the latest samples and actions."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()
        self._actions: deque[Action] = deque(maxlen=_MOST_ACTIONS)
        self._lock = Lock()

    @property
    def routes(self) -> Sequence[Route]:
        """The routes of the page for operators."""
        return (Route("GET", "/operators", self.shown),)

    def remember(self, who: str, action: str, about: Mapping[str, object]) -> None:
        """Keep an action among the page's latest; the log has all of them."""
        words = ", ".join(f"{name} {value}" for name, value in about.items())
        self._actions.appendleft(Action(datetime.now(UTC), who, action, words))

    def shown(self, request: GatewayRequest) -> Response:
        """Return the page."""
        status = request.analyst.status()
        now, before = self._sampled(status)
        return request.render(
            "operators.html",
            version=next(iter(now.by("geoveil_build_info", "version")), ""),
            ready=bool(now.get("geoveil_ready")),
            warnings=[*warnings_of(now, status, request.now)],
            server=[*_server(now, status, request.now)],
            reports=_counts(now, before, "geoveil_reports_total", "outcome"),
            rejected=_counts(now, before, "geoveil_reports_rejected_total", "reason"),
            denied=_counts(now, before, "geoveil_rpcs_denied_total", "reason"),
            errors=_counts(now, before, "geoveil_store_errors_total", "operation"),
            calls=_counts(now, before, "geoveil_rpcs_total", "method"),
            slowest={
                name: cell_text(now.quantile("geoveil_rpc_seconds", 0.99, method=name))
                for name in now.by("geoveil_rpcs_total", "method")
            },
            actions=[*self._actions],
        )

    def _sampled(self, status: GetStatusResponse) -> tuple[Sample, Sample | None]:
        """Return the metrics now, and an earlier sample if there is one."""
        now = Sample.of(status, time.monotonic())
        with self._lock:
            while self._samples and now.at_s - self._samples[0].at_s > _KEPT_S:
                self._samples.popleft()
            old = [sample for sample in self._samples if now.at_s - sample.at_s >= _SINCE_S]
            if not self._samples or now.at_s - self._samples[-1].at_s >= _SINCE_S:
                self._samples.append(now)
        return now, old[-1] if old else None


@dataclass(frozen=True, slots=True)
class Count:
    """A counter, and its rate of growth."""

    name: str
    count: int
    rate: str


def _counts(now: Sample, before: Sample | None, name: str, label: str) -> Sequence[Count]:
    """Return a counter's nonzero numbers by a label."""
    earlier = {} if before is None else before.by(name, label)
    counts = []
    for key, value in now.by(name, label).items():
        if not value:
            continue
        rate = "–"
        if before is not None:
            rate = f"{(value - earlier.get(key, 0.0)) / (now.at_s - before.at_s):,.1f}"
        counts.append(Count(key, int(value), rate))
    return counts


def _server(now: Sample, status: GetStatusResponse, time_now: datetime) -> Iterator[NamedNumber]:
    """Yield the state of the server."""
    started = now.get("process_start_time_seconds")
    if started:
        yield NamedNumber("Running for", span_text(time_now - datetime.fromtimestamp(started, UTC)))
    memory = now.get("process_resident_memory_bytes")
    yield NamedNumber("Memory", _size(memory), f"{memory:.0f}")
    waiting = now.get("geoveil_queue_weight")
    yield NamedNumber(
        "Answers that wait to be written",
        f"{waiting:,.0f} of at most {status.queue_limit:,}",
        f"{waiting:.0f}",
    )
    commits = now.get("geoveil_commit_seconds_count")
    if commits:
        yield NamedNumber("Transactions", f"{commits:,.0f}", f"{commits:.0f}")
        slow = now.quantile("geoveil_commit_seconds", 0.99)
        yield NamedNumber("99 % of them are done within", f"{cell_text(slow)} s")
        reports = now.get("geoveil_commit_reports_sum")
        yield NamedNumber("Reports in one, on average", f"{reports / commits:,.1f}")
    measured = status.HasField("database_bytes")
    size = _size(status.database_bytes) if measured else "of unknown size"
    yield NamedNumber("Store", f"{status.database}, {size}")
    expires = now.get("geoveil_tls_certificate_expires_timestamp_seconds")
    if expires:
        ends = datetime.fromtimestamp(expires, UTC)
        left = span_text(ends - time_now)
        yield NamedNumber("Certificate", f"ends {date_text(ends)}, in {left}", f"{expires:.0f}")
    else:
        yield NamedNumber("Certificate", "none: without TLS")
    yield NamedNumber(
        "Replicas",
        "one: SQLite has one server"
        if status.database == "SQLite"
        else f"{_replicas(status)}; all other numbers here describe the server that answered",
    )


def _replicas(status: GetStatusResponse) -> str:
    """Return, in words, how many servers share the database."""
    if not status.HasField("writers"):
        return "the number of servers on the database is unknown"
    number = "one server" if status.writers == 1 else f"{status.writers} servers"
    return f"{number} on this database took reports (others are not counted)"


def warnings_of(now: Sample, status: GetStatusResponse, time_now: datetime) -> Iterator[str]:
    """Yield a sentence on each problem that the operator should look at."""
    if not now.get("geoveil_ready"):
        yield "The database can't be written: no reports are taken (geoveil_ready is 0)."
    failed = sum(now.by("geoveil_store_errors_total", "operation").values())
    if failed:
        yield f"{failed:,.0f} database operations have failed since the server started."
    waiting = now.get("geoveil_queue_weight")
    if waiting > _FULL * status.queue_limit:
        yield "More than half of the queue is full: reports arrive faster than they are written."
    reports = now.by("geoveil_reports_total", "outcome")
    rejected = reports.get("rejected", 0.0)
    if rejected > _MANY_REJECTED * max(sum(reports.values()), 1.0):
        yield f"{rejected:,.0f} reports were rejected: see the reasons below."
    expires = now.get("geoveil_tls_certificate_expires_timestamp_seconds")
    if expires:
        days = (datetime.fromtimestamp(expires, UTC) - time_now).total_seconds() / 86_400
        if days < _EXPIRES_SOON_DAYS:
            yield f"The certificate expires in {max(days, 0.0):.0f} days."
    elif not status.on_loopback:
        yield "Without TLS reports and tokens travel in the clear, unless a proxy adds it."


def _size(number: float) -> str:
    """Return a number of bytes.

    Example:
        >>> _size(123_456_789)
        '123.5 MB'
    """
    for unit, worth in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= worth:
            return f"{number / worth:,.1f} {unit}"
    return f"{number:,.0f} bytes"
