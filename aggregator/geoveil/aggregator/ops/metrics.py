"""Prometheus metrics of one server, in a separate registry.

Labels have fixed lists of values, without campaigns, callers and addresses.
"""

import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    start_http_server,
)

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import ReportResult, Status
from geoveil.aggregator.domain.store_contract import Outcome, Store, Submission
from geoveil.aggregator.ops.authorizer import Denial
from geoveil.campaign import Reason
from geoveil.gp import ParameterError, __version__

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REPORTS = (1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536)
_FAILURES = (Code.STORE_UNAVAILABLE, Code.INTERNAL)


class Metrics:
    """The metrics, which docs/operating.md documents."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        ProcessCollector(registry=registry)
        gauge("geoveil_build_info", "1.", ["version"]).labels(__version__).set(1)
        self._calls = counter("geoveil_rpcs", "Calls ended.", ["method", "code"])
        self._call_seconds = histogram(
            "geoveil_rpc_seconds", "Time of calls.", ["method"], buckets=_SECONDS
        )
        denied = counter("geoveil_rpcs_denied", "Calls refused by access rules.", ["reason"])
        self._denied = {denial: denied.labels(denial.name.lower()) for denial in Denial}
        reports = counter("geoveil_reports", "Reports answered, by outcome.", ["outcome"])
        self._reports = {status: reports.labels(status.name.lower()) for status in Status}
        rejected = counter("geoveil_reports_rejected", "Reports rejected, by reason.", ["reason"])
        self._rejected = {reason: rejected.labels(reason.name.lower()) for reason in Reason}
        self.queue_weight = gauge("geoveil_queue_weight", "Answers that wait to be written.")
        self.commit_reports = histogram(
            "geoveil_commit_reports", "Reports of transactions.", buckets=_REPORTS
        )
        self.commit_seconds = histogram(
            "geoveil_commit_seconds", "Time of transactions.", buckets=_SECONDS
        )
        self.store_errors = counter(
            "geoveil_store_errors", "Database operations that failed.", ["operation"]
        )
        self.store_errors.labels("commit")
        self.ready = gauge("geoveil_ready", "1 while the health is SERVING.")
        self.campaigns_open = gauge("geoveil_campaigns_open", "Campaigns that take reports.")
        self.certificate_expires = gauge(
            "geoveil_tls_certificate_expires_timestamp_seconds",
            "When the server's certificate ends, in Unix time; 0 without TLS.",
        )

    def observe_call(self, method: str, code: str, seconds: float) -> None:
        """Count a call of "package.Service/Method" with its status name and duration in seconds."""
        self._calls.labels(method, code).inc()
        self._call_seconds.labels(method).observe(seconds)

    def count_denial(self, denial: Denial) -> None:
        """Count a call that the authorizer refused."""
        self._denied[denial].inc()

    def count_reports(self, results: Sequence[ReportResult]) -> None:
        """Count the outcomes of a request's reports."""
        # Most results of a batch are one object, and comparing each would be slow.
        of_id = dict(zip(map(id, results), results, strict=True))
        for key, count in Tally(map(id, results)).items():
            result = of_id[key]
            self._reports[result.status].inc(count)
            if result.reason is not None:
                self._rejected[result.reason].inc(count)


class MetricsServer:
    """Serves metrics over HTTP at /metrics in its own threads until closed.

    With port 0 the operating system chooses one. ParameterError if the address is taken.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, host, metrics.registry)
        except OSError as error:
            expected = f"free, and one of this machine ({error.strerror})"
            raise ParameterError("metrics_port", f"{host}:{port}", expected) from error

    @property
    def port(self) -> int:
        """The listening port."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ObservedStore:
    """Behaves like `store`, times its transactions and counts its failures.

    When a transaction fails, `commit_failed` is called in the store's thread.
    """

    def __init__(self, store: Store, metrics: Metrics, commit_failed: Callable[[], object]) -> None:
        self._store = store
        self._metrics = metrics
        self._commit_failed = commit_failed

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        """Commit to the store, as `Store.commit`."""
        started = time.perf_counter()
        try:
            outcomes = self._store.commit(batch)
        except Exception:
            self._metrics.store_errors.labels("commit").inc()
            self._commit_failed()
            raise
        self._metrics.commit_seconds.observe(time.perf_counter() - started)
        self._metrics.commit_reports.observe(sum(len(of_one) for of_one in outcomes))
        return outcomes

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        if not callable(attribute):
            return attribute

        def observed(*arguments: Any, **more: Any) -> Any:
            try:
                return attribute(*arguments, **more)
            except ServiceError as error:
                if error.code in _FAILURES:
                    self._metrics.store_errors.labels(name).inc()
                raise

        setattr(self, name, observed)  # from now on Python looks here no more
        return observed

    def __enter__(self) -> "ObservedStore":
        self._store.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._store.__exit__(*error)
