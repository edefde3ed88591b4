"""Test the statements of campaigns and estimates on the weight of one report."""

import json
import re
from datetime import date, timedelta

import pytest

from geoveil.analyst import Analyst
from geoveil.analyst.contamination import MEAN_MOVES
from geoveil.gp import ParameterError

INCOME = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000", "--threshold", "50000", "--width", "16000",
]  # fmt: skip


@pytest.mark.parametrize(
    ("mechanism", "clamps", "most"),
    [("lipschitz", True, 45.3), ("smooth", True, 719.2), ("debiased", False, 4.0)],
)
def test_the_range_of_a_report_is_shown(geoveil, server, mechanism, clamps, most):
    name = f"shown-{mechanism}"
    made = geoveil("campaign", "create", name, *INCOME, "--mechanism", mechanism)
    with Analyst(server) as analyst:
        campaign = analyst.campaign(name)
    weight = campaign.most_from_one(0)
    assert weight == pytest.approx(most, rel=0.02)
    said = f"One report of n, whatever it says, moves a mean by at most {weight:.4g}/n."
    assert said in made.output
    shown = geoveil("campaign", "show", name).output
    assert said in shown
    assert f"open from {campaign.opens:%Y-%m-%d %H:%M} to {campaign.closes:%Y-%m-%d %H:%M}" in shown
    assert ("counts as the end" if clamps else "is refused") in shown
    record = json.loads(geoveil("campaign", "show", name, "--json").output)
    step = 2.0**campaign.grid_exponent
    for label, query, (low, high) in zip(
        ("above 100,000", "above 50,000"), record["queries"], campaign.ranges, strict=True
    ):
        expected = {"label": label, "low": low * step, "high": high * step, "clamps": clamps}
        assert query == expected
    assert (record["epsilon"], record["per"], record["unit"]) == (1.0, 8000.0, "dollar")
    assert [record[name] for name in ("window_s", "relay_operator", "token_key")] == [None] * 3


def test_an_estimate_says_what_one_report_can_do(geoveil, server, tmp_path):
    geoveil("campaign", "create", "weighed", *INCOME[:-4], "--mechanism", "lipschitz")
    for person in range(3):
        state = str(tmp_path / str(person))
        geoveil("contribute", "weighed", "--yes", "--state-dir", state, stdin="70000")
    (row,) = json.loads(geoveil("estimate", "weighed", "--json").output)["estimates"]
    with Analyst(server) as analyst:
        campaign = analyst.estimate("weighed").campaign
    assert row["one_report"] == campaign.most_from_one(0) / 3
    shown = geoveil("estimate", "weighed").output
    assert f"{row['one_report']:.3g}" in shown
    assert "No single report" in shown


def test_of_points_the_mean_has_a_weight_and_what_is_asked_later_has_none(geoveil, tmp_path):
    geoveil(
        "campaign", "create", "points", "--points", "--attribute", "home", "--epsilon", "1",
        "--per", "500", "--center=-73.98,40.72", "--radius", "20000",
    )  # fmt: skip
    state = str(tmp_path / "state")
    geoveil("contribute", "points", "--yes", "--state-dir", state, stdin="-73.98,40.75")
    rows = json.loads(geoveil("estimate", "points", "--json").output)["estimates"]
    assert [round(row["one_report"], -3) for row in rows] == [72_000.0, 72_000.0]
    later = ["--place", "Midtown=-73.985,40.755", "--json"]
    (row,) = json.loads(geoveil("estimate", "points", *later).output)["estimates"]
    assert row["one_report"] is None


def test_of_numbers_nothing_bounds_what_a_report_does_to_the_mean(geoveil, tmp_path):
    geoveil(
        "campaign", "create", "debts", "--points", "--attribute", "debt", "--unit", "euro",
        "--epsilon", "1", "--per", "5000",
    )  # fmt: skip
    for person in range(2):
        state = str(tmp_path / str(person))
        taken = geoveil("contribute", "debts", "--yes", "--state-dir", state, stdin="7000")
    assert re.search(r"^  debt: [0-9.-]+, perturbed$", taken.stdout, re.MULTILINE)
    (row,) = json.loads(geoveil("estimate", "debts", "--json").output)["estimates"]
    assert row["one_report"] is None
    for command in (("estimate", "debts"), ("campaign", "show", "debts")):
        assert MEAN_MOVES in " ".join(geoveil(*command).output.split())
    assert "one report" not in geoveil("estimate", "debts").output
    later = geoveil("estimate", "debts", "--threshold", "5000").output
    assert MEAN_MOVES not in " ".join(later.split())
    with pytest.raises(ParameterError, match="nothing bounds what a report counts for"):
        geoveil("estimate", "debts", "--contamination", "0.01")


def test_who_asks_is_shown_before_anything_is_asked(geoveil, tmp_path):
    asker = {
        "organisation": "City of Bergen",
        "purpose": "where buses stop",
        "contact": "data@bergen.example",
        "notice": "https://bergen.example/survey",
    }
    said = [part for name, text in asker.items() for part in (f"--{name}", text)]
    geoveil("campaign", "create", "signed-for", *INCOME, *said, "--delete-after", "30")
    geoveil("campaign", "create", "unknown", *INCOME)
    days = (date.today() + timedelta(days=day) for day in (59, 60, 61))
    until = "|".join(f"{day}" for day in days)
    words = ("Who asks: City of Bergen", "Contact: data@bergen.example", "deletes single answers")
    for name, record, shown in (
        ("signed-for", asker, words),
        ("unknown", None, ["Who asks is unknown", "keeps single answers is unknown"]),
    ):
        shown_json = json.loads(geoveil("campaign", "show", name, "--json").stdout)
        assert shown_json["asker"] == record
        kept = shown_json["delete_after"]
        assert re.match(until, kept) if record else kept is None
        state = ("--state-dir", str(tmp_path / name))
        sent = geoveil("contribute", name, "--yes", *state, stdin="70000").output
        for text in shown:
            assert text in " ".join(geoveil("campaign", "show", name).output.split())
            assert text in sent
    with pytest.raises(ParameterError, match="--contact must be"):
        geoveil("campaign", "create", "half", *INCOME, *said[:4])
    with pytest.raises(ParameterError, match="--delete-after must be"):
        geoveil("campaign", "create", "long", *INCOME, "--delete-after", "3661")
