"""Test geoveil simulate scale, export and bulk by command."""

import json

import pytest
import typer
from typer.testing import CliRunner

from geoveil.aggregator import SQLiteStore
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Submission
from geoveil.campaign import encode, seal
from geoveil.cli.simulate import bulk, export, scale
from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator, estimate
from geoveil.simulation.scale import ExportError, in_this_process
from tests.campaigns import above_100k

APP = typer.Typer()
for command in (scale, export, bulk):
    APP.command(command.__name__)(command)


@pytest.fixture(autouse=True)
def without_processes(monkeypatch):
    """Starting workers is tested elsewhere."""

    class Here:
        def __enter__(self):
            return in_this_process

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("geoveil.cli.simulate.computer", lambda scheduler, workers: Here())


def run(*arguments):
    return CliRunner().invoke(APP, [str(a) for a in arguments], env={"COLUMNS": "80"})


def rows(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0
    return json.loads(result.stdout)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("population", ["incomes", "places"])
def test_the_table_fits_and_shows_two_digits_of_each_error(population):
    result = run("scale", "--devices", 300_000, "--population", population)
    assert result.exit_code == 0
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    (row, *_) = rows("scale", "--devices", 300_000, "--population", population)
    assert f"{row['standard_error']:.5f}" in result.stdout


def test_files_of_people_take_part(tmp_path):
    """Two kinds of people, 3:1 by weight, far from the threshold on either side."""
    path = tmp_path / "people.csv"
    path.write_text("pay,debt,count\n10,10,3\n900,800,1\n")
    options = ("--threshold", 300, "--epsilon", 1, "--per", 30, "--devices", 50_000)
    (row,) = rows("scale", "--population", path, "--value", "pay", "--weight", "count", *options)
    assert row["truth"] == 0.25
    assert abs(row["estimate"] - 0.25) < 4.9 * row["standard_error"]
    (row,) = rows("scale", "--population", path, "--value", "pay", "--value", "debt", *options)
    assert row["truth"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--population", "nobody"], "population"),
        (["--population", "people.csv"], "value"),
        (["--population", "incomes", "--value", "a"], "population"),
        (["--epsilon", "0"], "epsilon"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, name):
    error = run("scale", *arguments).exception
    assert isinstance(error, ParameterError)
    assert name in error.name


def test_export_and_bulk_give_the_sums_of_the_aggregator(tmp_path):
    campaign = above_100k("incomes")
    values = [(-1) ** i * i * 10_001 for i in range(500)]
    with SQLiteStore(tmp_path / "a.db") as store:
        record = CampaignRecord(campaign_id="incomes", published=seal(encode(campaign)), queries=1)
        store.create_campaign(record)
        reports = [PackedReport(i.to_bytes(16), pack([(0, v)])) for i, v in enumerate(values)]
        store.commit([Submission("incomes", reports, True)])
    result = run("export", tmp_path / "a.db", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stdout.startswith("500 reports in ")
    (row,) = rows("bulk", tmp_path / "out", "--confidence", 0.9)
    limits = campaign.limits[0]
    expected = estimate(Accumulator.of(values), campaign.grid_exponent, 0.9, limits)
    assert (row["uncut"], row["standard_error"]) == (expected.value, expected.standard_error)
    assert (row["ci_low"], row["ci_high"], row["n"]) == (expected.ci_low, expected.ci_high, 500)
    assert row["truth"] is None
    assert "90 % interval" in run("bulk", tmp_path / "out", "--confidence", 0.9).stdout
    assert isinstance(run("bulk", tmp_path).exception, ExportError)
    again = run("export", tmp_path / "a.db", tmp_path / "out")
    assert isinstance(again.exception, ExportError)
