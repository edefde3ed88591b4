"""Test that every operator is unbiased over the noise, keeps its limits, and multiplies right."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate

from geoveil.analyst import (
    Above,
    Between,
    Coordinate,
    CrossTable,
    FormReports,
    Mean,
    NumberOf,
    Option,
    Outside,
    Score,
    Shares,
    ShareWithin,
    Term,
    Within,
)
from geoveil.analyst.relations.terms import limits_of_product, operators
from geoveil.campaign import FormCampaign
from geoveil.gp import Disc, Limits, ParameterError, SmoothedRegion, UnsupportedError

from .forms import choice, form, multiple, number, ordinal, place, reported

B = 5.0
AGE = number("age", B, least=0.0, most=110.0)
CAMPAIGN = form(
    AGE,
    choice("rents", 4, 1.3),
    choice("party", 40, 1.0),
    ordinal("mood", 5, 0.7),
    multiple("rides", 3, 1.1),
    place("home", 500.0),
    number("hours", 3.0, "hour"),
)
ABOVE = Above("age", 40.0, 12.0)
BETWEEN = Between("age", 30.0, 50.0, 9.0)
NUMBERS: list[tuple[Sequence[Term], Any]] = [
    ([NumberOf("age")], lambda x: x),
    ([NumberOf("age"), NumberOf("age")], lambda x: x * x),
    ([ABOVE], lambda x: _step(x, 40.0, 12.0)),
    ([BETWEEN], lambda x: _step(x, 30.0, 9.0) - _step(x, 50.0, 9.0)),
    ([NumberOf("age"), ABOVE], lambda x: x * _step(x, 40.0, 12.0)),
    ([ABOVE, ABOVE], lambda x: _step(x, 40.0, 12.0) ** 2),
    (
        [NumberOf("age"), BETWEEN, ABOVE],
        lambda x: x * (_step(x, 30.0, 9.0) - _step(x, 50.0, 9.0)) * _step(x, 40.0, 12.0),
    ),
]


def limits_of(campaign: FormCampaign, terms: Sequence[Term]) -> Limits:
    return limits_of_product([of for _, of in operators(campaign, terms)])


def _step(x: float, at: float, width: float) -> float:
    t = min(max((x - at) / width + 0.5, 0.0), 1.0)
    return t * t * (3 - 2 * t)


def _reports(name: str, columns: NDArray[np.int64]) -> FormReports:
    """Return reports of which one field has these columns, and others anything."""
    whole = np.zeros((len(columns), CAMPAIGN.columns), np.int64)
    whole[:, CAMPAIGN.columns_of(name)] = columns
    return FormReports(CAMPAIGN, whole)


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize(("terms", "function"), NUMBERS)
def test_functions_of_a_number_are_unbiased_over_the_noise(
    terms: Sequence[Term], function: Any
) -> None:
    step = AGE.mechanism.step

    def h(z: float) -> float:
        k = round(z / step)
        return float(_reports("age", np.full((2, 1), k)).pseudo_values([terms])[0, 0])

    def seen(z: float, x: float) -> float:
        return h(z) * math.exp(-abs(z - x) / B) / (2 * B)

    for x in (33.0, 41.5, 47.0):
        edges = sorted({25.5, 30.0, 34.0, 34.5, 40.0, 45.5, 46.0, 54.5, x, -160.0, 230.0})
        mean = sum(integrate.quad(seen, a, b, (x,), limit=60)[0] for a, b in pairwise(edges))
        assert mean == pytest.approx(function(x), rel=2e-6, abs=2e-6)


def test_products_of_operators_of_one_field_are_biased() -> None:
    """The control: what each operator returns by itself must not be multiplied."""
    rng = np.random.default_rng(1)
    ages = np.full(200_000, 41.0) + rng.laplace(0, B, 200_000)
    step = AGE.mechanism.step
    made = _reports("age", np.rint(ages / step).astype(np.int64)[:, None])
    together = made.pseudo_values([[NumberOf("age"), ABOVE]])[:, 0]
    alone = made.pseudo_values([[NumberOf("age")], [ABOVE]]).prod(axis=1)
    truth, error = 41 * _step(41.0, 40.0, 12.0), together.std() / math.sqrt(len(ages))
    assert abs(together.mean() - truth) < 5 * error
    assert abs(alone.mean() - truth) > 5 * error


@pytest.mark.parametrize("terms", [of for of, _ in NUMBERS])
def test_pseudo_values_of_numbers_keep_their_ends(terms: Sequence[Term]) -> None:
    step = AGE.mechanism.step
    z = np.rint(np.linspace(-50.0, 150.0, 40_001) / step).astype(np.int64)
    values = _reports("age", z[:, None]).pseudo_values([terms])
    low, high = limits_of(CAMPAIGN, terms).reports
    assert low <= values.min() <= values.max() <= high


def test_means_of_a_number_end_where_its_public_range_does() -> None:
    assert limits_of(CAMPAIGN, [NumberOf("age")]).means == (0.0, 110.0)
    assert limits_of(CAMPAIGN, [NumberOf("age"), Option("rents", "o1")]).means == (0.0, 110.0)
    assert limits_of(CAMPAIGN, [NumberOf("hours")]).means == (-math.inf, math.inf)


@pytest.mark.parametrize(("options", "epsilon"), [(2, 1.0), (2, 0.3), (5, 1.0), (9, 2.0)])
def test_shares_of_randomised_response_are_the_closed_forms(options: int, epsilon: float) -> None:
    """Warner's for two options, and for more the same of k-ary response."""
    n = 4_000
    rng = np.random.default_rng(options)
    values = np.minimum(rng.geometric(0.4, n) - 1, options - 1)
    made = reported(form(choice("c", options, epsilon)), [values], rng)
    weight = math.exp(epsilon)
    p, q = weight / (weight + options - 1), 1 / (weight + options - 1)
    seen = np.bincount(made.columns[:, 0], minlength=options) / n
    shares = made.ask(Shares("c"))
    np.testing.assert_allclose(shares.values, (seen - q) / (p - q), rtol=0, atol=1e-8)
    errors = np.sqrt(seen * (1 - seen) / (n - 1)) / (p - q)
    np.testing.assert_allclose(shares.standard_errors, errors, rtol=1e-7)


def test_cells_of_two_randomised_answers_are_the_inverse_of_both_channels() -> None:
    n, weight = 3_000, math.exp(1.5)
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, 3, n), rng.integers(0, 4, n)
    made = reported(form(choice("a", 3, 1.5), choice("b", 4, 1.5)), [a, b], rng)
    seen = np.zeros((3, 4))
    np.add.at(seen, tuple(made.columns.T), 1 / n)
    inverses = [
        np.linalg.inv((np.ones((k, k)) + (weight - 1) * np.eye(k)) / (weight + k - 1))
        for k in (3, 4)
    ]
    expected = inverses[0] @ seen @ inverses[1].T
    np.testing.assert_allclose(made.ask(CrossTable("a", "b")).values, expected, atol=1e-8)


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize(
    ("terms", "truth"),
    [
        ([Option("rents", "o2")], lambda v: v["rents"] == 2),
        ([Option("party", "o7")], lambda v: v["party"] == 7),
        ([Score("mood")], lambda v: v["mood"] + 1.0),
        ([Score("mood"), Score("mood")], lambda v: (v["mood"] + 1.0) ** 2),
        ([Score("mood"), Option("mood", "o1")], lambda v: 2.0 * (v["mood"] == 1)),
        ([Option("rides", "o0"), Option("rides", "o2")], lambda v: (v["rides"] & 5) == 5),
        ([Option("rides", "o1"), Option("rides", "o1")], lambda v: v["rides"] >> 1 & 1),
        (
            [NumberOf("age"), Option("rents", "o1"), ABOVE],
            lambda v: v["age"] * v["above"] * (v["rents"] == 1),
        ),
        ([Coordinate("home", 0), Coordinate("home", 0)], lambda v: v["home"][:, 0] ** 2),
        ([Coordinate("home", 0), Coordinate("home", 1)], lambda v: v["home"].prod(axis=1)),
        ([Coordinate("home", 1), NumberOf("hours")], lambda v: v["home"][:, 1] * v["hours"]),
    ],
)  # fmt: skip
def test_means_of_pseudo_values_are_those_of_the_people(terms: Sequence[Term], truth: Any) -> None:
    """|z| < 5.4 of 300,000 reports of the same people: α = 7e-8 each, seed 11."""
    n = 300_000
    rng = np.random.default_rng(11)
    held = {
        "age": rng.uniform(20, 70, n),
        "rents": rng.integers(0, 4, n),
        "party": np.minimum(rng.geometric(0.1, n) - 1, 39),
        "mood": rng.integers(0, 5, n),
        "rides": rng.integers(0, 8, n),
        "home": rng.normal(0, 3_000, (n, 2)),
        "hours": rng.uniform(0, 40, n),
    }
    made = reported(CAMPAIGN, list(held.values()), rng)
    held["above"] = np.array([_step(x, 40.0, 12.0) for x in held["age"]])
    off = made.pseudo_values([terms])[:, 0] - truth(held)
    z = off.mean() / (off.std() / math.sqrt(n))
    print(f"n={n} z={z:.2f}")
    assert abs(z) < 5.4
    low, high = limits_of(CAMPAIGN, terms).reports
    values = made.pseudo_values([terms])
    assert low <= values.min() <= values.max() <= high


def test_regions_and_what_lies_outside_are_together_everybody() -> None:
    centre = Within("home", SmoothedRegion(Disc((0.0, 0.0), 2_500.0, 100.0), 1_000.0), label="c")
    circle = Within("home", ShareWithin(-73.9, 40.7, 2_500.0), bandwidth=1_000.0)
    rest = Outside("home", [centre])
    rng = np.random.default_rng(2)
    points = rng.integers(-(1 << 24), 1 << 24, (1_000, 2))
    values = _reports("home", points).pseudo_values([[centre], [rest], [circle]])
    np.testing.assert_allclose(values[:, 0] + values[:, 1], 1.0, atol=1e-12)
    np.testing.assert_allclose(values[:, 0], values[:, 2], atol=1e-4)
    assert rest.text == "home: elsewhere"
    with pytest.raises(UnsupportedError, match="products of regions"):
        _reports("home", points).pseudo_values([[centre, rest]])


@pytest.mark.parametrize(
    ("terms", "match"),
    [
        ([Option("rents", "none")], "option of rents"),
        ([NumberOf("rents")], "NumberField"),
        ([Option("age", "o1")], "ChoiceField"),
        ([Score("rents", (1.0, 1.0, 1.0, 1.0))], "not all the same"),
        ([Score("rents", (1.0, 2.0))], "4 numbers"),
        ([Between("age", 3.0, 4.0, -1.0)], "width"),
    ],
)
def test_functions_that_a_field_has_not_are_refused(terms: Sequence[Term], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        limits_of(CAMPAIGN, terms)


def test_ends_of_a_band_increase() -> None:
    for low, high in ((4.0, 3.0), (-math.inf, math.inf)):
        with pytest.raises(ParameterError, match="ends"):
            Between("age", low, high)


def test_reports_of_another_shape_are_refused() -> None:
    for columns in (np.zeros((5, 1), np.int64), np.zeros((1, CAMPAIGN.columns), np.int64)):
        with pytest.raises(ParameterError, match="columns"):
            FormReports(CAMPAIGN, columns)
    with pytest.raises(ParameterError, match="64 bits"):
        FormReports(CAMPAIGN, np.zeros((5, CAMPAIGN.columns)))  # type: ignore[arg-type]


def test_tables_of_one_field_twice_or_of_too_many_cells_are_refused() -> None:
    made = _reports("age", np.zeros((9, 1), np.int64))
    with pytest.raises(ParameterError, match="different"):
        made.ask(CrossTable("rents", "rents"))
    large = form(choice("a", 200, 1.0), choice("b", 60, 1.0))
    reports = FormReports(large, np.zeros((9, large.columns), np.int64))
    with pytest.raises(ParameterError, match="900"):
        reports.ask(CrossTable("a", "b"))
    with pytest.raises(ParameterError, match="options"):
        made.ask(Shares("age"))
    with pytest.raises(ParameterError, match="scores"):
        made.ask(Mean(Score("mood", (1, 1, 1, 1, 1))))
