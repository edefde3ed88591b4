"""When to try again: one deadline over all tries, full-jitter exponential back-off between them.

Nothing here waits or looks at a clock of its own.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

RETRYABLE = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
"""Status codes after which a later try may succeed, as OTLP has them. RESOURCE_EXHAUSTED is not
among them: without a hint when to come back, trying again makes it worse."""

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


def _jitter() -> float:
    """Return a uniform number in [0, 1)."""
    return secrets.randbits(53) / (1 << 53)


def _now() -> datetime:
    return datetime.now(UTC)


async def _sleep_async(seconds: float) -> None:
    import asyncio  # here, as an app without asyncio need not load it

    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The client's clocks; tests give their own, so that nothing has to wait."""

    clock: Callable[[], float] = time.monotonic
    """Seconds, never set back; for deadlines."""
    now: Callable[[], datetime] = _now
    """The date and time, with a time zone; for the journal."""
    jitter: Callable[[], float] = _jitter
    """Uniform numbers in [0, 1), to spread the tries of many devices."""
    sleep: Callable[[float], None] = time.sleep
    """Waits for so many seconds."""
    sleep_async: Callable[[float], Awaitable[None]] = _sleep_async
    """The same, for asyncio."""


@dataclass(slots=True)
class Deadline:
    """How much time is left for all tries together."""

    timeout_s: float
    clock: Callable[[], float]
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = self.clock() + self.timeout_s

    def remaining_s(self) -> float:
        """Return the seconds left, at least 0."""
        return max(self._end - self.clock(), 0.0)


def pauses(jitter: Callable[[], float]) -> Iterator[float]:
    """Yield, without end, the seconds to wait after each failed try.

    The k-th is uniform between 0 and min(0.2 · 2^k, 5) seconds: devices that failed together do
    not come back together.

    Example:
        >>> from itertools import islice
        >>> list(islice(pauses(lambda: 0.5), 7))
        [0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5]
    """
    bound = FIRST_PAUSE_S
    while True:
        yield jitter() * bound
        bound = min(2 * bound, LONGEST_PAUSE_S)
