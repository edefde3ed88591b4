"""What the network part does, as steps: the two shells only carry them out.

A step is a function of an `Effects`, which a shell implements with blocking calls or with asyncio.
A generator yields steps and is sent their results; a ClientError is thrown into it. What has to
happen in which order is therefore written once.
"""

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from geoveil.client.errors import TransportError
from geoveil.client.retry import Deadline, after, pauses

_Result = TypeVar("_Result")


class Effects(Protocol):
    """What a shell can do. With asyncio, every result is awaited before it is sent back."""

    @property
    def transport(self) -> Any:
        """A Transport or an AsyncTransport."""
        ...

    @property
    def pause(self) -> Callable[[float], Any]:
        """Waits for so many seconds."""
        ...

    def local(self, work: Callable[[], Any], slow: bool) -> Any:
        """Return work(), which computes or uses the disk; `slow` if for more than a moment."""


Step: TypeAlias = Callable[[Effects], Any]
Steps: TypeAlias = Generator[Step, Any, _Result]
Send: TypeAlias = Callable[[Effects, float], Any]
"""Sends a request and returns the answer within so many seconds."""


def once(send: Send, deadline: Deadline) -> Steps[Any]:
    """Send a request, if there is time left."""
    left = deadline.remaining_s()
    if left <= 0:
        raise TransportError("DEADLINE_EXCEEDED", "no time is left")
    answer = yield lambda io: send(io, left)
    return answer


def until_answered(send: Send, deadline: Deadline, jitter: Callable[[], float]) -> Steps[Any]:
    """Send a request until the server answers, refuses for good, or the time is up."""
    for pause_s in pauses(jitter):
        try:
            return (yield from once(send, deadline))
        except TransportError as error:
            wait_s = after(error, pause_s, jitter)
            if not error.retryable or wait_s >= deadline.remaining_s():
                raise
        yield pause(wait_s)
    raise AssertionError("pauses never end")


def pause(seconds: float) -> Step:
    """Return the step that waits."""
    return lambda io: io.pause(seconds)


def local(work: Callable[[], Any], slow: bool) -> Step:
    """Return the step that computes, or uses the disk."""
    return lambda io: io.local(work, slow)
