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
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import statsmodels.api as sm
from numpy.typing import NDArray

from benchmarks.every_statistic import OPEN, PLANE
from geoveil.analyst import (
    Correlation,
    CrossTable,
    FormReports,
    FormStatistic,
    Mean,
    MeanBy,
    Option,
    QuantileBy,
    Regression,
    Shares,
    Within,
)
from geoveil.analyst.planned_forms import simulated
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    FormCampaign,
    NumberField,
    OrdinalField,
    PlaceField,
)
from geoveil.gp import (
    GeoPrivacy,
    NotPrivateWarning,
    SmoothedRegion,
    Threshold,
    UnsupportedError,
)

Array = NDArray[np.float64]
Answers = Mapping[str, NDArray[Any]]
"""Name of a field → the answers of people."""
Ends = tuple[Any, Any]
LEAST = 0.94
SIZES, CAMPAIGNS = (300, 2_000, 20_000), 2_000
QUICK_SIZES, QUICK_CAMPAIGNS = (300,), 300
CONTROLS = 100
"""Campaigns in which controls run: those that fail do so soon."""
KNOWN = 400_000
"""The number of people in each population."""
MOST = 500_000.0
INCOME_NOISE, _AGE, _HOME = 8_000.0, 4.0, 500.0
"""Noise scales."""
OWNS, RENTS, NEITHER = range(3)
_NORMAL = 1.959964
FORM = FormCampaign(
    campaign_id="relations",
    title="A household",
    fields=(
        ChoiceField(name="tenure", options=("owns", "rents", "neither"), epsilon=1.0),
        OrdinalField(name="mood", options=tuple("12345"), epsilon=2.0),
        NumberField(
            attribute=Attribute(name="income", unit="dollar", least=0.0, most=MOST),
            privacy=GeoPrivacy(1.0, INCOME_NOISE, "dollar"),
        ),
        NumberField(
            attribute=Attribute(name="age", unit="year"), privacy=GeoPrivacy(1.0, _AGE, "year")
        ),
        PlaceField(
            attribute=Attribute(name="home", unit="metre", coordinates=PLANE),
            privacy=GeoPrivacy(1.0, _HOME, "metre"),
        ),
    ),
    **OPEN,
)
_FAR = 15_000.0
DISTRICTS = tuple(
    Within(
        "home",
        SmoothedRegion([(a, -_FAR), (b, -_FAR), (b, _FAR), (a, _FAR)], 3 * _HOME),
        label=name,
    )
    for name, a, b in (("west", -_FAR, 0.0), ("east", 0.0, 4_000.0), ("far east", 4_000.0, _FAR))
)


def _town(rng: np.random.Generator, n: int) -> Answers:
    """Return people whose incomes are log-normal and grow with age; 1.5 % neither own nor rent."""
    age = rng.triangular(18.0, 35.0, 90.0, n)
    tenure = np.where(rng.random(n) < 0.015, NEITHER, rng.random(n) < 1 / (1 + (age / 45) ** 3))
    income = rng.lognormal(10.4, 0.6, n) * (0.6 + age / 90) * np.where(tenure == OWNS, 1.4, 1.0)
    home = rng.normal(0.0, 3_000.0, (n, 2)) + np.where(income > 60_000, 2_500.0, 0.0)[:, None]
    return _answers(rng, age, tenure, income, home, 2.4 + np.minimum(income / 80_000, 2.0))


def _tails(rng: np.random.Generator, n: int) -> Answers:
    """Return people, a few of them immensely rich and a few young; 0.5 % neither own nor rent."""
    age = np.where(rng.random(n) < 0.08, rng.normal(24.0, 2.0, n), rng.normal(58.0, 6.0, n))
    tenure = np.where(rng.random(n) < 0.005, NEITHER, rng.random(n) < 0.35 + 0.3 * (age < 30))
    income = 12_000.0 * (1 + rng.pareto(1.8, n)) * np.where(tenure == OWNS, 1.3, 1.0)
    east = np.where(rng.random(n) < 0.06, 8_000.0, -4_000.0)
    home = np.stack([east, np.zeros(n)], axis=1) + rng.normal(0.0, 900.0, (n, 2))
    income = np.where(east > 0, 0.6 * income, income)
    return _answers(rng, age, tenure, income, home, 3.0 + (tenure == RENTS))


def _heaps(rng: np.random.Generator, n: int) -> Answers:
    """Return people with four incomes, three ages and three homes; 3 % neither own nor rent."""
    age = rng.choice([22.0, 45.0, 70.0], n, p=[0.05, 0.5, 0.45])
    tenure = np.where(rng.random(n) < 0.03, NEITHER, rng.random(n) < 0.2 + 0.5 * (age == 22))
    income = rng.choice([0.0, 25_000.0, 50_000.0, 400_000.0], n, p=[0.2, 0.45, 0.34, 0.01])
    income = np.where(age == 22, np.minimum(income, 25_000.0), income)
    home = np.array([[-6_000.0, 0.0], [2_000.0, 0.0], [9_000.0, 0.0]])
    return _answers(rng, age, tenure, income, home[rng.choice(3, n, p=[0.6, 0.36, 0.04])], age / 20)


def _answers(
    rng: np.random.Generator, age: Array, tenure: Array, income: Array, home: Array, mood: Array
) -> Answers:
    return {
        "tenure": tenure.astype(np.int64),
        "mood": np.clip(np.rint(rng.normal(mood, 1.0)), 1, 5).astype(np.int64) - 1,
        "income": np.clip(income, 0.0, MOST),
        "age": age,
        "home": home,
    }


PEOPLE: Mapping[str, Callable[[np.random.Generator, int], Answers]] = {
    "town": _town,
    "tails": _tails,
    "heaps": _heaps,
}


def _cells(of: Answers) -> Array:
    return np.bincount(5 * of["tenure"] + of["mood"], minlength=15).reshape(3, 5) / KNOWN


def _districts(of: Answers) -> Array:
    inside = np.stack([district.region.value(of["home"]) for district in DISTRICTS])
    return np.asarray(inside @ of["income"] / inside.sum(axis=1))


def _means(of: Answers) -> Array:
    return np.array([of["income"][of["tenure"] == k].mean() for k in range(3)])


def _median(of: Answers) -> float:
    """Return the blurred median income of those who own."""
    from scipy.optimize import brentq

    values = of["income"][of["tenure"] == OWNS]

    def too_many(at: float) -> float:
        return float(Threshold(at, 3 * INCOME_NOISE, "smoothstep").value(values).mean() - 0.5)

    return float(brentq(too_many, 0, MOST))


def _linear(of: Answers) -> Any:
    """Return the regression of income on age and tenure, in the clear."""
    options = of["tenure"] == RENTS, of["tenure"] == NEITHER
    covariates = sm.add_constant(np.column_stack([of["age"], *options]).astype(np.float64))
    return sm.OLS(of["income"], covariates).fit(cov_type="HC0")


def _logistic(of: Answers) -> Any:
    """Return the logistic regression of renting on age and mood, in the clear."""
    covariates = sm.add_constant(np.column_stack([of["age"], of["mood"] + 1.0]))
    renting = (of["tenure"] == RENTS).astype(np.float64)
    return sm.GLM(renting, covariates, sm.families.Binomial()).fit(cov_type="HC0")


def _as_answers(reports: FormReports) -> Answers:
    """Return reports as if they were answers, for controls."""
    columns = {field.name: reports.columns[:, FORM.columns_of(field.name)] for field in FORM.fields}
    answers = {name: columns[name][:, 0] for name in ("tenure", "mood")}
    for name in ("income", "age", "home"):
        field: Any = FORM.field(name)
        answers[name] = np.squeeze(columns[name] * field.mechanism.step)
    return answers


def _normal(values: Any, errors: Any) -> Ends:
    return values - _NORMAL * errors, values + _NORMAL * errors


def _mean(values: NDArray[Any]) -> Ends:
    return _normal(values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values)))


def _raw_districts(of: Answers) -> Ends:
    district = np.searchsorted([0.0, 4_000.0], of["home"][:, 0])
    low, high = zip(*(_mean(of["income"][district == k]) for k in range(3)), strict=True)
    return np.array(low), np.array(high)


def _raw_correlation(of: Answers) -> Ends:
    z = np.arctanh(np.corrcoef(of["income"], of["age"])[0, 1])
    low, high = _normal(z, 1 / np.sqrt(len(of["age"]) - 3))
    return np.tanh(low), np.tanh(high)


def _raw_median(of: Answers) -> Ends:
    values = np.sort(of["income"][of["tenure"] == OWNS])
    n, half = len(values), _NORMAL / 2 * np.sqrt(len(values))
    return values[max(int(n / 2 - half), 0)], values[min(int(n / 2 + half), n - 1)]


def _raw_coefficient(model: Callable[[Answers], Any]) -> Callable[[Answers], Ends]:
    def ends(of: Answers) -> Ends:
        fitted = model(of)
        return _normal(fitted.params[1], fitted.bse[1])

    return ends


@dataclass(frozen=True)
class Figure:
    """One figure of a result, or several whose intervals hold simultaneously."""

    statistic: str
    ends: Callable[[Any], Ends]
    """Result → the ends of its intervals."""
    truth: Callable[[Answers], Any]
    control: Callable[[Answers], Ends] | None = None
    """Reports as if they were answers → the ends of their intervals."""


ASKED: Mapping[str, FormStatistic[Any]] = {
    "tenure": Shares("tenure"),
    "mood": Mean("mood"),
    "table": CrossTable("tenure", "mood"),
    "by tenure": MeanBy("income", "tenure"),
    "by district": MeanBy("income", DISTRICTS),
    "correlation": Correlation("income", "age"),
    "linear": Regression("income", ["age", "tenure"]),
    "logistic": Regression(Option("tenure", "rents"), ["age", "mood"], "logistic"),
    "median": QuantileBy("income", [Option("tenure", "owns")], (0.5,)),
}


def _at(*place: int) -> Callable[[Any], Ends]:
    return lambda of: (of.low[place], of.high[place])


def _band(of: Any) -> Ends:
    return of.band_low, of.band_high


def _interval(of: Any) -> Ends:
    return of.ci_low, of.ci_high


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


def _slope(of: Any) -> Ends:
    row = of.rows()[1]
    return row["ci_low"], row["ci_high"]


FIGURES: Mapping[str, Figure] = {
    "share of a rare option": Figure(
        "tenure", _at(NEITHER), lambda of: (of["tenure"] == NEITHER).mean(),
        lambda of: _mean(of["tenure"] == NEITHER),
    ),
    "shares of 3 options, jointly": Figure("tenure", _band, lambda of: _cells(of).sum(axis=1)),
    "mean score": Figure(
        "mood", _interval, lambda of: of["mood"].mean() + 1, lambda of: _mean(of["mood"] + 1.0)
    ),
    "cell of a rare option": Figure("table", _at(NEITHER, 0), lambda of: _cells(of)[NEITHER, 0]),
    "a frequent cell": Figure(
        "table", _at(OWNS, 2), lambda of: _cells(of)[OWNS, 2],
        lambda of: _mean((of["tenure"] == OWNS) & (of["mood"] == 2)),
    ),
    "15 cells, jointly": Figure("table", _band, _cells),
    "mean of a rare group": Figure("by tenure", _group("neither"), lambda of: _means(of)[NEITHER]),
    "means of 3 groups, jointly": Figure("by tenure", _all_groups, _means),
    "means of 3 districts, jointly": Figure(
        "by district", _all_groups, _districts, _raw_districts
    ),
    "correlation": Figure(
        "correlation", _interval, lambda of: np.corrcoef(of["income"], of["age"])[0, 1],
        _raw_correlation,
    ),
    "slope of age": Figure(
        "linear", _slope, lambda of: _linear(of).params[1], _raw_coefficient(_linear)
    ),
    "logistic coefficient of age": Figure(
        "logistic", _slope, lambda of: _logistic(of).params[1], _raw_coefficient(_logistic)
    ),
    "median of a group": Figure(
        "median", lambda of: (of["tenure: owns"].low[0], of["tenure: owns"].high[0]), _median,
        _raw_median,
    ),
}  # fmt: skip


def covered(people: str, n: int, campaigns: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Return the campaigns whose intervals cover the truth, by figure, and those of controls."""
    answers = PEOPLE[people](np.random.default_rng(38), KNOWN)
    truths = {name: figure.truth(answers) for name, figure in FIGURES.items()}
    rng = np.random.default_rng([seed, list(PEOPLE).index(people), n])
    held, controls = Counter[str](), Counter[str]()
    for campaign in range(campaigns):
        who = rng.integers(KNOWN, size=n)
        reports = simulated(FORM, [of[who] for of in answers.values()], rng)
        results = {name: _asked(reports, statistic) for name, statistic in ASKED.items()}
        for name, figure in FIGURES.items():
            held[name] += _holds(_ends(figure, results[figure.statistic]), truths[name])
            if figure.control is not None and campaign < CONTROLS:
                controls[name] += _holds(figure.control(_as_answers(reports)), truths[name])
    return held, controls


def _holds(ends: Ends, truth: Any) -> bool:
    low, high = ends
    return bool(np.all((low <= truth) & (truth <= high)))


def _asked(reports: FormReports, statistic: FormStatistic[Any]) -> Any:
    try:
        return reports.ask(statistic)
    except UnsupportedError:
        return None


def _ends(figure: Figure, result: Any) -> Ends:
    """Return the ends of a result's intervals: the whole line if the reports tell nothing."""
    if result is None:
        return -np.inf, np.inf
    try:
        return figure.ends(result)
    except KeyError:  # the reports tell nothing about the group
        return -np.inf, np.inf


def table(*, quick: bool = False, seed: int | None = None) -> None:
    """Print the coverage of every cell, and the cells that fail."""
    warnings.simplefilter("ignore", NotPrivateWarning)
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    campaigns = QUICK_CAMPAIGNS if quick else CAMPAIGNS
    failed = count = 0
    for n in QUICK_SIZES if quick else SIZES:
        for people in PEOPLE:
            held, controls = covered(people, n, campaigns, seed)
            for name, number in held.items():
                count += 1
                failed += number < LEAST * campaigns
                control = f", control {controls[name]} %" if name in controls else ""
                share = f"{number / campaigns:7.2%} of {campaigns:,}"
                print(f"{people:6} {n:6,} {name:32} {share}{control}", flush=True)
    print(f"Seed {seed}: {failed} of {count} cells hold less than {LEAST:.0%}.")
