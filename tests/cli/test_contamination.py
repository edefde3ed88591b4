"""Test the statements of commands on false reports."""

import json

import pytest

from geoveil.gp import ParameterError

INCOME = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000", "--width", "24000",
]  # fmt: skip


def test_an_estimate_says_what_false_answers_can_do(geoveil, tmp_path):
    geoveil("campaign", "create", "doubted", *INCOME)
    for person in range(3):
        state = str(tmp_path / str(person))
        geoveil("contribute", "doubted", "--yes", "--state-dir", state, stdin="70000")
    asked = "estimate", "doubted", "--contamination", "0.01"
    (row,) = json.loads(geoveil(*asked, "--json").output)["estimates"]
    found = row["contamination"]
    assert found["moved"] == pytest.approx(0.01 * 3 * row["one_report"])
    assert found["moved_by_false_values"] == 0.01
    assert found["ci_high"] == pytest.approx(min(row["ci_high"] + found["moved"], 1.0))
    shown = " ".join(geoveil(*asked).output.split())
    assert "contaminated high" in shown
    assert "Liars, above 100,000: 1 % of the answers move the estimate by at most" in shown
    assert f"{found['moved']:.3g}, whatever they say, and by at most 0.01" in shown
    assert "contamination" not in geoveil("estimate", "doubted", "--json").output
    assert "Liars" not in geoveil("estimate", "doubted").output


def test_a_plan_says_what_liars_can_do(geoveil):
    asked = (
        "plan", "--threshold", "100000", "--soft", "--width", "80000", "--participants", "50000",
        "--epsilon", "1", "--per", "8000", "--unit", "dollar", "--prior", "lognormal:98000,0.83",
        "--contamination", "0.01",
    )  # fmt: skip
    report = json.loads(geoveil(*asked, "--json", to_server=False).output)
    (row,) = report["contamination"]
    assert row["moved"] == pytest.approx(0.01 * (1 + 12 / 10**2), rel=1e-3)
    shown = " ".join(geoveil(*asked, to_server=False).output.split())
    assert f"send anything, the estimate moves by at most {row['moved']:.3g}" in shown


def test_an_estimate_says_what_silent_people_can_do(geoveil, tmp_path):
    geoveil("campaign", "create", "silent", *INCOME)
    for person in range(3):
        state = str(tmp_path / str(person))
        geoveil("contribute", "silent", "--yes", "--state-dir", state, stdin="70000")
    assert "State how many were invited" in geoveil("estimate", "silent").output
    asked = "estimate", "silent", "--invited", "12"
    (row,) = json.loads(geoveil(*asked, "--json").output)["estimates"]
    found = row["worst_case"]
    assert found["invited"] == 12
    assert found["ci_low"] == pytest.approx(0.25 * row["ci_low"])
    assert found["ci_high"] == pytest.approx(0.25 * row["ci_high"] + 0.75)
    shown = " ".join(geoveil(*asked).output.split())
    assert "3 of 12 people invited answered (25 %)" in shown
    assert "worst case interval" in shown
    with pytest.raises(ParameterError, match=r"invited.* at least 3, the number of people who"):
        geoveil("estimate", "silent", "--invited", "2")
