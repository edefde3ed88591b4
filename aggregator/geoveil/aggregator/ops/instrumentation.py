"""The parts of the server with metrics around them; what they do stays the same."""

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, cast

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import Result
from geoveil.aggregator.domain.service import Service
from geoveil.aggregator.ops.metrics import Metrics
from geoveil.aggregator.store import Outcome, Store, Submission
from geoveil.aggregator.store.writer import Writer

_FAILURES = (Code.STORE_UNAVAILABLE, Code.INTERNAL)


class ObservedWriter(Writer):
    """A writer that tells how much waits."""

    @property
    def weight(self) -> int:
        """Answers that wait to be written."""
        return self._weight


class ObservedService(Service):
    """A service that counts what becomes of reports.

    Args:
        metrics: where.
        arguments: those of `Service`.
    """

    def __init__(self, metrics: Metrics, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._metrics = metrics

    async def submit(self, *arguments: Any, **more: Any) -> list[Result]:
        results = await super().submit(*arguments, **more)
        self._metrics.count_reports(results)
        return results


class _ObservedStore:
    """Stands in for a store, whatever methods that has."""

    def __init__(self, store: Store, metrics: Metrics, commit_failed: Callable[[], object]) -> None:
        self._store = store
        self._metrics = metrics
        self._commit_failed = commit_failed

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
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

        return observed

    def __enter__(self) -> "_ObservedStore":
        self._store.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.__exit__(kind, error, trace)


def observed_store(store: Store, metrics: Metrics, commit_failed: Callable[[], object]) -> Store:
    """Return the store with its transactions timed and its failures counted.

    Args:
        store: any.
        metrics: where.
        commit_failed: called, on the thread of the store, when a transaction fails.
    """
    return cast(Store, _ObservedStore(store, metrics, commit_failed))
