"""The one-way experiment, exact and drawn, against drawing reports one person at a time.

The reference is a straightforward implementation that takes microseconds per report: for each
person, it computes the soft threshold, its smooth bound and the noise from the formulas, in plain
Python. It runs on a sample in the same run and is scaled up to the same number of reports.
"""

import math
import random
import time
from collections.abc import Callable

from benchmarks.timing import Figure, show
from geoveil.simulation import household_incomes
from geoveil.simulation.experiments.oneway import PANELS, exact
from geoveil.simulation.experiments.published import band, drawn

PANEL = PANELS[3]
PEOPLE, REPETITIONS, SAMPLE = 6_400_000, 100, 50_000
PAPER = ("GP_loc", "GP_Lip", "Student-t", "generalized Cauchy", "ε-LDP")
DRAWN = (*PAPER, "DebiasedLaplace")


def table() -> list[Figure]:
    """Print seconds on one core."""
    everything = _seconds(lambda: [exact(p, name) for p in PANELS for name in p.contestants])
    few = 2
    by_drawing = _seconds(lambda: [drawn(PANEL, name, PEOPLE, few, 1) for name in DRAWN])
    one_by_one = _seconds(_plain) / SAMPLE
    reports = PEOPLE * few * len(DRAWN)
    reference = f"one person at a time, Student-t, {reports:,} reports"
    times = {
        reference: one_by_one * reports,
        f"Monte Carlo: n = {PEOPLE:,}, {len(DRAWN)} mechanisms, {few} repetitions": by_drawing,
        f"exact: {len(PANELS)} panels, all mechanisms, every n": everything,
    }
    found = show("one-way experiment, one core", "s", 1, times, reference)
    print(
        f"Monte Carlo is {one_by_one * reports / by_drawing:.0f} times as fast as one at a time;"
        f" {REPETITIONS} repetitions take {by_drawing * REPETITIONS / few:.0f} s on one core."
    )
    return found


def _plain() -> None:
    """Draw Student-t reports with the paper's calibration, for a sample of people."""
    incomes = household_incomes().values[:SAMPLE].tolist()
    rng, at, rate = random.Random(1), PANEL.threshold, 1 / PANEL.per
    width = band(at, PANEL.per)
    beta, nu = rate / 9, 3
    eta = (rate - nu * beta) * 2 * math.sqrt(nu) / (nu + 1)
    for x in incomes:
        value = min(max(0.5 + (x - at) / width, 0.0), 1.0)
        d = max(abs(x - at) - width / 2, 0.0)
        bound = max(1 / (d + width), math.exp(-beta * d) / width)
        square = sum(rng.gauss(0, 1) ** 2 for _ in range(nu))
        _ = value + bound / eta * rng.gauss(0, 1) / math.sqrt(square / nu)


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start
