"""Test that every part exports all public names, and none that is unused.

`__all__` is promised to everybody; `X as X` in an `__init__` is for the other parts of geoveil.
"""

import ast
import importlib
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOORS = {
    path.parent.name: path
    for path in ROOT.glob("*/geoveil/*/__init__.py")
    if path.parts[-4] != "proto"
}


def for_other_parts(part: str) -> set[str]:
    """Return the names that a door imports under their own name."""
    tree = ast.parse(DOORS[part].read_text(encoding="utf-8"))
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


@pytest.mark.parametrize("part", sorted(DOORS.keys() - {"console"}))  # it loads on demand
def test_all_names_every_public_member(part):
    module = importlib.import_module(f"geoveil.{part}")
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(module.__all__) == public - for_other_parts(part)


def test_what_a_door_shows_to_other_parts_is_used_by_them():
    used = {part: {"__version__"} for part in DOORS}
    for path in ROOT.glob("*/geoveil/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("geoveil."):
                part = (node.module or "").removeprefix("geoveil.")
                if part in DOORS and f"geoveil/{part}/" not in path.as_posix():
                    used[part] |= {alias.name for alias in node.names}
    needless = {part: for_other_parts(part) - used[part] for part in DOORS}
    assert not any(needless.values()), needless
