"""Test that the curve over periods by command equals Python's `over_time`, to the digit."""

import json
from contextlib import suppress

import numpy as np
import pytest

from geoveil.analyst import Analyst, asked_of_points, softness_of_points
from geoveil.analyst.questions import ShareAbove
from geoveil.campaign import Allocation, Attribute, Question, Readings
from geoveil.campaign.connection import TLS
from geoveil.client import AnswerNotYet, Client, Limit, Policy, Timing
from geoveil.gp import GeoPrivacy, ParameterError, Threshold, UnsupportedError
from tests.campaigns import DAY, NOW, above_100k, perturbed_incomes

DAYS, EPOCH, DEVICES = 14, 4, 24


def published(server, name, **changes):
    fields = {
        "attribute": Attribute(name="income", unit="dollar"),
        "opens": NOW - DAYS * DAY,
        "closes": NOW + 30 * DAY,
        "period": DAY,
        "readings": Readings(every=EPOCH * DAY, cohorts=EPOCH),
    } | changes
    if "questions" in fields:
        made = above_100k(name, **fields, allocation=Allocation.REPEAT)
    else:
        made = perturbed_incomes(name, **fields)
    with Analyst(server) as analyst:
        analyst.create(made)
    return made


def two_questions():
    above = (Threshold(at, 32_000, "smoothstep") for at in (50_000, 100_000))
    return {"questions": tuple(Question(f"above {q.at:g}", q) for q in above)}


def answered(server, campaigns, days=DAYS):
    """Let devices live through all periods, each with a clock of its own."""
    rng = np.random.default_rng(5)
    most = GeoPrivacy(100.0, 8_000.0, "dollar")
    for _ in range(DEVICES):
        income = float(rng.lognormal(11, 0.5))
        at = [campaigns[0].opens]
        timing = Timing(now=lambda at=at: at[0])
        policy = Policy({"income": Limit(campaign=most, cohorts=EPOCH)})
        with Client(
            server, policy=policy, tls=TLS(insecure=True), timing=timing,
            release_floor_s=0, background=False,
        ) as client:  # fmt: skip
            for one in campaigns:
                client.fetch(one.campaign_id)
            for day in range(days):
                at[0] = campaigns[0].opens + (day + 0.5) * DAY
                for one in campaigns:
                    with suppress(AnswerNotYet):
                        client.contribute(one.campaign_id, income * (1 - 0.5 * (day >= 11)))
            client.flush(30.0)


@pytest.mark.deep
def test_the_command_says_what_python_says(geoveil, server, tmp_path):
    """Devices over 14 days that read every fourth: answers extrapolated, and points."""
    moving = {"readings": Readings(every=EPOCH * DAY, extrapolated=True, cohorts=EPOCH)}
    asked = published(server, "daily", **two_questions(), **moving)
    points = published(server, "daily-points")
    answered(server, [asked, points])
    with Analyst(server) as analyst:
        found = analyst.estimate("daily", 0.9)
        curves = [found.over_time(label, confidence=0.9) for label in asked.labels]
        above = [ShareAbove(60_000)]
        soft = asked_of_points(points, above, softness_of_points(points, None, None))
        of_points = analyst.ask("daily-points", soft, cohorts=True).over_time()
    told = of(geoveil, "daily", "--confidence", "0.9", "--change", "3,13")
    assert told["results"] == [
        one.to_dict() for curve in curves for one in (curve, curve.change(3, 13))
    ]
    assert of(geoveil, "daily", "--confidence", "0.9", "--label", "above 50000") == (
        curves[0].to_dict()
    )
    assert of(geoveil, "daily-points", "--threshold", "60000") == of_points.to_dict()
    for curve in (*curves, of_points):
        assert len(curve.periods) == DAYS
        assert sum(row["cohort"] is not None for row in curve.to_dict()["rows"]) > EPOCH
    picture = tmp_path / "curve.svg"
    drawn = ["estimate", "daily-points", "--over-time", "--threshold", "60000", "-q"]
    assert not geoveil(*drawn, "--plot", str(picture)).stdout
    assert "those who have just read" in picture.read_text()


def of(geoveil, name, *asked):
    return json.loads(geoveil("estimate", name, "--over-time", "--json", *asked).stdout)


def test_what_can_not_be_said_is_named(geoveil, server):
    """No reports, one period, no readings, no cohorts; and options that are of no curve."""
    once = published(server, "no-curve-once", **two_questions(), period=None, readings=None)
    fresh = published(server, "no-curve-fresh", **two_questions(), readings=None)
    published(server, "no-curve-yet", **two_questions())
    for name, match in ((once.campaign_id, "recurs"), ("no-curve-yet", "two reports")):
        with pytest.raises(ParameterError, match=match):
            of(geoveil, name, "--label", "above 50000")
    with pytest.raises(ParameterError, match="above 50000, above 100000"):
        of(geoveil, fresh.campaign_id, "--label", "no such")
    for option, match in (
        (["--mean"], "it draws means"),
        (["--period", "1"], "left out"),
        (["--period", "0"], "left out"),
        (["--interval", "student"], "left out"),
        (["--change", "a,b"], "FIRST,LAST"),
        (["--change", "5"], "FIRST,LAST"),
    ):
        with pytest.raises(ParameterError, match=match):
            of(geoveil, "no-curve-yet", *option)
    with pytest.raises(ParameterError, match="period by period"):
        geoveil("estimate", "x.parquet", "--over-time", to_server=False)
    with pytest.raises(ParameterError, match="with --over-time"):
        geoveil("estimate", "no-curve-yet", "--label", "above 50000")
    with pytest.raises(UnsupportedError, match="two answers"):
        geoveil("estimate", "no-curve-yet", "--change", "0,1")
