"""The asyncio shell: a client whose background is a task."""

import logging
import os
import weakref
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from geoveil.campaign import Campaign, Value
from geoveil.campaign.connection import TLS
from geoveil.client.contribution import Receipt
from geoveil.client.device_session import Counts
from geoveil.client.errors import ClientClosed, ClientError
from geoveil.client.fork_barrier import ForkBarrier
from geoveil.client.grpc_library import is_loaded
from geoveil.client.grpc_transport import GrpcAioTransport
from geoveil.client.ledger import Budget
from geoveil.client.policy import Policy
from geoveil.client.report_sender import FlushResult
from geoveil.client.retry import Timing, duration
from geoveil.client.setup import (
    CLOSE_TIMEOUT_S,
    FAILED_WAIT_S,
    FORK_GRACE_S,
    MOST_PENDING,
    MOST_PENDING_BYTES,
    MOST_UNQUIET,
    QUIET_S,
    RELEASE_FLOOR_S,
    assemble,
    described,
)
from geoveil.client.steps import Steps
from geoveil.client.transport import AsyncTransport
from geoveil.gp import RandomSource

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class _Awaited:
    """See `Effects`. What is slow has a thread of its own, so that the loop never waits for it."""

    def __init__(
        self, transport: AsyncTransport, pause: Callable[[float], Awaitable[None]]
    ) -> None:
        self.transport = transport
        self.pause = pause
        self.executor: ThreadPoolExecutor | None = None

    async def local(self, work: Callable[[], Any], slow: bool) -> Any:
        if not slow:
            return work()
        import asyncio  # here, as an app without asyncio need not load it
        from concurrent.futures import ThreadPoolExecutor

        if self.executor is None:
            self.executor = ThreadPoolExecutor(1, thread_name_prefix="geoveil-client")
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)


class AsyncClient:
    """See `Client`, which it equals in all but `await`. For one event loop.

    A call that is cancelled leaves the journal as a crash would: the next one goes on from there.
    A forked child goes on with it in a loop of its own. A fork lets the requests under way end
    first, in a second at most, in which the loop stands still.
    """

    _sending: "asyncio.Lock | None"
    _woken: "asyncio.Event | None"
    _task: "asyncio.Task[None] | None"
    _called: bool

    def __init__(
        self,
        target: str = "",
        *,
        policy: Policy,
        state_dir: str | os.PathLike[str] | None = None,
        tls: TLS | None = None,
        timeout_s: float = 10.0,
        background: bool = True,
        most_pending: int = MOST_PENDING,
        most_pending_bytes: int = MOST_PENDING_BYTES,
        transport: AsyncTransport | None = None,
        source: RandomSource | None = None,
        release_floor_s: float = RELEASE_FLOOR_S,
        timing: Timing | None = None,
    ) -> None:
        self._timing = timing or Timing()
        self._timeout_s = duration(timeout_s)
        self._own: GrpcAioTransport | None = None
        if transport is None:
            transport = self._own = GrpcAioTransport(target, tls=tls)
        self._session, self._sender = assemble(
            policy=policy,
            state_dir=state_dir,
            timeout_s=self._timeout_s,
            most_pending=most_pending,
            most_pending_bytes=most_pending_bytes,
            source=source,
            floor_s=release_floor_s,
            timing=self._timing,
        )
        self._slow = self._session.journal.durable or release_floor_s > 0
        self._effects = _Awaited(transport, self._timing.sleep_async)
        self._background = background
        self._closed = False
        self._renew()
        _CLIENTS.add(self)

    async def fetch(self, campaign_id: str, timeout_s: float | None = None) -> Campaign:
        """See `Client.fetch`."""
        return await self._run(self._sender.fetch(campaign_id, self._sender.deadline(timeout_s)))

    async def contribute(self, campaign_id: str, value: Value) -> Receipt:
        """See `Client.contribute`."""
        self._check_open()
        try:
            return await self._local(
                lambda: self._session.contribute(campaign_id, value),
                slow=self._session.is_heavy(campaign_id),
            )
        finally:
            if self._background:
                self._wake()

    async def flush(self, timeout_s: float | None = None) -> FlushResult:
        """See `Client.flush`."""
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
        """See `Client.history`."""
        self._check_open()
        return await self._local(self._session.history)

    async def budgets(self) -> tuple[Budget, ...]:
        """See `Client.budgets`."""
        self._check_open()
        return await self._local(self._session.budgets)

    async def counts(self) -> Counts:
        """See `Client.counts`."""
        self._check_open()
        return await self._local(self._session.counts)

    async def aclose(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """See `Client.close`."""
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _end(self) -> None:
        import asyncio

        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._effects.executor is not None:
            self._effects.executor.shutdown()
        if self._own is not None:
            await self._own.aclose()
        self._session.journal.close()

    def _wake(self) -> None:
        """Let the background look for work; start it at its first."""
        if self._closed:
            return
        import asyncio

        if self._task is None:
            self._woken = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(
                self._in_background(self._woken, self._lock()), name="geoveil-client"
            )
        assert self._woken is not None  # made with the task
        self._woken.set()

    async def _in_background(self, woken: "asyncio.Event", sending: "asyncio.Lock") -> None:
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
                pass  # time to try again what was put off
            woken.clear()
            try:
                async with sending:
                    wait_s = await self._run(self._sender.work())
            except ClientClosed:
                return
            except Exception as error:  # noqa: BLE001 - a task of a host must not end with a trace
                _LOG.warning("the background failed: %s", described(error))
                wait_s = FAILED_WAIT_S

    def _lock(self) -> "asyncio.Lock":
        import asyncio

        if self._sending is None:
            self._sending = asyncio.Lock()
        return self._sending

    def _renew(self) -> None:
        """Make what belongs to one process and its loop."""
        self._sending = None
        self._woken = None
        self._task = None

    def _forked(self) -> None:
        """Go on in a child: the loop, the thread and the connections are the parent's."""
        self._renew()
        self._effects.executor = None
        if self._own is not None:
            self._own.forget()

    def _check_open(self) -> None:
        self._called = True
        if self._closed:
            raise ClientClosed

    async def _local(self, work: Callable[[], _Result], *, slow: bool = False) -> _Result:
        result: _Result = await self._effects.local(work, self._slow or slow)
        return result

    async def _run(self, steps: Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while not self._closed:
                try:
                    result = await step(self._effects)
                except ClientError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
            raise ClientClosed
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # what the steps return
        finally:
            steps.close()


_CLIENTS: "weakref.WeakSet[AsyncClient]" = weakref.WeakSet()


def _barriers() -> list[ForkBarrier]:
    return [client._own.barrier for client in list(_CLIENTS) if client._own is not None]


def _before_fork() -> None:
    for barrier in _barriers():
        barrier.shut(FORK_GRACE_S)


def _after_fork_in_parent() -> None:
    for barrier in _barriers():
        barrier.open()


def _after_fork_in_child() -> None:
    for client in list(_CLIENTS):
        client._forked()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
