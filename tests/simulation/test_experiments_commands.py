"""geoveil simulate: tables, figures and a comparison, from the command line."""

import csv

import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app
from geoveil.gp import ParameterError

runner = CliRunner()


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize(
    ("experiment", "mode", "rows"),
    [
        ("oneway", "exact", 4 * 11),
        ("oneway", "monte-carlo", 4 * 11),
        ("twoway", "monte-carlo", 3 * 9),
        ("kde", "exact", 2 * 9),
    ],
)
def test_tables_figures_and_a_comparison_come_out(tmp_path, experiment, mode, rows):
    arguments = ["simulate", experiment, "--quick", "--mode", mode, "--out", str(tmp_path)]
    arguments += ["--repetitions", "2", "--processes", "1"]
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "ratio" in result.stdout
    with (tmp_path / f"{experiment}-{mode}.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == rows
    assert all(float(row["error"]) > 0 for row in table)
    for name in (f"{experiment}-{mode}.png", f"{experiment}-{mode}-ratios.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    finished = {file: file.stat().st_mtime_ns for file in (tmp_path / "cells").iterdir()}
    again = runner.invoke(app, arguments, catch_exceptions=False)
    assert again.stdout == result.stdout
    assert finished == {file: file.stat().st_mtime_ns for file in (tmp_path / "cells").iterdir()}


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [("--mode", "guess", "mode"), ("--seed", "-1", "seed"), ("--processes", "0", "processes")],
)
def test_unsound_options_are_refused_before_anything_is_written(tmp_path, option, value, named):
    target = tmp_path / "results"
    with pytest.raises(ParameterError, match=named):
        runner.invoke(
            app,
            ["simulate", "oneway", "--quick", option, value, "--out", str(target)],
            catch_exceptions=False,
        )
    assert not target.exists()
