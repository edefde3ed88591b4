"""Test geoveil simulate distribution: measures, footings, and seeds."""

import csv
import math

import numpy as np
import pytest
from scipy.stats import chi2
from typer.testing import CliRunner

from geoveil.cli.app import app
from geoveil.gp import ParameterError
from geoveil.simulation.distribution.attributes import ATTRIBUTES, BARS, MEASURES, Distribution
from geoveil.simulation.distribution.experiment import drawn, experiment, settings
from geoveil.simulation.distribution.protocols import (
    CLEAR,
    DEBIASED,
    LOCAL_PROTOCOLS,
    SMOOTHED,
)
from geoveil.simulation.experiments.page import distribution_section

INCOMES = ATTRIBUTES["incomes"]()
assert INCOMES.truth.below is not None
BELOW = INCOMES.truth.below


@pytest.fixture(scope="module")
def rows():
    return drawn("incomes", 1.0, n=2_000, repetitions=2, seed=2)


def error(setting, mechanism, footing, measure):
    row = setting.row(mechanism, footing, measure)
    assert row is not None
    return row.error


def test_truth_is_that_of_the_population_capped_at_the_range():
    """Against weighted sums over all rows."""
    values, weights = INCOMES.people.values, INCOMES.people.weights
    capped = np.clip(values, 0, 2**19)
    assert INCOMES.truth.mean == pytest.approx(np.average(capped, weights=weights))
    for cell in (1, 100, 500, 1023):
        below = np.average(values < INCOMES.cells.edges[cell], weights=weights)
        assert BELOW[cell] == pytest.approx(below)
    assert (BELOW[0], BELOW[-1]) == (0.0, 1.0)


def test_errors_are_what_they_say():
    """A distribution moved by two cells: quartiles by exactly that, the area by nearly that."""
    truth = INCOMES.truth
    assert set(INCOMES.errors(truth).values()) == {0.0}
    assert list(INCOMES.errors(truth)) == list(MEASURES)
    moved = np.concatenate([[0.0, 0.0], BELOW[:-3], [1.0]])
    found = INCOMES.errors(Distribution(truth.mean - 10.0, moved))
    assert found["mean"] == pytest.approx(10.0)
    for quartile in ("lower quartile", "median", "upper quartile"):
        assert found[quartile] == pytest.approx(1_024.0)
    assert found["largest"] == pytest.approx(np.abs(moved - BELOW).max())
    assert found["area"] == pytest.approx(1_024.0, rel=0.04)
    width = len(BELOW) // BARS
    bars = np.diff(moved[::width]) - np.diff(BELOW[::width])
    assert found["histogram"] == pytest.approx(np.maximum(bars, 0).sum())
    assert list(INCOMES.errors(Distribution(0.0))) == ["mean"]


def test_every_protocol_is_measured_at_every_footing(rows):
    (setting,) = settings(rows)
    assert setting.footings == [8_000.0, 40_000.0, 2.0**19]
    assert [setting.epsilon(footing) for footing in setting.footings] == [1.0, 5.0, 65.536]
    assert setting.mechanisms(None) == [CLEAR, DEBIASED, SMOOTHED]
    for footing in setting.footings:
        assert setting.mechanisms(footing) == list(LOCAL_PROTOCOLS)
        for name in LOCAL_PROTOCOLS:
            told = [m for m in MEASURES if setting.row(name, footing, m) is not None]
            assert told == (["mean"] if name in ("piecewise", "hybrid") else list(MEASURES))
    best = min(error(setting, name, 8_000.0, "mean") for name in LOCAL_PROTOCOLS)
    ours = error(setting, DEBIASED, None, "mean")
    assert setting.ahead(DEBIASED, 8_000.0, "mean") == pytest.approx(math.sqrt(best / ours))
    assert setting.title == "incomes, ε = 1 per 8,000 dollar, n = 2,000"


def test_the_page_has_every_factor_and_marks_where_it_is_behind(rows):
    text = distribution_section(rows)
    (setting,) = settings(rows)
    for footing in setting.footings:
        start = f"| {setting.title} | {footing:,g} | "
        (line,) = [line for line in text.splitlines() if line.startswith(start)]
        for cell, measure in zip(line[len(start) : -2].split(" | "), MEASURES, strict=True):
            factor = setting.ahead(DEBIASED, footing, measure)
            assert cell == (f"**{factor:.2g}**" if factor < 1 else f"{factor:.2g}")
    assert "**0." in text


@pytest.mark.deep
@pytest.mark.parametrize("name", list(ATTRIBUTES))
def test_means_have_the_errors_that_variances_say(name):
    """40 campaigns: the hybrid mean's squared errors are χ² about the exact one, α = 10⁻⁶.

    The control, 3 times the error, is refused.
    """
    attribute, n, repetitions = ATTRIBUTES[name](), 5_000, 40
    rows = drawn(name, 1.0, n, repetitions, seed=5)
    (setting,) = settings(rows)
    values, weights = attribute.people.values, attribute.people.weights
    capped = np.clip(values, attribute.cells.low, attribute.cells.high)
    spread = np.average((capped - attribute.truth.mean) ** 2, weights=weights)
    half, whole = math.exp(0.5), math.e  # [WXYZHSSY19], the same for every number
    noise = (half + 3) / (3 * half * (half - 1)) + (whole + 1) ** 2 / (half * (whole - 1) ** 2)
    expected = (spread + noise * (attribute.diameter / 2) ** 2) / n
    found = error(setting, "hybrid", attribute.per, "mean")
    low, high = chi2.ppf([5e-7, 1 - 5e-7], repetitions) / repetitions
    assert low < found / expected < high
    assert not low < found / (9 * expected)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"attributes": ["shoes"]}, "attribute"),
        ({"epsilons": [0.0]}, "epsilon"),
        ({"people": [0]}, "n"),
        ({"repetitions": 1}, "repetitions"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_refused(changes, name):
    with pytest.raises(ParameterError, match=f"{name} must be"):
        experiment(**changes)


@pytest.mark.parametrize("epsilon", [pytest.param(1e-3, marks=pytest.mark.deep), 1e4])
def test_noise_may_be_wider_than_the_range_or_finer_than_a_cell(epsilon):
    (setting,) = settings(drawn("collisions", epsilon, 50, 2, seed=1))
    assert all(math.isfinite(row.error) for row in setting.rows)
    ours, clear = (error(setting, name, None, "median") for name in (DEBIASED, CLEAR))
    assert (ours > 100 * clear) if epsilon < 1 else (ours == pytest.approx(clear, rel=0.05))


@pytest.mark.deep
def test_the_command_prints_a_table_of_80_columns_and_writes_all_rows(tmp_path):
    asked = ["simulate", "distribution", "--population", "collisions", "--participants", "2000"]
    asked += ["--quick", "--repetitions", "2", "--processes", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, asked, catch_exceptions=False, env={"COLUMNS": "80"})
    assert result.exit_code == 0
    for words in (DEBIASED, "square wave, EMS", "ε-LDP ε=5 at 2,500", "the best ÷ debiased"):
        assert words in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert "…" not in result.output
    with (tmp_path / "distribution.csv").open() as stream:
        written = list(csv.DictReader(stream))
    assert {row["mechanism"] for row in written} == {
        CLEAR,
        DEBIASED,
        SMOOTHED,
        *LOCAL_PROTOCOLS,
    }
    assert {row["n"] for row in written} == {"2000"}
