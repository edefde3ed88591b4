"""Test that a beginner's mistakes give one line that names the remedy."""

import re
import shlex
from pathlib import Path

import pytest

from geoveil.analyst import AnalystError
from geoveil.analyst.results import cell_text
from geoveil.campaign import QUERIES
from geoveil.cli import asking
from geoveil.cli.connection import CommandError
from geoveil.cli.console import number, out, print_table
from geoveil.client import JournalError
from geoveil.gp import ParameterError, TwoWayThreshold
from geoveil.simulation.people_files import TableFileError

PLAN = ["plan", "--threshold", "30000", "--participants", "5000", "--epsilon", "1", "--per", "5000"]
PLACES = ["plan", *PLAN[3:], "--prior", "collisions"]
LOGNORMAL = [*PLAN, "--unit", "euro", "--prior", "lognormal:15000,1"]
CREATE = ["--attribute", "debt", "--unit", "euro", "--epsilon", "1", "--per", "5000"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["simulate", "fleet", "--devices", "0"], "--devices must be"),
        (["health", "--server", "127.0.0.1:99999"], "--server must be HOST:PORT with a port from"),
        (["campaign", "create", "A", "--points", *CREATE, "--every", "0d"], "--every must be"),
        (
            ["campaign", "create", "A", "--points", *CREATE, "--organisation", "City"],
            "--purpose must be 1 to 500 visible characters",
        ),
        (
            ["campaign", "create", "A", "--points", *CREATE, "--read-every", "9999w"],
            "--read-every must be a whole number above 0 and m, h, d, w or y, for example 7d, at",
        ),
        (["audit", "--mechanism", "LocalLaplace", "--samples", "0"], "--samples must be"),
        (["audit", "--mechanism", "None"], "--mechanism must be"),
        (["simulate", "oneway", "--threshold", "1", "--per", "0"], "--per must be"),
        ([*LOGNORMAL, "--figure", "plan.txt"], "--figure must be a file whose name ends in .png"),
        (["demo", "--figure", "demo.txt"], "--figure must be a file whose name ends in .png"),
        ([*PLAN, "--prior", "absent.csv"], "--prior must be a file that exists: there is no file"),
        ([*LOGNORMAL, "--threshold", "1e30"], "--threshold must be one to which some say yes"),
        ([*PLACES, "--place", "400,40"], "--place must be 'longitude,latitude' in degrees"),
        ([*PLACES, "--circle", "-74,40,-5"], "--circle must be LONGITUDE,LATITUDE,RADIUS"),
        ([*PLAN, "--prior", "pilot:absent.parquet"], "--prior must be pilot:FILE, a Parquet file"),
        (PLAN, "PRIOR, what is publicly known, is incomes"),
        (
            ["simulate", "scale", "--population", "nowhere"],
            "--population must be incomes, income-and-debt, places, or a file ending in .csv,"
            " .parquet or .gpkg",
        ),
    ],
)
def test_an_error_names_the_option_as_it_is_typed(geoveil, monkeypatch, tmp_path, arguments, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError) as error:
        geoveil(*arguments, to_server=False)
    assert told in str(error.value)


POINTS = ["--points", *CREATE]
AREA = ["--center", "1,2", "--radius", "9000"]
NEAR = ["--points", "--attribute", "location", "--epsilon", "1", "--per", "200", *AREA]
"""A campaign of numbers, and one of places."""


@pytest.mark.deep(keep=6)
@pytest.mark.parametrize(
    ("made", "asked", "told"),
    [
        (POINTS, "--quantile 50", "--quantile must be increasing numbers in (0, 1), such as 0.5"),
        (POINTS, "--histogram 3,2", "--histogram must be 1 to 450 finite, increasing numbers"),
        (POINTS, "--histogram a,b", "--histogram must be numbers"),
        (POINTS, "--histogram ''", "--histogram must be numbers"),
        (POINTS, "--top-share 10", "--top-share must be a number in (0, 1)"),
        (POINTS, "--top-share ''", "--top-share must be numbers"),
        (POINTS, "--place 1,2", "--place must be about one number, which is what each"),
        (POINTS, "--confidence 95", "--confidence must be a number in (0, 1)"),
        (POINTS, "--density --bandwidth 0", "--bandwidth must be left out: no question here"),
        (POINTS, "--timeout -1", "--timeout must be a finite number > 0"),
        (NEAR, "--nearest A=1,2", "--nearest must be 2 to 899 places 'LABEL=LON,LAT', each with"),
        (NEAR, "--nearest A=1,2 --nearest A=1,3", "--nearest must be 2 to 899 places"),
        (NEAR, "--nearest A=1 --nearest B=2", "--nearest must be 'longitude,latitude'"),
        (NEAR, "--place 1,2 --place 1,3 --top 5", "--top must be from 1 to 1"),
        (NEAR, "--top 1", "--top must be given with two or more questions"),
        (NEAR, f"--districts {__file__}", "--districts must be a GeoJSON file"),
        (NEAR, "--threshold 5", "--threshold must be about a place"),
        (NEAR, "--place 2,1", "--place must be in the area of the campaign; the longitude comes"),
        (NEAR, "--place 1,2 --width -1", "--width must be a finite number > 0"),
        (NEAR, "--circle 1,2,0.5", "a bandwidth of 600"),
    ],
)
def test_what_is_asked_of_points_is_named_as_it_is_typed(geoveil, made, asked, told):
    name = f"asked-{hash(asked) % 10**9}"
    geoveil("campaign", "create", "Asked of", *made, "--id", name)
    with pytest.raises((AnalystError, ParameterError)) as error:
        geoveil("estimate", name, *shlex.split(asked))
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--center", "40.75,-73.98"], "--center must be where people live"),
        (["--center", "-74,40", "--unit", "mile"], "--unit must be 'metre'"),
        (["--center", "-74,40", "--radius", "-5"], "--radius must be"),
    ],
)
def test_what_a_campaign_of_places_is_made_of_is_named_as_it_is_typed(geoveil, asked, told):
    made = ["--points", "--attribute", "location", "--epsilon", "1", "--per", "200", *asked]
    with pytest.raises(ParameterError) as error:
        geoveil("campaign", "create", "Far", *made)
    assert told in str(error.value)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--place", "40.75,-73.98"], "--place must be near people"),
        (["--circle", "40.75,-73.98,2000"], "--circle must be near people"),
        (["--place", "-73.98,40.75", "--place", "40.75,-73.98"], "--place must be in the area"),
        (["--place", "-73.98,40.75", "--center", "40.75,-73.98"], "--center must be near people"),
    ],
)
def test_a_plan_for_a_latitude_and_a_longitude_is_refused(geoveil, asked, told):
    with pytest.raises(ParameterError, match="the longitude comes first") as error:
        geoveil(*PLACES, *asked, to_server=False)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["--threshold", "100,000"], "'100,000' is not a number: write it like 100000"),
        (["--participants", "20,000"], "'20,000' is not a whole number: write it like 20000"),
        (["--epsilon", "1 %"], "'1 %' is not a number"),
    ],
)
def test_what_is_no_number_is_shown(geoveil, asked, told):
    result = geoveil(*LOGNORMAL, *asked, to_server=False)
    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["100,250"], "'--range' requires 2 arguments: "),
        (["100,250", "--quick"], "'--range': '100,250' is no number: "),
    ],
)
def test_an_option_of_two_numbers_says_how_they_are_written(geoveil, asked, told):
    distribution = ["simulate", "distribution"]
    result = geoveil(*distribution, "--range", *asked, to_server=False)
    told += "write two numbers with a blank between them, like --range 100 250"
    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("│", " ").split())
    assert "<low high>" in geoveil(*distribution, "--help", to_server=False).output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "def own(query, privacy):\n    raise RuntimeError('a bug')\n",
            "line 2 raises RuntimeErro",
        ),
        ("def own(query, privacy):\n    return None\n", "a NoneType lacks"),
        ("def own(query, privacy):\n    return query\n", "a Threshold lacks privacy, simulate"),
    ],
)
@pytest.mark.parametrize("command", [["audit"], ["compare", "--quick"]])
def test_a_mechanism_of_ones_own_that_fails_is_told_with_its_line(
    geoveil, tmp_path, command, text, told
):
    module = tmp_path / "own.py"
    module.write_text(text)
    with pytest.raises(ParameterError, match="module must be") as error:
        geoveil(*command, "--module", str(module), to_server=False)
    assert told.removesuffix(" privacy, simulate") in str(error.value)


@pytest.mark.deep(keep=0)
def test_a_mechanism_that_fails_in_another_process_is_told_with_its_line(geoveil, tmp_path):
    module = tmp_path / "own.py"
    module.write_text("def own(query, privacy):\n    raise RuntimeError('a bug')\n")
    question = ["--threshold", "100000", "--per", "8000", "--quick", "--out", str(tmp_path)]
    with pytest.raises(ParameterError, match="line 2 raises RuntimeError: a bug"):
        geoveil("simulate", "oneway", "--module", str(module), *question, to_server=False)


def test_a_module_that_ends_the_process_is_told_so(geoveil, tmp_path):
    module = tmp_path / "script.py"
    module.write_text("import sys\n\nsys.exit(3)\n")
    with pytest.raises(ParameterError, match="a Python file that runs; SystemExit: 3"):
        geoveil("audit", "--module", str(module), to_server=False)


def test_a_module_that_is_not_there_is_told_so(geoveil, tmp_path):
    with pytest.raises(ParameterError, match="there is no such file"):
        geoveil("audit", "--module", str(tmp_path / "absent.py"), to_server=False)


def test_an_id_that_is_taken_is_told_with_the_option_for_another(geoveil):
    asked = ["campaign", "create", "Taken", "--threshold", "30000", *CREATE]
    assert geoveil(*asked).exit_code == 0
    with pytest.raises(CommandError, match=r"the id 'taken'.* --id"):
        geoveil(*asked)


@pytest.mark.parametrize("command", [["publish"], ["sign", "--sign-key", "file"]])
def test_a_file_that_is_no_campaign_is_named(geoveil, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("hello\n")
    with pytest.raises(ParameterError, match=r"file must be a campaign .*, got file='file'"):
        geoveil("campaign", *command, "file", to_server=command[0] == "publish")


def test_who_is_not_asked_at_a_terminal_is_told_of_yes(geoveil, tmp_path):
    geoveil("campaign", "create", "Unasked", "--threshold", "30000", *CREATE)
    with pytest.raises(CommandError, match="--yes"):
        geoveil("contribute", "unasked", "--state-dir", str(tmp_path / "ada"), stdin="12000\n")
    assert not (tmp_path / "ada").exists()


def test_a_file_is_no_state_directory(geoveil, tmp_path):
    geoveil("campaign", "create", "Filed", "--threshold", "30000", *CREATE)
    (tmp_path / "file").touch()
    asked = ["contribute", "filed", "--yes", "--state-dir", str(tmp_path / "file")]
    with pytest.raises(JournalError, match="it is a file"):
        geoveil(*asked, stdin="12000\n")


def test_a_server_elsewhere_without_tls_is_told_the_option(geoveil):
    asked = ["contribute", "x", "--yes", "--server", "collector.example:443"]
    with pytest.raises(CommandError, match="--tls-roots"):
        geoveil(*asked, to_server=False)


@pytest.mark.parametrize("asked", [["contribute", "x", "--yes"], ["campaign", "list"]])
def test_a_server_that_is_not_there_is_told_alike(geoveil, asked):
    with pytest.raises(CommandError, match="no aggregator answers at"):
        geoveil(*asked, "--server", "127.0.0.1:9", to_server=False)


def test_a_unit_of_nothing_is_not_taken_for_a_metre(geoveil):
    asked = ["--threshold", "1", "--attribute", "debt", "--epsilon", "1", "--per", "1"]
    with pytest.raises(ParameterError, match="--unit must be 1 to 64"):
        geoveil("campaign", "create", "Nothing", *asked, "--unit", "")


def test_which_parameters_of_a_query_are_needed_is_told(geoveil):
    with pytest.raises(ParameterError, match="for at, width, and for profile if wanted"):
        geoveil("campaign", "create", "At", "--query", "threshold:at=1", *CREATE)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_number_of_a_table_is_cut_and_a_table_that_fits_is_within_the_terminal(
    monkeypatch, capsys, width
):
    monkeypatch.setattr(out, "width", width)
    headers = ("query", "estimate", "standard error", "interval", "contaminated low", "n")
    cells = ("above 30,000", "0.8399", "0.0089", "0.8226 – 0.8573", "-720,575,940,245,973", "2,010")
    print_table(headers, [cells], wrapped=[0, 3])
    printed = capsys.readouterr().out
    assert "…" not in printed
    for word in (word for cell in (*headers, *cells) for word in cell.split()):
        assert word in printed
    lines = [len(line) for line in printed.splitlines()]
    assert max(lines) <= width or width == 40


@pytest.mark.parametrize(("width", "lines_of_head"), [(62, 1), (59, 2), (45, 3), (39, 4)])
def test_heads_are_folded_only_where_the_terminal_is_too_narrow(
    monkeypatch, capsys, width, lines_of_head
):
    monkeypatch.setattr(out, "width", width)
    headers = ("query", "standard error", "contaminated high", "one report at most")
    print_table(headers, [("x", "0.01", "0.42", "0.001")])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    filled = [line.strip(" ─") for line in lines if line.strip()]
    assert filled.index("") == lines_of_head
    assert filled[-1].split() == ["x", "0.01", "0.42", "0.001"]
    words = [word for line in filled[:lines_of_head] for word in line.split()]
    assert sorted(words) == sorted(" ".join(headers).split())


@pytest.mark.deep(keep=0)
def test_a_quantile_and_a_share_of_few_people_are_planned(geoveil):
    asked = ["--participants", "1000", "--epsilon", "1", "--per", "5000"]
    people = ["--unit", "euro", "--prior", "lognormal:15000,1"]
    planned = geoveil("plan", "--quantile", "0.5", *asked, *people, to_server=False)
    assert planned.exit_code == 0
    first = (
        "Quantile 0.5: 15,370 euro by the prior, known to ±1,390 euro at 95 %, of the population"
    )
    assert " ".join(planned.stdout.split()).startswith(first)
    share = geoveil("plan", "--threshold", "15370", *asked, *people, to_server=False)
    assert share.exit_code == 0
    (taken,) = re.findall(r"(\d+)% of the answer comes from the prior", share.stdout)
    assert int(taken) <= 50


def test_people_who_all_hold_one_value_have_no_threshold(geoveil, tmp_path):
    file = tmp_path / "one.csv"
    file.write_text("debt\n12000\n")
    prior = ["--prior", str(file), "--prior-column", "debt", "--unit", "euro"]
    with pytest.raises(ParameterError, match="All of them hold 12000"):
        geoveil(*PLAN, *prior, to_server=False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a;debt\n1;2\n", "by commas, but here are separated by semicolons"),
        ("", "the file is empty"),
        ("debt,debt\n1,2\n", "there, once; it is there 2 times"),
    ],
)
def test_a_spreadsheet_that_is_no_table_of_commas_is_told_so(geoveil, tmp_path, text, told):
    file = tmp_path / "people.csv"
    file.write_text(text)
    prior = ["--prior", str(file), "--prior-column", "debt", "--unit", "euro"]
    with pytest.raises(TableFileError, match=told):
        geoveil(*PLAN, *prior, to_server=False)


def test_reports_are_exported_to_what_estimate_reads(geoveil, tmp_path):
    geoveil("campaign", "create", "Exported", "--threshold", "30000", *CREATE)
    with pytest.raises(ParameterError, match=r"--out must be a file whose name ends in \.parquet"):
        geoveil("campaign", "export", "exported", "--out", str(tmp_path / "reports.csv"))
    other = tmp_path / "reports.csv"
    other.touch()
    with pytest.raises(ParameterError, match=r"the id of a campaign, a file ending in \.parqu"):
        geoveil("estimate", str(other))


@pytest.mark.parametrize("command", [["plan"], ["campaign", "create"], ["estimate"]])
def test_the_help_shows_whole_what_is_to_be_typed_on_80_columns(geoveil, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    shown = geoveil(*command, "--help", to_server=False).output
    for form in ("'LOW,HIGH'", "'LABEL=LON,LAT'", "'LON,LAT,RADIUS'", "'FAMILY:A=1,B=2'"):
        assert form in shown


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["--read-every", "0d"], "--read-every must be a whole number above 0"),
        (["--read-every", "9999w"], "7d, at most 36525d, got --read-every='9999w'"),
        (["--read-every", "7d", "--reading-epsilon", "0"], "--reading-epsilon must be a finite"),
        (
            ["--read-every", "7d", "--reading-epsilon", "0.5"],
            "--reading-epsilon must be at least 1",
        ),
        (["--reading-epsilon", "1"], "--reading-epsilon must be left out unless there is --read-"),
    ],
)
def test_a_reading_that_is_none_is_named_as_it_is_typed(geoveil, tmp_path, said, told):
    name = f"readings-{hash((*said,)) % 10**9}"
    geoveil("campaign", "create", "Debts", "--points", *CREATE, "--id", name)
    with pytest.raises(ParameterError) as error:
        geoveil("contribute", name, "--yes", "--state-dir", str(tmp_path / "state"), *said)
    assert told in str(error.value)


def test_one_period_is_not_called_several(geoveil):
    asked = ["campaign", "create", "Debts", "--threshold", "1", *CREATE, "--every", "60d"]
    made = geoveil(*asked, "--force", "--id", "debts-of-one-period").output
    assert "each participant spends this once, in its one period" in made


def test_families_that_no_campaign_carries_are_not_offered():
    """And the two thresholds of one query are written as the documents say."""
    assert asking._FAMILIES.split(", ") == [f.name for f in QUERIES if f.name[:8] != "smoothed"]
    written = "two-way-threshold:at=100000 200000,width=16000"
    assert QUERIES.parse(written) == TwoWayThreshold((100_000.0, 200_000.0), 16_000.0)
    for name in ("planning", "mechanisms"):
        assert written in Path(f"docs/{name}.md").read_text()


@pytest.mark.parametrize("value", [-0.0, -1e-9, -0.004])
def test_nothing_is_a_minus_zero(value):
    assert number(value, 2) == cell_text(value, 2) == "0.00"
    assert (number(-0.006, 2), cell_text(-0.006, 2)) == ("-0.01", "-0.01")  # the control
