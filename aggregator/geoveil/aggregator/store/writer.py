"""Group commit: one thread writes whatever waits, in one transaction, then answers every waiter.

The next transaction fills while one is written, so that small requests share a flush.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import ANSWER_BYTES, PackedColumns
from geoveil.aggregator.ops.diagnostics import traceback_without_values
from geoveil.aggregator.ops.tracing import commit_span
from geoveil.aggregator.store import Outcome, Store, Submission
from geoveil.aggregator.store.room import Room

_LOG = logging.getLogger(__name__)
_FEW = 100
"""The weight of a submission that goes before those that are larger."""
_GATHERING_S = 0.01
"""The longest wait for more after a transaction of several requests."""
_Result = TypeVar("_Result")
_Settled = tuple["asyncio.Future[Any]", Any]
"""A future with its result or exception."""


class _Waiting(NamedTuple):
    submission: Submission
    weight: int
    future: asyncio.Future[list[Outcome]]


class _Call(NamedTuple):
    function: Callable[[Store], Any]
    future: asyncio.Future[Any]


class Writer:
    """Makes all changes to the database, on a separate thread.

    Args:
        open_store: opens the store; called on that thread.
        queue_limit: most answers that may wait, half of it for large submissions. An empty queue
            takes any submission.
        commit_limit: most answers of one transaction; likewise.
        latency_s: how long to wait, in seconds, for more before writing; after a transaction of
            several requests as long as that took, at most ten milliseconds.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        queue_limit: int,
        commit_limit: int,
        latency_s: float = 0.0,
        room: Room = Room(),  # noqa: B008 - frozen
    ) -> None:
        self._open_store = open_store
        self._queue_limit = queue_limit
        self._commit_limit = commit_limit
        self._latency_s = latency_s
        self._room = room
        # What follows is written by the event loop or by the thread, and deques by both: nothing
        # needs a lock. The thread looks again before it sleeps, and is woken at most once.
        self._asleep = threading.Lock()
        # The small ones first: whoever sends one report does not wait for ten thousand others.
        self._queues: tuple[deque[_Waiting], deque[_Waiting]] = (deque(), deque())
        self._calls: deque[_Call] = deque()
        self._queued = self._taken = 0
        """Total weight of items put in, counted before they can be taken, and of items taken."""
        self._stopping = False
        self._gathering_s = 0.0
        self._finished: asyncio.Future[None] | None = None

    @property
    def weight(self) -> int:
        """Answers that wait to be written."""
        taken = self._taken  # first: the other only grows meanwhile
        return self._queued - taken

    async def start(self) -> None:
        """Open the store; raises what opening it raises."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        self._finished = loop.create_future()
        # A daemon: a process that forgets to stop can still end, and transactions make it safe.
        threading.Thread(
            target=self._run, args=(loop, opened, self._finished), name="writer", daemon=True
        ).start()
        await opened

    async def submit(self, submission: Submission) -> list[Outcome]:
        """Return, once they are durable, the outcomes of reports.

        Raises:
            ServiceError: QUEUE_FULL or STOPPING, and nothing was queued; STORE_UNAVAILABLE,
                DISK_FULL or CAMPAIGN_FULL, and nothing was changed.
        """
        if self._stopping:
            raise ServiceError(Code.STOPPING)
        reports = submission.reports
        if type(reports) is PackedColumns:
            answers = len(reports)
        else:
            answers = sum(map(len, map(itemgetter(1), reports))) // ANSWER_BYTES
        weight, before = max(1, answers), self.weight
        large = weight > _FEW
        limit = self._queue_limit / 2 if large else self._queue_limit
        if before and before + weight > limit:
            raise ServiceError(Code.QUEUE_FULL)
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        self._queued += weight
        self._queues[large].append(_Waiting(submission, weight, future))
        # Waking the thread for each of many requests would cost more than writing them.
        if not before or before < self._commit_limit <= before + weight:
            self._wake()
        with commit_span():
            return await future

    async def call(self, function: Callable[[Store], _Result]) -> _Result:
        """Return function(store), run on the writer's thread before what waits there.

        Raises:
            ServiceError: STOPPING; or whatever the function raises.
        """
        if self._stopping:
            raise ServiceError(Code.STOPPING)
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._calls.append(_Call(function, future))
        self._wake()
        return await future

    async def stop(self) -> None:
        """Take nothing more, write all that waits, close the store; idempotent."""
        self._stopping = True
        self._wake()
        if self._finished is not None:
            await asyncio.shield(self._finished)

    def _wake(self) -> None:
        """Let the thread look for work. Only for the event loop, which alone unlocks it."""
        if self._asleep.locked():
            self._asleep.release()

    def _run(
        self,
        loop: asyncio.AbstractEventLoop,
        opened: asyncio.Future[None],
        finished: asyncio.Future[None],
    ) -> None:
        tell = loop.call_soon_threadsafe
        try:
            store = self._open_store()
        except Exception as error:  # noqa: BLE001 - start() raises it
            tell(_settle, [(opened, error), (finished, None)])
            return
        tell(_settle, [(opened, None)])
        try:
            with store:
                while not self._stopping or self._calls or self.weight:
                    calls, waiting = self._take()
                    for call in calls:
                        tell(_settle, [(call.future, _attempt(call.function, store))])
                    if waiting:
                        began = time.perf_counter()
                        tell(_settle, _commit(store, waiting, self._room))
                        took = time.perf_counter() - began
                        self._gathering_s = min(took, _GATHERING_S) if len(waiting) > 1 else 0.0
        finally:
            tell(_settle, [(finished, None)])

    def _take(self) -> tuple[list[_Call], list[_Waiting]]:
        """Wait for work and return it; nothing once stopping."""
        while not (self._calls or self.weight or self._stopping):
            self._asleep.acquire()
        latency_s = max(self._latency_s, self._gathering_s)
        if latency_s:
            self._asleep.acquire(blocking=False)  # only what comes from now on is to wake it
            if not (self._calls or self._stopping or self.weight >= self._commit_limit):
                self._asleep.acquire(timeout=latency_s)
        calls = [self._calls.popleft() for _ in range(len(self._calls))]
        waiting: list[_Waiting] = []
        weight = 0
        for queue in self._queues:
            while queue and (not waiting or weight + queue[0].weight <= self._commit_limit):
                waiting.append(queue.popleft())
                weight += waiting[-1].weight
        self._taken += weight
        return calls, waiting


def _commit(store: Store, waiting: list[_Waiting], room: Room) -> list[_Settled]:
    """Write submissions in one transaction; return each waiter's answer."""
    try:
        batch = [w.submission for w in waiting]
        lacking = room.lacking(store, batch)
        admitted = [
            s if c is None else s._replace(admit=False) for s, c in zip(batch, lacking, strict=True)
        ]
        outcomes = store.commit(admitted)
    except ServiceError as error:
        _LOG.error("transaction_failed", extra={"requests": len(waiting), "reason": str(error)})
    except Exception as error:  # noqa: BLE001 - one bad transaction must not end the thread
        fields = {"requests": len(waiting), "exception": traceback_without_values(error)}
        _LOG.error("transaction_failed", extra=fields)
    else:
        settled: list[_Settled] = []
        for (submission, _, future), of_one, code in zip(waiting, outcomes, lacking, strict=True):
            if code is not None and submission.admit and Outcome.NOT_OPEN in of_one:
                settled.append((future, ServiceError(code)))
            else:
                settled.append((future, of_one))
        return settled
    return [(w.future, ServiceError(Code.STORE_UNAVAILABLE)) for w in waiting]


def _attempt(function: Callable[[Store], Any], store: Store) -> Any:
    """Return function(store), or the exception it raised."""
    try:
        return function(store)
    except Exception as error:  # noqa: BLE001 - its caller gets it
        return error


def _settle(futures: list[_Settled]) -> None:
    """Answer the waiters on the event loop; skip those that are gone."""
    for future, result in futures:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
