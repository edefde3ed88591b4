"""The kernel experiment in exact mode, against drawing its reports one array at a time.

The reference is a straightforward implementation: for a centre, it computes the distance, the
kernel, its smooth bound and the noise of each person from the formulas, in NumPy. It runs on a few
centres in the same run and is scaled up to the whole grid, for one mechanism and one repetition;
the exact mode gives the mean over all repetitions, for all mechanisms and settings.
"""

import math
import time
from collections.abc import Callable

import numpy as np

from benchmarks.timing import Figure, show
from geoveil.simulation.experiments.kde import DEFAULT, SETTINGS, exact

CENTRES = 40
AUTHORS_S = 0.26e-3
"""Seconds per person and centre that the paper's public code takes for Student-t noise; all ten
repetitions share the smooth bound. Measured once as 0.26 ms, not run here."""


def table() -> list[Figure]:
    """Print seconds for the whole grid: 3,721 centres × 200,000 people."""
    places, centres = DEFAULT.places, DEFAULT.centres
    one = _seconds(lambda: exact(DEFAULT))
    everything = _seconds(lambda: exact(*SETTINGS))
    people = np.repeat(places.values, places.weights.astype(np.int64), axis=0)
    rng = np.random.default_rng(1)
    chosen = rng.choice(centres, CENTRES, replace=False)
    drawn = _seconds(lambda: [_straightforward(people, c, rng) for c in chosen])
    drawn *= len(centres) / CENTRES
    reports = len(centres) * len(people)
    reference = "straightforward NumPy, Student-t alone, one repetition"
    times = {
        reference: drawn,
        "exact: nine mechanisms, one setting, all repetitions": one,
        f"exact: nine mechanisms, {len(SETTINGS)} settings, all repetitions": everything,
    }
    found = show("kernel experiment, exact", "s", 1, times, reference)
    print(
        f"The reference: {drawn / reports * 1e9:.0f} ns per report, extrapolated from {CENTRES} of"
        f" {len(centres):,} centres. At {AUTHORS_S * 1e3:.2g} ms for a person and a centre, which"
        f" the paper's public code takes, {reports:,} are {reports * AUTHORS_S / 3600:.0f} hours."
    )
    return found


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _straightforward(people: np.ndarray, centre: np.ndarray, rng: np.random.Generator) -> float:
    """Return one estimate with Student-t noise, from the formulas [SGP 3.5; MATH §2.2, reach 0]."""
    rate, h = DEFAULT.privacy.rate, 1_439.0
    beta, nu = rate / 9, 3.0
    eta = (rate - nu * beta) * 2 * math.sqrt(nu) / (nu + 1)
    r = np.linalg.norm(people - centre, axis=1)
    root = math.hypot(beta * h * h, 2 * h)
    low, high = (root - beta * h * h) / 2, (root + beta * h * h) / 2
    maximizer = np.clip(r, low, high)
    bound = maximizer / h**2 * np.exp(-((maximizer / h) ** 2) / 2 - beta * np.abs(r - maximizer))
    reports = np.exp(-((r / h) ** 2) / 2) + bound / eta * rng.standard_t(nu, size=len(r))
    return float(reports.mean())
