"""The asyncio shell around `Session`."""

import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from geoveil.campaign import Value
from geoveil.client.contribution import Receipt
from geoveil.client.errors import ClientClosed, TransportError
from geoveil.client.grpc_transport import GrpcAioTransport
from geoveil.client.policy import Policy
from geoveil.client.retry import Timing
from geoveil.client.session import FlushResult, Session, Steps
from geoveil.client.transport import TLS, AsyncTransport
from geoveil.gp import RandomSource

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

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
    Let calls end before `aclose`.
    """

    def __init__(
        self,
        target: str = "",
        *,
        policy: Policy,
        state_dir: str | os.PathLike[str] | None = None,
        tls: TLS | None = None,
        timeout_s: float = 10.0,
        transport: AsyncTransport | None = None,
        source: RandomSource | None = None,
        release_floor_s: float | None = None,
        timing: Timing | None = None,
    ) -> None:
        timing = timing or Timing()
        self._own: GrpcAioTransport | None = None
        if transport is None:
            transport = self._own = GrpcAioTransport(target, tls=tls)
        self._session = Session(
            policy=policy,
            state_dir=state_dir,
            timeout_s=timeout_s,
            source=source,
            floor_s=release_floor_s,
            timing=timing,
        )
        self._effects = _Awaited(transport, timing.sleep_async)
        self._closed = False

    async def contribute(self, campaign_id: str, value: Value) -> Receipt:
        """See `Client.contribute`."""
        return await self._run(self._session.contribute(campaign_id, value))

    async def flush(self) -> FlushResult:
        """See `Client.flush`."""
        return await self._run(self._session.flush())

    async def aclose(self) -> None:
        """See `Client.close`."""
        self._closed = True
        if self._effects.executor is not None:
            self._effects.executor.shutdown()
        if self._own is not None:
            await self._own.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _run(self, steps: Steps[_Result]) -> _Result:
        try:
            step = next(steps)
            while not self._closed:
                try:
                    result = await step(self._effects)
                except TransportError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
            raise ClientClosed
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # what the steps return
        finally:
            steps.close()
