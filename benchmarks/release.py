"""Exact release of one report, against OpenDP's Laplace and the same report in 50-digit mpmath."""

from collections.abc import Callable
from typing import Any

import mpmath

from benchmarks.timing import Figure, seconds_of, show
from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    LipschitzMechanism,
    LocalPrivacy,
    PlanarLaplace,
    Polygon,
    Radial,
    RandomizedResponse,
    Range,
    SmoothMechanism,
    StudentT,
    SystemSource,
    Threshold,
)

N = 1_000
INCOME, PLACE = 101_000.0, (300.0, 400.0)


def contestants() -> dict[str, tuple[Any, Any]]:
    """Return name → (mechanism, point)."""
    income, place = GeoPrivacy(1.0, 8_000.0, "dollar"), GeoPrivacy(1.0, 500.0, "metre")
    ramp = Threshold(100_000, 16_000)
    kernel = GaussianKernel((0.0, 0.0), 1_000.0)
    star = [(900.0 + 50 * i % 7, 800.0 * i) for i in range(25)] + [(-900.0, 20_000.0 - 1e3)]
    walk = Radial(FormulaProfile(lambda u, ops: ops.exp(-u), scale=500.0), (0.0, 0.0))
    beta = income.rate / 9
    return {
        "Lipschitz-Laplace, Threshold": (LipschitzMechanism(ramp, income), INCOME),
        "LaplacePareto, Threshold": (SmoothMechanism(ramp, income), INCOME),
        "LaplacePareto, Range": (SmoothMechanism(Range(9e4, 2e5, 16_000), income), INCOME),
        "DebiasedLaplace, Threshold": (
            DebiasedLaplace(Threshold(100_000, 24_000, "smoothstep"), income),
            INCOME,
        ),
        "randomised response, Threshold": (RandomizedResponse(ramp, LocalPrivacy(1.0)), INCOME),
        "PowerLaw, GaussianKernel": (SmoothMechanism(kernel, place), PLACE),
        "DebiasedLaplace, GaussianKernel": (DebiasedLaplace(kernel, place), PLACE),
        "DebiasedLaplace, formula": (DebiasedLaplace(walk, place), PLACE),
        "LaplacePareto, Polygon of 26": (SmoothMechanism(Polygon(star, 500.0), place), PLACE),
        "planar Laplace": (PlanarLaplace(place, 2), PLACE),
        "Student-t ν=3, Threshold": (
            SmoothMechanism(ramp, income, noise=StudentT(3), beta=beta),
            INCOME,
        ),
        "Student-t ν=2.5, Threshold": (
            SmoothMechanism(ramp, income, noise=StudentT(2.5), beta=beta),
            INCOME,
        ),
        "generalized Cauchy γ=4, Threshold": (
            SmoothMechanism(ramp, income, noise=GeneralizedCauchy(4), beta=beta),
            INCOME,
        ),
    }


def table() -> list[Figure]:
    """Print microseconds of processor time per release, called one by one as on a device."""
    runs: dict[str, Callable[[], object]] = {"mpmath, 50 digits": _mpmath_laplace}
    scalar_laplace = _opendp_laplace()
    if scalar_laplace is not None:
        runs = {"OpenDP, make_laplace": scalar_laplace} | runs
    reference = next(iter(runs))
    runs |= {
        name: (lambda m=mechanism, x=point: [m.release(x) for _ in range(N)])
        for name, (mechanism, point) in contestants().items()
    }
    times = seconds_of(runs)
    return show("exact release, one core", "µs per report", 1e6 / N, times, reference)


def _opendp_laplace() -> Callable[[], object] | None:
    """Return a function that draws N times from OpenDP's Laplace mechanism, if it is installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        print("OpenDP is not installed: pip install opendp, to compare with it")
        return None
    dp.enable_features("contrib")
    domain, metric = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    laplace = dp.m.make_laplace(domain, metric, 8_000.0)
    return lambda: [laplace(INCOME) for _ in range(N)]


def _mpmath_laplace() -> None:
    """Compute N Lipschitz-Laplace reports in mpmath: the straightforward way to be precise."""
    source = SystemSource()
    with mpmath.workdps(50):
        for _ in range(N):
            u = mpmath.mpf(source.bits(128) + 1) / 2**128
            sign = 1 if u > 0.5 else -1
            noise = -sign * mpmath.log(2 * min(u, 1 - u))
            value = mpmath.mpf(INCOME - 100_000) / 16_000 + mpmath.mpf("0.5")
            mpmath.nint((value + noise / 2) * 2**40)
