"""What a fork must find: no request under way, and the grpc library whole.

gRPC may crash a child that is forked in the middle of a request. A child has one thread, so it
would wait for ever for a module that another thread of its parent was loading, and for gRPC's lock
if gRPC was being shut down: that takes gRPC up to a third of a second on a thread of its own, from
when its last user is gone. Who forks therefore waits for the requests and for the loading, and is
itself a user of gRPC meanwhile, which waits for the shutting down.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

FORK_GRACE_S = 0.5
"""Seconds that requests under way at a fork have to end by themselves."""
_STUBS = "geoveil.proto.v1.collector_pb2_grpc"
_LOADING = threading.Lock()
_FORKING = threading.local()
_of_parents: list[object] = []
"""What children keep of their parent's, untouched: to destroy it may wait for threads they lack."""
_used = False


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
        """Count a request; wait while the barrier is shut."""
        with self._changed:
            while self._shut:
                self._changed.wait()
            self._inside += 1

    def leave(self) -> None:
        """Note that a request that entered has ended."""
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def shut(self, grace_s: float) -> None:
        """Hold up new requests, and wait until none is under way.

        Args:
            grace_s: seconds that requests have to end by themselves; then they are made to, and
                have as long again.
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


_Client = TypeVar("_Client")
_CLIENTS: "weakref.WeakKeyDictionary[Any, tuple[ForkBarrier, Callable[[Any], None]]]" = (
    weakref.WeakKeyDictionary()
)


def follow_forks(client: _Client, barrier: ForkBarrier, go_on: Callable[[_Client], None]) -> None:
    """Shut a barrier whenever this process forks, as long as its client lives.

    Args:
        client: the owner of the barrier.
        barrier: that its requests pass.
        go_on: called with the client in a child, where threads and connections are the parent's.
    """
    _register()
    _CLIENTS[client] = barrier, go_on


@cache
def _register() -> None:
    """Register what forks do to clients; last, so that it comes before what their parts do."""
    os.register_at_fork(before=_shut_all, after_in_parent=_open_all, after_in_child=_renew_all)


def _shut_all() -> None:
    for barrier, _ in list(_CLIENTS.values()):
        barrier.shut(FORK_GRACE_S)


def _open_all() -> None:
    for barrier, _ in list(_CLIENTS.values()):
        barrier.open()


def _renew_all() -> None:
    for client, (barrier, go_on) in list(_CLIENTS.items()):
        barrier.reset()
        go_on(client)


def is_loaded() -> bool:
    """Return whether `loaded` costs nothing: it takes a tenth of a second of all threads."""
    return _STUBS in sys.modules


def loaded() -> ModuleType:
    """Return grpc, which is loaded here for the first time."""
    with _LOADING:
        import_module(_STUBS)  # what the transports use
        return import_module("grpc")


def hold() -> object:
    """Return a user of gRPC: it is not shut down until that is forgotten. Cheap, no thread."""
    global _used
    _used = True
    return loaded().local_server_credentials()


def leak_on_fork(of_parent: object) -> None:
    """Keep what the parent of this process made, if anything, as long as this process lives."""
    if of_parent is not None:
        _of_parents.append(of_parent)


def _hold_library() -> None:
    if _used:
        _FORKING.held = hold()
    _LOADING.acquire()


def _release_library() -> None:
    _LOADING.release()
    _FORKING.__dict__.clear()


def _leak_library() -> None:
    _LOADING.release()
    leak_on_fork(_FORKING.__dict__.pop("held", None))


os.register_at_fork(
    before=_hold_library, after_in_parent=_release_library, after_in_child=_leak_library
)
