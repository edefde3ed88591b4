"""Timing in one process: every contestant in turn, several rounds, medians."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.table import Table


def medians(contestants: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Return the median seconds of each contestant, run in turn so that drift hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    gc.collect()
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def show(title: str, unit: str, scale: float, times: Mapping[str, float], reference: str) -> None:
    """Print medians and their ratio to the reference."""
    table = Table("", unit, f"ratio to {reference}", title=title, title_justify="left")
    for name, seconds in times.items():
        table.add_row(name, f"{seconds * scale:,.1f}", f"{seconds / times[reference]:.2f}")
    Console().print(table)
