"""Timing in one process: every contestant in turn, several rounds."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of a table: a measurement, with its reference in the same run."""

    table: str
    row: str
    unit: str
    value: float
    reference: str
    ratio: float
    """Ratio to the reference, which can be compared between runs and machines."""


def seconds_of(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 7,
    clock: Callable[[], float] = time.process_time,
    of: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Return the seconds of each contestant, run in turn so that drift affects all alike.

    Args:
        contestants: functions to run, by name.
        rounds: how often to run each, after one run that is not counted.
        clock: returns seconds; of processor time by default, as other processes may be busy;
            use `time.perf_counter` where other processes do the work.
        of: the median, or `min`, as busy processes only add time.
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
    return {name: of(times) for name, times in seconds.items()}


def show(
    title: str, unit: str, scale: float, times: Mapping[str, float], reference: str
) -> list[Figure]:
    """Print numbers and their ratio to the reference, and return them.

    Args:
        unit: unit of the scaled numbers.
        scale: factor by which numbers are multiplied.
        times: numbers by name, such as seconds.
        reference: name of the one by which the others are divided.
    """
    table = Table("", unit, f"ratio to {reference}", title=title, title_justify="left")
    found = []
    for name, number in times.items():
        ratio = number / times[reference]
        table.add_row(
            name, f"{number * scale:,.{1 if number * scale >= 10 else 2}f}", f"{ratio:.2f}"
        )
        found.append(
            Figure(
                table=title,
                row=name,
                unit=unit,
                value=number * scale,
                reference=reference,
                ratio=ratio,
            )
        )
    Console().print(table)
    return found
