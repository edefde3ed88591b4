"""Reads of the database in a separate thread and connection, so that they don't wait for writes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.store_contract import Store

_Result = TypeVar("_Result")


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
