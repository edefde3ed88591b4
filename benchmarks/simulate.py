"""Vectorised simulation, against NumPy's own Laplace draws."""

import numpy as np

from benchmarks.timing import medians, show
from geoveil.gp import DebiasedLaplace, GaussianKernel, GeoPrivacy, SmoothMechanism, Threshold

N = 2_000_000


def table() -> None:
    """Print nanoseconds per report."""
    rng = np.random.default_rng(1)
    incomes = rng.lognormal(11.5, 0.8, N)
    places = rng.normal(scale=5_000.0, size=(N, 2))
    income_privacy = GeoPrivacy(1.0, 8_000.0, "dollar")
    place_privacy = GeoPrivacy(1.0, 500.0, "metre")
    kernel = GaussianKernel((0.0, 0.0), 1_000.0)
    mechanisms = {
        "Threshold + LaplacePareto": (
            SmoothMechanism(Threshold(100_000, 16_000), income_privacy),
            incomes,
        ),
        "Threshold, DebiasedLaplace": (
            DebiasedLaplace(Threshold(100_000, 24_000, "smoothstep"), income_privacy),
            incomes,
        ),
        "GaussianKernel + PowerLaw": (SmoothMechanism(kernel, place_privacy), places),
        "GaussianKernel, DebiasedLaplace": (DebiasedLaplace(kernel, place_privacy), places),
    }
    reference = "numpy rng.laplace"
    times = medians(
        {reference: lambda: rng.laplace(size=N)}
        | {
            name: (lambda m=mechanism, x=points: m.simulate(x, rng))
            for name, (mechanism, points) in mechanisms.items()
        },
        rounds=5,
    )
    show(f"simulate, {N:,} points, one core", "ns per report", 1e9 / N, times, reference)
