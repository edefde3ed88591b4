"""Test a newcomer's commands against a real server, and their error messages."""

import json

import pytest

from geoveil.campaign import Question
from geoveil.client import Policy
from geoveil.gp import GeoPrivacy, PrivateValueError, Threshold
from tests.campaigns import DAY, NOW, above_100k

INCOME = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
]  # fmt: skip


@pytest.mark.deep
def test_a_threshold_from_creation_to_estimate(geoveil, tmp_path):
    created = geoveil("campaign", "create", "Income above 100k", *INCOME, "--threshold", "100000")
    assert created.exit_code == 0
    assert "income-above-100k" in created.output
    assert "ε = 1 per 8000 dollar" in created.output

    for person, value in enumerate(["250000", "250000", "1000"]):
        state = str(tmp_path / f"person-{person}")
        arguments = ["contribute", "income-above-100k", "--yes", "--state-dir", state]
        first = geoveil(*arguments, stdin=value)
        assert first.exit_code == 0
        assert "counted" in first.output
        assert value not in first.output
        again = geoveil(*arguments, stdin="7")  # one draw per campaign
        told = "already answered; nothing was drawn, and the value given now has no effect\n"
        assert again.stdout == told + first.stdout
        assert again.stderr == first.stderr

    shown = json.loads(geoveil("estimate", "income-above-100k", "--json").output)
    (row,) = shown["estimates"]
    assert row["n"] == 3
    assert (row["epsilon"], row["per"], row["unit"]) == (1.0, 8000.0, "dollar")
    assert row["ci_low"] < row["estimate"] < row["ci_high"]
    assert row["interval"]["method"] == "sequence"
    table = " ".join(geoveil("estimate", "income-above-100k").output.split())
    assert f"95 % interval for all looks: it {row['interval']['promise']}." in table
    least = row["price_of_privacy"]["variance_ratio_at_least"]
    assert f"Price of privacy: at least {least:.3g} × the variance" in table
    assert "bounded by what the mechanism's noise can be" in table
    other = geoveil("estimate", "income-above-100k", "--interval", "full-ends", "--json").output
    assert json.loads(other)["estimates"][0]["interval"]["method"] == "full-ends"

    assert "3" in geoveil("campaign", "list").output
    assert geoveil("campaign", "close", "income-above-100k").exit_code == 0
    assert "closed" in geoveil("campaign", "list").output
    again = json.loads(geoveil("estimate", "income-above-100k", "--json").output)
    assert shown.pop("notes") != again["notes"]  # what is said of looks, before and after
    assert any("closed by hand before its date" in note for note in again.pop("notes"))
    assert again == shown


def test_places_split_over_all_queries(geoveil, tmp_path):
    geoveil(
        "campaign", "create", "Where people are", "--attribute", "location", "--epsilon", "1",
        "--per", "500", "--place", "Times Square=-73.9855,40.7580", "--place", "-73.9176,40.8164",
        "--allocation", "split", "--id", "where",
    )  # fmt: skip
    sent = geoveil(
        "contribute", "where", "--yes", "--state-dir", str(tmp_path / "s"), stdin="-73.9431,40.7519"
    )
    assert "Times Square" in sent.output
    assert not any(digits in sent.output for digits in ("9431", "7519"))  # of the place
    shown = json.loads(geoveil("estimate", "where", "--json").output)
    assert [row["n"] for row in shown["estimates"]] == [1, 1]
    assert [row["standard_error"] for row in shown["estimates"]] == [None, None]
    assert "need two answers" in " ".join(geoveil("estimate", "where").output.split())


def test_a_value_that_makes_no_sense_is_refused_without_being_shown(geoveil, tmp_path):
    geoveil("campaign", "create", "Refused", *INCOME, "--threshold", "100000")
    for value in ["secret-31415", "nan", "31415,2", "", "inf"]:
        with pytest.raises(PrivateValueError) as caught:
            geoveil(
                "contribute", "refused", "--yes", "--state-dir", str(tmp_path / "s"), stdin=value
            )
        assert "31415" not in str(caught.value)
    shown = json.loads(geoveil("estimate", "refused", "--json").output)
    assert shown["estimates"][0]["n"] == 0


def test_declining_sends_nothing(geoveil, tmp_path):
    geoveil("campaign", "create", "Declined", *INCOME, "--threshold", "100000")
    result = geoveil("contribute", "declined", "--state-dir", str(tmp_path / "s"), stdin="n\n")
    assert result.exit_code == 1
    assert not (tmp_path / "s").exists()


def test_saying_yes_to_a_recurring_campaign_permits_every_period_to_the_last_bit():
    asked = (Question("above", Threshold(100_000, 240_000, "smoothstep")),)
    campaign = above_100k(
        privacy=GeoPrivacy(0.1, 8_000, "dollar"),
        questions=asked,
        opens=NOW,
        closes=NOW + 10 * DAY,
        period=DAY,
    )
    # Ten times the double 0.1 is more than 1: a product of doubles would refuse the last period.
    most = Policy.permitting(campaign).limit("household income").campaign
    assert (
        most.exact_rate >= 10 * campaign.privacy.exact_rate > GeoPrivacy(0.1 * 10, 8_000).exact_rate
    )
