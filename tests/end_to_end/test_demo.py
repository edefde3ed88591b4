"""Test a small demonstration: every device is counted, and the estimates are near the truth."""

import json
import math

import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app

DEVICES = 500


@pytest.mark.deep(keep=0)
def test_demo_counts_every_device_and_its_estimates_are_near_the_truth(tmp_path):
    """The truth is within three times an interval of 95 %, as in all of 4,000 simulated campaigns.

    Not within six standard errors: of 62 people near whom few are asked for, 4 % are beyond.
    """
    figure = tmp_path / "demo.png"
    asked = ["demo", "--devices", str(DEVICES), "--seed", "3", "--figure", str(figure)]
    result = CliRunner().invoke(app, [*asked, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    rows = json.loads(result.stdout)["campaigns"]
    fields = {
        "name", "truth", "hard_truth", "estimate", "uncut", "standard_error", "ci_low", "ci_high",
        "interval", "n", "one_report", "median_of_means", "epsilon", "per", "unit", "targets",
        "price_of_privacy", "forged_share_at_least",
    }  # fmt: skip
    assert all(set(row) == fields for row in rows)
    assert sum(row["n"] for row in rows) == DEVICES
    assert rows[0]["n"] == DEVICES // 2
    assert [(row["epsilon"], row["per"], row["unit"]) for row in rows] == [
        (1.0, 8000.0, "dollar")
    ] + 4 * [(1.0, 500.0, "metre")]
    for row in rows:
        low, high = row["ci_low"], row["ci_high"]
        assert 2 * low - high < row["truth"] < 2 * high - low
        assert low < row["estimate"] < high
    assert math.isclose(rows[0]["truth"], 0.49184, abs_tol=1e-5)
    assert math.isclose(rows[0]["hard_truth"], 0.486751, abs_tol=1e-6)
    assert all(row["hard_truth"] is None for row in rows[1:])
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.deep
def test_demo_prints_tables_of_80_columns(tmp_path):
    arguments = ["demo", "--devices", "100", "--figure", str(tmp_path / "demo.png")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "80"})
    assert result.exit_code == 0
    for name in ("DebiasedLaplace", "Student-t", "Lipschitz", "ε-LDP"):
        assert name in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())
