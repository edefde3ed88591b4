"""Value campaigns end to end: created, answered through the SDK, asked and exported by command."""

import csv
import itertools
import json
import tomllib

import grpc
import numpy as np
import pyarrow.parquet as parquet
import pytest

from geoveil.analyst import Analyst, ServerError, questions_in
from geoveil.analyst.campaigns import asked_of_points, softness_of_points
from geoveil.analyst.hard_question import hard_share
from geoveil.campaign import Attribute, Difference, PlanarLaplaceSpec, decode
from geoveil.client import Client, Limit, Place, Policy, ReportBuilder, gather
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub
from tests.campaigns import perturbed_incomes

from .conftest import ABOVE, INCOME, LOG_NORMAL, PLACE

OF_INCOMES = (*INCOME, "--attribute", "income", "--points")
PRIVACY = GeoPrivacy(1.0, 200.0, "metre")
CENTER = (-73.98, 40.72)
PEOPLE = 400
NUMBERS = itertools.count()
SQUARE = [[-73.99, 40.71], [-73.97, 40.71], [-73.97, 40.73], [-73.99, 40.73], [-73.99, 40.71]]
DOLLARS = Limit(campaign=GeoPrivacy(1.0, 8000.0, "dollar"))
POLICY = Policy({"location": Limit(campaign=PRIVACY, value=Place(None)), "income": DOLLARS})


def places(count):
    return np.random.default_rng(1).normal(CENTER, 0.01, (count, 2))


def send(server, campaign_id, values):
    """Send reports of many devices, as a host that acts for them does."""
    builder = ReportBuilder(policy=POLICY)
    with grpc.insecure_channel(server) as channel:
        stub = CollectorStub(channel)
        found = stub.GetCampaign(GetCampaignRequest(campaign_id=campaign_id))
        accepted = builder.accept(campaign_id, found.envelope.SerializeToString())
        made = [builder.prepare(accepted, value) for value in values]
        for batch in gather(made):
            outcomes = batch.results(stub.SubmitReports(batch.request()))
            assert all(outcome.rejection is None for outcome in outcomes)


def questions(campaign, bandwidth=None, **words):
    """Return what words ask of the points of a campaign."""
    softness = softness_of_points(campaign, bandwidth=bandwidth)
    return asked_of_points(campaign, questions_in(words), softness)


@pytest.fixture(scope="module")
def region(tmp_path_factory):
    path = tmp_path_factory.mktemp("regions") / "village.geojson"
    path.write_text(json.dumps({"type": "Polygon", "coordinates": [SQUARE]}))
    return path


@pytest.fixture
def where(create, server, tmp_path):
    """A value campaign about places, with the reports of 400 devices, one of them by the SDK."""
    name = f"where-{next(NUMBERS)}"
    center = ("--center", "-73.98,40.72", "--per", "200")
    created = create("Where people are", *PLACE, *center, "--points", "--id", name)
    assert created.exit_code == 0, created.output
    first, *others = places(PEOPLE).tolist()
    with Client(server, policy=POLICY, state_dir=tmp_path / "state", background=False) as client:
        client.fetch(name, 10.0)
        receipt = client.contribute(name, first)
        client.flush(10.0)
        assert client.contribute(name, first).acknowledged
    assert len(receipt.perturbed) == 2
    send(server, name, others)
    return name


@pytest.mark.deep(keep=0)
def test_one_report_answers_every_later_question(geoveil, record, where, region, tmp_path):
    arguments = ["--place", "here=-73.98,40.72", "--region", region, "--bandwidth", "600"]
    shown = record("estimate", where, *arguments)
    assert [row["name"] for row in shown["estimates"]] == ["here", "village"]
    assert {row["n"] for row in shown["estimates"]} == {PEOPLE}
    assert "moved into it" in shown["unbiased_for"]

    file = tmp_path / "reports.parquet"
    assert geoveil("campaign", "export", where, "--out", file).exit_code == 0
    table = parquet.read_table(file)
    assert table.column_names == ["period", "x", "y"]
    campaign = decode(table.schema.metadata[b"geoveil.campaign"])
    step = 2.0 ** int(table.schema.metadata[b"geoveil.step_exponent"])
    points = np.stack([table.column(axis).to_numpy() for axis in "xy"], axis=1) * step

    asked = questions(campaign, place=["here=-73.98,40.72"], region=[region], bandwidth=600.0)
    truth = campaign.attribute.coordinates.project(places(PEOPLE))
    for row, question in zip(shown["estimates"], asked, strict=True):
        values = campaign.point_mechanism.estimator(question.query, debias=True).value(points)
        assert row["estimate"] == pytest.approx(values.mean(), abs=1e-8)
        error = values.std(ddof=1) / np.sqrt(PEOPLE)
        assert row["standard_error"] == pytest.approx(error, rel=1e-6)
        assert abs(row["estimate"] - question.query.value(truth).mean()) < 4.9 * error


def test_the_mean_point_needs_no_question(geoveil, where):
    printed = geoveil("estimate", where).output
    assert "metres east" in printed
    assert "metres north" in printed
    assert "mean of each coordinate" in printed


def test_numbers_are_asked_with_thresholds(create, geoveil, record, words, server):
    assert create("Incomes", *OF_INCOMES).exit_code == 0
    incomes = np.random.default_rng(2).normal(100_000, 30_000, 300)
    send(server, "incomes", incomes.tolist())
    at = ("--threshold", "100000")
    shown = record("estimate", "incomes", *at, "--threshold", "60000")["estimates"]
    above = [np.mean(incomes > at) for at in (100_000, 60_000)]
    for row, share in zip(shown, above, strict=True):
        assert abs(row["estimate"] - share) < 4.9 * row["standard_error"] + 0.03  # it is soft
        low, high = row["hard_share"]["ci_low"], row["hard_share"]["ci_high"]
        # Reports are drawn anew in every run: three times an interval of 95 % leaves none out.
        assert 2 * low - high < share < 2 * high - low
        assert row["band"]["from_reports"]
        assert row["price_of_privacy"]["basis"] == "estimated"
    slope, heap = ["--slope-bound", "1e-10"], ["--heap", "90000=0.01"]
    told = words("estimate", "incomes", *at, *slope, *heap)
    assert "1e-10 shares per unit² (as stated)" in told
    assert "0.01 hold exactly 90,000, as stated" in told
    assert "estimated without bias from the perturbed points" in told
    for asked in ([*at, "--width", "24000"], ["--gini"]):
        for option in (slope, heap):
            with pytest.raises(ParameterError, match="left out"):
                geoveil("estimate", "incomes", *asked, *option)


@pytest.mark.parametrize("value", ["0", "nan"])
def test_a_width_that_is_none_is_refused(geoveil, where, value):
    """0 is not taken for a width that was left out."""
    for asked in (["--range", "1,5"], ["--threshold", "5"]):
        with pytest.raises(ParameterError, match="width must be"):
            geoveil("estimate", where, *asked, "--width", value)
    with pytest.raises(ParameterError, match="bandwidth must be"):
        geoveil("estimate", where, "--place", "-73.98,40.72", "--bandwidth", value)


@pytest.mark.parametrize(
    ("more", "told"),
    [(["--width", "7999"], "a width of 7999 is below PER/ε = 8000"), (["--width", "8000"], None)],
)
def test_bands_narrower_than_the_noise_come_with_a_caution(create, geoveil, server, more, told):
    """Where no point lies within a few dollars of the threshold, all of them say the same."""
    name = f"narrow-{next(NUMBERS)}"
    create("Incomes", *OF_INCOMES, "--id", name)
    send(server, name, [50_000.0] * 20)
    shown = geoveil("estimate", name, "--threshold", "100000", *more).stderr
    assert told in shown if told else "note" not in shown


def test_statistic_campaigns_are_exported_too(create, geoveil, server, tmp_path):
    create("Above", *ABOVE, "--attribute", "income", "--threshold", "50000")
    send(server, "above", [90_000.0] * 20)
    file = tmp_path / "above.parquet"
    assert "20 rows" in geoveil("campaign", "export", "above", "--out", file).output
    table = parquet.read_table(file)
    assert table.column_names == ["period", "query_index", "value"]
    with Analyst(server) as analyst:
        estimates = analyst.estimate("above", 0.95).estimates
    for index, shown in enumerate(estimates):
        mask = table.column("query_index").to_numpy() == index
        assert int(table.column("value").to_numpy()[mask].sum()) == shown.sums[0]


def test_what_has_no_answer_is_refused(geoveil, where, region, tmp_path):
    for asked, match in (
        (["--threshold", "5"], "--threshold must be about a place, which is what each"),
        (["--region", region, "--watch"], "watch"),
        (["--place", "here"], "'longitude,latitude'"),
    ):
        with pytest.raises(ParameterError, match=match):
            geoveil("estimate", where, *asked)
    with pytest.raises(ServerError, match="no such campaign"):
        geoveil("campaign", "export", "nobody", "--out", tmp_path / "x.parquet")
    assert list(tmp_path.glob("x.parquet*")) == []
    taken = tmp_path / "taken.parquet"
    taken.write_text("mine")
    with pytest.raises(ParameterError, match="new file"):
        geoveil("campaign", "export", where, "--out", taken)
    assert taken.read_text() == "mine"


@pytest.fixture
def campaign():
    location, mechanism = Attribute(name="location", unit="metre"), PlanarLaplaceSpec(2)
    return perturbed_incomes(attribute=location, privacy=PRIVACY, mechanism=mechanism)


def test_points_that_are_no_places_are_asked_as_they_are(campaign, tmp_path):
    path = tmp_path / "parts.json"
    square = [[0, 0], [900, 0], [900, 600], [0, 600]]
    shapes = [
        {"type": "Feature", "properties": {"name": "park"},
         "geometry": {"type": "Polygon", "coordinates": [square]}},
        {"type": "Feature", "properties": None,
         "geometry": {"type": "MultiPolygon", "coordinates": [[square]]}},
    ]  # fmt: skip
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    bell, park, other = questions(campaign, place=["5,7"], region=[path])
    assert bell.query == GaussianKernel((5.0, 7.0), 600.0)
    assert (bell.label, park.label, other.label) == ("5,7", "park", "parts 2")
    inside = [[450.0, 300.0], [0.0, 300.0]]
    assert park.query.value(inside).tolist() == other.query.value(inside).tolist()


@pytest.mark.parametrize(
    "content",
    [
        "no json",
        '{"type": "Point", "coordinates": [1, 2]}',
        '{"type": "FeatureCollection", "features": [3]}',
        '{"type": "Polygon", "coordinates": [[[0, 0], [1]]]}',
        '{"type": "FeatureCollection", "features": 5}',
    ],
)
def test_files_that_hold_no_regions_are_refused(campaign, tmp_path, content):
    path = tmp_path / "region.json"
    path.write_text(content)
    with pytest.raises(ParameterError):
        questions(campaign, region=[path])


@pytest.mark.deep
def test_points_are_asked_what_their_plan_says(create, geoveil, record, server, tmp_path):
    """The planned band, and the hard share by the planned difference, which nothing else says."""
    plan, signed = tmp_path / "plan.toml", tmp_path / "signed.toml"
    wanted = ("--threshold", "98000", "--participants", "20000", "--attribute", "income")
    for file, more in ((plan, ["--allocation", "points"]), (signed, [])):
        geoveil("plan", *LOG_NORMAL, *wanted, *more, "--out", file)
    name, other = f"planned-{next(NUMBERS)}", f"other-{next(NUMBERS)}"
    created = create("Planned", "--plan", plan, "--id", name).output
    assert f"'geoveil estimate {name} --plan " in created
    create("Other", *OF_INCOMES, "--epsilon", "0.5", "--id", other)
    send(server, name, np.random.default_rng(7).lognormal(11.5, 0.83, 200).tolist())

    (row,) = record("estimate", name, "--plan", plan)["estimates"]
    (query,) = tomllib.loads(plan.read_text())["planned"]["queries"]
    at, width = query["threshold"]["at"], query["threshold"]["width"]
    (same,) = record("estimate", name, "--threshold", at, "--width", width)["estimates"]
    for what in ("estimate", "ci_low", "ci_high", "n"):
        assert row[what] == same[what]
    planned = Difference(query["softness"]["expected_difference"], query["softness"]["bound"])
    expected = hard_share(row["estimate"], row["ci_low"], row["ci_high"], planned)
    assert row["name"] == "above 98,000"
    assert row["hard_share"]["ci_low"] == pytest.approx(expected.ci_low, abs=1e-12)
    assert "hard_share" not in same
    (line,) = csv.DictReader(geoveil("estimate", name, "--plan", plan, "--csv").output.splitlines())
    assert float(line["hard_share_low"]) == row["hard_share"]["ci_low"]
    table = geoveil("estimate", name, "--plan", plan).output
    assert f"{row['hard_share']['value']:.3f}" in table.split("Unbiased")[0]
    for arguments, message in (
        ((other, "--plan", plan), "plan must be for a campaign like this one"),
        ((name, "--plan", signed), "plan must be a plan for points"),
        ((name, "--plan", plan, "--threshold", "5"), "left out with questions"),
        ((name, "--plan", plan, "--width", "5"), "width must be left out with --plan"),
        ((name, "--plan", tmp_path / "absent.toml"), "plan must be .* there is no such file"),
    ):
        with pytest.raises(ParameterError, match=message):
            geoveil("estimate", *arguments)
