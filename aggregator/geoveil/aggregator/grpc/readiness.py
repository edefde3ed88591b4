"""Whether the server can count reports now, which is what its health says."""

import asyncio
from collections.abc import Awaitable, Callable

from geoveil.aggregator.domain.errors import ServiceError
from geoveil.aggregator.store.writer import Writer

_PATIENCE_S = 5.0
"""Beyond the time that the database itself may wait for another process."""


class Readiness:
    """Tries the database again and again, and tells what came of it.

    A transaction that fails is told at once; the next try, which may tell that all is well again,
    comes after the interval.

    Args:
        probe: returns whether the database can be used.
        tell: given whether the server is ready, whenever that was looked at.
        interval_s: between two tries, in seconds.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[bool]],
        tell: Callable[[bool], object],
        interval_s: float,
    ) -> None:
        self._probe = probe
        self._tell = tell
        self._interval_s = interval_s
        self._failed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="readiness")

    async def stop(self) -> None:
        """Tell nothing more; idempotent."""
        self._loop = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def commit_failed(self) -> None:
        """Say that a transaction failed; from any thread."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._failed.set)

    async def _run(self) -> None:
        while True:
            self._tell(await self._probe())
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._failed.wait()
            except TimeoutError:
                continue
            self._failed.clear()
            self._tell(False)
            await asyncio.sleep(self._interval_s)


async def writable(writer: Writer, busy_timeout_s: float) -> bool:
    """Return whether the writer's database takes transactions, within a time that bounds it.

    Reads are not tried: the one who reads may be busy with an estimate, which is no failure.
    """
    try:
        async with asyncio.timeout(busy_timeout_s + _PATIENCE_S):
            await writer.call(lambda store: store.probe())
    except (ServiceError, TimeoutError):
        return False
    return True
