"""Run work off the event loop, in small pieces."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


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
