"""Test that a result has the same content in every requested format."""

import csv
import io
import json

import pytest
from pyarrow import parquet

from geoveil.analyst.results import Result
from geoveil.cli.results import OutputFormat
from geoveil.gp import ParameterError, UnsupportedError


class Shares(Result):
    title = "Shares of two"
    notes = ("Both are of the population.",)

    def rows(self):
        return [
            {"name": "low", "estimate": 0.25, "ci_low": 0.2, "ci_high": 0.3, "n": 12_345},
            {"name": "high", "estimate": None, "ci_low": None, "ci_high": None, "n": 0},
        ]


class Counts(Shares):
    def rows(self):
        return [{"name": "low", "n": 12_345}]


def test_a_table_joins_the_ends_of_an_interval(capsys):
    OutputFormat().show(Shares())
    shown = capsys.readouterr().out
    assert "Shares of two" in shown
    assert "0.2000 – 0.3000" in shown
    assert "12,345" in shown
    assert "Both are of the population." in shown


def test_quiet_leaves_the_rows(capsys):
    OutputFormat(quiet=True).show(Shares())
    shown = capsys.readouterr().out
    assert "0.2000 – 0.3000" in shown
    assert "population" not in shown


def test_json_and_csv_hold_the_same_rows(capsys):
    OutputFormat(as_json=True).show(Shares())
    told = json.loads(capsys.readouterr().out)
    assert told == Shares().to_dict()
    OutputFormat(as_csv=True).show(Shares())
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert read[0] == {"name": "low", "estimate": "0.25", "ci_low": "0.2", "ci_high": "0.3"} | {
        "n": "12345"
    }
    assert read[1]["estimate"] == ""


def test_parquet_holds_rows_and_notes(tmp_path, capsys):
    file = tmp_path / "shares.parquet"
    OutputFormat(parquet=file).show(Shares())
    table = parquet.read_table(file)
    assert table.to_pylist() == Shares().rows()
    assert table.schema.metadata[b"notes"] == b"Both are of the population."
    assert "Shares of two" in capsys.readouterr().out


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_a_picture_is_drawn(tmp_path, ending):
    file = tmp_path / f"shares{ending}"
    OutputFormat(plot=file).show(Shares())
    assert file.stat().st_size > 1_000


def test_what_has_no_picture_says_so_before_anything_is_printed(tmp_path, capsys):
    with pytest.raises(UnsupportedError, match="no picture"):
        OutputFormat(plot=tmp_path / "shares.png").show(Counts())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("how", "named"),
    [({"as_json": True, "as_csv": True}, "--json"), ({"plot": "shares.gif"}, ".png")],
)
def test_forms_that_make_no_sense_are_refused(how, named):
    from pathlib import Path

    if "plot" in how:
        how = {"plot": Path(how["plot"])}
    with pytest.raises(ParameterError, match=named):
        OutputFormat(**how)
