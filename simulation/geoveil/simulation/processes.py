"""Processes that Ctrl-C, which reaches all of a terminal, does not end: who started them does."""

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def unreached_by_ctrl_c() -> Iterator[None]:
    """Let the processes and threads that are started within the block never see SIGINT.

    This thread sees one that arrives meanwhile at the end of the block, if it is the only one.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where one console is none of theirs
        yield
        return
    resource_tracker.ensure_running()  # it would unblock the signal when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
