"""Processes that Ctrl-C, which reaches all of a terminal, does not end: who started them does."""

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def unreached_by_ctrl_c() -> Iterator[None]:
    """Let the processes and threads that are started within the block never see SIGINT.

    This thread, if it is the main one, sees what arrives meanwhile at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where one console is none of theirs
        yield
        return
    resource_tracker.ensure_running()  # it would unblock the signal when it is started
    with _put_off():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _put_off() -> Iterator[None]:
    """Put SIGINT off until the end of the block, also if another thread takes it.

    One that draws progress does; Python handles it in the main thread then, perhaps in the midst of
    starting a process, which is left with half of its task.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived = threading.Event()
    handler = signal.signal(signal.SIGINT, lambda *_: arrived.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived.is_set():
            signal.raise_signal(signal.SIGINT)


@contextmanager
def killed_on_error() -> Iterator[None]:
    """Kill the processes that the block has started if it ends with an error, Ctrl-C included."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
        raise
