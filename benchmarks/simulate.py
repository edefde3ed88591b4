"""Vectorised simulation, against NumPy's own Laplace draws, in processor time."""

import time
import tracemalloc

import numpy as np

from benchmarks.timing import Figure, seconds_of, show
from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Polygon,
    SmoothMechanism,
    Threshold,
    TwoWayThreshold,
)

N = 10_000_000
ROUNDS = 3


def table() -> list[Figure]:
    """Print nanoseconds per report, and the memory that a call needs beyond its input."""
    rng = np.random.default_rng(1)
    incomes = rng.lognormal(11.5, 0.8, N)
    pairs = np.stack([incomes, incomes[::-1]], axis=1)
    places = rng.normal(scale=5_000.0, size=(N, 2))
    income_privacy = GeoPrivacy(1.0, 8_000.0, "dollar")
    place_privacy = GeoPrivacy(1.0, 500.0, "metre")
    kernel = GaussianKernel((0.0, 0.0), 1_000.0)
    angles = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    ring = [(4_000 * np.cos(a), 3_000 * np.sin(a) + 500 * np.sin(5 * a)) for a in angles]
    mechanisms = {
        "Threshold + LaplacePareto": (
            SmoothMechanism(Threshold(100_000, 16_000), income_privacy),
            incomes,
        ),
        "TwoWayThreshold + LaplacePareto": (
            SmoothMechanism(TwoWayThreshold((1e5, 1e5), 16_000), income_privacy),
            pairs,
        ),
        "Threshold, DebiasedLaplace": (
            DebiasedLaplace(Threshold(100_000, 24_000, "smoothstep"), income_privacy),
            incomes,
        ),
        "Disc + LaplacePareto": (
            SmoothMechanism(Disc((0.0, 0.0), 4_000.0, 1_000.0), place_privacy),
            places,
        ),
        "GaussianKernel + PowerLaw": (SmoothMechanism(kernel, place_privacy), places),
        "GaussianKernel, DebiasedLaplace": (DebiasedLaplace(kernel, place_privacy), places),
        "Polygon of 50 corners + LaplacePareto": (
            SmoothMechanism(Polygon(ring, 1_000.0), place_privacy),
            places[: N // 20],
        ),
    }
    reference = "numpy rng.laplace"
    times = seconds_of(
        {reference: lambda: rng.laplace(size=N)}
        | {
            name: (lambda m=mechanism, x=points: m.simulate(x, rng))
            for name, (mechanism, points) in mechanisms.items()
        },
        rounds=ROUNDS,
        clock=time.process_time,
    )
    for name, (_, points) in mechanisms.items():
        times[name] *= N / len(points)
    found = show(f"simulate, {N:,} points, one core", "ns per report", 1e9 / N, times, reference)
    print("Peak memory of a call, its reports included, in arrays of the length of its input:")
    for name, (mechanism, points) in mechanisms.items():
        tracemalloc.start()
        mechanism.simulate(points, rng)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"  {name:<40}{peak / (8 * len(points)):6.2f}")
    return found
