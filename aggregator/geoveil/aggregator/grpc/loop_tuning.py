"""Tune Python for a server process."""

import asyncio
import ctypes
import gc
import selectors
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SWITCH_S = 0.0005
"""The writer's wait for a busy event loop, several times per transaction; by default 5 ms."""
_YOUNG = 10_000
"""New objects before a collection; Python's default of 700 is reached by ten calls under way."""

_MMAP_THRESHOLD = -3
_LARGE = 1 << 20
"""Freed blocks of at least this many bytes return to the operating system."""
_PATIENCE_S = 0.002
"""Seconds between polls for events during other work, and so the longest wait of a call."""


@contextmanager
def for_serving() -> Iterator[None]:
    """Exempt existing objects from garbage collection, and let threads switch sooner.

    A scan of a server's few hundred thousand permanent objects stops all calls for tens of ms.
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
        if not frozen_before:  # freezing can't be undone in part
            gc.unfreeze()


def _return_memory() -> None:
    """Make the C library return large blocks of memory, which GNU's keeps by default."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


class _Patient(selectors.DefaultSelector):
    """Polls for events only occasionally while there is other work."""

    _next = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0 and time.monotonic() < self._next:
            return []
        events = super().select(timeout)
        self._next = time.monotonic() + _PATIENCE_S
        return events


def serving_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for a server under load.

    A grpc.aio call takes a dozen steps. Before most of them asyncio would poll for events and
    release the interpreter to the writer's thread.
    """
    return asyncio.SelectorEventLoop(_Patient())
