"""Timing in one process: every contestant in turn, several rounds, medians."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table


def medians(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each contestant, run in turn so that drift hits all alike.

    Args:
        contestants: what to run.
        rounds: how often to run each, after once that is not counted.
        clock: seconds; `time.process_time` where other processes are busy.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    gc.collect()
    for _ in range(rounds):
        for name, run in contestants.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def show(title: str, unit: str, scale: float, times: Mapping[str, float], reference: str) -> None:
    """Print medians and their ratio to the reference."""
    table = Table("", unit, f"ratio to {reference}", title=title, title_justify="left")
    for name, seconds in times.items():
        table.add_row(name, f"{seconds * scale:,.1f}", f"{seconds / times[reference]:.2f}")
    Console().print(table)
