"""Work off the event loop: large tasks a few at a time, reads of the store, and group commit.

One thread writes all waiting reports in one transaction and answers their senders. The next
transaction fills while one is written, so that small requests share a flush. Reads have a thread
and a connection of their own, so that they don't wait for writes.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, ParamSpec, TypeVar

from geoveil.aggregator.domain.errors import Code, ServiceError, traceback_without_values
from geoveil.aggregator.domain.reports import ANSWER_BYTES, PackedColumns
from geoveil.aggregator.domain.store_contract import Outcome, Store, Submission

_LOG = logging.getLogger(__name__)
_FEW = 100
"""The largest weight of a submission that goes before larger ones."""
_GATHERING_S = 0.01
"""The longest wait for more requests after a transaction with several, in seconds."""
_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")
Settled = tuple["asyncio.Future[Any]", Any]
"""A future with its result or exception."""


class ConcurrencyLimit(asyncio.Semaphore):
    """Lets `value` large tasks run at once; others wait, which spares memory and the event loop.

    Example:
        >>> asyncio.run(ConcurrencyLimit(2).run(max, 3, 4))
        4
    """

    async def run(
        self,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **more: _Arguments.kwargs,
    ) -> _Result:
        """Run a function in a thread, and return its result or raise its error."""
        async with self:
            return await asyncio.to_thread(function, *arguments, **more)


def settle(futures: Iterable[Settled]) -> None:
    """Deliver results or errors to the waiters on the event loop, except to cancelled ones."""
    for future, result in futures:
        if future.done():
            continue
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


class Reader:
    """Runs functions of a store in sequence, in the thread that opens the store."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reader")
        self._store: Store | None = None

    async def start(self) -> None:
        """Open the store; raises the errors of opening it."""
        loop = asyncio.get_running_loop()
        self._store = await loop.run_in_executor(self._executor, self._open_store)

    async def call(self, function: Callable[[Store], _Result]) -> _Result:
        """Return function(store); raises its errors and ServiceError STOPPING."""
        store = self._store
        if store is None:
            raise ServiceError(Code.STOPPING)
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, store)

    async def stop(self) -> None:
        """Finish the pending calls and close the store; idempotent."""
        store, self._store = self._store, None
        if store is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, store.close)
        self._executor.shutdown(wait=False)


class _Waiting(NamedTuple):
    submission: Submission
    weight: int
    future: asyncio.Future[list[Outcome]]


class _Call(NamedTuple):
    function: Callable[[Store], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Room:
    """Limits on new reports; reports counted before are not affected."""

    quota: int | None = None
    """The most reports of a campaign; None for no limit."""
    least_free: int = 0
    """Bytes that stay free on the disk, if the store knows its disk."""

    def lacking(self, store: Store, batch: Sequence[Submission]) -> list[Code | None]:
        """Return for each submission why its new reports can't be accepted; None if they can."""
        free = store.free_bytes() if self.least_free else None
        if free is not None and free < self.least_free:
            return [Code.DISK_FULL] * len(batch)
        lacking: list[Code | None] = [None] * len(batch)
        if self.quota is not None:
            names = {submission.campaign_id for submission in batch}
            counted = {name: store.get_campaign(name).reports for name in names}
            for at, (name, reports, *_) in enumerate(batch):
                if counted[name] + len(reports) > self.quota:
                    lacking[at] = Code.CAMPAIGN_FULL
                else:
                    counted[name] += len(reports)
        return lacking


class Writer:
    """Makes all changes to the database in a separate thread.

    Args:
        open_store: opens the store; called in that thread.
        queue_limit: the most answers that may wait, half of it for large submissions. An empty
            queue takes any submission.
        commit_limit: the most answers of one transaction, in the same way.
        latency_s: seconds to wait for more before writing; after a transaction with several
            requests, as long as that took, up to ten milliseconds.
        waiting: surrounds the wait for each submission's transaction.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        queue_limit: int,
        commit_limit: int,
        latency_s: float = 0.0,
        room: Room = Room(),
        waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._open_store = open_store
        self._queue_limit = queue_limit
        self._commit_limit = commit_limit
        self._latency_s = latency_s
        self._room = room
        self._waiting = waiting
        # Only the event loop or only the thread writes each of these, except deques: no locks are
        # needed. The thread checks again before it sleeps, and is woken at most once.
        self._asleep = threading.Lock()
        # Small submissions first, so that one report does not wait for ten thousand others.
        self._queues: tuple[deque[_Waiting], deque[_Waiting]] = (deque(), deque())
        self._calls: deque[_Call] = deque()
        self._queued = self._taken = 0
        """The total weights of queued items, counted before they can be taken, and of taken."""
        self._stopping = False
        self._gathering_s = 0.0
        self._finished: asyncio.Future[None] | None = None

    @property
    def weight(self) -> int:
        """The number of answers that wait for writing."""
        taken = self._taken  # read first, since the other can only grow meanwhile
        return self._queued - taken

    async def start(self) -> None:
        """Open the store; raises the errors of opening it."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        self._finished = loop.create_future()
        # A daemon, so that a process that forgets to stop can end; transactions make that safe.
        threading.Thread(
            target=self._run, args=(loop, opened, self._finished), name="writer", daemon=True
        ).start()
        await opened

    async def submit(self, submission: Submission) -> list[Outcome]:
        """Return the outcomes of reports once they are durable.

        Raises:
            ServiceError: QUEUE_FULL or STOPPING, with nothing queued; STORE_UNAVAILABLE, DISK_FULL
                or CAMPAIGN_FULL, with nothing changed.
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
        # Waking the thread for every single request would cost more than writing them all.
        if not before or before < self._commit_limit <= before + weight:
            self._wake()
        with self._waiting():
            return await future

    async def call(self, function: Callable[[Store], _Result]) -> _Result:
        """Return function(store), run in the writer's thread before the waiting submissions."""
        if self._stopping:
            raise ServiceError(Code.STOPPING)
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._calls.append(_Call(function, future))
        self._wake()
        return await future

    async def stop(self) -> None:
        """Refuse new submissions, write the waiting ones, and close the store; idempotent."""
        self._stopping = True
        self._wake()
        if self._finished is not None:
            await asyncio.shield(self._finished)

    def _wake(self) -> None:
        """Let the thread look for work; only the event loop may call this."""
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
            tell(settle, [(opened, error), (finished, None)])
            return
        tell(settle, [(opened, None)])
        try:
            with store:
                while not self._stopping or self._calls or self.weight:
                    calls, waiting = self._take()
                    for call in calls:
                        tell(settle, [(call.future, _attempt(call.function, store))])
                    if waiting:
                        began = time.perf_counter()
                        tell(settle, _commit(store, waiting, self._room))
                        took = time.perf_counter() - began
                        self._gathering_s = min(took, _GATHERING_S) if len(waiting) > 1 else 0.0
        finally:
            tell(settle, [(finished, None)])

    def _take(self) -> tuple[list[_Call], list[_Waiting]]:
        """Wait for work and return it; empty when stopping."""
        while not (self._calls or self.weight or self._stopping):
            self._asleep.acquire()
        latency_s = max(self._latency_s, self._gathering_s)
        if latency_s:
            self._asleep.acquire(blocking=False)  # only later arrivals should wake it
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


def _commit(store: Store, waiting: list[_Waiting], room: Room) -> list[Settled]:
    """Write submissions in one transaction; return each waiter's result."""
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
        settled: list[Settled] = []
        for (submission, _, future), of_one, code in zip(waiting, outcomes, lacking, strict=True):
            if code is not None and submission.admit and Outcome.NOT_OPEN in of_one:
                settled.append((future, ServiceError(code)))
            else:
                settled.append((future, of_one))
        return settled
    return [(w.future, ServiceError(Code.STORE_UNAVAILABLE)) for w in waiting]


def _attempt(function: Callable[[Store], Any], store: Store) -> Any:
    """Return function(store) or its exception."""
    try:
        return function(store)
    except Exception as error:  # noqa: BLE001 - its caller gets it
        return error
