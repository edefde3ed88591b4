"""Coverage of intervals for relations between several private answers of a person.

There are three populations of 400,000 people. Each campaign asks n of them, chosen at random with
replacement; the law of the exact release perturbs every answer. A cell has a figure, a population
and a number of people; it counts the 95 % intervals, of 2,000 campaigns, that cover the
population's true value. Where reports tell nothing, the interval is the whole line. A control
treats reports as answers. A cell fails if it covers less than 94 %.

    python -m benchmarks relations --quick      300 campaigns of 300 people
    python -m benchmarks relations --seed 1     in full: overnight
"""

import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.relations_people import (
    DISTRICTS,
    FORM,
    KNOWN,
    NEITHER,
    OWNS,
    PEOPLE,
    RENTS,
    Population,
    least_squares,
    logistic_fit,
    options_of,
)
from geoveil.analyst import (
    Correlation,
    CrossTable,
    FormReports,
    FormStatistic,
    Mean,
    MeanBy,
    Option,
    PartialCorrelation,
    QuantileBy,
    Regression,
    Shares,
)
from geoveil.analyst.planned_forms import simulated
from geoveil.gp import NotPrivateWarning, UnsupportedError

Array = NDArray[np.float64]
Ends = tuple[Any, Any]
LEAST = 0.94
SIZES, CAMPAIGNS = (300, 2_000, 20_000), 2_000
QUICK_SIZES, QUICK_CAMPAIGNS = (300,), 300
CONTROLS = 100
"""Campaigns in which controls run: those that fail do so soon."""
_NORMAL = 1.959964


def _raw(reports: FormReports, name: str) -> NDArray[Any]:
    columns = reports.columns[:, FORM.columns_of(name)]
    if name in ("tenure", "mood"):
        return columns[:, 0]
    field: Any = FORM.field(name)
    return np.asarray(np.squeeze(columns * field.mechanism.step))


def _normal(values: Any, errors: Any) -> Ends:
    return values - _NORMAL * errors, values + _NORMAL * errors


def _mean(values: Array) -> Ends:
    return _normal(values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values)))


def _raw_districts(reports: FormReports) -> Ends:
    east, income = _raw(reports, "home")[:, 0], _raw(reports, "income")
    district = np.searchsorted([0.0, 4_000.0], east)
    low, high = zip(*(_mean(income[district == k]) for k in range(3)), strict=True)
    return np.array(low), np.array(high)


def _raw_correlation(reports: FormReports) -> Ends:
    z = np.arctanh(np.corrcoef(_raw(reports, "income"), _raw(reports, "age"))[0, 1])
    low, high = _normal(z, 1 / np.sqrt(reports.n - 3))
    return np.tanh(low), np.tanh(high)


def _raw_median(reports: FormReports) -> Ends:
    values = np.sort(_raw(reports, "income")[_raw(reports, "tenure") == OWNS])
    n, half = len(values), _NORMAL / 2 * np.sqrt(len(values))
    return values[max(int(n / 2 - half), 0)], values[min(int(n / 2 + half), n - 1)]


def _raw_slopes(reports: FormReports) -> Ends:
    income, age, tenure = (_raw(reports, of) for of in ("income", "age", "tenure"))
    low, high = _normal(*least_squares(income, age, *options_of(tenure)))
    return low[1], high[1]


def _raw_log_odds(reports: FormReports) -> Ends:
    tenure, age, mood = (_raw(reports, of) for of in ("tenure", "age", "mood"))
    low, high = _normal(*logistic_fit(tenure == RENTS, age, mood + 1.0))
    return low[1], high[1]


@dataclass(frozen=True)
class Figure:
    """One figure of a result, or several whose intervals hold simultaneously."""

    statistic: str
    ends: Callable[[Any], Ends]
    """Result → the ends of its intervals."""
    truth: Callable[[Population], Any]
    control: Callable[[FormReports], Ends] | None = None
    """Reports → the ends computed as if reports were answers."""


TABLE, RENTING = CrossTable("tenure", "mood"), Option("tenure", "rents")
ASKED: Mapping[str, FormStatistic[Any]] = {
    "tenure": Shares("tenure"),
    "party": Shares("party"),
    "mood": Mean("mood"),
    "table": TABLE,
    "row shares": TABLE,
    "by tenure": MeanBy("income", "tenure"),
    "by district": MeanBy("income", DISTRICTS),
    "correlation": Correlation("income", "age"),
    "partial": PartialCorrelation("income", "age", ["mood"]),
    "linear": Regression("income", ["age", "tenure"]),
    "logistic": Regression(RENTING, ["age", "mood"], "logistic"),
    "median": QuantileBy("income", [Option("tenure", "owns")], (0.5,)),
}


def _at(*place: int) -> Callable[[Any], Ends]:
    return lambda of: (of.low[place], of.high[place])


def _band(of: Any) -> Ends:
    return of.band_low, of.band_high


def _share_of_row(row: int, column: int) -> Callable[[Population], float]:
    return lambda of: float(of.cells[row, column] / of.cells[row].sum())


def _district(place: int) -> Callable[[Population], float]:
    return lambda of: float(of.districts[place])


def _group(label: str) -> Callable[[Any], Ends]:
    def ends(of: Any) -> Ends:
        if label not in of.labels:
            return -np.inf, np.inf
        low, high = (ends[of.labels.index(label)] for ends in of.intervals(0.95))
        return low, high

    return ends


def _all_groups(of: Any) -> Ends:
    if len(of.labels) < 3:
        return -np.inf, np.inf
    low, high = of.band()
    return low, high


def _coefficient(place: int) -> Callable[[Any], Ends]:
    def ends(of: Any) -> Ends:
        row = of.rows()[place]
        return row["ci_low"], row["ci_high"]

    return ends


FIGURES: Mapping[str, Figure] = {
    "share of a rare option": Figure(
        "tenure", _at(NEITHER), lambda of: of.shares("tenure")[NEITHER],
        lambda of: _mean(_raw(of, "tenure") == NEITHER),
    ),
    "shares of 3 options, jointly": Figure("tenure", _band, lambda of: of.shares("tenure")),
    "share of the rarest of 20": Figure("party", _at(19), lambda of: of.shares("party")[19]),
    "shares of 20 options, jointly": Figure("party", _band, lambda of: of.shares("party")),
    "mean score": Figure(
        "mood", lambda of: (of.ci_low, of.ci_high), lambda of: of["mood"].mean() + 1,
        lambda of: _mean(_raw(of, "mood") + 1.0),
    ),
    "cell of a rare option": Figure("table", _at(NEITHER, 0), lambda of: of.cells[NEITHER, 0]),
    "a frequent cell": Figure(
        "table", _at(OWNS, 2), lambda of: of.cells[OWNS, 2],
        lambda of: _mean((_raw(of, "tenure") == OWNS) & (_raw(of, "mood") == 2)),
    ),
    "15 cells, jointly": Figure("table", _band, lambda of: of.cells),
    **{
        f"row share {row + 1}, {column + 1}": Figure(
            "row shares", _at(row, column), _share_of_row(row, column)
        )
        for row in range(3) for column in range(5)
    },
    "mean of a large group": Figure("by tenure", _group("owns"), lambda of: of.means()[OWNS]),
    "mean of a rare group": Figure("by tenure", _group("neither"), lambda of: of.means()[NEITHER]),
    "means of 3 groups, jointly": Figure("by tenure", _all_groups, Population.means),
    **{
        f"mean of district {k + 1}": Figure("by district", _group(of.text), _district(k))
        for k, of in enumerate(DISTRICTS)
    },
    "means of 3 districts, jointly": Figure(
        "by district", _all_groups, lambda of: of.districts, _raw_districts
    ),
    "correlation": Figure(
        "correlation", lambda of: (of.ci_low, of.ci_high), lambda of: of.correlations()[0],
        _raw_correlation,
    ),
    "partial correlation": Figure(
        "partial", lambda of: (of.ci_low, of.ci_high), lambda of: of.correlations()[1]
    ),
    "slope of age": Figure("linear", _coefficient(1), lambda of: of.slopes()[0], _raw_slopes),
    "slope of renting": Figure("linear", _coefficient(2), lambda of: of.slopes()[1]),
    "logistic coefficient of age": Figure(
        "logistic", _coefficient(1), lambda of: of.log_odds()[0], _raw_log_odds
    ),
    "logistic coefficient of mood": Figure(
        "logistic", _coefficient(2), lambda of: of.log_odds()[1]
    ),
    "median of a group": Figure(
        "median", lambda of: (of["tenure: owns"].low[0], of["tenure: owns"].high[0]),
        Population.median, _raw_median,
    ),
}  # fmt: skip


@dataclass
class Cell:
    """How often the intervals of a figure covered the truth."""

    figure: str
    people: str
    n: int
    campaigns: int = 0
    below: int = 0
    """Campaigns in which some interval lies below the truth."""
    above: int = 0
    untold: int = 0
    """Campaigns whose reports tell nothing."""
    control: int | None = None
    """Campaigns in which the control covered the truth; None if there is no control."""

    @property
    def covered(self) -> float:
        """The share of campaigns whose intervals cover the truth."""
        return 1 - (self.below + self.above) / self.campaigns

    def __str__(self) -> str:
        asked = min(self.campaigns, CONTROLS)
        control = "" if self.control is None else f", control {self.control / asked:.0%}"
        return (
            f"{self.people:6} {self.n:6,} {self.figure:34} {self.covered:7.2%} of"
            f" {self.campaigns:,}; {self.below} below, {self.above} above,"
            f" {self.untold} untold{control}"
        )

    def add(self, found: Ends | None, truth: Any) -> None:
        """Count a campaign's intervals; None if its reports tell nothing."""
        self.campaigns += 1
        self.untold += found is None
        if found is not None:
            low, high = found
            below = bool(np.any(high < truth))
            self.below += below
            self.above += bool(np.any(low > truth)) and not below


def measured(
    people: str, n: int, campaigns: int, seed: int, figures: Sequence[str] = tuple(FIGURES)
) -> Iterator[Sequence[Cell]]:
    """Yield the cells for a population and a number of people, after each campaign."""
    population = Population(people)
    rng = np.random.default_rng([seed, list(PEOPLE).index(people), n])
    truths = {name: FIGURES[name].truth(population) for name in figures}
    cells = [
        Cell(name, people, n, control=None if FIGURES[name].control is None else 0)
        for name in figures
    ]
    for campaign in range(campaigns):
        who = rng.integers(KNOWN, size=n)
        reports = simulated(FORM, [of[who] for of in population.answers.values()], rng)
        results: dict[str, Any] = {}
        for cell in cells:
            figure, truth = FIGURES[cell.figure], truths[cell.figure]
            if figure.statistic not in results:
                results[figure.statistic] = _asked(reports, figure.statistic)
            result = results[figure.statistic]
            cell.add(None if result is None else _ends(figure, result), truth)
            if figure.control is not None and campaign < CONTROLS:
                low, high = figure.control(reports)
                cell.control = (cell.control or 0) + bool(np.all((low <= truth) & (truth <= high)))
        yield cells


def _asked(reports: FormReports, statistic: str) -> Any:
    try:
        result = reports.ask(ASKED[statistic])
    except UnsupportedError:
        return None
    return result.row_shares if statistic == "row shares" else result


def _ends(figure: Figure, result: Any) -> Ends | None:
    try:
        return figure.ends(result)
    except KeyError:  # the reports tell nothing about the group
        return None


def table(*, quick: bool = False, seed: int | None = None) -> None:
    """Print the coverage of every cell, and the cells that fail."""
    warnings.simplefilter("ignore", NotPrivateWarning)
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    campaigns = QUICK_CAMPAIGNS if quick else CAMPAIGNS
    failed = count = 0
    for n in QUICK_SIZES if quick else SIZES:
        for people in PEOPLE:
            *_, cells = measured(people, n, campaigns, seed)
            count, failed = count + len(cells), failed + sum(of.covered < LEAST for of in cells)
            print(*cells, sep="\n", flush=True)
    print(f"Seed {seed}: {failed} of {count} cells hold less than {LEAST:.0%}.")
