"""The experiment on transmission tests: rows, printed numbers, figures."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app
from geoveil.selection.contrib import VARIANT_RECIPES
from geoveil.selection.contrib.transmission import StudySetting
from geoveil.selection.one_sided import HalfGeneralizedCauchy
from geoveil.selection.smooth_privacy import scale_price
from geoveil.selection.two_sided import HeavyGeneralizedCauchy
from geoveil.simulation.selection.experiment import KEPT, NOMINAL
from geoveil.simulation.selection.transmission import (
    METOPIC_B,
    METOPIC_C,
    METOPIC_FAMILIES,
    metopic,
    published_one_sided,
    rows_of,
    simulated,
)

runner = CliRunner()


@pytest.fixture(scope="module")
def real():
    """The six published variants."""
    return metopic()


@pytest.mark.deep(keep=0)
def test_every_mechanism_has_a_row_that_keeps_its_epsilon(real):
    rows = list(rows_of("real", [real], [3.0, 12.0]))
    kept = [row for row in rows if row.standing == KEPT]
    assert {row.mechanism for row in kept} == set(VARIANT_RECIPES)
    assert all(row.proved_epsilon <= row.epsilon * (1 + 1e-9) for row in kept)
    assert all(0 < row.value <= 1 for row in rows)


def test_the_exponential_mechanism_on_six_variants_is_a_softmax(real):
    b, c = np.array(METOPIC_B), np.array(METOPIC_C)
    square = (b - c) ** 2 / (b + c)
    delta = 8 * (METOPIC_FAMILIES - 1) / METOPIC_FAMILIES
    weights = np.exp(9.0 * (square - square.max()) / (2 * delta))
    rows = rows_of("real", [real], [9.0])
    found = next(row.value for row in rows if row.mechanism == "exponential")
    assert found == pytest.approx(1 / weights.sum(), rel=1e-6)


def test_the_withdrawn_one_sided_mechanism_costs_less_than_it_says(real):
    for epsilon in (3.0, 21.0):
        made = published_one_sided(epsilon, StudySetting(6, METOPIC_FAMILIES))
        assert made.choice(real).sum() == pytest.approx(1)
        assert 0.8 * epsilon < made.epsilon < epsilon


@pytest.mark.deep(keep=0)
def test_the_printed_one_sided_mechanism_has_its_cap_and_so_a_row_for_many_variants():
    study = simulated(1_000, np.random.default_rng(1))
    made = published_one_sided(3.0, StudySetting(1_000, study.families))
    # k = 1/2: lβ = β/(m − 1) is as much as it may be.
    half, m = HalfGeneralizedCauchy(4.0), 1_000
    beta, alpha = 3.0 / 6 / (m - 1), 1.5 / HeavyGeneralizedCauchy(4.0).max_score
    assert made.epsilon == pytest.approx(alpha * half.hazard + beta * float(scale_price(half, m)))
    assert made.choice(study).sum() == pytest.approx(1)
    rows = list(rows_of("simulated", [study], [3.0]))
    assert {"SPS (II)", "SPS (IV)"} <= {r.mechanism for r in rows if r.standing == NOMINAL}


@pytest.mark.deep
def test_studies_are_averaged_with_their_standard_error():
    rng = np.random.default_rng(4)
    studies = [simulated(5, rng) for _ in range(4)]
    together = {row.mechanism: row for row in rows_of("simulated", studies, [6.0])}
    alone = [{r.mechanism: r for r in rows_of("simulated", [s], [6.0])} for s in studies]
    for name in ("exponential", "stability"):
        values = [rows[name].value for rows in alone]
        assert together[name].value == pytest.approx(np.mean(values))
        assert together[name].standard_error == pytest.approx(np.std(values, ddof=1) / 2)


@pytest.mark.deep
def test_tables_and_figures_come_out_of_the_command(tmp_path):
    arguments = ["simulate", "selection", "--application", "tdt", "--quick", "--processes", "1"]
    result = runner.invoke(app, [*arguments, "--out", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    assert "metopic" in result.stdout
    with (tmp_path / "selection-tdt.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert {row["setting"] for row in table} == {"m=5", "m=6", "m=20"}
    assert (tmp_path / "selection-tdt.png").read_bytes().startswith(b"\x89PNG")
