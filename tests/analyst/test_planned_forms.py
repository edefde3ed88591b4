"""Test that the planned errors of a form match those printed for its reports."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geoveil.analyst import (
    Correlation,
    CrossTable,
    FormReports,
    FormStatistic,
    Mean,
    MeanBy,
    MeanMap,
    PlannedForm,
    Regression,
    Shares,
    Wish,
    form_plan,
    sample_of,
    simulated,
    wish_in,
)
from geoveil.campaign import Field
from geoveil.gp import ParameterError, SeededSource

from .relations.forms import choice, form, number, ordinal, place

STATISTICS: dict[str, FormStatistic[Any]] = {
    "shares": Shares("rents"),
    "mean": Mean("income"),
    "mood": Mean("mood"),
    "table": CrossTable("rents", "mood"),
    "by": MeanBy("income", "rents"),
    "correlation": Correlation("income", "age"),
    "regression": Regression("income", ["age", "rents"]),
}
CASES = 30


def _fields(rng: np.random.Generator) -> tuple[Field, ...]:
    return (
        number("age", float(rng.uniform(2, 8)), least=18.0, most=90.0),
        number("income", float(rng.uniform(2, 12)), "k", least=0.0, most=400.0),
        choice("rents", 3, float(rng.uniform(0.8, 3))),
        ordinal("mood", 4, float(rng.uniform(0.5, 2))),
    )


def _people(rng: np.random.Generator, n: int) -> list[Any]:
    rents = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    age = np.clip(rng.normal(45 + 5 * rents, 12), 18, 90)
    income = np.clip(rng.lognormal(3.3 + 0.01 * age, 0.5), 0, 400)
    return [age, income, rents, np.clip(rents + rng.integers(0, 3, n), 0, 3)]


def _rows(people: list[Any]) -> list[dict[str, Any]]:
    return [
        {"age": a, "income": y, "rents": f"o{r}", "mood": f"o{m}"}
        for a, y, r, m in zip(*(of.tolist() for of in people), strict=True)
    ]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("case", range(CASES))
def test_planned_errors_are_those_that_are_printed(case: int) -> None:
    """The planned error of each row is near the mean of what campaigns of other people print.

    Where nobody is in a cell of a table, what is printed ends at 0 and varies too much for that.
    """
    rng = np.random.default_rng(1000 + case)
    fields, n = _fields(rng), int(rng.integers(2_000, 12_000))
    name = list(STATISTICS)[case % len(STATISTICS)]
    wish = Wish(name, STATISTICS[name])
    (planned,) = PlannedForm(fields, _rows(_people(rng, 20_000)), [wish], seed=case).errors(n)
    printed = []
    for _ in range(8):
        rows = simulated(form(*fields), _people(rng, n), rng).ask(wish.statistic).rows()
        printed.append(
            [max(r["ci_high"] - r["estimate"], r["estimate"] - r["ci_low"]) for r in rows]
        )
    values, errors = np.array(list(planned.values())).T
    ratio = (errors / np.mean(printed, axis=0))[(values > errors) | (name != "table")]
    print(f"{name}, n = {n:,}: planned over printed {ratio.min():.3f} to {ratio.max():.3f}")
    assert ratio.min() > 0.9
    assert ratio.max() < 1.1


def _plan(*wishes: Wish, seed: int = 1) -> PlannedForm:
    rng = np.random.default_rng(seed)
    return PlannedForm(_fields(rng), _rows(_people(rng, 300)), wishes, seed=seed)


@pytest.mark.deep(keep=0, rest=1)
@pytest.mark.parametrize("wanted", [30.0, 1.5, 0.2])
def test_so_many_people_as_are_planned_have_the_error_that_is_wanted(wanted: float) -> None:
    wish = Wish("mean income", Mean("income"), wanted)
    plan = _plan(wish)
    (found,) = plan.errors(plan.people_for(wish))
    (error,) = [error for _, error in found.values()]
    assert error == pytest.approx(wanted, rel=0.05)


@pytest.mark.deep(keep=0)
def test_a_field_that_is_not_asked_gives_its_epsilon_to_others() -> None:
    plan = _plan(Wish("mean income", Mean("income")))
    best = plan.shared_out(4.0)
    epsilons = {field.name: field.privacy.epsilon for field in best.fields if field.privacy}
    assert sum(epsilons.values()) == pytest.approx(4.0)
    assert max(epsilons, key=lambda name: epsilons[name]) == "income"
    assert best.errors(2_000)[0]["mean of income"][1] < plan.errors(2_000)[0]["mean of income"][1]


@pytest.mark.deep(keep=0)
def test_a_statistic_takes_as_many_people_as_determine_it() -> None:
    wish = wish_in("regression", "income~age @ age=20")
    people = (plan := _plan(wish)).people_for(wish)
    assert 2 < people < 100
    assert plan.errors(people)[0]["age"][1] <= 20


def test_each_place_of_a_map_has_a_row() -> None:
    fields = (number("income", 8.0, least=0.0), place("home", 500.0))
    sample = [{"income": x, "home": (east, 40.7)} for x, east in ((20.0, -73.98), (60.0, -73.82))]
    wish = Wish("map", MeanMap("income", "home", (-74.06, 40.69, -73.74, 40.71), (2, 2), 1_500))
    (rows,) = PlannedForm(fields, sample, [wish]).errors(500, 500)
    values = [value for value, _ in rows.values()]
    assert list(rows)[1:3] == ["-73.82000, 40.69500", "-73.98000, 40.70500"]
    assert values == pytest.approx([20, 60, 20, 60], rel=0.1)


def test_planned_numbers_are_clamped_as_those_of_devices() -> None:
    """Control: planned as they are in the sample, the mean is 505 and the error above 20."""
    income = number("income", 2.0, least=0.0, most=20.0)
    sample = [{"income": 10.0}, {"income": 1_000.0}]
    (rows,) = PlannedForm((income,), sample, [Wish("mean", Mean("income"))]).errors(2_000)
    reports = income.release_many(np.resize([10.0, 1_000.0], (2_000, 1)), SeededSource(1))
    (printed,) = FormReports(form(income), reports).ask(Mean("income")).rows()
    (value, error) = rows["mean of income"]
    assert value == pytest.approx(printed["estimate"], abs=0.5)
    assert error == pytest.approx(printed["ci_high"] - printed["estimate"], rel=0.05)


def _file(tmp_path: Path, **cells: str) -> Path:
    file = tmp_path / "people.csv"
    row = {"age": "41", "income": "52", "rents": "o1", "mood": "o0"} | cells
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, row)
        writer.writeheader()
        writer.writerows([row, row])
    return file


def test_a_sample_has_a_column_of_the_name_of_each_field(tmp_path: Path) -> None:
    fields = _fields(np.random.default_rng(1))
    first, _ = sample_of(fields, _file(tmp_path))
    assert first == {"age": 41.0, "income": 52.0, "rents": "o1", "mood": "o0"}
    for cells, where in (
        ({"rents": "o9"}, "row 1"),
        ({"age": "old"}, "row 1"),
        ({"age": ""}, "row 1"),
    ):
        with pytest.raises(ParameterError, match=where):
            sample_of(fields, _file(tmp_path, **cells))
    with pytest.raises(ParameterError, match="columns age"):
        sample_of((number("height", 1.0), *fields), _file(tmp_path))


def test_what_cannot_be_planned_is_refused() -> None:
    wish = Wish("mean income", Mean("income"), 0.2, "no such row")
    with pytest.raises(ParameterError, match="mean of income"):
        _plan(wish).people_for(wish)
    with pytest.raises(ParameterError, match="epsilon-sum"):
        _plan(wish).shared_out(100.0)
    open_ = PlannedForm((choice("rents", 2, None),), [{"rents": "o1"}] * 2, [])
    with pytest.raises(ParameterError, match="every field is open"):
        open_.shared_out(1.0)
    assert form_plan(_plan(), 100, None)["statistics"] == []


@pytest.mark.parametrize("people", [0, -1, 0.5, math.nan, True])
def test_a_number_of_people_is_one_or_more(people: Any) -> None:
    with pytest.raises(ParameterError, match="participants must be an integer >= 1"):
        _plan(Wish("mean income", Mean("income"))).errors(people)


def test_a_mean_of_groups_that_noise_hides_has_an_endless_error() -> None:
    fields = (number("income", 1.0), choice("rents", 2, 0.01))
    hidden = Wish("by", MeanBy("income", "rents"))
    (rows,) = PlannedForm(fields, [{"income": 1, "rents": "o1"}] * 2, [hidden]).errors(2)
    assert [error for _, error in rows.values()] == [math.inf] * 2
    wish = hidden._replace(error=1.0)
    with pytest.raises(ParameterError, match="error of by"):
        PlannedForm(fields, [{"income": 1, "rents": "o1"}] * 2, [wish]).people_for(wish)
