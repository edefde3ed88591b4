"""Every statistic of perturbed numbers, places and forms, with the truth about the people.

`STATISTICS` has a row for each, with the function that computes it from reports. The weights of
weighted statistics do not depend on the people; their logarithms have a spread of 1.5.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import (
    ChosenBands,
    CrossTable,
    Density,
    DistributionFunction,
    Districts,
    FormReports,
    Gini,
    Histogram,
    LabelledEstimate,
    Map,
    Means,
    MeanValue,
    Option,
    OverTime,
    Parts,
    QuantileBy,
    Quantiles,
    Regression,
    ReportRows,
    Reports,
    ShareAbove,
    ShareInside,
    Shares,
    TopShare,
    reports_of,
)
from geoveil.analyst.planned_forms import simulated
from geoveil.analyst.statistics.over_time import over_time
from geoveil.campaign import (
    Allocation,
    Attribute,
    ChoiceField,
    FormCampaign,
    NumberField,
    PlanarLaplaceSpec,
    PointQuestion,
    Question,
    Readings,
    StatisticCampaign,
    ValueCampaign,
)
from geoveil.gp import (
    Accumulator,
    AzimuthalEquidistant,
    GeoPrivacy,
    Threshold,
    UnsupportedError,
    estimate,
)

B, T = 8_000.0, 100_000.0
EDGES = (60_000.0, T, 160_000.0)
AT = tuple(40_000.0 + 20_000.0 * i for i in range(7))
WIDTH, LEAST, MOST = 3 * B, -1e5, 1e7
WEIGHTS = 1.5
"""Standard deviation of the logarithms of weights."""
KNOWN = 1_000_000
"""The number of people whose statistics count as the truth."""
_FEWER = 10
"""One in this many of them has a place."""
_TOP = 0.1
_METRES = 16.0
"""The dollars that move a home one metre to the east."""
_EDGE_M = 15_000.0
_EPOCH, _WEEKS = 13, 39
Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]
Row = tuple[Any, Any, Any, Any]
"""The lower ends, estimates, upper ends and truths of simultaneous intervals."""

OPEN: Any = {
    "opens": datetime(2026, 1, 1, tzinfo=UTC),
    "closes": datetime(2026, 10, 1, tzinfo=UTC),
}
_INCOME, _PRIVACY = Attribute(name="income", unit="dollar"), GeoPrivacy(1.0, B, "dollar")
PLANE = AzimuthalEquidistant(-73.95, 40.71, radius_m=40_000)
NUMBERS = ValueCampaign(
    campaign_id="incomes",
    title="Incomes",
    attribute=_INCOME,
    privacy=_PRIVACY,
    mechanism=PlanarLaplaceSpec(1),
    **OPEN,
)
PLACES = ValueCampaign(
    campaign_id="homes",
    title="Homes",
    attribute=Attribute(name="home", unit="metre", coordinates=PLANE),
    privacy=GeoPrivacy(1.0, B / _METRES, "metre"),
    mechanism=PlanarLaplaceSpec(2),
    **OPEN,
)
FORM = FormCampaign(
    campaign_id="form",
    title="Incomes",
    fields=(
        NumberField(attribute=replace(_INCOME, least=LEAST, most=MOST), privacy=_PRIVACY),
        ChoiceField(name="group", options=("a", "b"), epsilon=1.0),
    ),
    **OPEN,
)
WEEKLY = StatisticCampaign(
    campaign_id="weekly",
    title="Incomes",
    attribute=_INCOME,
    privacy=_PRIVACY,
    questions=(Question("above", Threshold(T, WIDTH, "smoothstep")),),
    allocation=Allocation.PARTITION,
    opens=OPEN["opens"],
    closes=OPEN["opens"] + _WEEKS * timedelta(days=7),
    period=timedelta(days=7),
    readings=Readings(every=_EPOCH * timedelta(days=7), extrapolated=True, cohorts=_EPOCH),
)


def _crowd(spread: float) -> Draw:
    """Return people half of whom are crowded just above T."""

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
"""Kinds of people: ten ordinary laws, and difficult ones."""


def in_group_a(values: Array) -> Array:
    """Return the probability that a person is in group a, which has fewer rich people."""
    return np.where(values < T, 0.7, 0.3)


def homes(values: Array, rng: np.random.Generator) -> Array:
    """Return where people live, in metres on the plane: richer people live farther east."""
    east = np.clip((values - T) / _METRES, -_EDGE_M / 2, _EDGE_M / 2)
    return np.stack([east, rng.normal(0.0, 1_000.0, len(values))], axis=1)


class Truth:
    """The truth about people of a kind, computed from very many of them."""

    def __init__(self, draw: Draw) -> None:
        rng = np.random.default_rng(5)
        self.values: Array = np.sort(draw(rng, KNOWN))
        """In increasing order."""
        self._above: dict[float, float] = {}
        self.homes = homes(self.values[::_FEWER], rng)

    def up_to(self, at: Any) -> Any:
        """Return the shares of people at or below values."""
        return np.searchsorted(self.values, at, "right") / len(self.values)

    def above(self, at: float) -> float:
        """Return the soft share above a value."""
        if at not in self._above:
            self._above[at] = float(np.mean(self.soft(at)))
        return self._above[at]

    def soft(self, at: float) -> Array:
        """Return each person's contribution to the soft share above a value."""
        return Threshold(at, WIDTH, "smoothstep").value(self.values)

    @cached_property
    def gini(self) -> float:
        """The Gini coefficient."""
        n = len(self.values)
        return float((2 * np.arange(1, n + 1) - n - 1) @ self.values / n / self.values.sum())

    @cached_property
    def top_share(self) -> float:
        """The share that the top holds."""
        return float(self.values[-round(_TOP * KNOWN) :].sum() / self.values.sum())

    @cached_property
    def of_group_a(self) -> tuple[float, float, float]:
        """Group a's share above T and median, and how much larger the mean of group b is."""
        weights = in_group_a(self.values)
        shares = np.cumsum(weights) / weights.sum()
        poorer, richer = (np.average(self.values, weights=of) for of in (weights, 1 - weights))
        median = float(self.values[np.searchsorted(shares, 0.5)])
        share = float(np.average(self.soft(T), weights=weights))
        return share, median, float(richer - poorer)


def _quantity(made: Any, right: float) -> Row:
    (row,) = made.rows()
    return row["ci_low"], row["estimate"], row["ci_high"], right


@dataclass(frozen=True)
class Campaign:
    """The reports of people, drawn when needed."""

    people: Array = field(repr=False)
    """Their values."""
    truth: Truth = field(repr=False)
    rng: np.random.Generator = field(repr=False)
    weights: Array | None = field(default=None, repr=False)
    """The weight of each person; None if all count the same."""

    @cached_property
    def numbers(self) -> Reports:
        """The reports of perturbed values."""
        of = NUMBERS.point_mechanism
        return reports_of(_rows(of.simulate(self.people, self.rng) / of.step), NUMBERS)

    @cached_property
    def places(self) -> Reports:
        """The reports of perturbed homes."""
        of = PLACES.point_mechanism
        drawn = of.simulate(homes(self.people, self.rng), self.rng)
        return reports_of(_rows(drawn / of.step), PLACES)

    @cached_property
    def forms(self) -> FormReports:
        """The reports of values and groups."""
        in_b = self.rng.random(len(self.people)) >= in_group_a(self.people)
        return simulated(FORM, [self.people, in_b.astype(np.int64)], self.rng)

    @cached_property
    def weekly(self) -> OverTime:
        """The curve of people who report every week, with a fresh reading each epoch."""
        of, exponent = WEEKLY.mechanisms[0], WEEKLY.grid_exponent
        cohort = np.arange(len(self.people)) % _EPOCH
        latest = before = np.asarray(of.simulate(self.people, self.rng))
        read, gap = np.zeros(len(self.people)), np.zeros(len(self.people))
        rows, of_cohorts = [], []
        for week in range(_WEEKS):
            reads = (week > 0) & ((week - 1) % _EPOCH == cohort)
            before, gap = np.where(reads, latest, before), np.where(reads, week - read, gap)
            latest = np.where(reads, of.simulate(self.people, self.rng), latest)
            read = np.where(reads, week, read)
            told = latest + (week - read) / np.maximum(gap, 1) * (latest - before)
            known = week - read <= gap
            integers = np.rint(np.ldexp(told, -exponent)).astype(np.int64)
            rows.append(_summed(week, integers[known]))
            of_cohorts += [
                _summed(week, integers[known & (cohort == each)], (each + _FIRST) % _EPOCH)
                for each in range(_EPOCH)
            ]
        return over_time(WEEKLY, rows, of_cohorts)


_FIRST = int((WEEKLY.opens - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=7))


def _rows(points: Array) -> ReportRows:
    integers = np.rint(points).astype(np.int64).reshape(len(points), -1)
    return ReportRows(np.zeros(len(points), np.uint32), None, tuple(integers.T))


def _summed(week: int, integers: NDArray[Any], cohort: int | None = None) -> LabelledEstimate:
    sums = Accumulator.of(integers.tolist())
    limits, exponent = WEEKLY.limits[0], WEEKLY.grid_exponent
    made = estimate(sums, exponent, 0.95, limits)
    return LabelledEstimate(
        label="above",
        value=made.value,
        standard_error=made.standard_error,
        ci_low=made.ci_low,
        ci_high=made.ci_high,
        method=made.method,
        confidence=0.95,
        n=made.n,
        one_report=None,
        privacy=WEEKLY.privacy,
        period=week,
        robust=None,
        sums=(sums.total, sums.total_of_squares),
        step_exponent=exponent,
        limits=limits,
        softness=None,
        cohort=cohort,
    )


def _share(of: Campaign) -> Row:
    joint = of.numbers.ask(Means([PointQuestion("share", Threshold(T, WIDTH, "smoothstep"))]))
    return _quantity(joint, of.truth.above(T))


def _ratio(of: Campaign) -> Row:
    asked = [PointQuestion(str(at), Threshold(at, WIDTH, "smoothstep")) for at in EDGES[::2]]
    right = of.truth.above(EDGES[2]) / of.truth.above(EDGES[0])
    return _quantity(of.numbers.ask(Means(asked)).ratio(1, 0), right)


def _parts(of: Campaign) -> Row:
    asked = Shares(Parts("income", Histogram(edges=(T,))))
    made = of.forms.ask(asked, weights=of.weights).rows()
    columns = ([row[key] for row in made] for key in ("ci_low", "estimate", "ci_high"))
    low, values, high = columns
    return low, values, high, [1 - of.truth.above(T), of.truth.above(T)]


def _hard(of: Campaign) -> Row:
    bands = ChosenBands(NUMBERS, [ShareAbove(T)])
    (row,) = bands.answered(of.numbers.estimates(bands.questions)).estimates
    low, high = row.any_crowd or (0.0, 1.0)
    value = None if row.hard is None else row.hard.value
    return low, value, high, 1 - float(of.truth.up_to(T))


def _median(of: Campaign) -> Row:
    made = of.numbers.ask(Quantiles(levels=(0.5,)))
    low, high = made.any_crowd
    return low, made.values, high, np.quantile(of.truth.values, 0.5)


def _histogram(of: Campaign) -> Row:
    made = of.numbers.ask(Histogram(edges=EDGES))
    right = np.diff([0.0, *of.truth.up_to(EDGES), 1.0])
    assert made.any_crowd is not None
    return made.any_crowd[0], made.values, made.any_crowd[1], right


def _curve(of: Campaign) -> Row:
    made = of.numbers.ask(DistributionFunction(at=AT))
    return made.low, made.values, made.high, np.array([1 - of.truth.above(at) for at in AT])


def _density(of: Campaign) -> Row:
    made = of.numbers.ask(Density(of=DistributionFunction(at=AT)))
    right = -np.diff([of.truth.above(at) for at in AT]) / np.diff(AT)
    return made.low, made.values, made.high, right


def _mean(of: Campaign) -> Row:
    made = of.numbers.ask(MeanValue(within=(LEAST, MOST)))
    return _quantity(made, float(of.truth.values.mean()))


def _gini(of: Campaign) -> Row:
    return _quantity(of.numbers.ask(Gini(within=(LEAST, MOST))), of.truth.gini)


def _top_share(of: Campaign) -> Row:
    return _quantity(of.numbers.ask(TopShare(share=_TOP, within=(LEAST, MOST))), of.truth.top_share)


def _group_share(of: Campaign) -> Row:
    table = of.forms.ask(
        CrossTable("group", Parts("income", Histogram(edges=(T,)))), weights=of.weights
    )
    row = table.row_shares.rows()[1]
    return row["ci_low"], row["estimate"], row["ci_high"], of.truth.of_group_a[0]


def _group_median(of: Campaign) -> Row:
    asked = QuantileBy("income", [Option("group", "a")], (0.5,))
    (row,) = of.forms.ask(asked, weights=of.weights).rows()
    return row["any_crowd_low"], row["estimate"], row["any_crowd_high"], of.truth.of_group_a[1]


def _coefficient(of: Campaign) -> Row:
    made = of.forms.ask(Regression("income", ["group"]), weights=of.weights).rows()
    row = made[-1]
    return row["ci_low"], row["estimate"], row["ci_high"], of.truth.of_group_a[2]


def _over_time(of: Campaign) -> Row:
    rows = of.weekly.rows()
    low, values, high = ([row[k] for row in rows] for k in ("ci_low", "estimate", "ci_high"))
    return low, values, high, [of.truth.above(T)] * len(rows)


def _flags(of: Campaign) -> Row:
    """Return an interval that covers the truth if no week of a calm year is flagged."""
    return -1.0, None, 0.5 - float(np.nansum(of.weekly.flags)), 0.0


def _districts(of: Campaign) -> Row:
    from scipy.special import ndtr

    ends = _EDGE_M * np.array([[-1, -1], [0, -1], [0, 1], [-1, 1]])
    outlines = [PLANE.unproject(ends + np.array([east, 0.0])).tolist() for east in (0.0, _EDGE_M)]
    asked = [
        ShareInside([[ring]], name) for ring, name in zip(outlines, ("west", "east"), strict=True)
    ]
    made = of.places.ask(Districts(asked))
    blurred = (of.truth.homes[:, :1] - [-_EDGE_M, 0, _EDGE_M]) / (3 * B / _METRES)
    inside = np.diff(-ndtr(blurred)).mean(axis=0)
    return made.low, made.values, made.high, [*inside, 1 - inside.sum()]


def _map(of: Campaign) -> Row:
    made = of.places.ask(Map(bounds=(-74.05, 40.66, -73.85, 40.76), size=(5, 4)))
    nodes = PLANE.project(np.stack(np.meshgrid(made.longitudes, made.latitudes), axis=-1))
    near = nodes[:, :, None, :] - of.truth.homes
    bells = np.exp(-(near**2).sum(axis=-1) / (2 * made.bandwidth**2)).mean(axis=-1)
    right = 1e6 * bells / (2 * np.pi * made.bandwidth**2)
    values = [row["per_km2"] for row in made.rows()]
    return made.low.ravel(), values, made.high.ravel(), right.ravel()


@dataclass(frozen=True)
class AskedStatistic:
    """A statistic to compute in campaigns."""

    ask: Callable[[Campaign], Row]
    every: int = 1
    """It is computed in one of this many campaigns."""
    weighted: bool = False

    def of(self, campaign: Campaign) -> Row:
        """Return the result; the whole line as interval if there is no estimate."""
        try:
            return self.ask(campaign)
        except UnsupportedError:
            return -np.inf, None, np.inf, 0.0


STATISTICS: Mapping[str, AskedStatistic] = {
    "share": AskedStatistic(_share),
    "ratio": AskedStatistic(_ratio),
    "parts": AskedStatistic(_parts),
    "parts, weighted": AskedStatistic(_parts, weighted=True),
    "hard": AskedStatistic(_hard),
    "median": AskedStatistic(_median, every=5),
    "histogram": AskedStatistic(_histogram),
    "curve": AskedStatistic(_curve, every=5),
    "density": AskedStatistic(_density, every=5),
    "mean": AskedStatistic(_mean, every=10),
    "Gini": AskedStatistic(_gini, every=10),
    "top share": AskedStatistic(_top_share, every=10),
    "share of a group": AskedStatistic(_group_share),
    "share of a group, weighted": AskedStatistic(_group_share, weighted=True),
    "median of a group": AskedStatistic(_group_median, every=10),
    "median of a group, weighted": AskedStatistic(_group_median, every=10, weighted=True),
    "coefficient": AskedStatistic(_coefficient),
    "coefficient, weighted": AskedStatistic(_coefficient, weighted=True),
    "over time": AskedStatistic(_over_time, every=5),
    "flags": AskedStatistic(_flags, every=5),
    "districts": AskedStatistic(_districts, every=10),
    "map": AskedStatistic(_map, every=5),
}
