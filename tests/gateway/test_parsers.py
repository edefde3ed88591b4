"""Test the verdicts of `python -m benchmarks parsers`."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def parsers(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("benchmarks.parsers")


def test_a_parser_that_takes_too_long_or_bends_is_a_miss(parsers):
    costs = {"json.loads": parsers.Cost(1.0, 1.0), "a": parsers.Cost(21.0, 7.0)}
    assert parsers.misses(costs) == ["a takes 21 times json.loads", "a bends by 3.0"]
    assert parsers.misses(costs | {"a": parsers.Cost(20.0, 10.0)}) == []
