"""Test properties of every command, each imported at its first use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from geoveil.cli.app import app
from geoveil.cli.options import TOKEN, TOKEN_FILE, VARIABLES
from geoveil.gp import ParameterError
from geoveil.gp.version import __version__


def commands(group):
    context = typer.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        yield from commands(one) if hasattr(one, "list_commands") else [one]


def test_every_command_with_a_server_has_all_the_options():
    names = {"server", "tls", "tls_roots", "tls_client_certificate", "tls_client_key"}
    found = {}
    for one in commands(typer.main.get_command(app)):
        given = names & {parameter.name for parameter in one.params}
        if given:
            found[one.name] = given
    assert set(found) == {
        "ask", "card", "health", "create", "show", "list", "close", "export", "contribute",
        "estimate", "data", "contributions", "fleet", "plan", "publish", "send", "web",
    }  # fmt: skip
    assert set(map(frozenset, found.values())) == {frozenset(names)}


def test_every_option_and_argument_has_help():
    """Annotations that stayed text lose it, and short names too, without an error."""
    for one in commands(typer.main.get_command(app)):
        shown = [parameter for parameter in one.params if not getattr(parameter, "hidden", False)]
        assert [parameter.name for parameter in shown if not parameter.help] == [], one.name


def test_every_variable_that_a_command_reads_is_known_to_serve():
    """Else a server would not start where an analyst has set one."""
    read = set()
    for one in commands(typer.main.get_command(app)):
        for parameter in one.params:
            names = parameter.envvar or ()
            read |= {names} if isinstance(names, str) else set(names)
    assert read | {TOKEN, TOKEN_FILE} == set(VARIABLES)


def test_lines_of_help_are_broken_by_the_terminal_alone():
    for one in commands(typer.main.get_command(app)):
        assert one.help, one.name
        for paragraph in one.help.split("\n\n"):
            assert "\n" not in paragraph, one.name


def paths():
    """Yield every parameter that is read as a path, and its command."""
    for command in commands(typer.main.get_command(app)):
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
