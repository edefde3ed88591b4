"""Test geoveil form ask, from a file and from a server."""

import csv
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations_with_replacement

import numpy as np
import pytest

from geoveil.analyst import ReportRows, form_reports_of
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
)
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError
from geoveil.simulation.scale import write_reports

OPENS = datetime(2026, 1, 1, tzinfo=UTC)

N = 400
FORM = FormCampaign(
    campaign_id="household",
    title="Household",
    opens=OPENS,
    closes=OPENS + timedelta(days=30),
    period=timedelta(days=10),
    fields=(
        NumberField(
            attribute=Attribute(name="income", unit="dollar", least=0, most=200_000),
            privacy=GeoPrivacy(1, 0.01, "dollar"),
        ),
        NumberField(
            attribute=Attribute(name="age", unit="year", least=0, most=120),
            privacy=GeoPrivacy(1, 0.001, "year"),
        ),
        ChoiceField(name="rents", options=("yes", "no")),
        OrdinalField(name="mood", options=("bad", "fair", "good")),
        MultipleField(name="goes by", options=("bus", "train")),
    ),
)


def people():
    """Return values of people, who are public."""
    rng = np.random.default_rng(4)
    age = rng.uniform(20, 80, N)
    rents = rng.integers(0, 2, N)
    return {
        "age": age,
        "rents": rents,
        "income": 20_000 + 800 * age - 10_000 * (rents == 0) + rng.normal(0, 5_000, N),
        "mood": rng.integers(0, 3, N),
        "goes by": rng.integers(0, 4, N),
    }


def export():
    """Yield what a server would, in two parts, of which one period is wanted."""
    yield FORM.encoded
    of = people()
    income, age = (
        np.rint(of[name] / 2.0 ** FORM.field(name).step_exponent).astype(np.int64)
        for name in ("income", "age")
    )
    columns = (income, age, of["rents"], of["mood"], of["goes by"])
    for part in (slice(0, 150), slice(150, N)):
        rows = tuple(np.asarray(column[part], np.int64) for column in columns)
        yield ReportRows(np.ones(len(rows[0]), np.uint32), None, rows)
    yield ReportRows(np.zeros(7, np.uint32), None, tuple(np.zeros((5, 7), np.int64)))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    made = tmp_path_factory.mktemp("export") / "household.parquet"
    assert write_reports(export(), made) == N + 7
    return made


@pytest.fixture
def form(geoveil):
    return partial(geoveil, "form", to_server=False)


@pytest.fixture
def asked(form, file):
    """Ask the form of its second period."""

    def run(*options):
        done = form("ask", file, "--period", "1", "--json", *options)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


def test_a_file_holds_what_the_server_sent(file):
    streamed, read = form_reports_of(export(), 1), form_reports_of(file, 1)
    assert read.campaign == FORM
    np.testing.assert_array_equal(read.columns, streamed.columns)
    assert read.n == N


def test_every_field_is_shown_if_nothing_is_asked(asked):
    of, results = people(), asked()["results"]
    assert len(results) == 5
    assert results[0]["rows"][0]["estimate"] == pytest.approx(of["income"].mean(), rel=1e-4)
    yes = results[2]["rows"][0]
    assert yes["estimate"] == pytest.approx((of["rents"] == 0).mean(), abs=1e-12)
    assert yes["ci_low"] < yes["estimate"] < yes["ci_high"]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (("--table", "rents,income:40000|70000"), 6),
        (("--correlation", "income,mood,age"), 1),
        (("--shares", "goes by"), 2),
        (("--regression", "logistic: rents=yes ~ age + mood"), 3),
        (("--regression", "median: income ~ age + rents"), 3),
    ],
)
def test_what_is_asked_is_answered(asked, options, rows):
    assert len(asked(*options)["rows"]) == rows


def test_numbers_are_those_of_the_people(asked):
    of = people()
    by = asked("--mean-by", "income,rents")["rows"]
    for row, index in zip(by, (0, 1), strict=True):
        expected = of["income"][of["rents"] == index].mean()
        assert row["estimate"] == pytest.approx(expected, rel=1e-4)
    constant, slope = asked("--regression", "income ~ age")["rows"]
    line = np.polyfit(of["age"], of["income"], 1)
    assert [slope["estimate"], constant["estimate"]] == pytest.approx(line, rel=1e-4)
    (r,) = asked("--correlation", "income,age")["rows"]
    assert r["estimate"] == pytest.approx(np.corrcoef(of["income"], of["age"])[0, 1], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--table", "rents"), "2 to 3 names of fields"),
        (("--shares", "shoes"), "field must be one of income"),
        (("--mean-by", "income,age:x"), "edges must be numbers"),
        (("--regression", "probit: rents=yes ~ age"), "model"),
        (("--mean-map", "income,age"), "places"),
        (("--shares", "rents", "--invited", "399"), "invited.* at least 400, the number of people"),
        (("--shares", "rents", "--invited", "many"), "invited.* a whole number, or OPTION=N"),
        (("--shares", "rents", "--invited", "yes=500"), "invited.* a number for each group"),
        (("--mean", "mood", "--invited", "1000"), "invited.* with --shares or --table only"),
    ],
)
def test_what_can_not_be_asked_is_refused(asked, options, says):
    with pytest.raises(GeoVeilError, match=says):
        asked(*options)


def test_a_period_is_named_where_a_form_recurs(file):
    with pytest.raises(ParameterError, match="period"):
        form_reports_of(file)


def test_reports_of_another_campaign_are_refused():
    with pytest.raises(ParameterError, match="reports of a form"):
        form_reports_of([FORM.campaign_of("age").encoded], 0)


def test_reports_are_written_as_data_of_xlsform(form, file, tmp_path):
    done = form("data", file, tmp_path / "data.csv", "--period", "1")
    assert done.exit_code == 0, done.output
    head, *rows = (tmp_path / "data.csv").read_text(encoding="utf-8").splitlines()
    assert head == "income,age,rents,mood,goes by"
    assert len(rows) == N
    assert {row.split(",")[2] for row in rows} == {"yes", "no"}


def test_contributions_are_written_for_people_in_order(form, file, tmp_path):
    made = tmp_path / "columns.csv"
    done = form("contributions", file, made, "--period", "1", "--products")
    assert done.exit_code == 0, done.output
    assert "400 rows of 54 columns" in done.stderr  # 9 and 9·10/2
    with made.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    of = people()
    clear = {"income": of["income"], "age": of["age"], "rents: yes": of["rents"] == 0}
    for name, values in clear.items():
        np.testing.assert_allclose([float(row[name]) for row in rows], values, rtol=1e-3)
    for a, b in combinations_with_replacement(clear, 2):
        product = [float(row[f"{a} * {b}"]) for row in rows]
        np.testing.assert_allclose(product, clear[a] * clear[b], rtol=2e-3)
    assert {float(row["mood: bad * mood: good"]) for row in rows} == {0.0}


def test_people_who_did_not_answer_are_counted(asked):
    (plain, *_) = asked("--shares", "rents")["rows"]
    (row, *_) = asked("--shares", "rents", "--invited", "1000")["rows"]
    assert row["worst_case_high"] == pytest.approx(0.4 * plain["ci_high"] + 0.6)
    _, rates = asked("--shares", "rents", "--invited", "yes=500,no=800")["results"]
    counts = np.bincount(people()["rents"])
    assert [row["estimate"] for row in rates["rows"]] == pytest.approx(counts / [500, 800])
