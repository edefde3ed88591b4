"""Test the verdicts of `python -m benchmarks soak`, and run it for a minute."""

import importlib
import os
import sys
from collections import Counter
from pathlib import Path

import pytest


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return importlib.import_module("benchmarks.soak")


def test_growth_is_that_after_the_first_quarter(soak):
    samples = [(900.0 * i, 100.0 if i < 4 else 100.0 + 0.5 * i) for i in range(17)]
    slope, error = soak.growth(samples)
    assert slope == pytest.approx(2.0)
    assert error == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("hours", "per_hour", "defects", "missing", "wrong"),
    [
        (4.0, 0.5, 0, 0, []),
        (4.0, 1.5, 0, 0, ["the aggregator grows by 1.5 MB an hour"]),
        (0.1, 1.5, 0, 0, []),
        (4.0, 0.5, 2, 3, ["2 lines are called defect", "3 reports are missing"]),
    ],
)
def test_every_fault_is_told(soak, hours, per_hour, defects, missing, wrong):
    memory = {"aggregator": [(360.0 * i, 100 + per_hour * i / 10) for i in range(40)]}
    assert soak._judged(hours, Counter(), memory, defects, missing) == wrong


@pytest.mark.deep(keep=0, rest=0)
def test_a_minute_of_it(soak):
    """Two restarts of the database among them; memory is not judged in so short a time."""
    assert soak.soak(0.012) == []
