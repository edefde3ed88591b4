"""Curves, quantiles and histograms by command: of a campaign on a server, and of a file."""

import csv
import io
import json

import numpy as np
import pytest

from geoveil.analyst import Histogram, MeanValue, Quantiles, ReportRows, reports_of
from geoveil.analyst.vocabulary import STATISTICS, statistics_in
from geoveil.campaign import encode
from geoveil.gp import ParameterError, UnsupportedError
from geoveil.simulation.scale import write_reports
from tests.campaigns import perturbed_incomes

from .test_values import send

INCOMES = np.random.default_rng(8).lognormal(11.3, 0.7, 1_500)
EDGES = "50000,100000,200000"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    campaign = perturbed_incomes()
    points = campaign.point_mechanism.release_many(INCOMES)
    rows = ReportRows(np.zeros(len(points), np.uint32), None, (points[:, 0],))
    path = tmp_path_factory.mktemp("export") / "incomes.parquet"
    write_reports(iter([encode(campaign), rows]), path)
    return path


def of(geoveil, source, *asked):
    return geoveil("estimate", str(source), *asked, to_server=not str(source).endswith(".parquet"))


def test_a_file_is_asked_without_a_server(geoveil, file):
    printed = of(geoveil, file, "--quantile", "0.5", "--quantile", "0.25", "--json").stdout
    assert json.loads(printed) == reports_of(file).ask(Quantiles(levels=(0.25, 0.5))).to_dict()


@pytest.mark.deep(keep=0)
def test_several_statistics_are_told_one_after_the_other(geoveil, file):
    asked = ["--mean", "--histogram", EDGES, "--threshold", "100000"]
    told = json.loads(of(geoveil, file, *asked, "--json").stdout)["results"]
    reports = reports_of(file)
    assert told[1] == reports.ask(MeanValue()).to_dict()
    assert told[2] == reports.ask(Histogram(edges=(50_000, 100_000, 200_000))).to_dict()
    assert told[0]["estimates"][0]["name"] == "above 100,000"
    table = of(geoveil, file, *asked[:-2]).stdout
    assert table.count("of which the participants are a random sample") == 1
    with pytest.raises(ParameterError, match="one result"):
        of(geoveil, file, *asked, "--csv")


@pytest.mark.deep(keep=0)
def test_every_word_is_an_option_that_says_its_numbers(geoveil, file):
    said = {"quantile": "0.5", "histogram": EDGES, "top-share": "0.1"}
    for word in set(STATISTICS) - {"map", "districts", "nearest", "geometric-mean"}:  # see below
        option = [f"--{word}", *([said[word]] if word in said else [])]
        rows = list(csv.DictReader(io.StringIO(of(geoveil, file, *option, "--csv").stdout)))
        assert rows
        assert all(float(row["estimate"]) == float(row["estimate"]) for row in rows)


@pytest.mark.deep
def test_a_curve_is_drawn(geoveil, file, tmp_path):
    picture = tmp_path / "curve.svg"
    assert not of(geoveil, file, "--curve", "--plot", str(picture), "-q").stdout
    assert "<!-- distribution function -->" in picture.read_text()
    assert "interval" in of(geoveil, file, "--mean", "-q").stdout


@pytest.mark.deep
def test_a_server_says_the_same(geoveil, server, tmp_path):
    created = ["campaign", "create", "Curves", "--attribute", "income", "--unit", "dollar"]
    geoveil(*created, "--epsilon", "1", "--per", "8000", "--points", "--id", "curves")
    send(server, "curves", INCOMES[:400].tolist())
    told = json.loads(of(geoveil, "curves", "--quantile", "0.5", "--json").stdout)
    (row,) = told["rows"]
    assert row["ci_low"] < np.median(INCOMES) < row["ci_high"]
    with pytest.raises(ParameterError, match="left out"):
        of(geoveil, "curves", "--curve", "--watch")
    exported = tmp_path / "curves.parquet"
    geoveil("campaign", "export", "curves", "--out", str(exported))
    heap = ["--heap", "100000=0.01"]
    for asked in (
        ["--threshold", "100000", "--range", "50000,150000", *heap],
        ["--threshold", "100000", "--slope-bound", "1e-10", "--contamination", "0.01"],
        ["--threshold", "100000", "--width", "24000", "--interval", "full-ends"],
    ):
        one, other = (
            json.loads(of(geoveil, source, *asked, "--json").stdout)
            for source in ("curves", exported)
        )
        assert one == other
    assert "band" not in one["estimates"][0]
    with pytest.raises(ParameterError, match="heap"):
        of(geoveil, exported, "--threshold", "100000", "--width", "24000", *heap)


@pytest.mark.deep(rest=0)
def test_a_map_is_a_file_for_a_reader_of_maps(geoveil, tmp_path):
    where = ["campaign", "create", "Places", "--attribute", "location", "--epsilon", "1"]
    geoveil(*where, "--per", "500", "--points", "--center", "-73.98,40.75", "--id", "places")
    for number, place in enumerate(["-73.98,40.75", "-73.97,40.76", "-73.99,40.74"]):
        state = str(tmp_path / str(number))
        geoveil("contribute", "places", "--yes", "--state-dir", state, stdin=place)
    file = tmp_path / "map.geojson"
    printed = of(geoveil, "places", "--map", str(file)).stdout
    assert "3,721 rows" in printed
    assert json.loads(file.read_text())["type"] == "FeatureCollection"
    near = ["--nearest", "a=-73.98,40.75", "--nearest", "b=-73.5,40.75", "--json"]
    rows = json.loads(of(geoveil, "places", *near).stdout)["rows"]
    assert rows[0]["estimate"] > rows[1]["estimate"]
    square = [[[-74.0, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74.0, 40.8], [-74.0, 40.7]]]
    region = tmp_path / "square.geojson"
    region.write_text(json.dumps({"type": "Polygon", "coordinates": square}))
    rows = json.loads(of(geoveil, "places", "--districts", str(region), "--json").stdout)["rows"]
    assert [row["name"] for row in rows] == ["square", "elsewhere"]
    assert sum(row["estimate"] for row in rows) == pytest.approx(1)
    top = ["--place", "a=-73.98,40.75", "--place", "b=-73.5,40.75", "--top", "1", "--json"]
    rows = json.loads(of(geoveil, "places", *top).stdout)["rows"]
    assert [row["name"] for row in rows] == ["a", "b"]


def test_a_statistic_of_numbers_is_not_asked_of_answers(geoveil):
    created = ["campaign", "create", "Share", "--attribute", "income", "--unit", "dollar"]
    geoveil(*created, "--epsilon", "1", "--per", "8000", "--threshold", "1e5", "--id", "answers")
    with pytest.raises(ParameterError, match="value campaign"):
        of(geoveil, "answers", "--quantile", "0.5")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (["--quantile", "2"], "--quantile must be increasing"),
        (["--mean", "--interval", "student"], "chooses its own"),
        ([], "at least one"),
    ],
)
def test_what_makes_no_sense_is_named(geoveil, file, asked, named):
    with pytest.raises(ParameterError, match=named):
        of(geoveil, file, *asked)


def test_a_file_that_is_none_is_named(geoveil, tmp_path):
    (tmp_path / "no.parquet").write_text("no")
    with pytest.raises((ParameterError, UnsupportedError), match=r"no\.parquet"):
        of(geoveil, tmp_path / "no.parquet", "--mean")
    with pytest.raises(ParameterError, match="statistic"):
        statistics_in({"mode": []})


@pytest.mark.deep(keep=0)
def test_a_mean_within_a_public_range_has_ends(geoveil, file):
    told = of(geoveil, file, "--mean", "--range-of-values", "0,10000000", "--json").stdout
    assert json.loads(told) == reports_of(file).ask(MeanValue(within=(0.0, 1e7))).to_dict()


@pytest.mark.parametrize("said", ["5,5", "0", "a,b"])
def test_a_range_of_values_is_two_numbers_in_order(geoveil, file, said):
    with pytest.raises(ParameterError, match="range-of-values"):
        of(geoveil, file, "--mean", "--range-of-values", said)


def test_a_range_of_values_is_for_a_mean(geoveil, file):
    with pytest.raises(ParameterError, match="given with --mean"):
        of(geoveil, file, "--quantile", "0.5", "--range-of-values", "0,1")
