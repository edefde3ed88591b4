"""Test that a beginner's mistakes give no traceback, and that the error names option and remedy.

In this process, as the command itself would do it: errors are turned into lines by `main`.
"""

import io
import shlex
import sys
from pathlib import Path

import pytest
import typer

from geoveil.analyst.results import cell_text
from geoveil.campaign import QUERIES
from geoveil.cli import asking
from geoveil.cli.app import COMMANDS, app
from geoveil.cli.console import err, number, out, print_table
from geoveil.gp import ParameterError, TwoWayThreshold
from geoveil.simulation.people_files import TableFileError

INCOME = "--attribute income --unit dollar --epsilon 1 --per 8000"
PLAN = "plan --threshold 100000 --participants 5000 --epsilon 1 --per 8000 --prior incomes"
OF_FILE = "plan --participants 5000 --epsilon 1 --per 8000 --unit dollar --threshold 60000"
NEAR = "plan --participants 5000 --epsilon 1 --per 500 --prior collisions"
CREATE = f"campaign create X {INCOME} --threshold 100000"
PLACES = "campaign create X --points --attribute location --epsilon 1 --per 200"
REHEARSE = "rehearse people.csv --value income --unit dollar --per 8000"
MISTAKES = {
    "estimat numbers": "Did you mean 'estimate'",
    "campagin list": "Did you mean 'campaign'",
    "campaign creat X": "Did you mean 'create'",
    "plan --treshold 100000": "--threshold",
    "serve --prot 1": "--port",
    f"{PLAN} --epsilon -1": "--epsilon",
    f"{PLAN} --per 0": "--per",
    f"{PLAN} --participants 20,000": "--participants",
    f"{PLAN} --threshold abc": "--threshold",
    f"{PLAN} --threshold nan": "--threshold must be a number, and finite, got --threshold='nan'",
    f"{PLAN} --range 1,inf": "--range must be LOW,HIGH, and finite, got --range='1,inf'",
    f"{PLAN} --unit euro": "--unit",
    f"{PLAN} --target-error 0.00001": "--target-error",
    f"{PLAN} --allocation half": "--allocation",
    f"{PLAN} --bandwidth 100": "--bandwidth",
    f"{PLAN} --width 100": "--width",
    f"{PLAN} --heap 100000": "--heap",
    f"{PLAN} --scenario x": "--scenario",
    f"{PLAN} --contamination 2": "--contamination",
    f"{PLAN} --out missing/plan.toml": "--out",
    f"{PLAN} --figure plan.txt": "--figure",
    f"{PLAN} --quantile 50": "--quantile",
    f"{PLAN} --range 9,5": "--range",
    f"{PLAN} --query nosuch:at=1": "(--query)",
    f"{PLAN} --prior-column income": "--prior-column",
    f"{OF_FILE} --prior incoms": "--prior",
    f"{OF_FILE} --prior missing.csv --prior-column a": "--prior",
    f"{OF_FILE} --prior people.csv": "--prior-column",
    f"{OF_FILE} --prior people.csv --prior-column incme": "name, income, weight (--prior",
    f"{OF_FILE} --prior people.csv --prior-column income --prior-weights wieght": "(--prior",
    f"{NEAR} --place -73.98,40.75 --center 40,-73": "--center",
    f"{NEAR} --place -73.98,40.75 --center x": "--center",
    f"{NEAR} --place -73.98,40.75 --radius -1": "--radius",
    f"{NEAR} --place 73.98": "--place",
    f"{NEAR} --circle -73.98,40.75": "--circle",
    f"{NEAR} --region missing.geojson": "--region",
    f"{NEAR} --region broken.geojson": "--region",
    f"{CREATE} --days 0": "--days",
    f"{CREATE} --every 5x": "--every",
    f"{CREATE} --cohorts 13": "--cohorts",
    f"{CREATE} --sign-key missing.pem": "--sign-key",
    f"{CREATE} --sign-key hello.txt": "--sign-key",
    f"{CREATE} --id 'a b'": "--id",
    f"{CREATE} --mechanism nosuch": "--mechanism",
    f"{CREATE} --mechanism smooth:foo=1": "(--mechanism)",
    f"{CREATE} --bandwidth 5": "--bandwidth",
    f"{CREATE} --radius 5": "--radius",
    f"{CREATE} --dimension 2": "--dimension",
    "campaign create X --plan missing.toml": "--plan",
    "campaign create X --plan hello.txt": "--plan",
    f"campaign create X {INCOME} --attribute '' --threshold 5": "--attribute",
    f"campaign create X {INCOME} --threshold 5 --place 1,2": "--unit",
    f"{PLACES} --center=95,95": "--center",
    f"{PLACES} --center=-74,40.7 --dimension 3": "--dimension",
    "campaign export numbers --out x.csv": "--out",
    "campaign list --server localhost": "--server must be HOST:PORT",
    "campaign list --server http://127.0.0.1:7717": "--server",
    "campaign list --server 127.0.0.1:1": "--server",
    "campaign list --tls-roots missing.pem": "--tls-roots",
    "campaign list --tls-client-certificate hello.txt": "--tls-client-key",
    "contribute numbers --yes --state-dir hello.txt": "(--state-dir)",
    "contribute numbers --yes --state-dir s --read-every 5x": "--read-every",
    "client history --state-dir missing": "--state-dir",
    "estimate people.csv --curve": "campaign must be the id of a campaign, a file",
    "estimate share --period 99": "(--period)",
    "estimate share --by nosuch": "--by",
    "estimate share --plan missing.toml": "--plan",
    "estimate share --plan hello.txt --against other": "--plan",
    "estimate share --label x": "--label",
    "estimate numbers --quantile half": "--quantile",
    "estimate numbers --top 3": "--top",
    "estimate numbers --histogram nan,5": "--histogram must be a finite number",
    "plan --form broken.geojson --prior-sample people.csv": "--form must be TOML: invalid",
    "estimate numbers --statistic ''": "--statistic must be a text, which is not empty",
    "estimate numbers --statistic :a=1": "'' is not among the statistics installed here",
    "estimate numbers --curve --csv --json": "--csv",
    "estimate places --districts missing.geojson": "--districts",
    "estimate places --districts one.geojson --name-property nme": "--districts",
    "estimate places --nearest A": "--nearest",
    "rehearse missing.csv --value a --unit dollar --per 8000 --curve": "people",
    "rehearse people.csv --unit dollar --per 8000 --curve": "--value",
    f"{REHEARSE} --value incme --curve": "--value",
    f"{REHEARSE} --weight wieght --curve": "name, income, weight (--weight)",
    f"{REHEARSE} --curve --seed -1": "--seed",
    "serve --config missing.toml": "--config",
    "serve --config bad.toml --check": "perhaps port in 'bad.toml', got setting='prot' (--config)",
    "serve --port {port}": "--port",
    "serve --port 99999": "--port",
    "serve --web 127.0.0.1:{port} --port 0": "--web",
    "serve --database hello.txt --port 0": "(--database)",
    "serve --tls-certificate missing.pem --tls-key missing.pem": "--tls-certificate",
    "serve --tokens-file hello.txt --port 0": "--tokens-file",
    "serve --metrics-port {port} --port 0": "--metrics-port",
    "db check --database missing.db": "--database",
    "token list --file missing.json": "--file",
    "certificate authority --folder hello.txt": "(--folder)",
    "certificate server a.example --folder missing": "--folder",
    "audit --mechanism nosuch": "--mechanism",
    "simulate scale --population nosuch": "--population",
    "compare --participants 0": "--participants",
}
"""What is typed → what has to be in the one sentence that is said."""


@pytest.fixture(scope="module")
def folder(server, tmp_path_factory):
    """A folder with some files, whose server has four campaigns."""
    path = tmp_path_factory.mktemp("mistakes")
    (path / "people.csv").write_text("name,income,weight\na,50000,1\nb,120000,2\n")
    (path / "broken.geojson").write_text("{")
    corners = [[-74, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74, 40.8], [-74, 40.7]]
    square = f'{{"type": "Polygon", "coordinates": [{corners}]}}'
    (path / "one.geojson").write_text(square)
    (path / "hello.txt").write_text("hello")
    (path / "bad.toml").write_text("prot = 1\n")
    (path / "census.csv").write_text("region,people\nnorth,1\n")
    return path


@pytest.fixture
def said(server, folder, monkeypatch, capfd, without_settings, status_of):
    """Run a command in the folder; return its status and what it says on standard error."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("geoveil.cli.serve.configure", lambda *_: None)
    for console in (out, err):
        monkeypatch.setattr(console, "width", 400)
    monkeypatch.setenv("GEOVEIL_SERVER", server)
    monkeypatch.setenv("COLUMNS", "400")

    def run(line):
        monkeypatch.setattr(sys, "stdin", io.StringIO("52000\n"))
        return status_of(*shlex.split(line)), capfd.readouterr().err

    return run


@pytest.fixture
def campaigns(said):
    for line in (
        f"campaign create Numbers --points {INCOME}",
        f"campaign create Share {INCOME} --threshold 100000",
        "campaign create Places --points --attribute a --epsilon 1 --per 200 --center=-74,40.7",
    ):
        said(line)  # those that are there already stay


@pytest.mark.deep(keep=12)
@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_told_by_what_was_typed(said, campaigns, server, typed):
    status, told = said(typed.format(port=server.rpartition(":")[2]))
    assert status in (1, 2), told
    assert "Traceback" not in told
    assert MISTAKES[typed] in " ".join(told.replace("│", " ").split())


@pytest.mark.parametrize("number", ["52000", "USD 52,000", "$52k", "-5 (est.)", "ca. 52 k"])
def test_a_row_of_a_file_without_a_header_is_not_shown(said, folder, number):
    (folder / "rows.csv").write_text(f'Ada,"{number}"\nBob,61000\n')
    status, told = said(f"{OF_FILE} --prior rows.csv --prior-column income")
    assert status == 1
    assert "52" not in told
    assert "Ada" not in told


def test_names_of_columns_are_shown_with_their_units_and_signs(said, folder):
    (folder / "own.csv").write_text("id,Monthly rent ($),Größe/m²\n1,900,50\n")
    status, told = said(f"{OF_FILE} --prior own.csv --prior-column rent")
    assert status == 1
    assert "it has id, Monthly rent ($), Größe/m²" in " ".join(told.replace("│", " ").split())


LOW_HIGH = "write two numbers with a blank between them, like --range 100 250"
DISTRIBUTION = "simulate distribution --range"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (f"{PLAN} --threshold 100,000", "'100,000' is not a number: write it like 100000"),
        (f"{PLAN} --participants 20,000", "'20,000' is not a whole number: write it like 20000"),
        (f"{PLAN} --epsilon '1 %'", "'1 %' is not a number"),
        (f"{DISTRIBUTION} 100,250", f"'--range' requires 2 arguments: {LOW_HIGH}"),
        (f"{DISTRIBUTION} 100,250 --quick", f"'--range': '100,250' is no number: {LOW_HIGH}"),
        ("campaign export a --period 4294967296", "'--period': 4294967296 is more than 4294967295"),
        (f"{PLAN} --honest 0", "'--honest': 0 is less than 1, the least permitted"),
        ("relay key --periods 5000", "'--periods': 5000 is more than 4000, the most permitted"),
        (f"{PLAN} --participants {'9' * 5000}", "has too many digits"),
        ("card a --format xml", "'--format': 'xml' is not one of 'markdown', 'html', 'json'."),
        ("estimate a --people all", "'--people': 'all' is not one of 'different', 'same'."),
        ("health", "'--tls' (env var: 'GEOVEIL_TLS'): 'maybe' is neither true nor false"),
    ],
)
def test_a_refused_text_is_shown_with_what_is_permitted(geoveil, monkeypatch, typed, told):
    monkeypatch.setenv("GEOVEIL_TLS", "maybe")
    result = geoveil(*shlex.split(typed), to_server=False)
    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("│", " ").split())
    assert "Input should" not in result.output


def below(command):
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from below(each)


def test_an_empty_text_is_refused_by_every_command():
    group = typer.main.get_command(app)
    taken, refused = set(), set()
    for command in (of for name in COMMANDS for of in below(group.get_command(None, name))):
        context = command.make_context(command.name, [], resilient_parsing=True)
        for parameter in command.params:
            if getattr(parameter, "is_flag", False):
                continue
            several = parameter.nargs != 1 or getattr(parameter, "multiple", False)
            try:
                parameter.process_value(context, [""] if several else "")
            except ParameterError as error:
                refused.add(error.name)
            except typer.BadParameter.__mro__[1]:  # it is no number, or none of the choices
                pass
            else:
                taken.add((command.name, parameter.name))
    assert taken == {("health", "service"), ("to", "title")}  # which are empty by default
    assert {"--statistic", "--label", "title", "campaign_id", "--out", "--region"} <= refused


def test_an_option_of_two_numbers_is_said_to_have_two(geoveil):
    assert "<low high>" in geoveil("simulate", "distribution", "--help", to_server=False).output


OWN = "def own(query, privacy):\n    "
WITHOUT_A_SOURCE = """from geoveil.gp import LipschitzMechanism


class own(LipschitzMechanism):
    def __init__(self, query, privacy):
        super().__init__(query, privacy)

    def release(self, point):
        return super().release(point)
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OWN + "raise RuntimeError('a bug')", "line 2 raises RuntimeErro"),
        (OWN + "return None", "a NoneType lacks"),
        (OWN + "return query", "a Threshold lacks"),
        (WITHOUT_A_SOURCE, "too many positional arguments"),
        ("import sys\n\nsys.exit(3)\n", "a Python file that runs; SystemExit: 3"),
        (None, "there is no such file"),
    ],
)
@pytest.mark.parametrize("command", [["audit"], ["compare", "--quick"]])
def test_a_module_of_ones_own_that_fails_is_told_with_its_line(
    geoveil, tmp_path, command, text, told
):
    module = tmp_path / "own.py"
    if text is not None:
        module.write_text(text)
    with pytest.raises(ParameterError, match=f"module must be.* {told}"):
        geoveil(*command, "--module", module, to_server=False)


@pytest.mark.deep(keep=0)
def test_a_mechanism_that_fails_in_another_process_is_told_with_its_line(geoveil, tmp_path):
    module = tmp_path / "own.py"
    module.write_text(OWN + "raise RuntimeError('a bug')\n")
    question = ["--threshold", "100000", "--per", "8000", "--quick", "--out", tmp_path]
    with pytest.raises(ParameterError, match="line 2 raises RuntimeError: a bug"):
        geoveil("simulate", "oneway", "--module", module, *question, to_server=False)


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


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("debt\n12000\n", ParameterError, "All of them hold 12000"),
        ("a;debt\n1;2\n", TableFileError, "by commas, but here are separated by semicolons"),
        ("debt,debt\n1,2\n", TableFileError, "there, once; it is there 2 times"),
    ],
)
def test_a_spreadsheet_that_makes_no_prior_is_told_so(geoveil, tmp_path, text, error, told):
    file = tmp_path / "people.csv"
    file.write_text(text)
    with pytest.raises(error, match=told):
        geoveil(*OF_FILE.split(), "--prior", file, "--prior-column", "debt", to_server=False)


@pytest.mark.parametrize("command", [["plan"], ["campaign", "create"], ["estimate"]])
def test_the_help_shows_whole_what_is_to_be_typed_on_80_columns(geoveil, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    shown = geoveil(*command, "--help", to_server=False).output
    for form in ("'LOW,HIGH'", "'LABEL=LON,LAT'", "'LON,LAT,RADIUS'", "'FAMILY:A=1,B=2'"):
        assert form in shown


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
