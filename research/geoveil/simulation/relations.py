"""Compare forms with ε-LDP at stated footings, for joint questions about several answers.

The people are Adult's, with Californian incomes of the same rank and random New York collisions as
homes. An ε-LDP contestant sends each answer's cell by the better of randomised response and unary
encoding, with ε times its footing. Its reports go through our estimators.
"""

import csv
import gzip
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import (
    Above,
    Correlation,
    FormReports,
    Mean,
    MeanBy,
    Option,
    Regression,
    Score,
    Within,
    simulated,
)
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    Field,
    FormCampaign,
    NumberField,
    OrdinalField,
    PlaceField,
)
from geoveil.gp import (
    Array,
    AzimuthalEquidistant,
    Disc,
    GeoPrivacy,
    GeoVeilError,
    validation,
)
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.figures.relations import draw_relations
from geoveil.simulation.populations import collisions, household_incomes

People = Mapping[str, NDArray[Any]]
"""Name of a field → the answers of people, by index, number or metres."""
PEOPLE, REPETITIONS = 20_000, 60
_N = 48_842
_PLANE = AzimuthalEquidistant(-73.94, 40.72, radius_m=25_000)
_DISC_M = 2_500.0
_CENTRE = (-3_000.0, 3_500.0)
"""The centre of the disc, in metres of the plane: midtown Manhattan."""
PER: Mapping[str, tuple[float, str]] = {
    "age": (5.0, "year"),
    "hours": (8.0, "hour"),
    "income": (8_000.0, "dollar"),
    "home": (500.0, "metre"),
}
_ENDS: Mapping[str, tuple[float, float]] = {
    "age": (17.0, 90.0),
    "hours": (1.0, 99.0),
    "income": (0.0, 500_000.0),
}
_CUTS: Mapping[str, Sequence[float]] = {
    "age": (25, 30, 35, 40, 45, 50, 60),
    "hours": (20, 30, 38, 45, 50, 60),
    "income": (20e3, 40e3, 60e3, 80e3, 100e3, 125e3, 150e3, 200e3, 300e3),
}
"""Field → the boundaries between its cells for ε-LDP."""
OURS = "form"


@lru_cache(maxsize=1)
def people() -> People:
    """Return the population."""
    file = files("geoveil.simulation").joinpath("data", "uci_adult.csv.gz")
    with file.open("rb") as stream, gzip.open(stream, "rt", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    rng = np.random.default_rng(1)

    def column(name: str) -> Array:
        return np.array([float(row[name]) for row in rows])

    rank = np.lexsort((rng.random(len(rows)), np.array([row["income"] == ">50K" for row in rows])))
    income = np.empty(len(rows))
    income[rank] = np.sort(household_incomes().sample(len(rows), rng))
    names = sorted({row["native-country"] for row in rows})
    return {
        "age": column("age"),
        "hours": column("hours-per-week"),
        "schooling": np.digitize(column("educational-num"), (8.5, 9.5, 10.5, 13.5)),
        "sex": np.array([row["gender"] == "Male" for row in rows], np.int64),
        "country": np.array([names.index(row["native-country"]) for row in rows]),
        "income": np.minimum(income, _ENDS["income"][1]),
        "home": _PLANE.project(collisions().sample(len(rows), rng)),
    }


def _field(name: str, epsilon: float) -> Field:
    many = {"sex": 2, "country": 42}.get(name)
    if many is not None:
        return ChoiceField(name=name, options=_names(many), epsilon=epsilon)
    if name == "schooling":
        return OrdinalField(name=name, options=_names(5), epsilon=epsilon)
    per, unit = PER[name]
    privacy = GeoPrivacy(epsilon, per, unit)
    if name == "home":
        place = Attribute(name=name, unit=unit, coordinates=_PLANE)
        return PlaceField(attribute=place, privacy=privacy)
    low, high = _ENDS[name]
    return NumberField(
        attribute=Attribute(name=name, unit=unit, least=low, most=high), privacy=privacy
    )


def _names(many: int) -> tuple[str, ...]:
    return tuple(f"{k}" for k in range(many))


def _cells(name: str, values: NDArray[Any]) -> NDArray[Any]:
    if name == "home":
        east, north = (values - _CENTRE).T
        sector = np.floor(8 * (np.arctan2(north, east) / (2 * np.pi) % 1)).astype(int) % 8
        return np.where(np.hypot(east, north) < _DISC_M, 0, 1 + sector)
    return np.digitize(values, _CUTS[name]) if name in _CUTS else values


def _middles(name: str) -> list[float]:
    """Return the mean of the people in each cell, for an ε-LDP contestant."""
    values = people()[name]
    cells = _cells(name, values)
    return [float(values[cells == k].mean()) for k in range(len(_CUTS[name]) + 1)]


def _form(fields: Sequence[Field]) -> FormCampaign:
    return FormCampaign(
        campaign_id="relations",
        title="relations",
        fields=tuple(fields),
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2027, 1, 1, tzinfo=UTC),
    )


def _score(name: str) -> Score:
    return Score(name, _middles(name))


def _value(result: Any, row: int = 0) -> float:
    return float(result.rows()[row]["estimate"])


@dataclass(frozen=True)
class ComparedStatistic:
    """A statistic and how to compute it from a form, from cells, and without noise."""

    fields: tuple[str, ...]
    of_form: Callable[[FormReports], float]
    of_cells: Callable[[FormReports], float]
    clear: Callable[[People], float]
    footings: tuple[float, ...] = (1.0, 4.0)


def _joint(reports: FormReports, *terms: Any) -> float:
    return float(reports.joint({"share": list(terms)}).values[0])


def _slope(reports: FormReports, y: Any, x: Any) -> float:
    return _value(reports.ask(Regression(y, [x])), 1)


def _long_hours(reports: FormReports) -> float:
    return _joint(reports, Option("sex", "1"), Score("hours", [float(k >= 4) for k in range(7)]))


def _disc(p: People) -> float:
    return float(p["income"][_cells("home", p["home"]) == 0].mean())


_HERE = Within("home", Disc(_CENTRE, _DISC_M, _DISC_M), 1_000.0, "the disc")


QUESTIONS: Mapping[str, ComparedStatistic] = {
    "men, a share": ComparedStatistic(
        ("sex",),
        lambda r: _value(r.ask(Mean(Option("sex", "1")))),
        lambda r: _value(r.ask(Mean(Option("sex", "1")))),
        lambda p: float(p["sex"].mean()),
        (1.0,),
    ),
    "one country of 42": ComparedStatistic(
        ("country",),
        lambda r: _value(r.ask(Mean(Option("country", "26")))),
        lambda r: _value(r.ask(Mean(Option("country", "26")))),
        lambda p: float((p["country"] == 26).mean()),
        (1.0,),
    ),
    "schooling, a mean score": ComparedStatistic(
        ("schooling",),
        lambda r: _value(r.ask(Mean("schooling"))),
        lambda r: _value(r.ask(Mean(Score("schooling")))),
        lambda p: float(p["schooling"].mean() + 1),
        (1.0, 2.0, 4.0),
    ),
    "men, 45 hours or more": ComparedStatistic(
        ("sex", "hours"),
        lambda r: _joint(r, Option("sex", "1"), Above("hours", 43.0, 8.0)),
        _long_hours,
        lambda p: float(((p["hours"] >= 45) & (p["sex"] == 1)).mean()),
    ),
    "age and hours, correlation": ComparedStatistic(
        ("age", "hours"),
        lambda r: _value(r.ask(Correlation("age", "hours"))),
        lambda r: _value(r.ask(Correlation(_score("age"), _score("hours")))),
        lambda p: float(np.corrcoef(p["age"], p["hours"])[0, 1]),
    ),
    "income on hours, slope": ComparedStatistic(
        ("hours", "income"),
        lambda r: _slope(r, "income", "hours"),
        lambda r: _slope(r, _score("income"), _score("hours")),
        lambda p: float(np.polyfit(p["hours"], p["income"], 1)[0]),
    ),
    "income within 2.5 km, mean": ComparedStatistic(
        ("home", "income"),
        lambda r: _value(r.ask(MeanBy("income", [_HERE]))),
        lambda r: _value(r.ask(MeanBy(_score("income"), [Option("home", "0")]))),
        _disc,
    ),
}


@dataclass(frozen=True)
class RelationRow:
    """The results of one contestant for one question."""

    question: str
    contestant: str
    footing: float
    """The footing: ε-LDP's ε between any two answers, as a multiple of the form's ε."""
    n: int
    repetitions: int
    rmse: float
    """Root mean squared error relative to the population; NaN without an estimate."""
    bias: float
    clear: float
    """The standard deviation of the answer without noise."""

    @property
    def times(self) -> float:
        """The squared error as a multiple of the one without noise."""
        return (self.rmse / self.clear) ** 2


def drawn(question: str, epsilon: float, n: int, repetitions: int, seed: int) -> list[RelationRow]:
    """Return a row for each contestant, all with the same people."""
    of, population = QUESTIONS[question], people()
    truth = of.clear(population)
    rng = np.random.default_rng([seed, list(QUESTIONS).index(question)])
    ours = _form([_field(name, epsilon) for name in of.fields])
    forms = {(OURS, math.nan): (ours, of.of_form)}
    for footing in of.footings:
        fields = [_of_cells(name, epsilon * footing) for name in of.fields]
        forms["ε-LDP", footing] = (_form(fields), of.of_cells)
    estimates: dict[tuple[str, float], list[float]] = {key: [] for key in forms}
    clear = []
    for _ in range(repetitions):
        sampled = rng.integers(0, _N, n)
        sample = {name: population[name][sampled] for name in of.fields}
        clear.append(of.clear(sample))
        for key, (form, ask) in forms.items():
            held = list(sample.values())
            if key[0] != OURS:
                held = [_cells(name, values) for name, values in sample.items()]
            estimates[key].append(_asked(ask, simulated(form, held, rng)))
    sd = float(np.sqrt(np.mean((np.array(clear) - truth) ** 2)))
    return [
        RelationRow(
            question=question, contestant=name, footing=footing, n=n, repetitions=repetitions,
            rmse=float(np.sqrt(np.mean((np.array(values) - truth) ** 2))),
            bias=float(np.mean(values) - truth), clear=sd,
        )
        for (name, footing), values in estimates.items()
    ]  # fmt: skip


def _asked(ask: Callable[[FormReports], float], reports: FormReports) -> float:
    try:
        return ask(reports)
    except GeoVeilError:  # noise hides a size, or a variance
        return math.nan


def _of_cells(name: str, epsilon: float) -> ChoiceField:
    many = {"sex": 2, "country": 42, "schooling": 5, "home": 9}.get(name) or len(_CUTS[name]) + 1
    return ChoiceField(name=name, options=_names(many), epsilon=min(epsilon, 16.0))


def rr_error(share: float, epsilon: float, n: int) -> float:
    """Return the standard error of Warner's estimate of a share, as in RRreg.

    Its square is λ(1 − λ)/(n(2p − 1)²), where λ is the share of "yes" among reports and
    p = e^ε/(1 + e^ε) [War65].

    Example:
        >>> round(rr_error(0.5, 1.0, 10_000), 6)
        0.01082
    """
    p = 1 / (1 + math.exp(-epsilon))
    reported = share * p + (1 - share) * (1 - p)
    return math.sqrt(reported * (1 - reported) / n) / (2 * p - 1)


def experiment(
    epsilon: float = 1.0,
    n: int = PEOPLE,
    repetitions: int = REPETITIONS,
    seed: int = 1,
    quick: bool = False,
) -> Experiment[RelationRow]:
    """Return the experiment.

    Args:
        epsilon: each field's ε, at its distance.
        n: the number of people.
        repetitions: draws of people and noise, 2 or more.
        seed: the same seed gives the same rows.
        quick: whether to compute only a small part: few people and two questions.

    Raises:
        ParameterError: if a number is out of range.
    """
    validation.between("epsilon", epsilon, 0.01, 4.0)
    validation.between("n", n, 1_000, 1_000_000)
    validation.require_count("repetitions", repetitions, 2)
    validation.between("seed", seed, 0, 2**63)
    names = list(QUESTIONS)
    if quick:
        names, n, repetitions = names[:3], 2_000, 4
    return Experiment(
        name="relations",
        cells=[Cell(drawn, (name, epsilon, n, repetitions, seed)) for name in names],
        seed=seed,
        draw=_draw,
        tables=_tables,
        note=partial(_note, epsilon=epsilon),
    )


def _draw(rows: Sequence[RelationRow], file: Path) -> list[Path]:
    draw_relations(rows, file)
    return [file]


def _who(row: RelationRow) -> str:
    return "geoveil form" if row.contestant == OURS else f"ε-LDP, footing {row.footing:g}"


def _tables(rows: Sequence[RelationRow]) -> list[Table]:
    def cells(row: RelationRow) -> tuple[str, ...]:
        numbers = (row.rmse, row.bias, row.clear)
        return (row.question, _who(row), *(f"{x:.3g}" for x in numbers), f"{row.times:.3g}")

    headers = ("question", "contestant", "error", "bias", "in the clear", "× error²")
    title = f"{rows[0].n:,} people, {rows[0].repetitions} times"
    return [
        Table(
            headers=headers,
            rows=[*map(cells, rows)],
            title=title,
            wrapped=(0, 1),
            right=(2, 3, 4, 5),
        )
    ]


def _note(rows: Sequence[RelationRow], epsilon: float) -> str:
    ours = {row.question: row.rmse for row in rows if row.contestant == OURS}
    lost = [row.question for row in rows if row.rmse < ours[row.question]]
    closed = rr_error(float(people()["sex"].mean()), epsilon, rows[0].n)
    return (
        "Errors are root mean squared, against the population; × error²: in multiples of those "
        "for the same people in the clear. A footing is how many times ε a contestant of ε-LDP "
        "promises"
        " between any two answers; a form promises ε at one distance (5 years, 8 hours, $8,000,"
        " 500 m, one step of schooling, any two options). The closed form of RRreg gives"
        f" {closed:.3g} for the share of men. ε-LDP errs less, at a footing, in:"
        f" {', '.join(dict.fromkeys(lost)) or 'none'}."
    )
