"""Test the audit of a user's mechanism whose density and draws disagree."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from geoveil.cli.app import app

OWN = """
import numpy as np
from geoveil.audit import NoisyAnswer
from geoveil.gp import Laplace


class Wider(Laplace):
    def sample(self, rng, size):
        return {factor} * super().sample(rng, size)


def mine(query, privacy):
    return NoisyAnswer(query, privacy, Wider(), query.lipschitz / privacy.rate)
"""


def audited(folder: Path, factor: float, *options: str) -> tuple[int, str]:
    """Return the status and what is printed."""
    file = folder / "mine.py"
    file.write_text(OWN.format(factor=factor))
    found = CliRunner().invoke(
        app, ["audit", "--module", str(file), "--samples", "20000", *options]
    )
    return found.exit_code, found.output


@pytest.mark.deep
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_draws_that_are_not_of_the_density_are_told(tmp_path: Path, factor: float) -> None:
    status, said = audited(tmp_path, factor)
    assert status == 1
    said = " ".join(said.split())
    assert "mine, Threshold, linear: its reports are not drawn from its density: at " in said
    assert "0 of 3 keep their promise." in said
    assert "rely on neither number" in said


@pytest.mark.deep
def test_draws_of_the_density_are_not(tmp_path: Path) -> None:
    status, said = audited(tmp_path, 1.0, "--json")
    assert status == 0
    (compared, *_) = json.loads(said)["compared"]
    assert compared["difference"] == ""
    assert compared["skipped"] < compared["points"] / 10


@pytest.mark.deep
def test_where_it_shows_is_for_programs_too(tmp_path: Path) -> None:
    _, said = audited(tmp_path, 0.5, "--json")
    first = json.loads(said)["compared"][0]
    assert first["mechanism"] == "mine"
    assert "% of reports are from" in first["difference"]
