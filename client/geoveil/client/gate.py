"""No request is under way while a process forks: gRPC may crash a child forked in the middle."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from geoveil.client.transport import Transport
from geoveil.proto.v1 import collector_pb2


class Gate:
    """A `Transport` around another that can be shut, and then is empty.

    Args:
        transport: what carries the requests.
        hurry: ends the requests under way, if that is possible.
    """

    def __init__(self, transport: Transport, hurry: Callable[[], None] = lambda: None) -> None:
        self._transport = transport
        self._hurry = hurry
        self.reset()

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        """See `Transport.get_campaign`."""
        with self._passing():
            return self._transport.get_campaign(request, timeout_s)

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        """See `Transport.submit_reports`."""
        with self._passing():
            return self._transport.submit_reports(request, timeout_s)

    def shut(self, grace_s: float) -> None:
        """Hold up new requests, and wait until none is under way.

        Args:
            grace_s: that requests have to end by themselves, in seconds; then they are made to,
                and have as long again.
        """
        with self._changed:
            self._shut = True
            if self._changed.wait_for(self._is_empty, grace_s):
                return
        self._hurry()  # not under the lock, which those that end need
        with self._changed:
            self._changed.wait_for(self._is_empty, grace_s)

    def open(self) -> None:
        """Let requests pass again."""
        with self._changed:
            self._shut = False
            self._changed.notify_all()

    def reset(self) -> None:
        """Begin anew, in a child: the requests and the waiting threads are its parent's."""
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False

    def _is_empty(self) -> bool:
        return self._inside == 0

    @contextmanager
    def _passing(self) -> Iterator[None]:
        changed = self._changed
        with changed:
            changed.wait_for(lambda: not self._shut)
            self._inside += 1
        try:
            yield
        finally:
            with changed:
                self._inside -= 1
                changed.notify_all()
