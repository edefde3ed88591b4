"""Coverage of the intervals of every statistic of perturbed numbers, for people of many kinds.

A cell is a statistic, a kind of people and a number of them: the share of campaigns whose
interval holds the truth, at 95 %. Campaigns are drawn from a seed that is fresh unless one is
named, and it is printed. A cell fails if it holds less than 94.5 % by more than chance (1 in 1,000
for all cells together), if an interval has a width of 0, or if an estimate is outside its
interval.

    python -m benchmarks intervals --quick --page docs/intervals.md     the stated subset, written
    python -m benchmarks intervals                                      in full: overnight
"""

import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import (
    ChosenBands,
    DistributionFunction,
    FormReports,
    Histogram,
    Means,
    MeanValue,
    Parts,
    Quantiles,
    ReportRows,
    Reports,
    ShareAbove,
    Shares,
    reports_of,
)
from geoveil.campaign import (
    Attribute,
    FormCampaign,
    NumberField,
    PlanarLaplaceSpec,
    PointQuestion,
    ValueCampaign,
)
from geoveil.gp import GeoPrivacy, NotPrivateWarning, PlanarLaplace, Threshold

B, T = 8_000.0, 100_000.0
EDGES = (60_000.0, T, 160_000.0)
AT = tuple(40_000.0 + 20_000.0 * i for i in range(7))
WIDTH, LEAST, MOST = 3 * B, -1e5, 1e7
LEAST_COVERED, CHANCE = 0.945, 1e-3
SIZES, CAMPAIGNS = (5, 20, 100, 1_000, 10_000), 400
QUICK_SIZES, QUICK_CAMPAIGNS = (5, 100, 2_000), 20
SLOW, OF_SLOW = ("median", "curve", "mean"), 5
"""Statistics that ask many thresholds; they are asked in one of so many campaigns."""
_WEIGHTS = 1.5
"""The spread of the logarithms of weights."""
_KNOWN = 1_000_000
"""People whose statistics are taken for the truth."""
_MARKS = "<!-- coverage -->", "<!-- end of coverage -->"
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]
Row = tuple[Any, Any, Any, Any]
"""The lower ends, estimates, upper ends and truths, of what is to hold at once."""

CAMPAIGN = ValueCampaign(
    campaign_id="incomes",
    title="Incomes",
    attribute=Attribute(name="income", unit="dollar"),
    privacy=GeoPrivacy(1.0, B, "dollar"),
    mechanism=PlanarLaplaceSpec(1),
    opens=datetime(2026, 1, 1, tzinfo=UTC),
    closes=datetime(2026, 2, 1, tzinfo=UTC),
)
FORM = FormCampaign(
    campaign_id="form",
    title="Incomes",
    fields=(NumberField(attribute=CAMPAIGN.attribute, privacy=CAMPAIGN.privacy),),
    opens=CAMPAIGN.opens,
    closes=CAMPAIGN.closes,
)


def _crowd(spread: float) -> Draw:
    """Return people of whom half are crowded just above T."""

    def draw(rng: np.random.Generator, n: int) -> Array:
        near = T + 0.2 * B + spread * B * rng.standard_normal(n)
        return np.where(rng.random(n) < 0.5, near, rng.lognormal(11.3, 0.8, n))

    return draw


def _heaps(rng: np.random.Generator, n: int) -> Array:
    x = rng.lognormal(11.3, 0.8, n)
    return np.where(rng.random(n) < 0.5, np.rint(x / 25_000) * 25_000, x)


PEOPLE: Mapping[str, Draw] = {
    "log-normal": lambda rng, n: rng.lognormal(11.3, 0.8, n),
    "normal": lambda rng, n: rng.normal(9e4, 3e4, n),
    "uniform": lambda rng, n: rng.uniform(0, 2e5, n),
    "exponential": lambda rng, n: rng.exponential(8e4, n),
    "two humps": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.normal(6e4, 1.2e4, n), rng.normal(13e4, 2.5e4, n)
    ),
    "Pareto": lambda rng, n: 3e4 * (1 + rng.pareto(3.0, n)),
    "U-shaped": lambda rng, n: 2e5 * rng.beta(0.5, 0.5, n),
    "triangle": lambda rng, n: 2e5 * np.sqrt(rng.random(n)),
    "Student-t": lambda rng, n: np.clip(9e4 + 2e4 * rng.standard_t(3, n), LEAST, MOST),
    "gamma": lambda rng, n: rng.gamma(0.5, 1.6e5, n),
    "rare": lambda rng, n: np.where(rng.random(n) < 0.002, 1.5e5, rng.uniform(5e3, 3e4, n)),
    "all equal": lambda rng, n: np.full(n, 60_000.0),
    "one outlier": lambda rng, n: np.where(rng.random(n) < 1e-3, 9e6, rng.normal(4e4, 5e3, n)),
    **{f"crowd of {s:g} b": _crowd(s) for s in (0.0, 0.25, 0.5, 1.0, 2.0)},
    "heaps": _heaps,
}
"""Kinds of people: ten ordinary laws, and those that are hard to answer for."""


@dataclass(frozen=True)
class Truth:
    """What is true of people, of very many of them."""

    values: Array = field(repr=False)
    """Increasing."""

    @classmethod
    def of(cls, draw: Draw) -> "Truth":
        """Return the truth of people of a kind."""
        return cls(np.sort(draw(np.random.default_rng(5), _KNOWN)))

    def up_to(self, at: Any) -> Any:
        """Return the share of people up to values."""
        return np.searchsorted(self.values, at, "right") / len(self.values)

    def above(self, at: float) -> float:
        """Return the soft share above a value."""
        return float(np.mean(Threshold(at, WIDTH, "smoothstep").value(self.values)))


def statistics(
    truth: Truth, points: Array, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yield the name of each statistic, and what asks perturbed points for it."""
    mechanism: PlanarLaplace = CAMPAIGN.point_mechanism
    integers = np.rint(points / mechanism.step).astype(np.int64)
    rows = ReportRows(np.zeros(len(points), np.uint32), None, (integers,))
    reports: Reports = reports_of(rows, CAMPAIGN)
    queries = [Threshold(at, WIDTH, "smoothstep") for at in EDGES]
    weights = np.exp(_WEIGHTS * rng.standard_normal(len(points)))

    def of(made: Any, right: float) -> Row:
        return made.ci_low, made.value, made.ci_high, right

    def joint() -> Any:
        return reports.ask(Means([PointQuestion(str(i), q) for i, q in enumerate(queries)]))

    def share() -> Row:
        return of(joint().contrast([0, 1, 0]), truth.above(T))

    def ratio() -> Row:
        return of(joint().ratio(2, 0), truth.above(EDGES[2]) / truth.above(EDGES[0]))

    def weighted() -> Row:
        form = FormReports(FORM, integers[:, None])
        made = form.ask(Shares(Parts("income", Histogram(edges=(T,)))), weights=weights).rows()
        low, high = ([row[end] for row in made] for end in ("ci_low", "ci_high"))
        values = [row["estimate"] for row in made]
        return low, values, high, [1 - truth.above(T), truth.above(T)]

    def hard() -> Row:
        bands = ChosenBands(CAMPAIGN, [ShareAbove(T)])
        (row,) = bands.answered(reports.estimates(bands.questions)).estimates
        low, high = row.any_crowd or (0.0, 1.0)
        value = 0.5 if row.hard is None else row.hard.value
        return low, value, high, 1 - float(truth.up_to(T))

    def median() -> Row:
        made = reports.ask(Quantiles(levels=(0.5,)))
        low, high = made.any_crowd
        return low, made.values, high, np.quantile(truth.values, 0.5)

    def histogram() -> Row:
        made = reports.ask(Histogram(edges=EDGES))
        right = np.diff([0.0, *truth.up_to(EDGES), 1.0])
        assert made.any_crowd is not None
        return made.any_crowd[0], None, made.any_crowd[1], right

    def curve() -> Row:
        made = reports.ask(DistributionFunction(at=AT))
        right = np.array([1 - truth.above(at) for at in AT])
        return made.low, made.values, made.high, right

    def mean() -> Row:
        made = reports.ask(MeanValue(within=(LEAST, MOST)))
        return of(made, float(truth.values.mean()))

    every = (share, ratio, weighted, hard, median, histogram, curve, mean)
    yield from ((each.__name__, each) for each in every)


@dataclass
class Cell:
    """How often intervals of a statistic held what is true."""

    held: int = 0
    campaigns: int = 0
    empty: int = 0
    """Those of width 0."""
    outside: int = 0
    """Estimates outside of their interval."""

    def add(self, row: Row) -> None:
        """Count an interval, or several that are to hold at once."""
        low, value, high, right = (None if x is None else np.asarray(x, np.float64) for x in row)
        assert low is not None
        assert high is not None
        assert right is not None
        slack = 1e-9 * np.maximum(np.abs(right), 1.0)
        self.campaigns += 1
        self.held += bool(np.all((low <= right + slack) & (right - slack <= high)))
        self.empty += bool(np.any(high <= low))
        self.outside += value is not None and bool(np.any((value < low) | (value > high)))

    def wrong(self, cells: int) -> str:
        """Return what is wrong with it, among so many cells."""
        from scipy.stats import binom

        chance = float(binom.cdf(self.held, self.campaigns, LEAST_COVERED))
        short = ["covers too little"] if chance < CHANCE / cells else []
        empty = [f"{self.empty} of width 0"] if self.empty else []
        return ", ".join(short + empty + ([f"{self.outside} outside"] if self.outside else []))


def measured(
    seed: int, sizes: tuple[int, ...], campaigns: int, names: tuple[str, ...] = ()
) -> dict[tuple[str, str, int], Cell]:
    """Return every cell: by statistic, people and n.

    Args:
        seed: of all draws.
        sizes: numbers of people.
        campaigns: of each cell.
        names: of statistics; all by default.
    """
    cells: dict[tuple[str, str, int], Cell] = {}
    for place, (people, draw) in enumerate(PEOPLE.items()):
        truth = Truth.of(draw)
        for n in sizes:
            rng = np.random.default_rng([seed, place, n])
            for campaign in range(campaigns):
                points = draw(rng, n) + rng.laplace(0.0, B, n)
                for name, ask in statistics(truth, points, rng):
                    left_out = names and name not in names
                    if not left_out and (name not in SLOW or campaign % OF_SLOW == 0):
                        cells.setdefault((name, people, n), Cell()).add(ask())
    return cells


def table(*, quick: bool = False, page: Path | None = None, seed: int | None = None) -> None:
    """Print the coverage of every cell in per cent, and what failed.

    Args:
        quick: the stated subset.
        page: a page between two marks of which the table is written.
        seed: of all draws; a fresh one by default.
    """
    warnings.simplefilter("ignore", NotPrivateWarning)
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    sizes, campaigns = (QUICK_SIZES, QUICK_CAMPAIGNS) if quick else (SIZES, CAMPAIGNS)
    cells = measured(seed, sizes, campaigns)
    lines = page_of(cells, campaigns, seed)
    print("\n".join(lines))
    if page is not None:
        before, rest = page.read_text().split(_MARKS[0])
        after = rest.split(_MARKS[1])[1]
        page.write_text(before + _MARKS[0] + "\n" + "\n".join(lines) + "\n" + _MARKS[1] + after)


def page_of(cells: Mapping[tuple[str, str, int], Cell], campaigns: int, seed: int) -> list[str]:
    """Return the table as Markdown: a row for people and n, a column for each statistic."""
    names = list(dict.fromkeys(name for name, _, _ in cells))
    lines = [f"| people | n | {' | '.join(names)} |", f"|---|--:|{'--:|' * len(names)}"]
    for people, n in dict.fromkeys((people, n) for _, people, n in cells):
        shares = (cells[name, people, n] for name in names)
        shown = (f"{100 * cell.held / cell.campaigns:.1f}" for cell in shares)
        lines.append(f"| {people} | {n:,} | {' | '.join(shown)} |")
    wrong = {key: said for key, cell in cells.items() if (said := cell.wrong(len(cells)))}
    few = campaigns // OF_SLOW
    failed = [f"* {name}, {people}, {n:,}: {said}" for (name, people, n), said in wrong.items()]
    return [
        *lines,
        "",
        f"Coverage in per cent of {campaigns:,} campaigns each ({few:,} of {', '.join(SLOW)}),",
        f"seed {seed}. {len(wrong)} of {len(cells)} cells failed.",
        *failed,
    ]
