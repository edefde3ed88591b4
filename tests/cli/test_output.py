"""Properties of every command, and of what it prints: in every format, and in ASCII."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from pyarrow import parquet

from geoveil.aggregator.store import open_store
from geoveil.analyst.results import Result
from geoveil.cli.app import app
from geoveil.cli.options import TOKEN, TOKEN_FILE, VARIABLES
from geoveil.cli.results import OutputFormat
from geoveil.gp import ParameterError, UnsupportedError
from geoveil.gp.version import __version__

from .conftest import LOG_NORMAL


def tree(group, *path):
    """Yield the path and the command of each group and command below."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        yield (*path, name), one
        if hasattr(one, "list_commands"):
            yield from tree(one, *path, name)


COMMANDS = dict(tree(typer.main.get_command(app)))
LEAVES = [one for one in COMMANDS.values() if not hasattr(one, "list_commands")]


def test_every_command_with_a_server_has_all_the_options():
    names = {"server", "tls", "tls_roots", "tls_client_certificate", "tls_client_key"}
    given = [(one.name, names & {parameter.name for parameter in one.params}) for one in LEAVES]
    found = dict(options for options in given if options[1])
    assert set(found) == {
        "ask", "card", "health", "create", "show", "list", "close", "export", "contribute",
        "estimate", "data", "contributions", "fleet", "plan", "publish", "send", "web",
    }  # fmt: skip
    assert set(map(frozenset, found.values())) == {frozenset(names)}


def test_every_option_and_argument_has_help():
    """Annotations that stayed text lose it, and short names too, without an error."""
    for one in LEAVES:
        shown = [parameter for parameter in one.params if not getattr(parameter, "hidden", False)]
        assert [parameter.name for parameter in shown if not parameter.help] == [], one.name


def test_every_variable_that_a_command_reads_is_known_to_serve():
    """Else a server would not start where an analyst has set one."""
    read = set()
    for one in LEAVES:
        for parameter in one.params:
            names = parameter.envvar or ()
            read |= {names} if isinstance(names, str) else set(names)
    assert read | {TOKEN, TOKEN_FILE} == set(VARIABLES)


def test_lines_of_help_are_broken_by_the_terminal_alone():
    for one in LEAVES:
        assert one.help, one.name
        for paragraph in one.help.split("\n\n"):
            assert "\n" not in paragraph, one.name


def paths():
    """Yield every parameter that is read as a path, and its command."""
    for command in LEAVES:
        for one in command.params:
            said = (__file__,) if getattr(one, "multiple", False) or one.nargs == -1 else __file__
            try:
                read = one.process_value(typer.Context(command), said)
            except (typer.BadParameter, ValueError):
                continue
            if isinstance(read, Path) or (isinstance(read, list) and isinstance(read[0], Path)):
                yield command, one


def test_no_path_may_be_empty():
    """Else `--state-dir ""` would be the folder that the command is run in."""
    found = set()
    for command, parameter in paths():
        found.add(parameter.name)
        for said in ("", (__file__, "")):
            with pytest.raises(ParameterError, match=r"must be the path of .*, got .*=''"):
                parameter.process_value(typer.Context(command), said)
    assert {"state_dir", "out_file", "parquet", "tls_roots", "region", "target"} <= found


CAMPAIGN = {"create", "show", "export", "keygen", "sign", "publish", "list", "close"}


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("geoveil est", {"estimate"}),
        ("geoveil campaign ", CAMPAIGN),
        ("geoveil estimate --thr", {"--threshold"}),
    ],
)
def test_a_shell_completes_commands_and_options(typed, completed, monkeypatch, capsys):
    monkeypatch.setenv("_GEOVEIL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    with pytest.raises(SystemExit):
        app(prog_name="geoveil")
    assert set(capsys.readouterr().out.split()) == completed


def test_the_version_is_shown_without_loading_anything():
    script = """
import json, sys
from geoveil.cli import main
sys.argv = ["geoveil", "--version"]
main()
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    shown, modules = done.stdout.splitlines()
    assert shown == f"geoveil {__version__}"
    assert not {"numpy", "typer", "flint", "google"} & set(json.loads(modules))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("command", ["health", "contribute", "client", "token", "certificate"])
def test_a_command_that_asks_nothing_loads_neither_numpy_nor_the_analyst(command):
    script = """
import sys
from geoveil.cli import main
sys.argv = ["geoveil", sys.argv[1], "--help"]
try:
    main()
finally:
    sys.exit(" ".join({"numpy", "geoveil.analyst", "geoveil.simulation"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, command],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert command in done.stdout
    assert not done.stderr.strip()


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


def test_a_table_joins_the_ends_of_an_interval_and_quiet_leaves_the_rows(capsys):
    OutputFormat().show(Shares())
    shown = capsys.readouterr().out
    for part in ("Shares of two", "0.2000 – 0.3000", "12,345", "Both are of the population."):
        assert part in shown
    OutputFormat(quiet=True).show(Shares())
    shown = capsys.readouterr().out
    assert "0.2000 – 0.3000" in shown
    assert "population" not in shown


def test_json_and_csv_hold_the_same_rows(capsys):
    OutputFormat(as_json=True).show(Shares())
    told = json.loads(capsys.readouterr().out)
    assert told == Shares().to_dict()
    OutputFormat(as_csv=True).show(Shares())
    assert capsys.readouterr().out.splitlines() == [
        "name,estimate,ci_low,ci_high,n",
        "low,0.25,0.2,0.3,12345",
        "high,,,,0",
    ]


def test_parquet_holds_rows_and_notes(tmp_path, capsys):
    file = tmp_path / "shares.parquet"
    OutputFormat(parquet=file).show(Shares())
    table = parquet.read_table(file)
    assert table.to_pylist() == Shares().rows()
    assert table.schema.metadata[b"notes"] == b"Both are of the population."
    told = capsys.readouterr()
    assert "Shares of two" in told.out
    assert told.err == f"wrote {file}\n"
    OutputFormat(parquet=file, quiet=True).show(Shares())
    assert capsys.readouterr() == ("", "")


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
    [({"as_json": True, "as_csv": True}, "--json"), ({"plot": Path("shares.gif")}, ".png")],
)
def test_forms_that_make_no_sense_are_refused(how, named):
    with pytest.raises(ParameterError, match=named):
        OutputFormat(**how)


EURO = [
    "--attribute", "Einkünfte", "--unit", "€", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000",
]  # fmt: skip
PLAN = ["plan", "--threshold", "100000", "--participants", "50000", *LOG_NORMAL]


@pytest.fixture
def ascii_only(monkeypatch, tmp_path, status_of):
    """Run the command as its process would; return status, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, stdin=""):
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2)]
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        for name, stream in zip(("stdout", "stderr"), streams, strict=True):
            monkeypatch.setattr(sys, name, stream)
        status = status_of(*arguments)
        found = []
        for stream in streams:
            stream.flush()
            found.append(stream.buffer.getvalue().decode("ascii"))
        return (status or 0, *found)

    return run


@pytest.mark.deep(keep=0)
def test_every_command_explains_itself_in_ascii(ascii_only):
    assert len(COMMANDS) > 25
    for path in COMMANDS:
        status, printed, _ = ascii_only(*path, "--help")
        assert status == 0, path
        assert "Usage" in printed


@pytest.mark.deep
def test_a_campaign_goes_its_way_in_ascii(ascii_only, server):
    at = ["--server", server]
    created = ascii_only("campaign", "create", "Größe über 收", *EURO, "--id", "ascii", *at)
    assert created[0] == 0, created
    assert "epsilon = 1 per 8000 EUR" in created[1]
    for person in ("a", "b"):
        status, printed, told = ascii_only(
            "contribute", "ascii", "--yes", "--state-dir", person, *at, stdin="87500\n"
        )
        assert status == 0, told
        assert told.startswith("Grosse uber \\u6536\nAsks for: Einkunfte\nGiven in: EUR\n")
        assert "counted" in printed
    open_store("ä.db").close()
    commands = [
        ["estimate", "ascii", *at],
        ["campaign", "list", *at],
        ["campaign", "export", "ascii", "--out", "rows.parquet", *at],
        ["client", "history", "--state-dir", "a"],
        ["token", "create", "Jürgen", "--file", "tokens.json"],
        ["token", "list", "--file", "tokens.json"],
        ["token", "revoke", "Jürgen", "--file", "tokens.json"],
        ["db", "check", "--database", "ä.db"],
        ["serve", "--check"],
        ["health", *at],
        ["campaign", "keygen", "ключ.pem"],
        ["campaign", "close", "ascii", *at],
        [*PLAN, "--out", "план.toml"],
    ]
    for command in commands:
        status, printed, told = ascii_only(*command)
        assert status == 0, (command, printed, told)
    status, printed, _ = ascii_only("estimate", "ascii", "--json", *at)
    assert json.loads(printed)["estimates"][0]["unit"] == "€"
    assert json.loads(ascii_only(*PLAN, "--json")[1])["privacy"]["unit"] == "dollar"
    status, _, told = ascii_only("estimate", "größer", *at)
    assert status == 1
    assert told.startswith("error: ")
