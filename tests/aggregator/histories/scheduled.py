"""Writer threads as greenlets of the event loop's thread, which makes them deterministic.

A writer runs until it waits for work, so that of two replicas in one process one commits, then the
other. What the event loop does meanwhile, and when, is the same in every run: a history that failed
fails again, and shrinks.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from greenlet import getcurrent, greenlet

from geoveil.aggregator.domain import threads

from .traps import Death

_TURNS = 2
"""Turns of the event loop that stand for any time that a writer waits at most."""


class _Thread:
    """A `threading.Thread` that runs on the event loop."""

    def __init__(
        self, *, target: Callable[..., None], args: tuple[Any, ...] = (), **_: object
    ) -> None:
        self._target = target
        self._args = args
        self._greenlet = greenlet(self._run)

    def start(self) -> None:
        asyncio.get_running_loop().call_soon(self._greenlet.switch)

    def _run(self) -> None:
        with suppress(Death):
            self._target(*self._args)


class _Lock:
    """A `threading.Lock` that one thread takes, and waits for."""

    def __init__(self) -> None:
        self._waits: greenlet | None = None
        self._locked = self._woken = False

    def locked(self) -> bool:
        return self._locked

    def release(self) -> None:
        self._locked = False
        self._wake()

    def acquire(self, *, blocking: bool = True, timeout: float = -1) -> bool:
        turns = _TURNS
        while self._locked and blocking and turns:
            self._waits = getcurrent()
            if timeout >= 0:
                turns -= 1
                self._wake()
            self._waits.parent.switch()
            self._waits, self._woken = None, False
        free, self._locked = not self._locked, True
        return free

    def _wake(self) -> None:
        if self._waits is not None and not self._woken:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._waits.switch)


@contextmanager
def scheduled() -> Iterator[None]:
    """Let writers run so."""
    scheduling = SimpleNamespace(Thread=_Thread, Lock=_Lock)
    with patch.object(threads, "threading", scheduling):
        yield
