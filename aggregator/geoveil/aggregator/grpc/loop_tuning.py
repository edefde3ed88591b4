"""Tune Python for a process that only serves."""

import asyncio
import ctypes
import gc
import selectors
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SWITCH_S = 0.0005
"""The writer waits so long for a busy event loop, several times a transaction; Python says 5 ms."""
_YOUNG = 10_000
"""New objects before they are looked through; Python's 700 are those of ten calls under way."""

_MMAP_THRESHOLD = -3
_LARGE = 1 << 20
"""Bytes of a piece of memory that goes back to the operating system when it is given back."""
_PATIENCE_S = 0.002
"""Seconds between polls for events during other work, the longest wait of a call."""


@contextmanager
def for_serving() -> Iterator[None]:
    """Exempt existing objects from garbage collection, and let threads switch sooner.

    A scan of a started server's few hundred thousand lasting objects stops calls for tens of ms.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    frozen_before = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *thresholds[1:])
    _return_memory()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
        if not frozen_before:  # there is no way to let go of a part
            gc.unfreeze()


def _return_memory() -> None:
    """Make the C library return large blocks of memory; GNU's would keep them."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


class _Patient(selectors.DefaultSelector):
    """Polls for events only now and then while there is other work."""

    _next = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0 and time.monotonic() < self._next:
            return []
        events = super().select(timeout)
        self._next = time.monotonic() + _PATIENCE_S
        return events


def serving_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for a server under load.

    A call of grpc.aio is a dozen steps; asyncio would poll for events, and release the interpreter
    to the writer's thread, before most of them.
    """
    return asyncio.SelectorEventLoop(_Patient())
