"""Run work off the event loop, in small pieces, and deliver its outcomes to the waiters."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
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
