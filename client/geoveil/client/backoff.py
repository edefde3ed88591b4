"""When the background tries again what failed: for one campaign, or for the whole server.

Pauses grow from a second to five minutes with full jitter. What another try can't mend waits the
longest at once: it is looked at again in case the server has been put right, and never hammered.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from geoveil.client.errors import ClientError, TransportError
from geoveil.client.retry import after, pauses

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
        """Forget the failures of a key."""
        self._until.pop(key, None)
        self._pauses.pop(key, None)

    def ready(self, key: str) -> bool:
        """Return whether a key may be tried now, and the server."""
        return all(self._until.get(one, -math.inf) <= self.clock() for one in (key, SERVER))

    def retain(self, keys: Collection[str]) -> None:
        """Forget all but some keys, and the server: nothing waits for the others any more."""
        for key in self._pauses.keys() - keys - {SERVER}:
            self.succeeded(key)

    def next_s(self) -> float | None:
        """Return the seconds until something may be tried again; None if nothing is put off."""
        # While the server is put off, it does not matter that a campaign no longer is.
        keys = self._until.keys() - {SERVER} if self.ready(SERVER) else {SERVER}
        if not keys:
            return None
        return max(min(self._until[key] for key in keys) - self.clock(), 0.0)
