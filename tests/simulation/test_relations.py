"""Relations of private answers, beside ε-LDP: rows are unbiased, and shares have closed forms."""

import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app
from geoveil.gp import KaryResponse, ParameterError
from geoveil.simulation.relations import (
    OURS,
    PEOPLE,
    QUESTIONS,
    REPETITIONS,
    drawn,
    experiment,
    people,
    rr_error,
)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_of_forms_are_near_those_of_people(question):
    """20 campaigns of 4,000: bias within 5 standard errors and a tenth of the answer, for edges."""
    rows = drawn(question, 2.0, 4_000, 20, 3)
    (ours,) = [row for row in rows if row.contestant == OURS]
    tenth = abs(QUESTIONS[question].clear(people())) / 10
    assert abs(ours.bias) < 5 * ours.rmse / math.sqrt(20) + tenth
    assert ours.rmse > 0.7 * ours.clear
    assert len(rows) == 1 + len(QUESTIONS[question].footings)


def test_the_closed_form_is_the_error_of_randomised_response():
    """By the variance of the estimator, over all people: to 1e-8."""
    share, n = 0.3, 5_000
    score = np.array([0.0, 1.0])
    given = KaryResponse(2, 1.3).variance(score)
    variance = (1 - share) * given[0] + share * given[1] + share * (1 - share)
    assert rr_error(share, 1.3, n) == pytest.approx(math.sqrt(variance / n), rel=1e-8)


@pytest.mark.deep(keep=0)
def test_a_part_of_it_is_printed_and_drawn(tmp_path):
    command = ["simulate", "relations", "--quick", "--processes", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert "geoveil form" in result.stdout
    assert "RRreg" in result.stdout
    assert {file.suffix for file in tmp_path.iterdir()} >= {".csv", ".parquet", ".png"}


@pytest.mark.parametrize("wrong", [{"n": 10}, {"epsilon": 0.0}, {"repetitions": 1}])
def test_what_is_out_of_range_is_refused(wrong):
    with pytest.raises(ParameterError):
        experiment(**wrong)  # type: ignore[arg-type]


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("question", ["men, a share", "schooling, a mean score"])
def test_the_page_has_what_is_computed(question):
    text = (Path(__file__).parents[2] / "docs" / "forms.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {question} |")]
    printed = [float(cell) for cell in line.split("|")[2:-1] if cell.strip()]
    rows = drawn(question, 1.0, PEOPLE, REPETITIONS, 1)
    assert printed == pytest.approx([row.times for row in rows], rel=6e-3)
