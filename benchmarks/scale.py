"""Simulated campaigns on Dask, compared with the same blocks in a plain loop.

A run takes

    t(W) = start + max(N·c / W, G·d)

with N devices at c seconds each on W workers, and G groups of blocks that the scheduler hands out
one by one, d seconds each. The benchmark measures c, d and the start on this machine; the line for
100 workers is an extrapolation. It omits the network, which carries the population once per worker,
and a few hundred bytes per group.
"""

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from benchmarks.timing import Figure, seconds_of, show
from geoveil.gp.estimation import Accumulator
from geoveil.simulation.demo import experiments
from geoveil.simulation.scale import BlockedWork, Computer, Sums, computer, simulated, total
from geoveil.simulation.scale.simulated import BLOCK
from geoveil.simulation.scale.work import GROUP

N = 1 << 24
ROUNDS = 3
WORKERS = (1, 2, 10, 100)
DEVICES = (10**9, 10**11)


class _Nothing(BlockedWork):
    """Blocks that take no time, so that only the cost of handing them out remains."""

    @property
    def blocks(self) -> int:
        return 2_000

    @property
    def queries(self) -> int:
        return 1

    def block(self, number: int) -> Sums:
        return [Accumulator()]

    def fingerprint(self) -> str:
        return ""


def table() -> list[Figure]:
    """Print nanoseconds per device, the cost per group, and the run times that follow."""
    experiment = experiments(datetime(2026, 1, 1, tzinfo=UTC))[0]
    people = experiment.population
    people.sample(1, np.random.default_rng(1))  # builds the alias table, which workers then get
    work = simulated(experiment.campaign, people, N, seed=1)
    reference = "a loop in this process"
    with computer(None, 1) as one, computer(None, 2) as two:
        results: list[Sums] = []
        times = seconds_of(
            {
                reference: lambda: results.append(total(work)),
                "Dask, 1 worker": lambda: results.append(total(work, one, group_size=4)),
                "Dask, 2 workers": lambda: results.append(total(work, two, group_size=4)),
            },
            rounds=ROUNDS,
            clock=time.perf_counter,
        )
        assert all(sums == results[0] for sums in results), "the bits depend on the workers"
        handing_out = _seconds(_Nothing(), two, 1) / _Nothing().blocks
        small = simulated(experiment.campaign, people, 1, seed=1)
        start = min(_seconds(small, two, 1) for _ in range(ROUNDS))
    found = show(f"{N:,} simulated devices", "ns per device", 1e9 / N, times, reference)
    device = times["Dask, 1 worker"] / N
    print(f"Efficiency of 2 workers: {times['Dask, 1 worker'] / times['Dask, 2 workers'] / 2:.0%}")
    print(f"Start of a run: {1e3 * start:.0f} ms. Handing out a group: {1e3 * handing_out:.2f} ms.")
    _extrapolate(device, handing_out, start, DEVICES)
    return found


def _seconds(work: BlockedWork, compute: Computer, group_size: int) -> float:
    started = time.perf_counter()
    total(work, compute, group_size=group_size)
    return time.perf_counter() - started


def _extrapolate(device: float, handing_out: float, start: float, sizes: Sequence[int]) -> None:
    print("Extrapolated seconds (and efficiency), without the network:")
    for n in sizes:
        groups = math.ceil(n / BLOCK / GROUP)
        cells = []
        for workers in WORKERS:
            # Whole groups: the last ones do not fill all workers.
            rounds = math.ceil(groups / workers) * device * BLOCK * GROUP
            seconds = start + max(min(rounds, n * device), groups * handing_out)
            ideal = n * device / workers
            cells.append(f"{workers} workers: {seconds:,.1f} ({ideal / seconds:.0%})")
        print(f"  {n:,} devices: " + "; ".join(cells))
