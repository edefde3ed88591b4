"""The asyncio shell: a client whose background is a task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from geoveil.campaign import Answers, Campaign, Value
from geoveil.client.contributions import Receipt
from geoveil.client.device_session import (
    CLOSE_TIMEOUT_S,
    ReportCounts,
    duration,
)
from geoveil.client.errors import ClientClosed, ClientError
from geoveil.client.ledger import Budget
from geoveil.client.report_sender import (
    FAILED_WAIT_S,
    MOST_UNQUIET,
    QUIET_S,
    FlushResult,
    Local,
    Pause,
    Step,
    Steps,
    described,
)
from geoveil.client.sync_client import ClientBase
from geoveil.client.transport import (
    AsyncTransport,
    GrpcAioTransport,
    is_loaded,
)

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class AsyncClient(ClientBase[AsyncTransport, GrpcAioTransport]):
    """Contributes values to campaigns from one event loop: a `Client` with `await`.

    A cancelled call leaves the journal like a crash: the next call continues from there. A forked
    child works in its own loop; a fork first waits up to a second for requests under way.

    Args:
        target: the collector's address; this and the other arguments are those of `Client`.
        transport: used instead of gRPC to `target`; `aclose` leaves it open.
    """

    _kind = GrpcAioTransport

    def _renew(self) -> None:
        self._slow = self._session.journal.durable or self._session.floor_s > 0
        self._sending: asyncio.Lock | None = None
        self._woken: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._called = False

    async def fetch(self, campaign_id: str, timeout_s: float | None = None) -> Campaign:
        """Fetch a campaign from the server, check it, and store it for `contribute`."""
        return await self._run(self._sender.fetch(campaign_id, self._sender.deadline(timeout_s)))

    async def contribute(self, campaign_id: str, value: Value | Answers) -> Receipt:
        """Perturb a value, once per campaign and period, and store the result for sending."""
        self._check_open()
        try:
            return await self._local(
                partial(self._session.contribute, campaign_id, value),
                self._slow or self._session.is_heavy(campaign_id),
            )
        finally:
            if self._background:
                self._wake()

    async def flush(self, timeout_s: float | None = None) -> FlushResult:
        """Send the waiting reports, and return their outcome."""
        import asyncio

        self._check_open()
        deadline = self._sender.deadline(timeout_s)
        sending = self._lock()
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await sending.acquire()
        except TimeoutError:
            return FlushResult(acknowledged=0, rejected=0, pending=(await self.counts()).pending)
        try:
            return await self._run(self._sender.flush(deadline))
        finally:
            sending.release()

    async def history(self) -> tuple[Receipt, ...]:
        """Return all reports of this person, sent or not; nothing else leaves the device."""
        self._check_open()
        return await self._local(self._session.history, self._slow)

    async def budgets(self) -> tuple[Budget, ...]:
        """Return the policy's limits over all campaigns with their spent parts."""
        self._check_open()
        return await self._local(self._session.budgets, self._slow)

    async def counts(self) -> ReportCounts:
        """Return the numbers of waiting, acknowledged, rejected, given up, and refused reports."""
        self._check_open()
        return await self._local(self._session.counts, self._slow)

    async def aclose(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send the waiting reports for at most `timeout_s` seconds, and close; idempotent."""
        timeout_s = duration(timeout_s, zero=True)
        if self._closed:
            return
        try:
            if timeout_s and (await self.counts()).pending:
                await self.flush(timeout_s)
        except ClientError as error:
            _LOG.warning("closing: %s", error)
        finally:
            await self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _end(self) -> None:
        import asyncio

        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._executor is not None:
            self._executor.shutdown()
        if self._own is not None:
            await self._own.aclose()
        self._session.journal.close()

    def _wake(self) -> None:
        """Let the background look for work; start it if necessary."""
        if self._closed:
            return
        import asyncio

        if self._task is None:
            self._woken = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(
                self._in_background(self._woken, self._lock()), name="geoveil-client"
            )
        assert self._woken is not None  # created with the task
        self._woken.set()

    async def _in_background(self, woken: asyncio.Event, sending: asyncio.Lock) -> None:
        import asyncio

        for _ in range(0 if self._own is None or is_loaded() else MOST_UNQUIET):
            self._called = False
            await asyncio.sleep(QUIET_S)
            if not self._called:
                break
        wait_s: float | None = 0.0
        while True:
            try:
                async with asyncio.timeout(wait_s):
                    await woken.wait()
            except TimeoutError:
                pass  # time to retry delayed work
            woken.clear()
            try:
                async with sending:
                    wait_s = await self._run(self._sender.work())
            except ClientClosed:
                return
            except Exception as error:  # noqa: BLE001 - a task of a host must not end with a trace
                _LOG.warning("the background failed: %s", described(error))
                wait_s = FAILED_WAIT_S

    def _lock(self) -> asyncio.Lock:
        import asyncio

        if self._sending is None:
            self._sending = asyncio.Lock()
        return self._sending

    def _check_open(self) -> None:
        self._called = True
        if self._closed:
            raise ClientClosed

    async def _local(self, work: Callable[[], _Result], slow: bool) -> _Result:
        """Return work(); slow work runs in a thread, so that the loop never waits for it."""
        if not slow:
            return work()
        import asyncio  # here, since apps without asyncio need not load it
        from concurrent.futures import ThreadPoolExecutor

        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="geoveil-client")
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def _run(self, steps: Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while not self._closed:
                try:
                    result = await self._take(step)
                except ClientError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
            raise ClientClosed
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # what the steps return
        finally:
            steps.close()

    async def _take(self, step: Step) -> Any:
        if isinstance(step, Local):
            return await self._local(step.work, step.slow)
        if isinstance(step, Pause):
            return await self._session.timing.sleep_async(step.seconds)
        return await getattr(self._transport, step.method)(step.message, step.timeout_s)
