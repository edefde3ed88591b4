"""Coverage and width of intervals, in populations that are hard to answer for.

What is measured is no time: 2,000 campaigns a row, reports drawn in NumPy, intervals as estimates
have them. Widths, at 95 %, are in multiples of Student's, which is too short where it covers less.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from geoveil.gp import (
    DebiasedLaplace,
    LipschitzMechanism,
    QueryMechanism,
    SmoothMechanism,
    Threshold,
)
from geoveil.gp.intervals import UNLIMITED, IntervalMethod, Limits, interval_of_mean
from geoveil.simulation.demo import experiments

CAMPAIGNS = 2_000
SIZES = (10, 100, 1_000, 10_000, 20_000)
CONFIDENCES = (0.95, 0.99)
_AT_A_TIME = 2_000_000
B = 8_000.0
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A mechanism and the people who answer through it."""

    name: str
    mechanism: QueryMechanism
    places: Array
    weights: Array

    @property
    def limits(self) -> Limits:
        """What reports and their mean can be."""
        mechanism = self.mechanism
        means = mechanism.query.profile.bounds
        bounded = isinstance(mechanism, DebiasedLaplace)
        return Limits(mechanism.range, means) if bounded else Limits(means=means)

    def moments(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return the mean and the variance of the n reports of every campaign."""
        means, variances = np.empty(CAMPAIGNS), np.empty(CAMPAIGNS)
        step = max(_AT_A_TIME // n, 1)
        ends = np.cumsum(self.weights / self.weights.sum())
        for start in range(0, CAMPAIGNS, step):
            count = min(step, CAMPAIGNS - start)
            chosen = np.searchsorted(ends[:-1], rng.random(count * n))
            reports = self.mechanism.simulate(self.places[chosen], rng).reshape(count, n)
            means[start : start + count] = reports.mean(axis=1)
            variances[start : start + count] = reports.var(axis=1)
        return means, variances


def table() -> None:
    """Print coverage in per cent at 95 and 99 %, and widths at 95 %."""
    headers = ("people, question", "n", "Student's", "weighted ends", "width", "full ends", "width")
    shown = Table(*headers)
    rng = np.random.default_rng(1)
    for case in cases():
        truth = float(np.average(case.mechanism.mean(case.places).ravel(), weights=case.weights))
        for n in SIZES:
            means, variances = case.moments(n, rng)
            cells, student = [], 0.0
            for method in IntervalMethod.STUDENT, *list(IntervalMethod)[:2]:
                plain = method is IntervalMethod.STUDENT
                if method is IntervalMethod.FULL_ENDS and not case.limits.bounded:
                    break
                limits = UNLIMITED if plain else case.limits
                ends = np.array(
                    [
                        [(i.low, i.high) for i in intervals]
                        for intervals in (
                            [
                                interval_of_mean(n, m, v, confidence, limits, method)
                                for m, v in zip(means.tolist(), variances.tolist(), strict=True)
                            ]
                            for confidence in CONFIDENCES
                        )
                    ]
                )
                covers = (ends[..., 0] <= truth + 1e-12) & (truth - 1e-12 <= ends[..., 1])
                cells.append("  ".join(f"{share:.1%}" for share in covers.mean(axis=1)))
                width = float(np.diff(ends[0]).mean())
                student = width if plain else student
                cells += [] if plain else [f"{width / student:.3f}" if student else "–"]
            shown.add_row(case.name if n == SIZES[0] else "", f"{n:,}", *cells)
    Console(width=120).print(shown)


def cases() -> Iterator[Case]:
    """Yield real people, then made ones who hurt."""
    above, around = experiments()
    incomes, privacy = (above.points, above.population.weights), above.campaign.privacy
    for at, width in ((1_000_000.0, 3 * B), (100_000.0, 3 * B), (10_000.0, 2 * B)):
        step = Threshold(at, width, "smoothstep")
        yield Case(f"income > {at:,.0f}", DebiasedLaplace(step, privacy), *incomes)
    ramp = Threshold(1_000_000.0, 3 * B)
    yield Case("the same, LaplacePareto", SmoothMechanism(ramp, privacy, beta=0.3 / B), *incomes)
    yield Case("the same, Lipschitz", LipschitzMechanism(ramp, privacy), *incomes)
    of_place = around.campaign.mechanisms[2]
    yield Case("collisions, a bell", of_place, around.points, around.population.weights)
    for width in (2, 3, 25):
        mechanism = DebiasedLaplace(Threshold(0.0, width * B, "smoothstep"), privacy)
        below = -(width / 2 + 3) * B
        for name, places, weights in (
            ("all 3 b below the band", [below], [1.0]),
            ("all at the threshold", [0.0], [1.0]),
            ("0.3 % above, none near", [-40 * B, 40 * B], [0.997, 0.003]),
            ("a mixture", [-40 * B, below, 0.0, 40 * B], [0.9, 0.09, 0.005, 0.005]),
        ):
            yield Case(f"w = {width} b, {name}", mechanism, np.array(places), np.array(weights))
