"""Test geoveil rehearse: from a file of people to an answer, without a server."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app

LINE = "--unit dollar --per 8000"


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A file of 1,000 people, of whom many hold the same."""
    file = tmp_path_factory.mktemp("people") / "people.csv"
    incomes = np.random.default_rng(1).lognormal(11.2, 0.7, 1_000).round(-3)
    file.write_text("income\n" + "\n".join(f"{income:.0f}" for income in incomes) + "\n")
    return file, incomes


def run(file, line):
    return CliRunner().invoke(app, ["rehearse", str(file), "--value", "income", *line.split()])


def test_a_question_is_planned_asked_and_answered(people):
    file, incomes = people
    done = run(file, f"{LINE} --threshold 60000")
    assert done.exit_code == 0, done.output
    assert "The plan: DebiasedLaplace; the 95 % interval should be ±0.0" in done.stderr
    assert re.search(r"above 60,000 +0\.\d{4}", done.stdout)
    assert "1,000 simulated people" in done.stdout
    share = f"{np.mean(incomes > 60_000):.4f}"
    assert f"themselves: above 60,000 {share}." in " ".join(done.stdout.split())


@pytest.mark.deep
def test_a_curve_of_a_file_is_drawn(people, tmp_path):
    picture = tmp_path / "curve.png"
    done = run(people[0], f"{LINE} --curve --plot {picture} -q")
    assert done.exit_code == 0, done.output
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_statistics_are_read_from_one_value_each(people):
    done = run(people[0], f"{LINE} --quantile 0.5 --json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["rows"]
    assert abs(row["estimate"] - np.median(people[1])) < 6 * row["standard_error"] + 2_000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{LINE}", "question must be given: at least one, such as --threshold"),
        ("--unit dollar --threshold 1", "--per must be given"),
        ("--per 8000 --threshold 1", "--unit must be given"),
        (f"{LINE} --threshold 1 --epsilon -1", "--epsilon must be"),
        (f"{LINE} --curve --participants 0", "--participants must be"),
    ],
)
def test_what_is_missing_or_wrong_is_named(people, line, said):
    done = run(people[0], line)
    assert done.exit_code == 1
    assert said in str(done.exception)
