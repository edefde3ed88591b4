"""Test the count of a report's path: files of geoveil, in any clone."""

from collections.abc import Iterator

import pytest

import geoveil
from benchmarks.way import file_of_geoveil


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A clone called geoveil, with its virtual environment inside."""
    clone = "/home/x/geoveil"
    monkeypatch.setattr(geoveil, "__path__", [f"{clone}/gp/geoveil", f"{clone}/apps/geoveil"])
    file_of_geoveil.cache_clear()
    yield clone
    file_of_geoveil.cache_clear()


def test_files_of_the_parts_count(clone: str) -> None:
    assert file_of_geoveil(f"{clone}/gp/geoveil/gp/exact.py") == "gp/exact.py"
    assert file_of_geoveil(f"{clone}/apps/geoveil/cli/main.py") == "cli/main.py"


def test_the_virtual_environment_and_the_benchmarks_of_the_clone_do_not(clone: str) -> None:
    grpc = f"{clone}/.venv/lib/python3.11/site-packages/grpc/_channel.py"
    assert "/geoveil/" in grpc  # the control: the folder's name alone would count it
    assert file_of_geoveil(grpc) is None
    assert file_of_geoveil(f"{clone}/benchmarks/way.py") is None
