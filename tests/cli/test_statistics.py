"""Curves, quantiles, changes and periods by command: as Python says them, to the digit."""

import csv
import io
import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

import numpy as np
import pytest

from geoveil.analyst import (
    Analyst,
    DistributionFunction,
    Histogram,
    MeanValue,
    Quantiles,
    ReportRows,
    ask_changes,
    asked_of_points,
    compare,
    reports_of,
    softness_of_points,
)
from geoveil.analyst.questions import ShareAbove
from geoveil.analyst.vocabulary import STATISTICS, statistics_in
from geoveil.campaign import Allocation, Attribute, NotInstalled, Question, Readings, encode
from geoveil.campaign.connection import TLS
from geoveil.client import AnswerNotYet, Client, Limit, Policy, Timing
from geoveil.gp import GeoPrivacy, ParameterError, Threshold, UnsupportedError
from geoveil.simulation.scale import write_reports
from tests.campaigns import DAY, NOW, above_100k, perturbed_incomes

from .conftest import ABOVE, INCOME, PLACE
from .test_values import send

INCOMES = np.random.default_rng(8).lognormal(11.3, 0.7, 1_500)
EDGES = "50000,100000,200000"
N = 500
DAYS, EPOCH, DEVICES = 14, 4, 24


def written(campaign, periods, points, folder):
    path = folder / f"{campaign.campaign_id}.parquet"
    rows = ReportRows(np.asarray(periods, np.uint32), None, (points,))
    write_reports(iter([encode(campaign), rows]), path)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    campaign = perturbed_incomes()
    points = campaign.point_mechanism.release_many(INCOMES)[:, 0]
    return written(campaign, np.zeros(len(points)), points, tmp_path_factory.mktemp("export"))


@pytest.fixture
def estimate(geoveil):
    """Ask a campaign of the server, or a file."""

    def of(source, *asked):
        served = not str(source).endswith(".parquet")
        return geoveil("estimate", source, *asked, to_server=served)

    return of


@pytest.fixture
def told(estimate):
    return lambda *asked: json.loads(estimate(*asked, "--json").stdout)


def test_a_file_is_asked_without_a_server(told, file):
    shown = told(file, "--quantile", "0.5", "--quantile", "0.25")
    assert shown == reports_of(file).ask(Quantiles(levels=(0.25, 0.5))).to_dict()


@pytest.mark.deep(keep=0)
def test_several_statistics_are_told_one_after_the_other(estimate, told, file):
    asked = ["--mean", "--histogram", EDGES, "--threshold", "100000"]
    results = told(file, *asked)["results"]
    reports = reports_of(file)
    assert results[1] == reports.ask(Histogram(edges=(50_000, 100_000, 200_000))).to_dict()
    assert results[2] == reports.ask(MeanValue()).to_dict()
    assert results[0]["estimates"][0]["name"] == "above 100,000"
    table = estimate(file, *asked[:-2]).stdout
    assert table.count("of which the participants are a random sample") == 1
    with pytest.raises(ParameterError, match="one result"):
        estimate(file, *asked, "--csv")


@pytest.mark.deep(keep=0)
def test_every_word_is_an_option_that_says_its_numbers(estimate, file):
    said = {"quantile": "0.5", "histogram": EDGES, "top-share": "0.1"}
    for word in set(STATISTICS.built_in) - {
        "map",
        "districts",
        "nearest",
        "geometric-mean",
    }:  # see below
        option = [f"--{word}", *([said[word]] if word in said else [])]
        rows = list(csv.DictReader(io.StringIO(estimate(file, *option, "--csv").stdout)))
        assert rows
        assert all(float(row["estimate"]) == float(row["estimate"]) for row in rows)


@pytest.mark.deep
def test_a_curve_is_drawn(estimate, file, tmp_path):
    picture = tmp_path / "curve.svg"
    assert not estimate(file, "--curve", "--plot", picture, "-q").output
    assert "<!-- distribution function -->" in picture.read_text()
    assert "interval" in estimate(file, "--mean", "-q").stdout


@pytest.mark.deep
def test_a_server_says_the_same(create, estimate, told, geoveil, server, tmp_path):
    create("Curves", *INCOME, "--attribute", "income", "--points")
    send(server, "curves", INCOMES[:400].tolist())
    (row,) = told("curves", "--quantile", "0.5")["rows"]
    assert row["ci_low"] < np.median(INCOMES) < row["ci_high"]
    with pytest.raises(ParameterError, match="left out"):
        estimate("curves", "--curve", "--watch")
    exported = tmp_path / "curves.parquet"
    geoveil("campaign", "export", "curves", "--out", exported)
    heap = ["--heap", "100000=0.01"]
    for asked in (
        ["--threshold", "100000", "--range", "50000,150000", *heap],
        ["--threshold", "100000", "--slope-bound", "1e-10", "--contamination", "0.01"],
        ["--threshold", "100000", "--width", "24000", "--interval", "full-ends"],
    ):
        shown = told("curves", *asked)
        assert shown == told(exported, *asked)
    assert "band" not in shown["estimates"][0]
    with pytest.raises(ParameterError, match="heap"):
        estimate(exported, "--threshold", "100000", "--width", "24000", *heap)


@pytest.mark.deep(rest=0)
def test_a_map_is_a_file_for_a_reader_of_maps(create, answer, estimate, told, tmp_path):
    create("Mapped", *PLACE, "--points", "--center", "-73.98,40.75")
    answer("mapped", "-73.98,40.75", "-73.97,40.76", "-73.99,40.74")
    file = tmp_path / "map.geojson"
    shown = estimate("mapped", "--map", file)
    assert "3,721 rows" in shown.stdout
    assert f"wrote {file}" in shown.stderr
    assert json.loads(file.read_text())["type"] == "FeatureCollection"
    near = ["--nearest", "a=-73.98,40.75", "--nearest", "b=-73.5,40.75"]
    rows = told("mapped", *near)["rows"]
    assert rows[0]["estimate"] > rows[1]["estimate"]
    square = [[[-74.0, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74.0, 40.8], [-74.0, 40.7]]]
    region = tmp_path / "square.geojson"
    region.write_text(json.dumps({"type": "Polygon", "coordinates": square}))
    rows = told("mapped", "--districts", region)["rows"]
    assert [row["name"] for row in rows] == ["square", "elsewhere"]
    assert sum(row["estimate"] for row in rows) == pytest.approx(1)
    top = ["--place", "a=-73.98,40.75", "--place", "b=-73.5,40.75", "--top", "1"]
    assert [row["name"] for row in told("mapped", *top)["rows"]] == ["a", "b"]


def test_a_statistic_of_numbers_is_not_asked_of_answers(create, estimate):
    create("Answers", *ABOVE)
    with pytest.raises(ParameterError, match="value campaign"):
        estimate("answers", "--quantile", "0.5")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (["--quantile", "2"], "--quantile must be increasing"),
        (["--mean", "--interval", "student"], "chooses its own"),
        ([], "at least one"),
        *((["--mean", "--range-of-values", s], "range-of-values") for s in ("5,5", "0", "a,b")),
        (["--quantile", "0.5", "--range-of-values", "0,1"], "given with --mean"),
        (["--over-time"], "period by period"),
    ],
)
def test_what_makes_no_sense_is_named(estimate, file, asked, named):
    with pytest.raises(ParameterError, match=named):
        estimate(file, *asked)


def test_a_file_that_is_none_is_named(estimate, tmp_path):
    (tmp_path / "no.parquet").write_text("no")
    with pytest.raises((ParameterError, UnsupportedError), match=r"no\.parquet"):
        estimate(tmp_path / "no.parquet", "--mean")
    with pytest.raises(NotInstalled, match=r"'mode' is not among the statistics"):
        statistics_in({"mode": []})


@pytest.mark.deep(keep=0)
def test_a_mean_within_a_public_range_has_ends(told, file):
    shown = told(file, "--mean", "--range-of-values", "0,10000000")
    assert shown == reports_of(file).ask(MeanValue(within=(0.0, 1e7))).to_dict()


@pytest.fixture(scope="module")
def monthly(tmp_path_factory):
    """The points of two periods in a file, and of another campaign in another."""
    campaign = perturbed_incomes("monthly", opens=NOW - 60 * DAY, period=30 * DAY)
    rng = np.random.default_rng(8)
    once = replace(campaign, period=None, campaign_id="once", closes=NOW + DAY)
    found = []
    for made, periods in ((campaign, 2), (once, 1)):
        incomes = rng.lognormal(11.3, 0.5, N * periods)
        incomes[N:] *= 0.7
        noisy = incomes + rng.laplace(0.0, 8_000.0, len(incomes))  # not private: made up
        points = np.rint(noisy / made.point_mechanism.step).astype(np.int64)
        folder = tmp_path_factory.mktemp("export")
        found.append(written(made, np.repeat(np.arange(periods), N), points, folder))
    return found


@pytest.mark.deep
def test_a_change_between_periods_is_that_of_python(estimate, told, monthly):
    reports = reports_of(monthly[0])
    asking = [partial(reports.ask, confidence=0.9, period=period) for period in (0, 1)]
    opens, both = reports.campaign.opens, [reports.campaign] * 2
    names = [f"{opens + n * timedelta(days=30):%Y-%m-%d}" for n in (0, 1)]
    change = ["--change", "0,1"]
    shown = told(
        monthly[0], "--quantile", "0.5", "--confidence", "0.9", *change, "--people", "different"
    )
    median = Quantiles(levels=[0.5])
    made = ask_changes(asking, median, both, people="different", names=names)
    assert shown == made.to_dict()
    (row,) = shown["rows"]
    assert row["ci_high"] < 0
    (same,) = told(monthly[0], "--quantile", "0.5", *change)["rows"]
    assert same["standard_error"] > row["standard_error"]
    table = estimate(monthly[0], "--threshold", "80000", *change).stdout
    assert f"{names[1]} − {names[0]}: above 80,000" in " ".join(table.split())


def test_another_campaign_is_compared_with(told, monthly):
    (row,) = told(monthly[1], "--threshold", "60000", "--against", monthly[1])["rows"]
    assert (row["name"], row["estimate"], row["p"]) == ("once − once: above 60,000", 0, 1)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["--mean", "--change", "1"], "FIRST,LAST"),
        (["--mean", "--change", "0,1", "--against", "another"], "left out with --against"),
        (["--mean", "--change", "0,1", "--period", "0"], "which names two"),
        (["--change", "0,1"], "at least one"),
        (["--mean", "--people", "same"], "with --change and a question"),
        (["--label", "above", "--change", "0,1"], "over-time"),
        (["--density", "--change", "0,1"], "estimates"),
        (["--mean", "--change", "1,1"], "different periods"),
    ],
)
def test_what_goes_not_together_is_refused(estimate, monthly, asked, expected):
    with pytest.raises(ParameterError, match=expected):
        estimate(monthly[0], *asked)
    with pytest.raises(ParameterError, match="does not recur"):
        estimate(monthly[1], "--mean", "--change", "0,1")


@pytest.mark.deep
def test_a_server_is_asked_alike_and_for_fixed_questions(create, told, server):
    incomes = np.random.default_rng(8).lognormal(11.3, 0.5, 300)
    for number, name in enumerate(("early", "late")):
        create(name, *INCOME, "--attribute", "income", "--points")
        create(f"{name}-fixed", *INCOME, "--attribute", "income", "--threshold", "80000")
        for one in (name, f"{name}-fixed"):
            send(server, one, (incomes * (1 - 0.5 * number)).tolist())
    with Analyst(server) as analyst:
        campaigns = [analyst.campaign(name) for name in ("early", "late")]
        asking = [partial(analyst.ask, name) for name in ("early", "late")]
        points = [
            ask_changes(asking, one, campaigns, people="same", names=["early", "late"]).to_dict()
            for one in (DistributionFunction(), MeanValue())
        ]
        joints = [analyst.estimate(f"{name}-fixed").joint() for name in ("early", "late")]
        fixed = compare(*joints, people="different", names=["early-fixed", "late-fixed"])
    assert told("late", "--mean", "--curve", "--against", "early")["results"] == points
    against = ["--against", "early-fixed", "--people", "different"]
    assert told("late-fixed", *against) == fixed.to_dict()


def daily(server, name, **changes):
    """Publish a campaign of every day."""
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


TWO = {
    "questions": tuple(
        Question(f"above {at}", Threshold(at, 32_000, "smoothstep")) for at in (50_000, 100_000)
    )
}


def lived_through(server, campaigns):
    """Let devices live through all periods, each with a clock of its own."""
    rng = np.random.default_rng(5)
    policy = Policy({"income": Limit(campaign=GeoPrivacy(100.0, 8_000.0, "dollar"), cohorts=EPOCH)})
    for _ in range(DEVICES):
        income = float(rng.lognormal(11, 0.5))
        at = [campaigns[0].opens]
        timing = Timing(now=lambda at=at: at[0])
        with Client(
            server, policy=policy, tls=TLS(insecure=True), timing=timing,
            release_floor_s=0, background=False,
        ) as client:  # fmt: skip
            for one in campaigns:
                client.fetch(one.campaign_id)
            for day in range(DAYS):
                at[0] = campaigns[0].opens + (day + 0.5) * DAY
                for one in campaigns:
                    with suppress(AnswerNotYet):
                        client.contribute(one.campaign_id, income * (1 - 0.5 * (day >= 11)))
            client.flush(30.0)


@pytest.mark.deep
def test_a_curve_over_time_is_that_of_python(estimate, told, server, tmp_path):
    """Devices over 14 days that read every fourth: answers extrapolated, and points."""
    moving = {"readings": Readings(every=EPOCH * DAY, extrapolated=True, cohorts=EPOCH)}
    asked = daily(server, "daily", **TWO, **moving)
    points = daily(server, "daily-points")
    lived_through(server, [asked, points])
    with Analyst(server) as analyst:
        found = analyst.estimate("daily", 0.9)
        curves = [found.over_time(label, confidence=0.9) for label in asked.labels]
        soft = asked_of_points(points, [ShareAbove(60_000)], softness_of_points(points, None, None))
        of_points = analyst.ask("daily-points", soft, cohorts=True).over_time()
    over = ("daily", "--over-time", "--confidence", "0.9")
    assert told(*over, "--change", "3,13")["results"] == [
        one.to_dict() for curve in curves for one in (curve, curve.change(3, 13))
    ]
    assert told(*over, "--label", "above 50000") == curves[0].to_dict()
    drawn = ("daily-points", "--over-time", "--threshold", "60000")
    assert told(*drawn) == of_points.to_dict()
    for curve in (*curves, of_points):
        assert len(curve.periods) == DAYS
        assert sum(row["cohort"] is not None for row in curve.to_dict()["rows"]) > EPOCH
    picture = tmp_path / "curve.svg"
    assert not estimate(*drawn, "-q", "--plot", picture).stdout
    assert "those who have just read" in picture.read_text()


def test_a_curve_over_time_that_can_not_be_said_is_named(estimate, told, server):
    """No reports, one period, no readings, no cohorts; and options that are of no curve."""
    daily(server, "no-curve-once", **TWO, period=None, readings=None)
    daily(server, "no-curve-fresh", **TWO, readings=None)
    daily(server, "no-curve-yet", **TWO)
    for name, option, match in (
        ("no-curve-once", ["--label", "above 50000"], "recurs"),
        ("no-curve-yet", ["--label", "above 50000"], "two reports"),
        ("no-curve-fresh", ["--label", "no such"], "above 50000, above 100000"),
        ("no-curve-yet", ["--mean"], "it draws means"),
        ("no-curve-yet", ["--period", "1"], "left out"),
        ("no-curve-yet", ["--period", "0"], "left out"),
        ("no-curve-yet", ["--interval", "student"], "left out"),
        ("no-curve-yet", ["--change", "a,b"], "FIRST,LAST"),
        ("no-curve-yet", ["--change", "5"], "FIRST,LAST"),
    ):
        with pytest.raises(ParameterError, match=match):
            told(name, "--over-time", *option)
    with pytest.raises(ParameterError, match="with --over-time"):
        estimate("no-curve-yet", "--label", "above 50000")
    with pytest.raises(UnsupportedError, match="two answers"):
        estimate("no-curve-yet", "--change", "0,1")
