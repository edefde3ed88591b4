"""Coverage of simultaneous intervals, and errors of differences and ratios, over campaigns.

It does not measure time: each row has 2,000 campaigns of people drawn from a hidden population,
whose reports are analysed as by an analyst (`reports_of(...).ask(...)`). The table shows the share
of campaigns in which everything stated holds, and the same for two deliberate mistakes: intervals
that hold only one by one, and errors treated as independent. A row fails if its statements hold in
less than 94 % or more than 98 %, by more than chance, unless it gives a reason why nothing sharper
is honest; and if neither mistake falls outside that range.

Errors of differences and ratios are mean stated errors over the spread of 10,000 campaigns.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.joint_bands import (
    ALONE,
    INDEPENDENT,
    STATED,
    Held,
    above,
    as_if_independent,
    band_as_if_independent,
    inside,
)
from benchmarks.joint_people import (
    BELL,
    PEOPLE,
    PLANE,
    WIDTH,
    Array,
    campaign,
    homes,
    incomes,
    rare,
    reports,
    square,
)
from benchmarks.joint_rankings import TIES, density_map, greatest_share, top_places
from geoveil.analyst import (
    DensityAt,
    DistributionFunction,
    Histogram,
    JointEstimates,
    Means,
    partition_shares,
    simultaneous,
)
from geoveil.analyst.campaigns import asked_of_points, softness_of_points
from geoveil.analyst.statistics import ranking
from geoveil.analyst.statistics.districts import with_elsewhere
from geoveil.campaign import PointQuestion, ValueCampaign
from geoveil.gp import Polygon, SmoothedRegion, Threshold

CAMPAIGNS, QUICK_CAMPAIGNS = 2_000, 100
DRAWS = 1 << 14
"""Draws for a critical value: a quarter of the usual number, which moves coverage by 0.18 points
(standard error)."""
DRAWS_OF_RANKINGS = 5_000
ERRORS = 5
"""Factor by which campaigns are more numerous where errors are compared with a spread."""
LEAST, MOST = 0.94, 0.98
SPREAD = 0.03
"""The relative error that a stated error may have."""
_CHANCE = 2.0
"""Standard errors by which a share of campaigns may be off."""


@dataclass(frozen=True)
class Row:
    """Campaigns of one kind."""

    what: str
    who: str
    n: int
    held: Callable[[np.random.Generator], Held]
    cautious: str = ""
    """Why a coverage above `MOST` is right here; empty if it is not."""
    campaigns: float = 1.0
    """The part of the campaigns to run; below 1 if each takes long."""

    def shares(self, campaigns: int) -> tuple[dict[str, float], int]:
        """Return the shares of campaigns in which everything held, and the number of campaigns."""
        rng = np.random.default_rng([self.n, *f"{self.what}, {self.who}".encode()])
        count, total = Counter[str](), max(int(campaigns * self.campaigns), 2)
        held: Held = {}
        for _ in range(total):
            held = self.held(rng)
            count.update({name: int(value) for name, value in held.items()})
        return {name: count[name] / total for name in held}, total

    def wrong(self, shares: Mapping[str, float], campaigns: int) -> str:
        """Return what is wrong with the shares, or an empty text."""
        found = _CHANCE * math.sqrt(0.05 * 0.95 / campaigns)
        stated = shares[STATED]
        faults = []
        if stated < LEAST - found:
            faults.append("covers too little")
        if stated > MOST + found and not self.cautious:
            faults.append("covers too much")
        others = [share for name, share in shares.items() if name != STATED]
        if others and all(LEAST <= share <= MOST for share in others):
            faults.append("no mistake is found out")
        return ", ".join(faults)


def table(*, quick: bool = False) -> None:
    """Print how many campaigns hold everything stated, the faults, and errors over spreads."""
    simultaneous.DRAWS, ranking._DRAWS = DRAWS, DRAWS_OF_RANKINGS
    campaigns = QUICK_CAMPAIGNS if quick else CAMPAIGNS
    shown = Table("what", "people", "n", STATED, ALONE, INDEPENDENT, "wrong; note")
    failed = total = 0
    for row in rows():
        shares, count = row.shares(campaigns)
        wrong = row.wrong(shares, count)
        failed, total = failed + bool(wrong), total + 1
        cells = [f"{shares[k]:.1%}" if k in shares else "–" for k in (STATED, ALONE, INDEPENDENT)]
        note = f"of {count:,}" if count != campaigns else ""
        if shares[STATED] > MOST:
            note = ", ".join(filter(None, [note, row.cautious]))
        shown.add_row(row.what, row.who, f"{row.n:,}", *cells, wrong or note)
    console = Console(width=150)
    console.print(shown)
    error = 100 * math.sqrt(0.95 * 0.05 / campaigns)
    console.print(
        f"{failed} of {total} rows failed. {campaigns:,} campaigns each: the standard error of a"
        f" coverage of 95 % is {error:.1f} points."
    )
    shown = Table("error of", "n", "stated / spread", "as if independent", "wrong")
    for name, n, draw in errors():
        many = ERRORS * campaigns
        rng = np.random.default_rng([n, *name.encode()])
        values, stated, independent = np.array([draw(rng) for _ in range(many)]).T
        spread = values.std(ddof=1)
        right, mistaken = stated.mean() / spread, independent.mean() / spread
        allowed = SPREAD + _CHANCE / math.sqrt(2 * many)
        wrong = [] if abs(right - 1) <= allowed else ["off"]
        if abs(mistaken - 1) <= allowed:
            wrong.append("the mistake is not found out")
        shown.add_row(name, f"{n:,}", f"{right:.3f}", f"{mistaken:.3f}", ", ".join(wrong))
    console.print(shown)
    console.print(f"{ERRORS * campaigns:,} campaigns each.")


# People


# Statements that should hold


def band(
    of: ValueCampaign, population: Array, n: int, at: Array | None, width: float
) -> Callable[[np.random.Generator], Held]:
    """Return a test of whether the band of a distribution function covers the whole function."""
    asked = DistributionFunction(at=None if at is None else at.tolist(), width=width)
    known = None if at is None else 1 - above(at, width, population)
    grid = np.linspace(population.min() - width, population.max() + width, 4_001)
    dense = 1 - above(grid, width, population) if at is None else grid

    def held(rng: np.random.Generator) -> Held:
        curve = reports(of, population, n, rng).ask(asked)
        truth = np.interp(curve.at, grid, dense) if known is None else known
        low, high = curve.above.intervals()
        apart_low, apart_high = band_as_if_independent(curve.above)
        return {
            STATED: inside(curve.low, truth, curve.high),
            ALONE: inside(1 - high, truth, 1 - low),
            INDEPENDENT: inside(1 - apart_high, truth, 1 - apart_low),
        }

    return held


def histogram(
    of: ValueCampaign, population: Array, n: int, edges: Array, width: float
) -> Callable[[np.random.Generator], Held]:
    """Return a test of whether the intervals of a histogram cover all shares.

    If treated as independent, two thresholds' variances add up to that of a share.
    """
    asked = Histogram(edges=edges.tolist(), width=width)
    truth = -np.diff(np.concatenate([[1.0], above(edges, width, population), [0.0]]))
    beyond = np.triu(np.ones((len(truth), len(truth))))[1:]  # the parts above each edge

    def held(rng: np.random.Generator) -> Held:
        found = reports(of, population, n, rng).ask(asked)
        at_edges = np.diag(beyond @ found.joint.covariance @ beyond.T)
        variances = np.append(at_edges, 0.0) + np.append(0.0, at_edges)
        mistaken = partition_shares(replace(found.joint, covariance=np.diag(variances)))
        return {
            STATED: inside(found.low, truth, found.high),
            ALONE: inside(*around(found.joint.intervals(), truth)),
            INDEPENDENT: inside(mistaken.low, truth, mistaken.high),
        }

    return held


def around(ends: tuple[Array, Array], truth: Array) -> tuple[Array, Array, Array]:
    """Return the lower ends, the truth and the upper ends."""
    return ends[0], truth, ends[1]


def districts(n: int) -> Callable[[np.random.Generator], Held]:
    """Return a test of whether intervals cover the shares of six districts.

    The districts are rasterised once, and answers are averaged in NumPy.
    """
    population, mechanism = homes(), campaign(500.0, 2).point_mechanism
    asked = [SmoothedRegion(Polygon(square(i), width=1.0), BELL) for i in range(6)]
    estimators = [mechanism.estimator(region, debias=True) for region in asked]
    truth = np.array([region.value(population).mean() for region in asked])
    truth = np.append(truth, 1 - truth.sum())

    def held(rng: np.random.Generator) -> Held:
        sent = mechanism.simulate(population[rng.integers(0, len(population), n)], rng)
        answers = np.stack([one.value(sent) for one in estimators])
        joint = with_elsewhere(
            JointEstimates(
                labels=tuple("abcdef"),
                values=answers.mean(axis=1),
                covariance=np.cov(answers) / n,
                n=n,
                confidence=0.95,
                limits=tuple(one.limits for one in estimators),
                privacy=mechanism.privacy,
            )
        )
        found, mistaken = partition_shares(joint), partition_shares(as_if_independent(joint))
        return {
            STATED: inside(found.low, truth, found.high),
            ALONE: inside(*around(joint.intervals(), truth)),
            INDEPENDENT: inside(mistaken.low, truth, mistaken.high),
        }

    return held


# Places


def rows() -> Iterator[Row]:
    """Yield the rows of the table."""
    few, many = np.linspace(10_000.0, 250_000.0, 13), np.linspace(10_000.0, 250_000.0, 57)
    edges = np.array([25_000.0, 50_000.0, 75_000.0, 100_000.0, 150_000.0, 200_000.0])
    few_there = "a part holds four people or fewer: no interval may end at 0"
    for who, people in PEOPLE.items():
        for n in (200, 2_000, *([20_000] if who == "incomes" else [])):
            why = few_there if n == 200 or people is rare else ""
            yield Row("13 thresholds", who, n, band(campaign(), people(), n, few, WIDTH), why)
            yield Row("7 parts", who, n, histogram(campaign(), people(), n, edges, WIDTH), why)
    yield Row(
        "57 thresholds", "incomes", 2_000,
        band(campaign(), incomes(), 2_000, many, WIDTH), campaigns=0.5,
    )  # fmt: skip
    weak = campaign(40_000.0)
    yield Row(
        "13 thresholds, ε a fifth", "incomes", 2_000,
        band(weak, incomes(), 2_000, few, 60_000.0),
    )  # fmt: skip
    yield Row(
        "5 parts, ε a fifth", "incomes", 2_000, histogram(weak, incomes(), 2_000, edges[1::2], 50e3)
    )  # fmt: skip
    for n in (500, 3_000):
        yield Row("6 districts", "homes", n, districts(n), few_there if n < 1_000 else "")
    for which in ("set", "ranks", "chosen"):
        yield Row(f"top 3 of 8 places: {which}", "ties", 3_000, top_places(3_000, 3, TIES, which))
    yield Row("top 1 of 8 places: set", "all equal", 3_000, top_places(3_000, 1, (0.1,) * 8, "set"))
    yield Row("greatest of 3 parts: set", "incomes", 20_000, greatest_share(20_000))
    yield Row("a map of 15 × 15", "homes", 3_000, density_map(3_000, 15))


# Errors


def errors() -> Iterator[tuple[str, int, Callable[[np.random.Generator], tuple[float, ...]]]]:
    """Yield the name of a quantity, the number of people, and a function that runs a campaign.

    It returns the value, its error, and the error as if estimates were independent.
    """
    high, low = (
        PointQuestion(name, Threshold(at, WIDTH, "smoothstep"))
        for name, at in (("high", 100_000.0), ("low", 60_000.0))
    )

    def shares(rng: np.random.Generator) -> JointEstimates:
        return reports(campaign(), incomes(), 5_000, rng).ask([high, low])

    def difference(rng: np.random.Generator) -> tuple[float, ...]:
        found = shares(rng)
        made, apart = (e.difference("low", "high") for e in (found, as_if_independent(found)))
        return made.value, made.standard_error, apart.standard_error

    def ratio(rng: np.random.Generator) -> tuple[float, ...]:
        found = shares(rng)
        made, apart = (e.ratio("high", "low") for e in (found, as_if_independent(found)))
        return made.value, made.standard_error, apart.standard_error

    yield "difference of two shares", 5_000, difference
    yield "ratio of two shares", 5_000, ratio
    two = PLANE.unproject([(5_000.0, 4_000.0), (7_000.0, 4_000.0)]).tolist()
    bells = [DensityAt(longitude, latitude) for longitude, latitude in two]
    of_homes = campaign(500.0, 2)

    def of_places(rng: np.random.Generator) -> tuple[float, ...]:
        softness = softness_of_points(of_homes, None, BELL)
        asked = Means(asked_of_points(of_homes, bells, softness))
        found = reports(of_homes, homes(), 3_000, rng).ask(asked)
        made, apart = (e.ratio(0, 1) for e in (found, as_if_independent(found)))
        return made.value, made.standard_error, apart.standard_error

    yield "ratio of the densities of two places", 3_000, of_places
