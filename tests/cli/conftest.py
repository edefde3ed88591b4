"""A running aggregator and the command, for every test of the command."""

import itertools
import json
import os
import sys

import pytest
from typer.testing import CliRunner

from geoveil.cli import main
from geoveil.cli.app import app
from geoveil.cli.console import err, out
from geoveil.simulation.local_server import local_server

INCOME = ("--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000")
ABOVE = (*INCOME, "--threshold", "100000")
PLACE = ("--attribute", "location", "--epsilon", "1", "--per", "500")
LOG_NORMAL = ("--epsilon", "1", "--per", "8000", "--unit", "dollar", "--prior",
              "lognormal:98000,0.83")  # fmt: skip
"""What is asked of whom, for `campaign create` and `plan`."""


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with local_server(tmp_path_factory.mktemp("server") / "aggregator.db") as address:
        yield address


@pytest.fixture
def geoveil(server, monkeypatch):
    """Run the command on a wide terminal; return the result. Errors are raised as they are."""
    for console in (out, err):  # made at import, with the width of that moment
        monkeypatch.setattr(console, "width", 120)

    def run(*arguments, stdin=None, to_server=True):
        more = ["--server", server] if to_server else []
        typed = [*map(str, arguments), *more]
        return CliRunner().invoke(app, typed, input=stdin, catch_exceptions=False)

    return run


@pytest.fixture
def words(geoveil):
    """Run the command; return what it prints as one line."""
    return lambda *arguments, **how: " ".join(geoveil(*arguments, **how).output.split())


@pytest.fixture
def record(geoveil):
    """Run the command with --json; return what it prints."""
    return lambda *arguments, **how: json.loads(geoveil(*arguments, "--json", **how).stdout)


@pytest.fixture
def create(geoveil):
    """Publish a campaign under a title."""
    return lambda title, *about: geoveil("campaign", "create", title, *about)


@pytest.fixture
def answer(geoveil, tmp_path):
    """Answer a campaign with each value, from a device of its own; return the last result."""
    devices = (str(tmp_path / f"device{number}") for number in itertools.count())

    def run(campaign, *values, more=()):
        for value in values:
            state = ("--state-dir", next(devices))
            done = geoveil("contribute", campaign, "--yes", *state, *more, stdin=f"{value}\n")
        return done

    return run


@pytest.fixture
def without_settings(monkeypatch):
    """Remove all variables of the environment that geoveil reads."""
    for name in [name for name in os.environ if name.startswith("GEOVEIL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def status_of(monkeypatch):
    """Run the command as its process would; return its status."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["geoveil", *arguments])
        try:
            main()
        except SystemExit as ended:
            return ended.code
        return 0

    return run
