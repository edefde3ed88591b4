"""Test the search for changes that no test notices on a module where they are known."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.mutants import Walk

ROOT = Path(__file__).parents[1]
TOY = '''"""A toy."""


def larger(a: int | None, b: int) -> int:
    """Return the larger number."""
    if a is None:
        raise ValueError(f"{a} + 1")
    return a if a > b else b


def ends(rows):
    return rows.sum(axis=0)


def count(n):
    while n > 0:
        n -= 1
    return n
'''
LOOPLESS = TOY.partition("\n\ndef count")[0]
TESTS = """
import numpy as np
import pytest
from toy import ends, larger


def test_larger():
    assert larger(2, 1) == 2
    assert larger(1, 2) == 2
    with pytest.raises(ValueError):
        larger(None, 1)


def test_ends():
    assert ends(np.array([[1, 2], [2, 1]])).tolist() == [3, 3]


def test_count():
    from toy import count

    assert count(3) == 0
"""
TABLE = """
[part.toy]
files = ["toy.py"]
tests = ["test_toy.py"]
"""
EQUIVALENT = """
[equivalent."toy.py"]
"larger: a > b → a >= b" = "equal numbers are the same"
"""
STALE = '"larger: a > b → not a > b" = "this one is noticed"\n'
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
SYMMETRIC = "np.array([[1, 2], [2, 1]])).tolist() == [3, 3]"
"""Sums along either axis are the same."""


def searched(
    folder: Path, tests: str, table: str, toy: str = TOY, *parts: str
) -> subprocess.CompletedProcess[str]:
    files = {"toy.py": toy, "test_toy.py": tests, "table.toml": table, "pytest.ini": INI}
    for name, text in files.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tools.mutants", "table.toml", *parts],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert {path.name for path in folder.iterdir()} == set(files), "it leaves nothing behind"
    assert (folder / "toy.py").read_text() == toy
    return done


@pytest.mark.deep
def test_what_no_test_notices_is_listed(tmp_path: Path) -> None:
    done = searched(tmp_path, TESTS, TABLE + EQUIVALENT + STALE)
    assert done.returncode == 1, done.stderr
    summary, *lines = done.stdout.splitlines()
    # larger: `is`, `>`, its negation, None; ends: axis ± 1 and dropped, None; count: `>`, its
    # negation, 0 ± 1, `-=`, 1 ± 1, None. Two of count never end.
    assert summary.startswith("toy: 16 mutants, 13 caught, 1 equivalent, 2 survive: 86.7% caught")
    assert lines == [
        "  toy.py:12: ends: axis=0 → axis=1",
        "  toy.py:12: ends: axis=0 → axis=-1",
        "  stale: toy.py: larger: a > b → not a > b",
    ]


def test_a_part_whose_tests_notice_enough_passes(tmp_path: Path) -> None:
    tests = TESTS.replace(SYMMETRIC, "np.array([[1, 2], [3, 4]])).tolist() == [4, 6]")
    done = searched(tmp_path, tests.partition("def test_count")[0], TABLE + EQUIVALENT, LOOPLESS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("toy: 8 mutants, 7 caught, 1 equivalent, 0 survive: 100.0%")
    assert done.stdout.count("\n") == 1


def test_tests_that_fail_without_a_change_are_refused(tmp_path: Path) -> None:
    done = searched(tmp_path, TESTS + "    assert count(1) == 1\n", TABLE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "the tests fail without a change"


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = searched(tmp_path, TESTS, TABLE, TOY, "toy", "toys")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["there is no part toys: choose from toy"]


def test_the_table_names_what_is_there() -> None:
    """Files, and the changes that nobody could notice, each of a file of a part."""
    table = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())
    places = [place for part in table["part"].values() for place in part["files"]]
    files = {place.partition("::")[0] for place in places}
    tests = {file for part in table["part"].values() for file in part["tests"]}
    assert [file for file in sorted(files | tests) if not (ROOT / file).is_file()] == []
    assert table["equivalent"].keys() <= files
    for file, entries in table["equivalent"].items():
        changes = {mutant.change for mutant in Walk(file, ast.parse((ROOT / file).read_bytes()))}
        assert sorted(entries.keys() - changes) == []
