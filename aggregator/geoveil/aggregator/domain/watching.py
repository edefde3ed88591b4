"""Estimates that follow the reports, by polling, since any replica may count them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from geoveil.aggregator.domain.campaign_cache import CampaignStatus
from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.campaign import State
from geoveil.gp import validation

_Shown = TypeVar("_Shown")


class PollTimer:
    """Waits between polls with `sleep`, in seconds, until `stop` is called."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End all waits with STOPPING; idempotent."""
        self._stopped.set()

    async def wait(self, seconds: float) -> None:
        """Wait; ServiceError STOPPING once `stop` has been called."""
        waits = [
            asyncio.ensure_future(self._stopped.wait()),
            asyncio.ensure_future(self._sleep(seconds)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in waits:
                waiting.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if self._stopped.is_set():
            raise ServiceError(Code.STOPPING)


async def watch(
    look: Callable[[], Awaitable[CampaignStatus]],
    show: Callable[[], Awaitable[_Shown]],
    pace: PollTimer,
    interval_s: float,
) -> AsyncIterator[_Shown]:
    """Yield `show()` whenever the result of the cheap `look()` has changed; see `Service.watch`.

    It yields nothing while there are too few reports, and ends when the campaign closes.
    """
    validation.between("interval", interval_s, 1, 3600)
    seen: tuple[int, State] | None = None
    while True:
        status = await look()
        now = (status.record.reports, status.state)
        if now != seen:
            seen = now
            try:
                shown = await show()
            except ServiceError as error:
                if error.code is not Code.TOO_FEW_REPORTS or status.state is State.CLOSED:
                    raise
            else:
                yield shown
        if status.state is State.CLOSED:
            return
        await pace.wait(interval_s)
