"""The grpc library as one process has it: loaded once, in use, and whole in forked children.

A child has one thread. It would wait for ever for a module that another thread of its parent was
loading, and for gRPC's lock if gRPC was being shut down: that takes gRPC up to a third of a second
on a thread of its own, from when its last user is gone. Who forks therefore waits for the one, and
is itself a user of gRPC meanwhile, which waits for the other.
"""

import os
import sys
import threading
from importlib import import_module
from types import ModuleType

_STUBS = "geoveil.proto.v1.collector_pb2_grpc"
_LOADING = threading.Lock()
_of_parents: list[object] = []
"""What children keep of their parent's, untouched: to destroy it may wait for threads they lack."""
_used = False
_FORKING = threading.local()


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


def _before_fork() -> None:
    if _used:
        _FORKING.held = hold()
    _LOADING.acquire()


def _after_fork_in_parent() -> None:
    _LOADING.release()
    _FORKING.__dict__.clear()


def _after_fork_in_child() -> None:
    _LOADING.release()
    leak_on_fork(_FORKING.__dict__.pop("held", None))


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
