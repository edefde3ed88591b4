"""A running aggregator and the command, for every test of the command."""

import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app
from geoveil.simulation.local_server import local_server

# A dumb terminal has 80 columns whatever it says.
WIDE = {"COLUMNS": "120", "TERM": "xterm"}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with local_server(tmp_path_factory.mktemp("server") / "aggregator.db") as address:
        yield address


@pytest.fixture
def geoveil(server):
    """Run the command; return the result. Errors are raised as they are."""

    def run(*arguments, stdin=None, to_server=True):
        more = ["--server", server] if to_server else []
        return CliRunner().invoke(
            app, [*arguments, *more], input=stdin, catch_exceptions=False, env=WIDE
        )

    return run
