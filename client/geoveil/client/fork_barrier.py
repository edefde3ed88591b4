"""No request is under way while a process forks: gRPC may crash a child forked in the middle."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from geoveil.client.transport import Transport
from geoveil.proto.v1 import collector_pb2


class ForkBarrier:
    """Counts the requests under way, and can be shut until there are none. Shared by threads.

    Args:
        hurry: ends the requests under way, if that is possible.
    """

    _changed: threading.Condition
    _inside: int
    _shut: int

    def __init__(self, hurry: Callable[[], None] = lambda: None) -> None:
        self._hurry = hurry
        self.reset()

    def enter(self) -> None:
        """Count a request; wait while it is shut."""
        with self._changed:
            self._changed.wait_for(lambda: not self._shut)
            self._inside += 1

    def leave(self) -> None:
        """Note that a request that entered has ended."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Enter, and leave afterwards."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def shut(self, grace_s: float) -> None:
        """Hold up new requests, and wait until none is under way.

        Args:
            grace_s: that requests have to end by themselves, in seconds; then they are made to,
                and have as long again.
        """
        with self._changed:
            self._shut += 1
            if self._changed.wait_for(self._is_empty, grace_s):
                return
        self._hurry()  # not under the lock, which those that end need
        with self._changed:
            self._changed.wait_for(self._is_empty, grace_s)

    def open(self) -> None:
        """Let requests pass again, once it was opened as often as it was shut."""
        with self._changed:
            self._shut = max(0, self._shut - 1)  # it may have been made in between
            self._changed.notify_all()

    def reset(self) -> None:
        """Begin anew, in a child: the requests and the waiting threads are its parent's."""
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = 0

    def _is_empty(self) -> bool:
        return self._inside == 0


class BarrieredTransport:
    """A `Transport` whose requests pass a barrier."""

    def __init__(self, transport: Transport, barrier: ForkBarrier) -> None:
        self._transport = transport
        self._barrier = barrier

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        with self._barrier.passing():
            return self._transport.get_campaign(request, timeout_s)

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        with self._barrier.passing():
            return self._transport.submit_reports(request, timeout_s)
