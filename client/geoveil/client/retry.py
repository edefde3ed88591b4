"""When to try again: one deadline over all tries, full-jitter exponential back-off between them.

    for pause_s in pauses(timing.jitter):
        try:
            return transport.submit_reports(request, deadline.remaining_s())
        except TransportError as error:
            wait_s = after(error, pause_s, timing.jitter)
            if not error.retryable or wait_s >= deadline.remaining_s():
                raise
        timing.sleep(wait_s)

Nothing here waits or looks at a clock of its own.
"""

import math
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from geoveil.client.errors import ClientError, ParameterError, TransportError
from geoveil.gp.validation import between

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
_LONGEST_TIMEOUT_S = 86_400.0


def _jitter() -> float:
    """Return a uniform number in [0, 1)."""
    return secrets.randbits(53) / (1 << 53)


async def _sleep_async(seconds: float) -> None:
    import asyncio  # here, as an app without asyncio need not load it

    await asyncio.sleep(seconds)


_NOW = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The client's clocks; tests give their own, so that nothing has to wait."""

    clock: Callable[[], float] = time.monotonic
    """Seconds, never set back; for deadlines."""
    now: Callable[[], datetime] = _NOW
    """The date and time, with a time zone; for the journal."""
    jitter: Callable[[], float] = _jitter
    """Uniform numbers in [0, 1), to spread the tries of many devices."""
    sleep: Callable[[float], None] = time.sleep
    """Waits for so many seconds."""
    sleep_async: Callable[[float], Awaitable[None]] = _sleep_async
    """The same, for asyncio."""


def duration(timeout_s: float, *, zero: bool = False) -> float:
    """Return a timeout, in seconds, of a day at most; 0 only if that is permitted."""
    return between("timeout_s", timeout_s, 0, _LONGEST_TIMEOUT_S, low_open=not zero)


class Deadline:
    """How much time is left, of so many seconds from now, for all tries together."""

    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = clock() + timeout_s

    def remaining_s(self) -> float:
        """Return the seconds left, at least 0."""
        return max(self._end - self._clock(), 0.0)


def pauses(
    jitter: Callable[[], float],
    first_s: float = FIRST_PAUSE_S,
    longest_s: float = LONGEST_PAUSE_S,
) -> Iterator[float]:
    """Return, without end, the seconds to wait after each failed try; see also `after`.

    The k-th is uniform between 0 and min(first_s · 2^k, longest_s): devices that failed together
    do not come back together.

    Args:
        jitter: uniform numbers in [0, 1).
        first_s: the most that the first may be, in seconds.
        longest_s: the most that any may be, in seconds.

    Raises:
        ParameterError: unless 0 < first_s ≤ longest_s < ∞.

    Example:
        >>> from itertools import islice
        >>> list(islice(pauses(lambda: 0.5), 7))
        [0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5]
    """
    if not first_s > 0:
        raise ParameterError("first_s", first_s, "seconds > 0")
    if not first_s <= longest_s < math.inf:
        raise ParameterError("longest_s", longest_s, f"finite seconds ≥ first_s={first_s}")
    return _pauses(jitter, first_s, longest_s)


def _pauses(jitter: Callable[[], float], bound: float, longest: float) -> Iterator[float]:
    while True:
        yield jitter() * bound
        bound = min(2 * bound, longest)


def after(error: TransportError, pause_s: float, jitter: Callable[[], float]) -> float:
    """Return the seconds to wait after an error: the pause, and what the server asks for.

    What it asks for is lengthened by up to as much again, so that devices sent away together do
    not come back together.

    Args:
        error: of the last try.
        pause_s: from `pauses`.
        jitter: uniform numbers in [0, 1).

    Example:
        >>> after(TransportError("UNAVAILABLE"), 0.1, lambda: 0.5)
        0.1
        >>> after(TransportError("UNAVAILABLE", retry_after_s=2.0), 0.1, lambda: 0.5)
        3.1
    """
    if error.retry_after_s is None:
        return pause_s
    return pause_s + error.retry_after_s * (1 + jitter())


FIRST_S = 1.0
LONGEST_S = 300.0
SERVER = ""
"""The key of what concerns every campaign; no campaign has this id."""
_OF_SERVER = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNAUTHENTICATED"})


def concerns(error: ClientError, campaign_id: str) -> str:
    """Return the key of what an error with a campaign puts off."""
    of_server = isinstance(error, TransportError) and error.code in _OF_SERVER
    return SERVER if of_server else campaign_id


@dataclass(slots=True)
class Backoff:
    """Remembers what is put off, and until when."""

    clock: Callable[[], float]
    """Seconds, never set back."""
    jitter: Callable[[], float]
    """Uniform numbers in [0, 1)."""
    first_s: float = FIRST_S
    """The most that the first pause may be."""
    longest_s: float = LONGEST_S
    """The most that any may be."""
    hopeless_s: float = LONGEST_S
    """After what another try can't mend."""
    _until: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, Iterator[float]] = field(default_factory=dict)

    def failed(self, key: str, error: ClientError) -> bool:
        """Put a key off; return whether this is its first failure after a success."""
        first = key not in self._pauses
        upcoming = self._pauses.setdefault(key, pauses(self.jitter, self.first_s, self.longest_s))
        wait_s = next(upcoming)
        if not isinstance(error, TransportError):
            wait_s = self.hopeless_s
        else:
            wait_s = after(error, wait_s if error.retryable else self.hopeless_s, self.jitter)
        self._until[key] = self.clock() + wait_s
        return first

    def succeeded(self, key: str) -> None:
        """Forget the failures of a key, and of the server, which has answered."""
        for one in (key, SERVER):
            self._until.pop(one, None)
            self._pauses.pop(one, None)

    def ready(self, key: str) -> bool:
        """Return whether a key may be tried now, and the server."""
        until = max(self._until.get(key, -math.inf), self._until.get(SERVER, -math.inf))
        return until <= self.clock()

    def retain(self, keys: Collection[str]) -> None:
        """Forget all but some keys, and the server: nothing waits for the others any more."""
        for key in self._pauses.keys() - keys - {SERVER}:
            del self._pauses[key], self._until[key]

    def next_s(self) -> float | None:
        """Return the seconds until something may be tried again; None if nothing is put off."""
        # While the server is put off, it does not matter that a campaign no longer is.
        keys = self._until.keys() - {SERVER} if self.ready(SERVER) else {SERVER}
        if not keys:
            return None
        return max(min(self._until[key] for key in keys) - self.clock(), 0.0)
