"""Test other packages' priors, stores and commands, and their limits."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.aggregator.store.opening import open_any_store
from geoveil.analyst import (
    STATISTICS,
    Quantiles,
    ReportRows,
    StatisticFailedError,
    StatisticFamily,
)
from geoveil.campaign import Attribute, Registry, encode
from geoveil.campaign.entry_points import NotInstalled, added, load
from geoveil.cli.app import app
from geoveil.console.point_choices import added_choices
from geoveil.console.results import shown_result
from geoveil.gp import (
    GeoPrivacy,
    GeoVeilError,
    LogScale,
    ParameterError,
    SeededSource,
    UnsupportedError,
)
from geoveil.simulation.priors import public_prior
from geoveil.simulation.scale import write_reports
from tests.campaign.test_families import install
from tests.campaigns import perturbed_incomes

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


STATISTICS_MODULE = """
from dataclasses import dataclass
from typing import Annotated
import numpy as np
from geoveil.analyst import MeanValue, Quantiles, Result, Statistic, StatisticFamily

@dataclass(frozen=True)
class Above(Statistic):
    level: Annotated[float, "a share of the people"]
    width: Annotated[float | None, "of the soft thresholds"] = None

    def steps(self, campaign, confidence):
        return (yield from Quantiles(levels=(self.level,), width=self.width).steps(
            campaign, confidence))

LEVEL = StatisticFamily(name="level", made=Above, summary="A level of the values")
class Rows(Result):
    title, notes = "Rows", ()

    def __init__(self, rows):
        self.made = rows

    def rows(self):
        return self.made()

    def plot(self, ax=None):
        return 1 / 0

@dataclass(frozen=True)
class Faulty(Statistic):
    at: str

    def __post_init__(self):
        if self.at == "making":
            1 / 0

    def steps(self, campaign, confidence):
        if self.at == "asking":
            yield 1 / 0
        if self.at == "numbers":
            yield [1, 2]
        yield from Quantiles().steps(campaign, confidence)
        if self.at == "answering":
            raise TypeError("secret")
        if self.at == "nothing":
            return None
        if self.at == "rows":
            return Rows(lambda: 1 / 0)
        return Rows(lambda: [{"n": np.int64(1) if self.at == "JSON" else 1}])

FAULTY = StatisticFamily(name="faulty", made=Faulty, summary="A statistic with a fault")
AGAIN = StatisticFamily(name="again", made=MeanValue, summary="The mean again")
def not_made():
    return StatisticFamily(name="none", made=int, summary="no statistic")
"""


@pytest.fixture
def statistics(tmp_path, monkeypatch):
    """A package with two statistics, and three that are none; another that can't be imported."""
    install(
        tmp_path, "veil_stats", STATISTICS_MODULE,
        statistics={"level": "veil_stats:LEVEL", "again": "veil_stats:AGAIN",
                    "faulty": "veil_stats:FAULTY",
                    "misnamed": "veil_stats:LEVEL", "function": "veil_stats:not_made",
                    "missing": "veil_stats:NOTHING"},
    )  # fmt: skip
    install(tmp_path, "veil_broken", "import nothing_there", statistics={"gone": "veil_broken:X"})
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    fresh = Registry("geoveil.statistics", StatisticFamily, tuple(STATISTICS.built_in.values()))
    for module in ("vocabulary", "estimate_request"):
        monkeypatch.setattr(f"geoveil.analyst.{module}.STATISTICS", fresh)
    monkeypatch.setattr("geoveil.console.point_choices.STATISTICS", fresh)
    added.cache_clear()
    yield fresh
    added.cache_clear()
    sys.modules.pop("veil_stats", None)


@pytest.fixture
def reports(tmp_path):
    campaign = perturbed_incomes()
    incomes = np.random.default_rng(8).lognormal(11.3, 0.7, 500)
    points = campaign.point_mechanism.release_many(incomes, SeededSource(1))[:, 0]
    file = tmp_path / "incomes.parquet"
    rows = ReportRows(np.zeros(len(points), np.uint32), None, (points,))
    write_reports(iter([encode(campaign), rows]), file)
    return str(file)


def estimated(*arguments):
    shown = CliRunner().invoke(app, ["estimate", *arguments, "--json"], catch_exceptions=False)
    return json.loads(shown.stdout)


def test_a_statistic_is_asked_like_those_of_the_library(statistics, reports):
    added_one = estimated(reports, "--statistic", "level:level=0.5", "--width", "30000")
    assert added_one == estimated(reports, "--quantile", "0.5", "--width", "30000")
    assert added_one != estimated(reports, "--quantile", "0.5")  # the control
    again = estimated(reports, "--statistic", "again", "--range-of-values", "0,9000000")
    assert again == estimated(reports, "--mean", "--range-of-values", "0,9000000")


def test_a_statistic_is_a_choice_on_pages(statistics):
    choices = {choice.word: choice for choice in added_choices(perturbed_incomes())}
    level = choices["statistic.level"]
    assert (level.name, level.optional) == ("A level of the values", False)
    assert level.said == (
        "name=value for level (a share of the people), and for width (of the soft thresholds) if"
        " wanted, with commas"
    )
    assert choices["statistic.gone"].name == "gone"  # which says why when it is chosen
    half = GeoPrivacy.per_factor(2.0, 2, "dollar")
    attribute = Attribute(name="income", unit=half.unit, scale=LogScale(1_000.0))
    by_ratio = perturbed_incomes(attribute=attribute, privacy=half)
    of_ratios = {choice.word for choice in added_choices(by_ratio)}
    assert "statistic.level" not in of_ratios  # without on_scale
    assert "statistic.gone" in of_ratios


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("gone", r"veil_broken:X, which is 'gone' in geoveil\.statistics, failed: Module"),
        ("missing", r"veil_stats:NOTHING.*AttributeError"),
        ("misnamed", r"veil_stats:LEVEL is no StatisticFamily of the name 'misnamed'"),
        ("function", r"veil_stats:not_made is no StatisticFamily"),
        ("nobody", r"'nobody' is not among the statistics.*known: curve"),
        ("level", r"must be name=value for level \(a share of the people\), and for width"),
        ("level:level=high", r"level\.level must be a number"),
        ("level:level=2", r"in \(0, 1\)"),
    ],
)
def test_a_statistic_that_is_none_is_refused_and_others_go_on(statistics, reports, text, match):
    with pytest.raises(GeoVeilError, match=match):
        estimated(reports, "--statistic", text)
    assert estimated(reports, "--quantile", "0.5")["rows"]


@pytest.mark.deep(keep=7, rest=3)
@pytest.mark.parametrize(
    ("at", "failure"),
    [
        ("making", "ZeroDivisionError"),
        ("asking", "ZeroDivisionError"),
        ("numbers", "TypeError"),
        ("answering", "TypeError"),
        ("nothing", "AttributeError"),
        ("rows", "ZeroDivisionError"),
        ("JSON", "TypeError"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--contamination", "0.01"]])
def test_an_error_in_a_statistic_names_it_and_its_package(statistics, reports, at, failure, more):
    with pytest.raises(StatisticFailedError) as failed:
        estimated(reports, "--statistic", f"faulty:at={at}", *more)
    assert str(failed.value) == (
        f"Faulty of the package 'veil_stats' failed with {failure}: its authors can mend it"
    )
    assert type(failed.value.__cause__).__name__ == failure


def test_an_error_in_a_picture_names_its_package(statistics, reports, tmp_path):
    pytest.importorskip("matplotlib")
    asked = reports, "--statistic", "faulty:at=plot"
    assert estimated(*asked)["rows"] == [{"n": 1}]
    with pytest.raises(StatisticFailedError, match="Rows of the package 'veil_stats' failed with"):
        estimated(*asked, "--plot", str(tmp_path / "rows.png"))
    rows = statistics["faulty"].made.steps.__globals__["Rows"]
    drawn = rows(iter([[{"n": 1}], 1]).__next__)  # its second reading, by a picture, has no rows
    with pytest.raises(StatisticFailedError, match="with TypeError"):
        shown_result(drawn)


def test_an_error_in_a_statistic_of_the_library_is_not_its_authors(reports, monkeypatch):
    """The control: a defect keeps its type, whatever statistic meets it."""
    monkeypatch.setattr(Quantiles, "steps", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        estimated(reports, "--quantile", "0.5")


def test_only_a_class_of_statistics_is_declared():
    with pytest.raises(ParameterError, match="derives from Statistic"):
        StatisticFamily(name="number", made=int, summary="A number")


def test_a_statistic_of_the_library_is_never_replaced(statistics, reports, tmp_path):
    mean = estimated(reports, "--mean")
    install(tmp_path, "veil_thief", "", statistics={"mean": "veil_stats:AGAIN"})
    added.cache_clear()
    with pytest.raises(UnsupportedError, match=r"veil_stats:AGAIN can't be 'mean'.*taken by geo"):
        estimated(reports, "--statistic", "level:level=0.5")
    with pytest.raises(UnsupportedError, match="can't be 'mean'"):
        list(added_choices(perturbed_incomes()))
    assert estimated(reports, "--mean") == mean
    assert statistics["mean"] is STATISTICS.built_in["mean"]


@pytest.mark.deep(keep=0)
def test_help_and_completion_name_statistics_and_import_none(statistics, tmp_path):
    def run(*arguments, **more):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200", **more}
        code = "import sys; from geoveil.cli import main; sys.argv[0] = 'geoveil'; main()"
        command = [sys.executable, "-X", "importtime", "-c", code, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    shown = run("estimate", "--help")
    words = " ".join(shown.stdout.replace("│", "").split())
    assert all(name in words for name in ("level, again, faulty", "gone", "'NAME:A=1,B=2'"))
    typed = {"COMP_WORDS": "geoveil estimate x --statistic l", "COMP_CWORD": "4"}
    completed = run(_GEOVEIL_COMPLETE="complete_bash", **typed)
    assert completed.stdout.split() == ["level"]
    for done in (run("--help"), shown, completed):
        assert done.returncode == 0
        assert "veil_stats" not in done.stderr
        assert "typer" in done.stderr  # the control: what is imported is seen
