"""The console's worker threads: a few, with short queues, beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from geoveil.console.http import Lane, RefusedError

_THREADS = {Lane.QUICK: 4, Lane.WORK: 1, Lane.PLAN: 16}
_MOST_WAITING = {Lane.QUICK: 200, Lane.WORK: 20, Lane.PLAN: 40}
_Result = TypeVar("_Result")


class Workers:
    """Makes pages in lanes that do not block each other."""

    def __init__(self) -> None:
        self._pools = {
            lane: ThreadPoolExecutor(threads, f"console-{lane.value}")
            for lane, threads in _THREADS.items()
        }
        self._waiting = dict.fromkeys(Lane, 0)

    async def run(self, lane: Lane, function: Callable[[], _Result]) -> _Result:
        """Return a function's result, or raise its error.

        Args:
            function: runs on a thread of the lane.

        Raises:
            RefusedError: with status 503, if too many calls already wait.
        """
        if self._waiting[lane] >= _MOST_WAITING[lane]:
            raise RefusedError(503, "the console is busy: try again in a moment")
        self._waiting[lane] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pools[lane], function)
        finally:
            self._waiting[lane] -= 1

    def close(self) -> None:
        """Start no more calls."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
