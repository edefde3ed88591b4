"""Exact release of one report, against the same report in 50-digit mpmath."""

import mpmath

from benchmarks.timing import medians, show
from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    LipschitzMechanism,
    SmoothMechanism,
    SystemSource,
    Threshold,
)

N = 2_000


def table() -> None:
    """Print microseconds per release."""
    income_privacy = GeoPrivacy(1.0, 8_000.0, "dollar")
    place_privacy = GeoPrivacy(1.0, 500.0, "metre")
    ramp = Threshold(100_000, 16_000)
    kernel = GaussianKernel((0.0, 0.0), 1_000.0)
    contestants = {
        "Lipschitz-Laplace, Threshold": (LipschitzMechanism(ramp, income_privacy), 101_000.0),
        "LaplacePareto, Threshold": (SmoothMechanism(ramp, income_privacy), 101_000.0),
        "DebiasedLaplace, Threshold": (
            DebiasedLaplace(Threshold(100_000, 24_000, "smoothstep"), income_privacy),
            101_000.0,
        ),
        "PowerLaw, GaussianKernel": (SmoothMechanism(kernel, place_privacy), (300.0, 400.0)),
        "DebiasedLaplace, GaussianKernel": (
            DebiasedLaplace(kernel, place_privacy),
            (300.0, 400.0),
        ),
    }
    reference = "mpmath, 50 digits"
    times = medians(
        {reference: _mpmath_laplace}
        | {
            name: (lambda m=mechanism, x=point: [m.release(x) for _ in range(N)])
            for name, (mechanism, point) in contestants.items()
        }
    )
    show("exact release, one core", "µs per report", 1e6 / N, times, reference)


def _mpmath_laplace() -> None:
    """Evaluate N Lipschitz-Laplace reports in mpmath: the straightforward way to be precise."""
    source = SystemSource()
    with mpmath.workdps(50):
        for _ in range(N):
            u = mpmath.mpf(source.bits(128) + 1) / 2**128
            sign = 1 if u > 0.5 else -1
            noise = -sign * mpmath.log(2 * min(u, 1 - u))
            value = mpmath.mpf(101_000 - 100_000) / 16_000 + mpmath.mpf("0.5")
            mpmath.nint((value + noise / 2) * 2**40)
