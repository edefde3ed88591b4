"""Coverage and width of intervals, in difficult populations.

It does not measure time: each row has 2,000 campaigns, with reports drawn in NumPy by the law of
the exact release and intervals as in estimates. Widths, at 95 %, are multiples of Student's, which
is too short where it covers less. A row that seems to cover less than `LEAST` is repeated with
20,000 other campaigns, which tell chance from a defect, and fails if it still does, by more than
chance. From 10,000 reports on, a row also fails if it is wider than 1.02 times Student's, provided
Student's covers and no person can move the mean far. Where one can, such a narrow interval is
impossible (`FARTHEST`) or none is known (`FAR_ENOUGH`): these rows are counted separately.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.table import Table

from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    NotPrivateWarning,
    PlanarLaplace,
    Polygon,
    PowerLaw,
    Query,
    QueryMechanism,
    Range,
    SmoothedRegion,
    SmoothMechanism,
    StudentT,
    TabulatedProfile,
    Threshold,
)
from geoveil.gp.intervals import IntervalMethod, interval_of_mean
from geoveil.gp.limits import UNLIMITED, Limits
from geoveil.simulation.demo import experiments

CAMPAIGNS = 2_000
SIZES = (10, 100, 1_000, 10_000, 20_000)
AGAIN = 20_000
LEAST = {0.95: 0.94, 0.99: 0.985}
WIDEST, MANY = 1.02, 10_000
FARTHEST = 1.12
"""Standard errors by which one person may move the mean. Beyond that, no interval that covers 94 %
of the time for all people is as narrow as `WIDEST` [MATH §8]."""
FAR_ENOUGH = 0.3
"""Standard errors beyond which intervals are wider than is known to be necessary [MATH §8]."""
_CHANCE = 2.0
"""Standard errors by which the coverage of `AGAIN` campaigns may fall short of `LEAST`."""
QUICK_CAMPAIGNS, QUICK_SIZES = 500, (10, 100, 1_000)
_AT_A_TIME = 2_000_000
B = 8_000.0
FAR = 40 * B
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """People who answer a question through a mechanism."""

    name: str
    draw: Callable[[np.random.Generator, int], Array]
    """Returns this many reports, of people chosen at random."""
    truth: float
    """The mean that intervals should cover."""
    limits: Limits
    sizes: tuple[int, ...] = SIZES

    def moments(
        self, sizes: Sequence[int], rng: np.random.Generator, campaigns: int = CAMPAIGNS
    ) -> dict[int, tuple[Array, Array]]:
        """Return the mean and the variance of each campaign's first n reports, for every n."""
        most = max(sizes)
        found = {n: (np.empty(campaigns), np.empty(campaigns)) for n in sizes}
        step = max(_AT_A_TIME // most, 1)
        for start in range(0, campaigns, step):
            some = slice(start, min(start + step, campaigns))
            count = some.stop - some.start
            reports = self.draw(rng, count * most).reshape(count, most)
            for n, (means, variances) in found.items():
                means[some] = reports[:, :n].mean(axis=1)
                variances[some] = reports[:, :n].var(axis=1)
        return found

    def alone(self, n: int, variance: float) -> float:
        """Return the effect of one far person on the mean, in standard errors."""
        low, high = self.limits.means
        return max(self.truth - low, high - self.truth) / math.sqrt(variance * n)


@dataclass(frozen=True)
class Found:
    """The result of one method."""

    coverage: tuple[float, ...]
    """The coverage at each confidence."""
    width: float
    """The mean width at the first confidence."""


def measured(
    case: Case,
    n: int,
    means: Array,
    variances: Array,
    method: IntervalMethod | None,
    confidences: tuple[float, ...] = tuple(LEAST),
) -> Found:
    """Return the coverage and the width of one method over campaigns of n reports."""
    limits = UNLIMITED if method is IntervalMethod.STUDENT else case.limits
    coverage, widths = [], []
    for confidence in confidences:
        found = [
            interval_of_mean(n, mean, variance, confidence, limits, method)
            for mean, variance in zip(means.tolist(), variances.tolist(), strict=True)
        ]
        low, high = np.array([(i.low, i.high) for i in found]).T
        coverage.append(float(np.mean((low <= case.truth + 1e-12) & (case.truth - 1e-12 <= high))))
        widths.append(float(np.mean(high - low)))
    return Found(tuple(coverage), widths[0])


def too_little(found: Found, campaigns: int, chance: float = 0.0) -> list[str]:
    """Return where coverage is below `LEAST` by more than a number of standard errors."""
    return [
        f"covers {share:.1%} at {confidence:.0%}"
        for share, (confidence, least) in zip(found.coverage, LEAST.items(), strict=True)
        if share < least - chance * math.sqrt(least * (1 - least) / campaigns)
    ]


def is_wide(n: int, found: Found, student: Found) -> bool:
    """Return whether intervals are wider than `WIDEST` although Student's covers."""
    covers = not too_little(student, 1)
    return n >= MANY and covers and found.width > WIDEST * student.width


def row(case: Case, n: int, means: Array, variances: Array) -> tuple[list[str], bool, bool]:
    """Return the cells of a row, whether it failed, and whether its intervals might be narrower.

    They might be where one person can move the mean so far that the optimum is unknown.
    """
    student = measured(case, n, means, variances, IntervalMethod.STUDENT)
    found = measured(case, n, means, variances, None)
    width, note = found.width / student.width if student.width else math.inf, ""
    alone = case.alone(n, float(variances.mean())) if width < math.inf else math.inf
    wide, wrong = is_wide(n, found, student), list[str]()
    open_to_doubt = wide and FAR_ENOUGH < alone <= FARTHEST
    if wide and alone <= FAR_ENOUGH:
        wrong.append("too wide")
    elif wide:
        how = "wider than may be" if open_to_doubt else "no narrower"
        note = f"{how}: one person is {alone:.1f} errors"
    if too_little(found, CAMPAIGNS):
        rng = np.random.default_rng([AGAIN, n, *case.name.encode()])
        found = measured(case, n, *case.moments([n], rng, AGAIN)[n], None)
        note = f"of {AGAIN:,}"
        wrong += too_little(found, AGAIN, _CHANCE)
    shares = ["  ".join(f"{share:.1%}" for share in f.coverage) for f in (student, found)]
    cells = [f"{n:,}", *shares, f"{width:.3f}" if width < math.inf else "–"]
    return [*cells, ", ".join(wrong) or note], bool(wrong), open_to_doubt


def table(*, quick: bool = False, statistics: Sequence[str] = (), **of_statistics: Any) -> None:
    """Print the coverage of statistics, then of means at 95 and 99 %, with widths and failures.

    The arguments are those of `benchmarks.every_interval.table`; named statistics skip the latter.
    """
    from benchmarks import every_interval

    every_interval.table(quick=quick, statistics=statistics, **of_statistics)
    if statistics:
        return
    times = QUICK_CAMPAIGNS if quick else CAMPAIGNS
    shown = Table("people, question", "n", "Student's", "weighted ends", "width", "failed; note")
    failed = rows = doubted = 0
    warnings.simplefilter("ignore", NotPrivateWarning)
    for case in cases():
        sizes = [n for n in case.sizes if not quick or n in QUICK_SIZES]
        drawn = case.moments(sizes, np.random.default_rng([*case.name.encode()]), times)
        for n, (means, variances) in drawn.items():
            cells, wrong, open_to_doubt = row(case, n, means, variances)
            rows, failed, doubted = rows + 1, failed + wrong, doubted + open_to_doubt
            shown.add_row(case.name if n == sizes[0] else "", *cells)
    console = Console(width=130)
    console.print(shown)
    console.print(
        f"{failed} of {rows} rows failed, and {doubted} are wider than is known to be necessary."
        f" {times:,} campaigns each: the standard error"
    )
    errors = [100 * math.sqrt(c * (1 - c) / times) for c in LEAST]
    console.print(
        f"of a coverage of 95 % is {errors[0]:.1f} points, of 99 % it is {errors[1]:.1f}."
    )


def of_people(
    name: str,
    mechanism: QueryMechanism,
    places: ArrayLike,
    weights: ArrayLike,
    sizes: tuple[int, ...] = SIZES,
) -> Case:
    """Return people at the given places whose answers a mechanism perturbs."""
    at, shares = np.asarray(places, np.float64), np.asarray(weights, np.float64)
    return Case(
        name,
        lambda rng, count: mechanism.simulate(at[_chosen(shares, rng, count)], rng),
        float(np.average(mechanism.mean(at).ravel(), weights=shares)),
        mechanism.limits,
        sizes,
    )


def of_points(
    name: str,
    query: Query | SmoothedRegion,
    scale: float,
    places: ArrayLike,
    weights: ArrayLike,
    sizes: tuple[int, ...] = SIZES,
) -> Case:
    at, shares = np.asarray(places, np.float64), np.asarray(weights, np.float64)
    mechanism = PlanarLaplace(GeoPrivacy(1.0, scale), query.dimension)
    estimator = mechanism.estimator(query, debias=True)

    def draw(rng: np.random.Generator, count: int) -> Array:
        points = mechanism.simulate(at[_chosen(shares, rng, count)], rng)
        return estimator.value(points)

    truth = float(np.average(estimator.mean(at).ravel(), weights=shares))
    return Case(name, draw, truth, estimator.limits, sizes)


def _chosen(weights: Array, rng: np.random.Generator, count: int) -> NDArray[np.intp]:
    ends = np.cumsum(weights / weights.sum())
    return np.asarray(np.searchsorted(ends[:-1], rng.random(count)))


def cases() -> Iterator[Case]:
    """Yield cases of real people, then artificial, difficult ones."""
    yield from _real()
    for width in (2, 3, 10, 25):
        mechanism = DebiasedLaplace(Threshold(0.0, width * B, "smoothstep"), PRIVACY)
        for name, places, weights in made(width * B):
            yield of_people(f"threshold {width} b, {name}", mechanism, places, weights)
    yield from _families()
    yield from _of_points()


PRIVACY = GeoPrivacy(1.0, B, "dollar")


def made(width: float) -> Iterator[tuple[str, list[float], list[float]]]:
    """Yield people placed to break intervals for a step of some width."""
    below = -width / 2 - 3 * B
    yield "all beside the edge", [-width / 2 - 2 * B], [1.0]
    yield "all at the edge", [-width / 2], [1.0]
    yield "all at the threshold", [0.0], [1.0]
    yield "0.3 % above, none near", [-FAR, FAR], [0.997, 0.003]
    yield "0.3 % not above", [-FAR, FAR], [0.003, 0.997]
    yield "1 % inside, the rest near", [below, 0.0], [0.99, 0.01]
    yield "a heap in a mixture", [-FAR, below, 0.0, FAR], [0.9, 0.09, 0.005, 0.005]


def _real() -> Iterator[Case]:
    above, around = experiments()
    incomes, privacy = (above.points, above.population.weights), above.campaign.privacy
    for at, width in ((1_000_000.0, 3 * B), (100_000.0, 3 * B), (10_000.0, 2 * B)):
        step = Threshold(at, width, "smoothstep")
        yield of_people(f"income > {at:,.0f}", DebiasedLaplace(step, privacy), *incomes)
    split = DebiasedLaplace(Threshold(1_000_000.0, 3 * B, "smoothstep"), privacy.scaled(1 / 4))
    yield of_people("the same, ε split among 4", split, *incomes)
    ramp = Threshold(1_000_000.0, 3 * B)
    for noise in (PowerLaw(1.0, 0.15), StudentT(5.0)):
        name = f"the same, {type(noise).__name__}"
        yield of_people(name, SmoothMechanism(ramp, privacy, noise=noise), *incomes)
    yield of_people(
        "the same, LaplacePareto", SmoothMechanism(ramp, privacy, beta=0.3 / B), *incomes
    )
    yield of_people("the same, Lipschitz", LipschitzMechanism(ramp, privacy), *incomes)
    of_place = around.campaign.mechanisms[2]
    yield of_people("collisions, a bell", of_place, around.points, around.population.weights)


def _families() -> Iterator[Case]:
    rare = [-FAR, -4 * B, 0.0, FAR], [0.95, 0.04, 0.005, 0.005]
    between = Range(-B, B, 2 * B, "smoothstep")
    yield of_people("range 2 b, a mixture", DebiasedLaplace(between, PRIVACY), *rare)
    logistic = FormulaProfile(lambda u, ops: 1 / (1 + ops.exp(-u)), scale=B)
    for profile, name in (
        (logistic, "formula"),
        (TabulatedProfile.of(logistic, 1e-4), "table of a formula"),
    ):
        query = Linear(profile, 1.0)
        yield of_people(f"{name}, a mixture", DebiasedLaplace(query, PRIVACY), *rare)
    of_places = GeoPrivacy(1.0, 500.0, "metre")
    places = [[0.0, 0.0], [900.0, 0.0], [2_500.0, 0.0], [90_000.0, 0.0]]
    few = [0.002, 0.004, 0.05, 0.944]
    square = [(-600.0, -600.0), (600.0, -600.0), (600.0, 600.0), (-600.0, 600.0)]
    for name, query in (
        ("disc", Disc((0.0, 0.0), 700.0, 800.0, "smoothstep")),
        ("polygon", Polygon(square, 800.0, "smoothstep")),
        ("bell of 350 m", GaussianKernel((0.0, 0.0), 350.0)),
    ):
        yield of_people(f"{name}, few in it", DebiasedLaplace(query, of_places), places, few)


def _of_points() -> Iterator[Case]:
    rare = [-FAR, -4 * B, 0.0, FAR], [0.95, 0.04, 0.005, 0.005]
    yield of_points("points, threshold 3 b", Threshold(0.0, 3 * B, "smoothstep"), B, *rare)
    yield of_points("points, range", Range(-B, B, 2 * B, "smoothstep"), B, *rare)
    places = [[0.0, 0.0], [900.0, 0.0], [2_500.0, 0.0], [90_000.0, 0.0]]
    few = [0.002, 0.004, 0.05, 0.944]
    square = [(-600.0, -600.0), (600.0, -600.0), (600.0, 600.0), (-600.0, 600.0)]
    sizes = SIZES[:-1]
    for bandwidth in (250.0, 500.0, 1_000.0):
        bell = GaussianKernel((0.0, 0.0), bandwidth)
        yield of_points(f"points, bell of {bandwidth:.0f} m", bell, 500.0, places, few, sizes)
    region = SmoothedRegion(square, 400.0)
    yield of_points("points, polygon", region, 500.0, places, few, sizes)
