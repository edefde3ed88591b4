"""What `campaign show` and `estimate` say of a campaign, and of the weight of a report."""

import re
from datetime import date, timedelta
from random import Random

import grpc
import pytest

from geoveil.analyst import Analyst, ServerError
from geoveil.analyst.contamination import MEAN_MOVES
from geoveil.campaign import SmoothSpec, rounded_up
from geoveil.cli.console import out
from geoveil.gp import ParameterError
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub
from geoveil.proto.v1.report_pb2 import Answer, Report
from tests.campaigns import above_100k

from .conftest import ABOVE, INCOME, LOG_NORMAL, PLACE

TWO = (*ABOVE, "--threshold", "50000", "--width", "16000")


@pytest.mark.parametrize(
    ("mechanism", "clamps", "most"),
    [("lipschitz", True, 45.3), ("smooth", True, 719.2), ("debiased", False, 4.0)],
)
def test_the_range_of_a_report_is_shown(create, geoveil, record, server, mechanism, clamps, most):
    name = f"shown-{mechanism}"
    made = create(name, *TWO, "--mechanism", mechanism)
    with Analyst(server) as analyst:
        campaign = analyst.campaign(name)
    weight = campaign.most_from_one(0)
    assert weight == pytest.approx(most, rel=0.02)
    said = (
        f"One report of n, whatever it says, moves a mean by at most {rounded_up(weight, 4):g}/n."
    )
    assert said in made.output
    shown = geoveil("campaign", "show", name).output
    assert said in shown
    assert f"open from {campaign.opens:%Y-%m-%d %H:%M} to {campaign.closes:%Y-%m-%d %H:%M}" in shown
    assert ("counts as the end" if clamps else "is refused") in shown
    found = record("campaign", "show", name)
    step = 2.0**campaign.grid_exponent
    assert found["queries"] == [
        {"label": label, "low": low * step, "high": high * step, "clamps": clamps}
        for label, (low, high) in zip(campaign.labels, campaign.ranges, strict=True)
    ]
    assert campaign.labels == ("above 100,000", "above 50,000")
    assert (found["epsilon"], found["per"], found["unit"]) == (1.0, 8000.0, "dollar")
    assert [found[name] for name in ("window_s", "relay_operator", "token_key")] == [None] * 3


def test_an_estimate_says_what_one_report_can_do(create, answer, geoveil, record, server):
    create("weighed", *ABOVE, "--mechanism", "lipschitz")
    answer("weighed", 70_000, 70_000, 70_000)
    (row,) = record("estimate", "weighed")["estimates"]
    with Analyst(server) as analyst:
        campaign = analyst.estimate("weighed").campaign
    assert row["one_report"] == campaign.most_from_one(0) / 3
    shown = geoveil("estimate", "weighed").output
    assert f"{row['one_report']:.3g}" in shown
    assert "No single report" in shown


def test_of_places_the_mean_has_a_weight_and_what_is_asked_later_has_none(create, answer, record):
    create("homes", *PLACE, "--points", "--center=-73.98,40.72", "--radius", "20000")
    answer("homes", "-73.98,40.75")
    rows = record("estimate", "homes")["estimates"]
    assert [round(row["one_report"], -3) for row in rows] == [72_000.0, 72_000.0]
    (row,) = record("estimate", "homes", "--place", "Midtown=-73.985,40.755")["estimates"]
    assert row["one_report"] is None


def test_of_numbers_nothing_bounds_what_a_report_does_to_the_mean(
    create, answer, geoveil, record, words
):
    create("debts", *INCOME, "--attribute", "debt", "--points")
    taken = answer("debts", 7_000, 7_000)
    assert re.search(r"^  debt: [0-9.-]+, perturbed$", taken.stdout, re.MULTILINE)
    (row,) = record("estimate", "debts")["estimates"]
    assert row["one_report"] is None
    assert row["name"] == "x"
    assert geoveil("estimate", "debts", "--csv").stdout.splitlines()[1].startswith("debt,")
    for command in (("estimate", "debts"), ("campaign", "show", "debts")):
        assert MEAN_MOVES in words(*command)
    shown = words("campaign", "show", "debts")
    assert " debt " in shown
    assert " x " not in shown
    assert "one report" not in words("estimate", "debts")
    assert MEAN_MOVES not in words("estimate", "debts", "--threshold", "5000")
    with pytest.raises(ParameterError, match="nothing bounds what a report counts for"):
        geoveil("estimate", "debts", "--contamination", "0.01")


def test_who_asks_is_shown_before_anything_is_asked(create, answer, record, words):
    asker = {
        "organisation": "City of Bergen",
        "purpose": "where buses stop",
        "contact": "data@bergen.example",
        "notice": "https://bergen.example/survey",
    }
    said = [part for name, text in asker.items() for part in (f"--{name}", text)]
    create("signed-for", *TWO, *said, "--delete-after", "30")
    create("unknown", *TWO)
    days = (date.today() + timedelta(days=day) for day in (59, 60, 61))
    until = "|".join(f"{day}" for day in days)
    stated = ("Who asks: City of Bergen", "Contact: data@bergen.example", "deletes single answers")
    for name, of_asker, shown in (
        ("signed-for", asker, stated),
        ("unknown", None, ["Who asks is unknown", "keeps single answers is unknown"]),
    ):
        found = record("campaign", "show", name)
        assert found["asker"] == of_asker
        kept = found["delete_after"]
        assert re.match(until, kept) if of_asker else kept is None
        sent = answer(name, 70_000).output
        for text in shown:
            assert text in words("campaign", "show", name)
            assert text in sent


def test_a_recurring_campaign_shows_its_periods_and_what_they_spend(create, geoveil, record):
    created = create("Weekly", *ABOVE, "--every", "7d", "--days", "28")
    assert "once in each of 4 periods" in created.output
    assert "every 7 days" in geoveil("campaign", "list").output
    shown = record("estimate", "weekly")
    assert [row["period"] for row in shown["estimates"]] == [0]
    assert shown["estimates"][0]["median_of_means"] is None
    assert shown["epsilon_at_most"] == 1.0
    assert "in the period" in shown["unbiased_for"]
    table = geoveil("estimate", "weekly", "--period", "0").output
    assert "begins" in table
    assert re.search(r"ε = 1 per 8000 dollar, any two values [\d,]+ to 1, for each", table)
    with pytest.raises(ServerError, match="later ones have not begun"):
        geoveil("estimate", "weekly", "--period", "1")


def test_who_repeats_is_told_the_sum(create, answer, geoveil, record, words, monkeypatch, tmp_path):
    monkeypatch.setattr(out, "width", 300)  # however long the names of the other campaigns are
    thresholds = ("--threshold", "60000", "--threshold", "140000", "--allocation", "repeat")
    create("Said", *ABOVE, *thresholds, "--every", "7d")
    taken = answer("said", 97_000)
    assert taken.exit_code == 0
    promise = (
        "Privacy: ε = 3 per 8000 dollar: 3 answers of ε = 1 each, no protection of values far"
        " apart\nThis report is at most 20.1 times as likely"
    )
    assert promise in taken.stderr
    assert taken.stdout.count("perturbed") == 3
    history = ("client", "history", "--state-dir", tmp_path / "device0")
    assert "ε = 3 per 8000 dollar" in geoveil(*history, to_server=False).output
    assert record(*history, to_server=False)["charges"][0]["epsilon"] == 3.0
    assert "ε = 3 per 8000" in words("campaign", "list")
    shown = record("estimate", "said")
    assert [row["epsilon"] for row in shown["estimates"]] == [3.0] * 3
    assert shown["epsilon_at_most"] == 3.0
    table = geoveil("estimate", "said").output
    far = ", no protection of values far apart, for each participant in each period"
    assert f"ε = 3 per 8000 dollar{far}" in table


def test_a_watch_ends_with_the_campaign(create, geoveil):
    create("Watched", *ABOVE)
    geoveil("campaign", "close", "watched")
    assert "above 100,000" in geoveil("estimate", "watched", "--watch").output
    with pytest.raises(ServerError, match="no such campaign"):
        geoveil("estimate", "never-made", "--watch")


def test_heavy_tails_show_the_interval_that_needs_no_variance(geoveil, record, server):
    campaign = above_100k("heavy", mechanism=SmoothSpec(0.3))
    rng = Random(2)
    reports = [
        Report(report_id=rng.randbytes(16), answers=[Answer(value=rng.randrange(2**30))])
        for _ in range(1_100)
    ]
    with Analyst(server) as analyst, grpc.insecure_channel(server) as channel:
        digest = analyst.create(campaign)
        request = SubmitReportsRequest(campaign_id="heavy", campaign_digest=digest, reports=reports)
        CollectorStub(channel).SubmitReports(request, timeout=30)
    (row,) = record("estimate", "heavy")["estimates"]
    robust = row["median_of_means"]
    assert robust["ci_low"] < robust["estimate"] < robust["ci_high"]
    table = geoveil("estimate", "heavy").output
    assert {"median", "low", "high"} <= set(table.split("─")[0].split())  # heads may be folded
    assert "the interval by the median of means stands" in " ".join(table.split())


def test_an_estimate_says_what_false_answers_can_do(create, answer, geoveil, record, words):
    create("doubted", *ABOVE, "--width", "24000")
    answer("doubted", 70_000, 70_000, 70_000)
    doubting = ("estimate", "doubted", "--contamination", "0.01")
    (row,) = record(*doubting)["estimates"]
    found = row["contamination"]
    assert found["moved"] == pytest.approx(0.01 * 3 * row["one_report"])
    assert found["moved_by_false_values"] == 0.01
    assert found["ci_high"] == pytest.approx(min(row["ci_high"] + found["moved"], 1.0))
    shown = words(*doubting)
    assert "contaminated high" in shown
    assert "Liars, above 100,000: 1 % of the answers move the estimate by at most" in shown
    assert f"{rounded_up(found['moved'], 3):g}, whatever they say, and by at most 0.01" in shown
    assert "contamination" not in geoveil("estimate", "doubted", "--json").output
    assert "Liars" not in words("estimate", "doubted")


def test_a_plan_says_what_liars_can_do(record, words):
    prior = (*LOG_NORMAL[:-1], "lognormal:98000,0.83", "--contamination", "0.01")
    asked = ("--threshold", "100000", "--soft", "--width", "80000", "--participants", "50000")
    (row,) = record("plan", *asked, *prior, to_server=False)["contamination"]
    assert row["moved"] == pytest.approx(0.01 * (1 + 12 / 10**2), rel=1e-3)
    shown = words("plan", *asked, *prior, to_server=False)
    moved = rounded_up(row["moved"], 3)
    assert f"send anything, the estimate moves by at most {moved:g}" in shown


def test_an_estimate_says_what_silent_people_can_do(create, answer, geoveil, record, words):
    create("silent", *ABOVE, "--width", "24000")
    answer("silent", 70_000, 70_000, 70_000)
    assert "State how many were invited" in words("estimate", "silent")
    asked = ("estimate", "silent", "--invited", "12")
    (row,) = record(*asked)["estimates"]
    found = row["worst_case"]
    assert found["invited"] == 12
    assert found["ci_low"] == pytest.approx(0.25 * row["ci_low"])
    assert found["ci_high"] == pytest.approx(0.25 * row["ci_high"] + 0.75)
    shown = words(*asked)
    assert "3 of 12 people invited answered (25 %)" in shown
    assert "worst case interval" in shown
    with pytest.raises(ParameterError, match=r"invited.* at least 3, the number of people who"):
        geoveil("estimate", "silent", "--invited", "2")
