"""Test the count of the project on a small one with known numbers."""

import subprocess
from pathlib import Path

import pytest

from tools.house import BUDGETS, count, part_of

ROOT = Path(__file__).parents[1]
GP = '''"""A module
of two lines."""

from geoveil.gp.other import name


class Thing:
    """A thing."""

    size = 1


def grow(found):
    """Return more."""
    one = found + 1
    return one
'''
CLIENT = """from geoveil.gp import Thing as Shape
from geoveil.gp.inner.deep import hidden


class Thing:
    pass
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    files = {
        "gp/geoveil/gp/thing.py": GP,
        "apps/geoveil/client/thing.py": CLIENT,
        "tests/test_thing.py": "found = 1\n",
        "gp/geoveil/gp/made_pb2.py": "x = 1\n" * 50,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (("init", "-q"), ("add", ".")):
        subprocess.run(("git", *command), cwd=tmp_path, check=True)
    return tmp_path


def test_statements_lines_doors_and_names_are_counted(house: Path) -> None:
    found = count(house)
    assert found.parts["gp"].statements == 6  # import, class, size, def, one, return
    assert found.parts["gp"].docstring_lines == 4
    assert found.parts["client"].statements == 4
    assert found.parts["tests"].lines == 1
    assert dict(found.past_doors) == {"client": 1}  # a door itself, and one's own part, are free
    assert dict(found.vague) == {"one": 1}
    assert found.measured()["class names that mean two things"] == 1


def test_a_file_above_the_limit_is_named(house: Path) -> None:
    (house / "gp/geoveil/gp/thing.py").write_text("x = 1\n" * 501)
    assert count(house).long_files == {"gp/geoveil/gp/thing.py": 501}


@pytest.mark.deep(keep=0)
def test_this_house_is_counted_and_every_number_has_a_budget() -> None:
    found = count(ROOT)
    assert list(found.measured()) == list(BUDGETS)
    assert found.parts["gp"].statements > 1_000
    kept = ("imports past the front door of another part", "names that say nothing")
    assert all(found.measured()[what] <= BUDGETS[what] for what in kept), found.vague
    assert part_of("aggregator/geoveil/aggregator/store/sql.py") == "aggregator"
