"""Test what a user's file imports, and what is computed again when it changes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from geoveil.audit import mechanisms_in
from geoveil.cli.app import app
from geoveil.gp import ParameterError
from geoveil.simulation.experiments.own import OwnInput
from geoveil.simulation.selection import Options
from tests.simulation.test_own import PRIVACY, QUERY, runner


@pytest.mark.parametrize("text", ["raise ValueError\n", "def f(x):\n    return x\n"])
def test_a_file_without_mechanisms_is_refused(text, tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(text)
    with pytest.raises(ParameterError, match="module"):
        mechanisms_in(file)
    with pytest.raises(ParameterError, match="module"):
        mechanisms_in(tmp_path / "absent.py")
    file.write_text("def f(q, p):\n    return q\n")
    with pytest.raises(ParameterError, match="whose arguments have these names"):
        mechanisms_in(file)


HELPED = """
import sys
from helper import FACTOR
from geoveil.audit import NoisyAnswer
from geoveil.gp import Laplace
from geoveil.selection import PermuteAndFlip

print("loaded")

class _Loud(NoisyAnswer):
    def simulate(self, x, rng):
        print("drawn")
        return super().simulate(x, rng)

def helped(query, privacy):
    from late import LATE
    print("made", LATE)
    return _Loud(query, privacy, Laplace(), FACTOR * query.lipschitz / privacy.rate)

def flip(epsilon, sensitivity):
    print("flipped")
    return PermuteAndFlip(epsilon, sensitivity)
"""


def helped(folder: Path, factor: float) -> Path:
    folder.mkdir()
    (folder / "helper.py").write_text(f"print('helping')\nFACTOR = {factor}\n")
    (folder / "late.py").write_text("LATE = 'late'\n")
    file = folder / "mine.py"
    file.write_text(HELPED)
    return file


@pytest.mark.deep(keep=0)
def test_a_file_imports_what_is_beside_it_and_prints_to_standard_error(tmp_path, capsys):
    """As `python mine.py` does; a file of another folder has its own module of that name."""
    path = [*sys.path]
    x = np.array([100_000.0])
    for name, factor in (("a", 1.5), ("b", 3.0)):
        made = mechanisms_in(helped(tmp_path / name, factor))["helped"](QUERY, PRIVACY)
        assert made.variance(x) == pytest.approx(2 * (factor * QUERY.lipschitz / PRIVACY.rate) ** 2)
    assert sys.path == path
    assert capsys.readouterr() == ("", "helping\nloaded\nmade late\n" * 2)
    result = runner.invoke(
        app, ["audit", "--module", str(tmp_path / "b" / "mine.py"), "--samples", "2000", "--json"]
    )
    assert {row["mechanism"] for row in json.loads(result.stdout)["rows"]} == {"helped"}
    assert all(word in result.stderr for word in ("helping", "made late", "drawn", "flipped"))


def test_what_is_beside_a_file_is_part_of_what_rows_depend_on(tmp_path):
    file = helped(tmp_path / "a", 1.5)
    before = OwnInput(file).key, Options(module=file).key
    (file.parent / ".#lock.py").symlink_to("nowhere")
    assert (OwnInput(file).key, Options(module=file).key) == before
    (file.parent / "helper.py").write_text("FACTOR = 2\n")
    assert OwnInput(file).key != before[0]
    assert Options(module=file).key != before[1]


@pytest.mark.deep(rest=0)
def test_other_processes_import_what_is_beside_a_file_too(tmp_path):
    file = helped(tmp_path / "a", 1.5)
    command = ["simulate", "oneway", "--quick", "--processes", "2", "--module", str(file)]
    ran = subprocess.run(
        [Path(sys.executable).with_name("geoveil"), *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "helped" in ran.stdout
    assert "loaded" not in ran.stdout


def test_half_of_an_input_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="column"):
        OwnInput(columns=("cm",))
    for arguments in (
        ["oneway", "--per", "2"],
        ["oneway", "--data", "a.csv", "--column", "b"],
        ["twoway", "--threshold", "3", "--per", "1"],
        ["distribution", "--per", "2"],
    ):
        result = runner.invoke(app, ["simulate", *arguments, "--out", str(tmp_path)])
        assert isinstance(result.exception, ParameterError)
