"""A running aggregator and the command, for every test of the command."""

import os
import sys

import pytest
from typer.testing import CliRunner

from geoveil.cli import main
from geoveil.cli.app import app
from geoveil.cli.console import err, out
from geoveil.simulation.local_server import local_server


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
        return CliRunner().invoke(app, [*arguments, *more], input=stdin, catch_exceptions=False)

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
