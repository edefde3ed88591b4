"""What `python -m benchmarks parsers` calls wrong."""

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def parsers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("benchmarks.parsers")


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", ["form", "query", "cookie", "head"])
def test_it_is_linear(parsers: Any, name: str) -> None:
    assert parsers.cost(parsers.PARSERS[name]).bend < 3


@pytest.mark.deep(keep=0)
def test_a_quadratic_parser_bends(parsers: Any) -> None:
    """The control, and what is called a miss."""

    def parse(content: bytes) -> None:
        for at in range(0, len(content), 64):
            content[at:].count(b"=")

    bent = parsers.cost(parsers.Parser(parse, 32 << 10, (b"=",)))
    assert bent.bend > 3
    costs = {"json.loads": parsers.Cost(1.0, 1.0), "a": parsers.Cost(21.0, 7.0)}
    assert parsers.misses(costs) == ["a takes 21 times json.loads", "a bends by 3.0"]
