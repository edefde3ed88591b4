"""Test that a beginner's mistakes give one line that names the remedy."""

from pathlib import Path

import pytest

from geoveil.analyst.results import cell_text
from geoveil.campaign import QUERIES
from geoveil.cli import asking
from geoveil.cli.connection import CommandError
from geoveil.cli.console import number, out, print_table
from geoveil.gp import ParameterError, TwoWayThreshold
from geoveil.simulation.people_files import TableFileError

PLAN = ["plan", "--threshold", "30000", "--participants", "5000", "--epsilon", "1", "--per", "5000"]
LOGNORMAL = [*PLAN, "--unit", "euro", "--prior", "lognormal:15000,1"]
CREATE = ["--attribute", "debt", "--unit", "euro", "--epsilon", "1", "--per", "5000"]


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
        ("raise RuntimeError('a bug')", "line 2 raises RuntimeErro"),
        ("return None", "a NoneType lacks"),
        ("return query", "a Threshold lacks"),
    ],
)
@pytest.mark.parametrize("command", [["audit"], ["compare", "--quick"]])
def test_a_mechanism_of_ones_own_that_fails_is_told_with_its_line(
    geoveil, tmp_path, command, text, told
):
    module = tmp_path / "own.py"
    module.write_text(f"def own(query, privacy):\n    {text}\n")
    with pytest.raises(ParameterError, match=f"module must be.* {told}"):
        geoveil(*command, "--module", str(module), to_server=False)


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


def test_who_is_not_asked_at_a_terminal_is_told_of_yes(geoveil, tmp_path):
    geoveil("campaign", "create", "Unasked", "--threshold", "30000", *CREATE)
    with pytest.raises(CommandError, match="--yes"):
        geoveil("contribute", "unasked", "--state-dir", str(tmp_path / "ada"), stdin="12000\n")
    assert not (tmp_path / "ada").exists()


def test_a_server_elsewhere_without_tls_is_told_the_option(geoveil):
    asked = ["contribute", "x", "--yes", "--server", "collector.example:443"]
    with pytest.raises(CommandError, match="--tls-roots"):
        geoveil(*asked, to_server=False)


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
        ("debt,debt\n1,2\n", "there, once; it is there 2 times"),
    ],
)
def test_a_spreadsheet_that_is_no_table_of_commas_is_told_so(geoveil, tmp_path, text, told):
    file = tmp_path / "people.csv"
    file.write_text(text)
    prior = ["--prior", str(file), "--prior-column", "debt", "--unit", "euro"]
    with pytest.raises(TableFileError, match=told):
        geoveil(*PLAN, *prior, to_server=False)


@pytest.mark.parametrize("command", [["plan"], ["campaign", "create"], ["estimate"]])
def test_the_help_shows_whole_what_is_to_be_typed_on_80_columns(geoveil, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    shown = geoveil(*command, "--help", to_server=False).output
    for form in ("'LOW,HIGH'", "'LABEL=LON,LAT'", "'LON,LAT,RADIUS'", "'FAMILY:A=1,B=2'"):
        assert form in shown


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
