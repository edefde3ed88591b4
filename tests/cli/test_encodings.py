"""Every command works where the terminal, or a file, takes only ASCII."""

import io
import json
import sys

import pytest
import typer

from geoveil.aggregator.store import open_store
from geoveil.cli.app import app

INCOME = [
    "--attribute", "Einkünfte", "--unit", "€", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000",
]  # fmt: skip
PLAN = [
    "plan", "--threshold", "100000", "--participants", "50000", "--epsilon", "1", "--per", "8000",
    "--unit", "dollar", "--prior", "lognormal:98000,0.83",
]  # fmt: skip


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


def paths(group, *path):
    context = typer.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        yield (*path, name)
        if hasattr(one, "list_commands"):
            yield from paths(one, *path, name)


@pytest.mark.deep(keep=0)
def test_every_command_explains_itself_in_ascii(ascii_only):
    found = list(paths(typer.main.get_command(app)))
    assert len(found) > 25
    for path in found:
        status, printed, _ = ascii_only(*path, "--help")
        assert status == 0, path
        assert "Usage" in printed


@pytest.mark.deep
def test_a_campaign_goes_its_way_in_ascii(ascii_only, server):
    at = ["--server", server]
    created = ascii_only("campaign", "create", "Größe über 收", *INCOME, "--id", "ascii", *at)
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
