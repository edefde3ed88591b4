"""Test that the picture of the architecture shows the current files and sentences."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def drawing() -> ModuleType:
    path = ROOT / "tools" / "draw_architecture.py"
    spec = importlib.util.spec_from_file_location("draw_architecture", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_is_drawn_from_the_code_as_it_is(drawing: ModuleType) -> None:
    drawn = drawing.PICTURE.read_text(encoding="utf-8")
    assert drawn == drawing.picture(), "run: .venv/bin/python tools/draw_architecture.py"


def test_every_part_is_in_the_picture(drawing: ModuleType) -> None:
    parts = {path.name for path in ROOT.glob("*/geoveil/*") if (path / "__init__.py").exists()}
    assert parts - {"cli", "proto"} == set(drawing.PARTS)
