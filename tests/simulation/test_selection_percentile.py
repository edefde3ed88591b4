"""The percentile experiment: its rows, its figures, its command."""

import csv
import math
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app
from geoveil.gp import ParameterError
from geoveil.simulation.experiment import compute_cells
from geoveil.simulation.selection import Options, experiment
from geoveil.simulation.selection.experiment import KEPT, NOMINAL
from geoveil.simulation.selection.percentile import (
    candidates_for,
    read_counts,
    repeats,
    rows_of,
    shipped_counts,
)

runner = CliRunner()


@pytest.fixture
def counts(tmp_path):
    """A file of counts with many repeats."""
    file = tmp_path / "counts.npz"
    values = np.random.default_rng(1).poisson(6, 400)
    np.savez(file, MADE=values)
    return file


def test_every_row_keeps_its_epsilon_or_says_what_is_proved(counts):
    values = read_counts(counts)["MADE"]
    rows = list(rows_of("MADE", values, 50, [0.5, 5.0]))
    assert {row.standing for row in rows} == {KEPT, NOMINAL}
    for row in rows:
        if row.standing == KEPT:
            assert row.proved_epsilon <= row.epsilon * (1 + 1e-9)
        else:
            assert row.proved_epsilon > row.epsilon
        assert row.value >= 0


def test_errors_are_those_of_the_probabilities(counts):
    from geoveil.selection.contrib import PERCENTILE_RECIPES, Percentile

    values = read_counts(counts)["MADE"]
    rows = list(rows_of("MADE", values, 90, [1.0]))
    known = Percentile(values, 90, candidates_for("MADE", values))
    truth = np.sort(values)[math.floor(0.9 * len(values))]
    assert known.candidates[known.winner] == truth
    for name, recipe in PERCENTILE_RECIPES.items():
        mechanism = recipe.build(1.0, known.outcomes)
        p = mechanism.probabilities(recipe.score(known, mechanism))
        found = {row.measure: row.value for row in rows if row.mechanism == name}
        assert found["absolute expected error"] == pytest.approx(
            abs(np.dot(p, known.candidates) - truth)
        )
        assert found["expected absolute error"] == pytest.approx(
            np.dot(p, np.abs(known.candidates - truth))
        )


def test_more_budget_never_errs_more(counts):
    values = read_counts(counts)["MADE"]
    rows = list(rows_of("MADE", values, 50, [0.1, 1.0, 10.0, 100.0]))
    own = [r for r in rows if r.measure == "expected absolute error" and r.standing == KEPT]
    for name in {row.mechanism for row in own}:
        errors = [row.value for row in own if row.mechanism == name]
        assert all(b <= a * (1 + 1e-6) for a, b in pairwise(errors))


def test_repeats_are_counted_on_the_shorter_side():
    assert repeats(np.array([3, 5, 5, 5, 6, 7.0]), 50) == 0
    assert repeats(np.array([5, 5, 5, 5, 5.0]), 50) == 2


def test_counts_ship_for_use_without_data():
    counts = shipped_counts()["INCOME"]
    assert counts.shape == (4096,)
    assert counts.sum() == pytest.approx(13_751_749, rel=1e-3)
    assert candidates_for("INCOME", counts)[-1] >= counts.max()


@pytest.mark.deep(rest=0)
def test_tables_and_figures_come_out_of_the_command(tmp_path, counts):
    target = tmp_path / "results"
    arguments = ["simulate", "selection", "--application", "percentile", "--quick"]
    arguments += ["--processes", "1"]
    arguments += ["--data", str(counts), "--out", str(target)]
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "MADE, p=50" in result.stdout
    with (target / "selection-percentile.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert pq.read_table(target / "selection-percentile.parquet").num_rows == len(table)
    assert {row["dataset"] for row in table} == {"INCOME", "MADE"}
    assert {row["standing"] for row in table} == {KEPT, NOMINAL}
    figures = list(target.glob("*.png"))
    assert len(figures) == 2
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in figures)


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [("--application", "guess", "application"), ("--seed", "-1", "seed")],
)
def test_unsound_options_are_refused_before_anything_is_written(tmp_path, option, value, named):
    target = tmp_path / "results"
    command = ["simulate", "selection", "--application", "percentile"]
    with pytest.raises(ParameterError, match=named):
        runner.invoke(
            app,
            [*command, option, value, "--out", str(target)],
            catch_exceptions=False,
        )
    assert not target.exists()


def test_files_that_hold_no_counts_are_refused(tmp_path):
    text = tmp_path / "text.npz"
    text.write_text("no arrays", encoding="utf-8")
    negative = tmp_path / "negative.npz"
    np.savez(negative, X=np.array([-1, 2]))
    for file in (text, negative, tmp_path / "absent.npz"):
        with pytest.raises(ParameterError, match="data"):
            compute_cells(experiment("percentile", Options(data=(file,), quick=True)).cells)
