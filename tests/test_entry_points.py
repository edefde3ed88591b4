"""Test other packages' priors, stores and commands, and their limits."""

import importlib
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.aggregator.store.opening import open_any_store
from geoveil.campaign.entry_points import NotInstalled, added, load
from geoveil.cli.app import app
from geoveil.gp import GeoVeilError, ParameterError, UnsupportedError
from geoveil.simulation.priors import public_prior
from tests.campaign.test_families import install

MODULE = """
import typer

def hello(name: str = "you") -> None:
    typer.echo(f"hello {name}")

group = typer.Typer()
group.command("one")(hello)
group.command("two")(hello)

def no_prior():
    return "no prior"

def broken(url=None):
    raise RuntimeError(f"can't reach {url}")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    install(
        tmp_path, "veil_more", MODULE,
        commands={"hello": "veil_more:hello", "many": "veil_more:group"},
        priors={"none": "veil_more:no_prior", "broken": "veil_more:broken"},
        mechanisms={"heavy": "veil_more:no_prior"},
        stores={"broken": "veil_more:broken", "text": "builtins:str"},
    )  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    added.cache_clear()
    yield tmp_path
    added.cache_clear()
    sys.modules.pop("veil_more", None)


@pytest.mark.parametrize(
    "arguments", [["hello", "--name", "Ada"], ["many", "two", "--name", "Ada"]]
)
def test_a_command_is_one_of_the_commands(package, arguments):
    assert CliRunner().invoke(app, arguments).output == "hello Ada\n"
    assert arguments[0] in CliRunner().invoke(app, ["--help"]).output


def test_without_the_package_there_is_no_such_command():
    assert CliRunner().invoke(app, ["hello"]).exit_code == 2


def test_nothing_is_imported_before_it_is_asked_for(package):
    assert set(added("geoveil.commands", frozenset())) == {"hello", "many"}
    assert "veil_more" not in sys.modules


@pytest.mark.deep(keep=0)
def test_the_planner_loads_no_mechanism_before_it_plans(package):
    """In a process of its own, as KINDS looks once; what looks at KINDS is the control."""
    code = (
        "import contextlib, sys, geoveil.analyst.planner\n"
        "before = 'veil_more' in sys.modules\n"
        "with contextlib.suppress(Exception): list(geoveil.analyst.planner.KINDS)\n"
        "print(before, 'veil_more' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )  # fmt: skip
    assert told.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("name", ["none", "broken"])
def test_a_prior_that_is_none_is_refused(package, name):
    with pytest.raises(UnsupportedError, match=name):
        public_prior(name)


def test_priors_of_packages_are_named_where_one_is_unknown(package):
    with pytest.raises(ParameterError, match="none"):
        public_prior("heights")


@pytest.mark.parametrize("scheme", ["broken", "text"])
def test_a_store_that_fails_shows_nothing_of_its_url(package, scheme):
    url = f"{scheme}://ada:s3cret@host/reports"
    assert "s3cret" not in repr(DatabaseURL(url))
    with pytest.raises(GeoVeilError) as refused:
        open_any_store(url)
    assert "s3cret" not in f"{refused.value}{refused.value.__context__}{refused.value.__cause__}"


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(ParameterError):
        DatabaseURL("broken://host/reports")
    with pytest.raises(NotInstalled, match=r"entry points 'geoveil\.stores'"):
        open_any_store("broken://host/reports")


@pytest.mark.parametrize("name", ["serve", "hello"])
def test_a_name_that_is_taken_is_not_given_again(package, name):
    install(package, "veil_thief", "", commands={name: "veil_thief:anything"})
    added.cache_clear()
    with pytest.raises(UnsupportedError, match="taken by"):
        load("geoveil.commands", "hello", ("serve",))
