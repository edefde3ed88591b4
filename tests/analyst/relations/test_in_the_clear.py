"""Test statistics of forms without noise against pandas, NumPy and SciPy."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from geoveil.analyst import (
    Correlation,
    Covariance,
    CrossTable,
    CurveBy,
    DistributionFunction,
    FormReports,
    Histogram,
    Mean,
    MeanBy,
    PartialCorrelation,
    Parts,
    QuantileBy,
    Score,
    Shares,
    contributions,
)

from .forms import CLEAR, choice, form, multiple, number, ordinal, reported

N = 3_000


@pytest.fixture(scope="module")
def people() -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(3)
    rents = rng.choice(3, N, p=[0.6, 0.35, 0.05])
    mood = np.minimum(rng.integers(0, 4, N) + (rents == 1), 3)
    age = rng.uniform(18.0, 80.0, N)
    hours = 20 + 0.3 * age + rng.normal(0.0, 8.0, N) + 5 * rents
    return {
        "rents": rents,
        "mood": mood,
        "age": age,
        "hours": hours,
        "rides": rng.integers(0, 8, N),
        "region": rng.integers(0, 2, N),
    }


@pytest.fixture(scope="module")
def reports(people: dict[str, NDArray[Any]]) -> FormReports:
    campaign = form(
        choice("rents", 3, None),
        ordinal("mood", 4, None),
        number("age", CLEAR),
        number("hours", CLEAR, "hour"),
        multiple("rides", 3, None),
        choice("region", 2, None),
    )
    return reported(campaign, list(people.values()), np.random.default_rng(4))


@pytest.fixture(scope="module")
def weights() -> NDArray[np.float64]:
    return np.random.default_rng(5).uniform(0.5, 3.0, N)


def check_pearsons(table: Any, counts: Any) -> None:
    expected = stats.chi2_contingency(counts, correction=False)
    np.testing.assert_allclose(table.test, expected[:1] + expected[2:0:-1], rtol=1e-9)


def test_a_table_is_that_of_pandas_with_pearsons_test(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    table = reports.ask(CrossTable("rents", "mood"))
    counts = pd.crosstab(people["rents"], people["mood"])
    np.testing.assert_allclose(table.values, counts / N, rtol=0, atol=1e-12)
    p = table.values
    np.testing.assert_allclose(table.standard_errors, np.sqrt(p * (1 - p) / (N - 1)), rtol=1e-9)
    np.testing.assert_allclose(
        table.row_shares.values, counts.div(counts.sum(axis=1), axis=0), atol=1e-12
    )
    np.testing.assert_allclose(table.column_shares.values, counts / counts.sum(), atol=1e-12)
    check_pearsons(table, counts)


def test_a_table_of_three_fields_has_pearsons_test_of_mutual_independence(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    table = reports.ask(CrossTable("rents", "mood", "region"))
    counts = np.zeros((3, 4, 2))
    np.add.at(counts, (people["rents"], people["mood"], people["region"]), 1)
    check_pearsons(table, counts)
    np.testing.assert_allclose(table.values, counts / N, atol=1e-12)
    given = table.given("region").values
    np.testing.assert_allclose(given, counts / counts.sum(axis=(0, 1)), atol=1e-12)


def test_an_option_that_nobody_has_takes_no_degree_of_freedom() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 2, 500), rng.integers(0, 3, 500)
    campaign = form(choice("a", 3, None), choice("b", 3, None))
    table = reported(campaign, [a, b], rng).ask(CrossTable("a", "b"))
    check_pearsons(table, pd.crosstab(a, b))


def weighted_means(
    y: NDArray[Any], inside: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Hájek's means within groups, and their linearised covariance [SSW92 §5.5]."""
    sizes = weights @ inside
    values = (weights * y) @ inside / sizes
    scores = weights[:, None] * (y[:, None] - values) * inside / sizes
    return values, np.asarray(np.cov(scores.T, ddof=1)).reshape(len(values), -1) * len(y)


def test_weighted_means_and_scores_are_hajeks(
    reports: FormReports, people: dict[str, NDArray[Any]], weights: NDArray[np.float64]
) -> None:
    """With their covariances; test_svy compares shares, means and tables with a peer."""
    expected = weighted_means(people["hours"], np.eye(3)[people["rents"]], weights)
    means = reports.ask(MeanBy("hours", "rents"), weights=weights)
    np.testing.assert_allclose(means.values, expected[0], rtol=1e-9)
    np.testing.assert_allclose(means.covariance, expected[1], rtol=1e-6, atol=1e-12)
    score = reports.ask(Mean(Score("mood", (1, 2, 4, 8))), weights=weights)
    scores = np.array([1.0, 2, 4, 8])[people["mood"]]
    value, square = weighted_means(scores, np.ones((N, 1)), weights)
    assert score.value == pytest.approx(value[0], rel=1e-12)
    assert score.standard_error**2 == pytest.approx(square[0, 0], rel=1e-9)


def test_second_moments_are_those_of_numpy(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    age, hours, mood = people["age"], people["hours"], people["mood"] + 1.0
    covariance = np.cov([age, hours, mood])
    assert reports.ask(Covariance("age", "hours")).value == pytest.approx(covariance[0, 1])
    assert reports.ask(Covariance("age", "age")).value == pytest.approx(covariance[0, 0])
    correlation = reports.ask(Correlation("age", "mood"))
    assert correlation.value == pytest.approx(np.corrcoef(age, mood)[0, 1], rel=1e-9)
    precision = np.linalg.inv(covariance)
    expected = -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
    partial = reports.ask(PartialCorrelation("age", "hours", ["mood"]))
    assert partial.value == pytest.approx(expected, rel=1e-9)


def test_the_error_of_a_correlation_is_that_of_its_influence(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    a, b = (
        people[name] - np.polyval(np.polyfit(people["mood"], people[name], 1), people["mood"])
        for name in ("age", "hours")
    )
    a, b = a / a.std(), b / b.std()
    r = float((a * b).mean())
    influence = a * b - r / 2 * (a * a + b * b)
    partial = reports.ask(PartialCorrelation("age", "hours", ["mood"]))
    assert partial.standard_error == pytest.approx(influence.std() / np.sqrt(N - 1), rel=1e-3)


@pytest.mark.deep(keep=0)
def test_quantiles_and_curves_by_group_are_those_of_numbers(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    mine = people["hours"][people["rents"] == 1]
    medians = reports.ask(QuantileBy("hours", "rents", (0.5,), width=1e-3))
    assert medians["o1"].values[0] == pytest.approx(np.median(mine), abs=0.1)  # type: ignore[attr-defined]
    at = (20.0, 35.0, 50.0)
    curves = reports.ask(CurveBy("hours", "rents", DistributionFunction(at=at, width=1e-6)))
    shares = [float((mine <= t).mean()) for t in at]
    np.testing.assert_allclose(curves["o1"].values, shares, atol=1e-9)  # type: ignore[attr-defined]


def test_bands_of_a_number_are_a_histogram(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    parts = Parts("age", Histogram(edges=(30.0, 50.0), width=1e-6))
    table = reports.ask(CrossTable("rents", parts))
    counts = pd.crosstab(people["rents"], np.digitize(people["age"], (30.0, 50.0)))
    np.testing.assert_allclose(table.values, counts / N, atol=1e-9)
    assert table.labels[1] == ("up to 30", "30 to 50", "above 50")
    means = reports.ask(MeanBy("age", parts))
    bands = np.digitize(people["age"], (30.0, 50.0))
    expected = pd.Series(people["age"]).groupby(bands).mean()
    np.testing.assert_allclose(means.values, expected, rtol=1e-9)


def test_ticks_are_shares_that_need_not_add_up(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    shares = reports.ask(Shares("rides"))
    expected = [(people["rides"] >> j & 1).mean() for j in range(3)]
    np.testing.assert_allclose(shares.values, expected, atol=1e-12)


def test_contributions_are_columns_with_the_fields_names(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    frame = contributions(reports)
    assert list(frame.columns[:5]) == [
        "rents: o0",
        "rents: o1",
        "rents: o2",
        "mood: o0",
        "mood: o1",
    ]
    np.testing.assert_allclose(frame["age"], people["age"], rtol=1e-9)
    np.testing.assert_array_equal(frame["rides: o1"], people["rides"] >> 1 & 1)


def test_differences_of_means_are_those_of_their_errors(
    reports: FormReports, people: dict[str, NDArray[Any]]
) -> None:
    made = reports.ask(MeanBy("hours", "rents"))
    (first, *_) = made.differences().rows()
    groups = pd.Series(people["hours"]).groupby(people["rents"])
    apart = groups.mean()[1] - groups.mean()[0]
    error = np.sqrt((groups.var(ddof=0) / groups.count())[:2].sum())
    assert (first["group"], first["other"]) == ("o1", "o0")
    assert first["estimate"] == pytest.approx(apart)
    assert first["standard_error"] == pytest.approx(error, rel=1e-3)
    assert first["ci_high"] - first["estimate"] > 1.96 * error


def test_a_group_of_no_certain_size_has_the_whole_line() -> None:
    rng = np.random.default_rng(8)
    campaign = form(choice("rents", 3, 0.5), number("age", 5.0))
    ages = rng.uniform(20.0, 60.0, 400)
    held = [np.minimum(rng.integers(0, 40, 400), 2), ages]  # 1 in 40 has either of the first two
    means = reported(campaign, held, rng).ask(MeanBy("age", "rents"))
    rows = {row["group"]: row for row in means.rows()}
    print(rows)
    assert "o2" in rows
    assert len(rows) > 1
    assert all(row["ci_low"] == -np.inf for label, row in rows.items() if label != "o2")
    assert np.isfinite(rows["o2"]["ci_low"])
    for row in means.differences().rows():
        assert row["ci_high"] == np.inf
        assert row["p_value"] > 0.05


def test_no_note_is_said_twice(reports):
    statistics = [
        Shares("rents"), CrossTable("rents", "mood"), MeanBy("age", "rents"),
        QuantileBy("age", "rents"), Correlation("age", "hours"), Mean("age"),
    ]  # fmt: skip
    for statistic in statistics:
        notes = reports.ask(statistic).notes
        assert notes
        assert len(set(notes)) == len(notes), statistic
