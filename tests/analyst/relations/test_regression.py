"""Regressions on reports of forms: statsmodels on values in the clear, figures, refusals."""

import math
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.special import expit

from geoveil.analyst.relations.estimand import Estimand
from geoveil.analyst.relations.form_reports import FormReports
from geoveil.analyst.relations.regression import Regression
from geoveil.analyst.relations.terms import Above, Option, Score, Within
from geoveil.gp import Disc, ParameterError, UnsupportedError

from .forms import CLEAR, choice, form, multiple, number, ordinal, place, reported

N = 4_000


def people(seed: int = 1, n: int = N) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    rents = rng.choice(3, n, p=[0.5, 0.4, 0.1])
    mood = np.minimum(rng.integers(0, 4, n) + (rents == 1), 3)
    age = rng.uniform(18.0, 80.0, n)
    rides = rng.integers(0, 4, n)
    home = rng.normal(0.0, 4_000.0, (n, 2))
    index = -1 + 0.03 * (age - 40) + 0.5 * (rents == 1) + 0.2 * mood - 0.4 * (rides & 1)
    return {
        "age": age,
        "rents": rents,
        "mood": mood,
        "rides": rides,
        "home": home,
        "hours": 40 + 4 * index + 1e-4 * home[:, 0] + rng.normal(0.0, 8.0, n),
        "works": (rng.random(n) < expit(index)).astype(int),
        "trips": rng.poisson(np.exp(index)),
    }


def asked(values: dict[str, NDArray[Any]], *, clear: bool, seed: int = 2) -> FormReports:
    campaign = form(
        number("age", CLEAR if clear else 4.0),
        choice("rents", 3, None if clear else 3.0),
        ordinal("mood", 4, None if clear else 2.0),
        multiple("rides", 2, None if clear else 3.0),
        place("home", 1e-6 if clear else 500.0),
        number("hours", CLEAR if clear else 4.0, "hour"),
        choice("works", 2, None if clear else 3.0),
        number("trips", CLEAR if clear else 1.0, "trip"),
    )
    return reported(campaign, list(values.values()), np.random.default_rng(seed))


ON = ["rents", "age", "mood", Option("rides", "o0")]


def covariates(values: dict[str, NDArray[Any]]) -> NDArray[Any]:
    rents = values["rents"]
    columns = [rents == 1, rents == 2, values["age"], values["mood"] + 1, values["rides"] & 1]
    return np.column_stack([np.ones(len(rents)), *columns]).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("model", "y", "response", "family"),
    [
        ("linear", "hours", "hours", None),
        ("logistic", Option("works", "o1"), "works", sm.families.Binomial()),
        ("poisson", "trips", "trips", sm.families.Poisson()),
    ],
)
def test_a_form_in_the_clear_has_the_summary_of_statsmodels(
    model: Any, y: Any, response: str, family: Any, weighted: bool
) -> None:
    values = people()
    reports, x = asked(values, clear=True), covariates(values)
    weights: Any = np.random.default_rng(3).uniform(0.5, 3.0, N) if weighted else np.ones(N)
    made = reports.ask(Regression(y, ON, model, errors="HC0"), weights=weights)
    assert made.names == (
        "constant", "rents: o1", "rents: o2", "age", "mood", "rides: o0",
    )  # fmt: skip
    if family is None:
        theirs = sm.WLS(values[response], x, weights=weights).fit(cov_type="HC0")
    else:
        glm = sm.GLM(values[response], x, family=family, var_weights=weights)
        theirs = glm.fit(cov_type="HC0", tol=1e-14)
    assert made.values == pytest.approx(theirs.params, rel=1e-9, abs=1e-9)
    assert made.standard_errors == pytest.approx(theirs.bse, rel=1e-9)
    rows = made.rows()
    assert [row["z"] for row in rows] == pytest.approx(theirs.tvalues, rel=1e-6)
    assert [row["p_value"] for row in rows] == pytest.approx(theirs.pvalues, abs=0.01)
    at = {"age": 30, "rents": "o1", "mood": 2}
    row, first_option = made.predict(at, {"age": 30, "rents": "o0", "mood": 2}).rows()
    of_both = theirs.predict(np.array([[1, 1, 0, 30, 2, 0], [1, 0, 0, 30, 2, 0]], float))
    assert row["estimate"] == pytest.approx(float(of_both[0]), rel=1e-9)
    assert first_option["estimate"] == pytest.approx(float(of_both[1]), rel=1e-9)
    assert row["ci_low"] < row["estimate"] < row["ci_high"]
    assert row["people"] == "age 30, rents o1, mood 2"


@pytest.mark.parametrize("of", [0, 1])
def test_predictions_of_a_group_have_the_interval_of_its_coefficient(of: int) -> None:
    """One person in 25 has 1, the others 0. The control is a margin without skewness."""
    rng = np.random.default_rng(6)
    campaign = form(number("last", 0.02, least=0.0, most=1.0), choice("rents", 2, None))
    answers = [(rng.random(400) < 0.04).astype(float), rng.integers(0, 2, 400)]
    reports = reported(campaign, answers, rng)
    group = f"o{of}"
    # The constant is the mean of those for whom the only covariate is 0.
    other = reports.ask(Regression("last", [Option("rents", f"o{1 - of}")]), 0.99)
    made = reports.ask(Regression("last", ["rents"]), 0.99)
    (row,) = made.predict({"rents": group}).rows()
    for end in ("ci_low", "estimate", "ci_high", "standard_error"):
        assert row[end] == pytest.approx(other.rows()[0][end], rel=1e-9)
    sums, none = np.array([[1.0, of]]), np.zeros(1)
    _, above = made.margins_of(sums, other.degrees[:1], none, 0.99)
    assert row["ci_high"] - row["estimate"] > 1.05 * above[0]


@pytest.mark.parametrize(("first", "second"), [(50, 0), (0, 0), (100, 100), (100, 0)])
def test_open_answers_that_are_all_equal_leave_an_interval(first: int, second: int) -> None:
    """Intervals are at least as wide as Clopper and Pearson's. Control: they have no width."""
    yes = np.concatenate([np.arange(100) < count for count in (first, second)])
    form_ = form(choice("works", 2, None), choice("rents", 2, None))
    reports = FormReports(form_, np.stack([yes, np.repeat([0, 1], 100)], axis=1).astype(np.int64))
    made = reports.ask(Regression(Option("works", "o1"), ["rents"]))
    predicted = made.predict({"rents": "o0"}, {"rents": "o1"}).rows()
    for count, row in zip((first, second), predicted, strict=True):
        assert -0.2 < row["ci_low"] < row["ci_high"] < 1.2
        if count != 50:
            assert row["ci_high"] - row["ci_low"] > 1 - 0.025 ** (1 / 100)
            assert row["standard_error"] < 1e-9
    for row in made.rows():
        assert row["ci_low"] < row["estimate"] + 1e-9 < row["ci_high"] + 2e-9


def test_squares_and_interactions_are_equations_of_ones_own() -> None:
    values = people(n=1_000)
    age, rents = values["age"] / 40, values["rents"] == 1
    theirs = sm.OLS(
        values["hours"], sm.add_constant(np.column_stack([age, age**2, rents, age * rents]))
    )
    expected = theirs.fit(cov_type="HC0")

    def curved(x: Any, theta: Any) -> Any:
        age, rents = x["age"] / 40, x["rents: o1"]
        on = [1.0, age, age**2, rents, age * rents]
        residual = x["hours"] - sum(t * of for t, of in zip(theta, on, strict=True))
        return [of * residual for of in on]

    names = ["constant", "age", "age²", "rents", "age × rents"]
    region = dict.fromkeys(names, (-200.0, 200.0))
    own = Estimand(curved, ["hours", "age", Option("rents", "o1")], region)
    made = asked(values, clear=True).ask(own)
    # Answers are on a grid of about 1e-9 noise scales.
    assert made.values == pytest.approx(expected.params, rel=1e-7, abs=1e-7)
    assert made.standard_errors == pytest.approx(expected.bse, rel=1e-7)


@pytest.mark.deep(keep=0)
def test_coordinates_and_sets_enter_a_linear_model() -> None:
    values = people()
    reports = asked(values, clear=True)
    made = reports.ask(Regression("hours", ["home"], errors="HC0"))
    x = sm.add_constant(values["home"])
    theirs = sm.OLS(values["hours"], x).fit(cov_type="HC0")
    assert made.values == pytest.approx(theirs.params, rel=1e-6, abs=1e-12)
    assert made.names == ("constant", "home, metres east", "home, metres north")
    near = Within("home", Disc((0.0, 0.0), radius=3_000, width=10.0), bandwidth=150.0, label="near")
    for model, y in (("linear", "hours"), ("logistic", Option("works", "o1"))):
        made = reports.ask(Regression(y, [near], model))  # type: ignore[arg-type]
        inside = np.hypot(*values["home"].T) < 3_000
        of = values["hours"] if model == "linear" else values["works"]
        a, b = of[inside].mean(), of[~inside].mean()
        means = [a, b] if model == "linear" else [math.log(p / (1 - p)) for p in (a, b)]
        assert made.values == pytest.approx([means[1], means[0] - means[1]], rel=0.03, abs=0.03)


@pytest.mark.deep(keep=0)
def test_private_answers_have_the_coefficients_of_those_in_the_clear() -> None:
    """40,000 people: each model within four standard errors of itself in the clear; what takes
    reports for answers is off by more."""
    values = people(4, 40_000)
    private, clear = asked(values, clear=False), asked(values, clear=True)
    for model, y in (
        ("linear", "hours"), ("logistic", Option("works", "o1")), ("poisson", "trips"),
    ):  # fmt: skip
        made = private.ask(Regression(y, ON, model))  # type: ignore[arg-type]
        truth = clear.ask(Regression(y, ON, model))  # type: ignore[arg-type]
        assert (made.standard_errors > truth.standard_errors).all()
        off = (made.values - truth.values) / made.standard_errors
        assert np.abs(off).max() < 4
    truth = clear.ask(Regression("hours", ["age"]))
    noisy: Any = private.campaign.field("age")
    ages = private.columns[:, 0] * noisy.mechanism.step
    naive = sm.OLS(values["hours"], sm.add_constant(ages)).fit()
    assert abs(naive.params[1] - truth.values[1]) > 4 * naive.bse[1]


@pytest.mark.deep(keep=0)
def test_a_median_regression_states_its_smoothing() -> None:
    values = people(5, 20_000)
    reports = asked(values, clear=False)
    made = reports.ask(Regression("hours", ["age"], "median"))
    x = sm.add_constant(values["age"])
    theirs = sm.QuantReg(values["hours"], x).fit(0.5)
    off = np.abs(made.values - theirs.params)
    assert (off <= 4 * made.standard_errors + 2 * np.abs(made.smoothing)).all()  # type: ignore[arg-type]
    assert "smoothing_bias" in made.rows()[0]
    assert any("logistic step of width" in note for note in made.notes)


@pytest.mark.deep(keep=0)
def test_an_estimand_is_a_regression_of_ones_own() -> None:
    values = people(6, 20_000)
    reports = asked(values, clear=False)

    def logistic(x: Any, theta: Any) -> Any:
        index = theta[0] + theta[1] * x["age"] / 40 + theta[2] * x["rents: o1"]
        residual = x["works: o1"] - expit(index)
        return residual, x["age"] / 40 * residual, x["rents: o1"] * residual

    terms = ["age", Option("rents", "o1"), "works"]
    region = {"constant": (-4.0, 4.0), "age/40": (-3.0, 3.0), "rents": (-3.0, 3.0)}
    own = reports.ask(Estimand(logistic, terms, region))
    made = reports.ask(
        Regression(Option("works", "o1"), ["age", Option("rents", "o1")], "logistic", errors="HC0")
    )
    assert own.values * [1, 1 / 40, 1] == pytest.approx(made.values, rel=1e-9)
    assert own.standard_errors * [1, 1 / 40, 1] == pytest.approx(made.standard_errors, rel=1e-6)
    assert own.names == tuple(region)
    assert own.title.startswith("Root of logistic")


@pytest.mark.parametrize(
    ("statistic", "text"),
    [
        (Regression("hours", ["hours"]), "other fields than hours"),
        (Regression("hours", ["age", "age"]), "a name of its own"),
        (Regression("hours", ["nothing"]), "field must be one of"),
        (Regression("works", ["age"], "logistic"), r"such as Option\('rents', 'yes'\)"),
        (Regression("age", ["hours"], "logistic"), "y must be one of Option"),
        (Regression(Score("mood"), ["hours"], "median"), "y must be one of NumberOf"),
        (Regression(Option("works", "o1"), ["home"], "logistic"), "use Within for places"),
        (Regression("hours", ["age", Above("age", 40.0)]), "use either"),
        (Estimand(lambda x, t: [x["hours"] - t[0]], ["hours"], {}), "start must be"),
        (Estimand(lambda x, t: [x["hours"] - t[0]], ["home"], {"m": (0.0, 9.0)}), "use Within"),
        (Estimand(lambda x, t: [], ["hours"], {"m": (0.0, 9.0)}), "score must be 1 values"),
    ],
)
def test_a_regression_that_cannot_be_had_is_refused_in_words(statistic: Any, text: str) -> None:
    reports = asked(people(n=100), clear=False)
    with pytest.raises((ParameterError, UnsupportedError), match=text):
        reports.ask(statistic)


@pytest.mark.parametrize(
    "wrong", [{"model": "probit"}, {"errors": "HC9"}, {"on": "age"}, {"on": []}]
)
def test_a_wrong_argument_is_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        Regression(**{"y": "hours", "on": ["age"], **wrong})
    made = asked(people(n=500), clear=False).ask(Regression("hours", ["age"]))
    with pytest.raises(ParameterError, match="a covariate of"):
        made.predict({"rents": "o1"})
    of_choice = asked(people(n=500), clear=False).ask(Regression("hours", ["rents"]))
    with pytest.raises(ParameterError, match="one of 'o0', 'o1'"):
        of_choice.predict({"rents": "o9"})
    with pytest.raises(ParameterError, match="one or more"):
        made.predict()
    with pytest.raises(ParameterError, match="one or more mappings"):
        made.predict([{"rents": "o1"}])  # type: ignore[arg-type]


@pytest.mark.deep(keep=0)
def test_intervals_hold_for_people_whom_nobody_met() -> None:
    """One in 1,000 is far off. 200 campaigns: 95 % or more by a one-sided test, α = 1e-4, is 174.

    Without a range, as control, intervals know of nobody but those who answered.
    """
    rng = np.random.default_rng(37)
    held = {"range": 0, "none": 0}
    ends = {"range": {"least": 0.0, "most": 10_000.0}, "none": {}}
    for _ in range(200):
        group, far = rng.integers(0, 2, 200), rng.random(200) < 1e-3
        y = np.where(far, 9_000.0, rng.normal(40.0, 5.0, 200) + 10 * group)
        for name, stated in ends.items():
            campaign = form(choice("group", 2, 2.0), number("pay", 4.0, "euro", **stated))
            made = reported(campaign, [group, y], rng).ask(Regression("pay", ["group"]))
            row = made.rows()[0]
            held[name] += row["ci_low"] <= 0.999 * 40 + 9 <= row["ci_high"]
    assert held["range"] >= 174
    assert held["none"] < 100


def test_nobody_pulls_further_than_the_ends_say() -> None:
    """The score of any person moves a coefficient at most so far, and of one at least a third."""
    rng = np.random.default_rng(3)
    n = 2_000
    campaign = form(
        choice("rents", 3, 2.0),
        number("age", 4.0, least=18.0, most=90.0),
        number("pay", 4.0, "euro", least=-50.0, most=200.0),
    )
    people = rng.integers(0, 3, n), rng.uniform(18, 90, n), rng.normal(60.0, 20.0, n)
    made = reported(campaign, list(people), rng).ask(Regression("pay", ["rents", "age"]))
    corners = [
        (*np.eye(3)[option][1:], age, pay)
        for option in range(3)
        for age in (18.0, 90.0, *rng.uniform(18, 90, 8))
        for pay in (-50.0, 200.0)
    ]
    options, ages, pays = np.hsplit(np.array(corners), [2, 3])
    x = np.column_stack([np.ones(len(corners)), options, ages])
    # In the clear, with as many people as can be: E[xx'] of the people asked.
    clear = np.column_stack([np.ones(n), people[0] == 1, people[0] == 2, people[1]])
    pull = (x * (pays - x @ made.values[:, None])) @ np.linalg.inv(clear.T @ clear / n).T
    assert made.farthest is not None
    down, up = made.farthest(np.eye(4))
    assert (pull.max(axis=0) <= 1.1 * up).all()
    assert (-pull.min(axis=0) <= 1.1 * down).all()
    assert (pull.max(axis=0) >= up / 3).all()
    assert (-pull.min(axis=0) >= down / 3).all()
