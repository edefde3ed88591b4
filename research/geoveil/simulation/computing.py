"""Compute the parts of a job in this process, in several processes, or on a Dask cluster."""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, Protocol, TypeVar

from geoveil.gp import GeoVeilError, ParameterError, needed_for, validation


@contextmanager
def unreached_by_ctrl_c() -> Iterator[None]:
    """Hide SIGINT from processes and threads that the block starts; delay it for this process."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start would unblock the signal
    # Another thread, such as one that draws progress, may still receive the signal. Python then
    # handles it in the main thread, perhaps while that is starting a process.
    main = threading.current_thread() is threading.main_thread()
    arrived = threading.Event()
    handler = signal.signal(signal.SIGINT, lambda *_: arrived.set()) if main else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if main:
            signal.signal(signal.SIGINT, handler)
            if arrived.is_set():
                signal.raise_signal(signal.SIGINT)


@contextmanager
def killed_on_error() -> Iterator[None]:
    """Kill the block's processes if it ends with an error, including Ctrl-C."""
    before = set(multiprocessing.active_children())
    try:
        yield
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
        raise


Part = TypeVar("Part")
Result = TypeVar("Result")


class Computer(Protocol):
    """Applies a function to the parts of a job."""

    def __call__(
        self, function: Callable[[Part], Result], parts: Sequence[Part], /
    ) -> Iterator[tuple[Part, Result]]:
        """Yield each part with its result, in any order; workers import the function by name."""
        ...


_WINDOW = 1_000
"""The most parts under way: enough for hundreds of workers, and few for a scheduler."""
_RETRIES = 3
"""How often a part is retried after its worker dies."""
_WORKER_BYTES = 3 << 29
"""The memory limit of a local worker, 1.5 GiB, several times what it needs."""
_CONNECT_S = 10


class ClusterError(GeoVeilError):
    """The Dask cluster can't be reached, or failed."""


def in_this_process(
    function: Callable[[Part], Result], parts: Sequence[Part], /
) -> Iterator[tuple[Part, Result]]:
    """Compute the parts in sequence."""
    for part in parts:
        yield part, function(part)


@dataclass(frozen=True, slots=True)
class Processes:
    """A `Computer` of local processes, which end after the last part; 1 means this process."""

    count: int

    def __post_init__(self) -> None:
        validation.require_count("processes", self.count)

    def __call__(
        self, function: Callable[[Part], Result], parts: Sequence[Part], /
    ) -> Iterator[tuple[Part, Result]]:
        if self.count == 1 or len(parts) < 2:
            yield from in_this_process(function, parts)
            return
        # Not a fork, since the parent may have threads.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.count, mp_context=context) as pool, killed_on_error():
            with unreached_by_ctrl_c():
                futures = {pool.submit(function, part): part for part in parts}
            for future in as_completed(futures):
                yield futures[future], future.result()


@contextmanager
def computer(scheduler: str | None, workers: int | None) -> Iterator[Computer]:
    """Open a Dask cluster within a `with` block.

    Workers on this machine start afresh, so a script must guard its entry point with
    `if __name__ == "__main__"`.

    Args:
        scheduler: its address, for example "tcp://10.0.0.5:8786"; its workers need this version
            of geoveil. None starts workers on this machine.
        workers: how many to start on this machine; one per core if None.

    Raises:
        ParameterError: if both are given, or there are no workers.
        UnsupportedError: if Dask is not installed.
        ClusterError: if the scheduler does not answer; within the block, if its workers fail.
    """
    if workers is not None:
        if scheduler is not None:
            raise ParameterError("workers", workers, "left out if a scheduler is given")
        validation.require_count("workers", workers, 1, 1024)
    with needed_for("a cluster"):
        import distributed
    from distributed.utils import silence_logging_cmgr

    # It logs a traceback for each closed connection, even after a normal end.
    logging.getLogger("distributed.batched").setLevel(logging.WARNING)
    with ExitStack() as ended, ExitStack() as stack:
        cluster: Any = None
        if scheduler is None:
            cluster = stack.enter_context(_started(workers or len(os.sched_getaffinity(0))))
        try:
            client = distributed.Client(cluster or scheduler, timeout=_CONNECT_S)
        except (OSError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler answers at {scheduler}") from error
        stack.enter_context(client)
        try:
            yield partial(_computed, client)
        finally:
            # Dask logs each message that ended workers would have received.
            ended.enter_context(silence_logging_cmgr(logging.CRITICAL + 1))
            # On request, workers would first finish their computation, which takes seconds; on a
            # busy machine Dask gives up on them, with an error that would hide the results.
            for nanny in cluster.workers.values() if cluster else ():
                nanny.close_gracefully()  # otherwise it would start another worker
                if nanny.pid is not None:
                    os.kill(nanny.pid, signal.SIGKILL)


def _started(workers: int) -> Any:
    from distributed import LocalCluster

    try:
        with unreached_by_ctrl_c():
            return LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=_WORKER_BYTES,
                dashboard_address="127.0.0.1:0",  # a free port on this machine only
            )
    except (OSError, RuntimeError) as error:
        raise ClusterError(f"the workers did not start: {error}") from error


def _computed(
    client: Any, function: Callable[[Part], Result], parts: Sequence[Part], /
) -> Iterator[tuple[Part, Result]]:
    from distributed import CancelledError, KilledWorker, as_completed
    from distributed.comm.core import CommClosedError

    waiting = iter(parts)

    def submit(part: Part) -> Any:
        return client.submit(_applied, shared, part, pure=False, retries=_RETRIES)

    try:
        # Data that every part needs, such as the population, is a task of its own: each worker
        # fetches it once, and if a worker dies with the only copy, Dask computes it again, which
        # it does not do for scattered data.
        shared = client.submit(_itself, function, pure=False, retries=_RETRIES)
        # Name the client, since another one may have become the default meanwhile.
        first = map(submit, islice(waiting, _WINDOW))
        under_way = as_completed(first, loop=client.loop, with_results=True)
        for _, result in under_way:
            for following in islice(waiting, 1):
                under_way.add(submit(following))
            yield result
    except (CancelledError, CommClosedError, KilledWorker, TimeoutError) as error:
        raise ClusterError(f"the workers failed: {error}") from error


def _itself(function: Callable[[Part], Result]) -> Callable[[Part], Result]:
    return function


def _applied(function: Callable[[Part], Result], part: Part) -> tuple[Part, Result]:
    return part, function(part)
