"""Hostile messages against a live server process, as `python -m benchmarks hostile` sends more.

Fails if one gets a status such as INTERNAL, changes any row or estimate, ends the server or fills
its memory.
"""

import importlib
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return importlib.import_module("benchmarks.hostile")


@pytest.mark.deep
@pytest.mark.parametrize("messages", [200, pytest.param(3000, marks=pytest.mark.deep)])
def test_hostile_messages_leave_no_trace(hostile, messages):
    found = hostile.attack(messages, seed=1)
    assert found.faults == []
    assert sum(found.statuses.values()) == messages
    assert set(found.statuses) >= {
        *("OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "PERMISSION_DENIED"),
        "RESOURCE_EXHAUSTED",
    }


@pytest.mark.deep
def test_a_change_of_state_is_noticed(hostile, monkeypatch):
    """The control: one new report among the messages."""
    requests = []

    def draw(known: Any, rng: Random) -> tuple[str, tuple[bytes, ...]]:
        if not requests:
            requests.append(hostile.Requests(known.campaign, 1).draw())
        return hostile.SUBMIT, (requests[0],)

    monkeypatch.setattr(hostile, "draw", draw)
    assert hostile.attack(20, seed=1).faults == ["the state was changed"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"statuses": {"OK": 1, "INTERNAL": 1}}, "status INTERNAL"),
        ({"statuses": {"OK": 1, "UNAVAILABLE": 1}}, "status UNAVAILABLE"),
        ({"resident_mb": (100.0, 150.0)}, "memory grew by 50 MB"),
        ({"alive": False}, "the server does not serve any more"),
    ],
)
def test_every_fault_is_told(hostile, changes, fault):
    sound = {
        "statuses": {"OK": 2},
        "resident_mb": (100.0, 110.0),
        "seconds": 1.0,
        "same_state": True,
        "alive": True,
    }
    assert hostile.Found(**sound).faults == []
    assert hostile.Found(**(sound | changes)).faults == [fault]


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize(
    "attack", ["empty reports", "pages not read", "web: requests without an end"]
)
def test_a_device_reports_beside_an_attack(hostile, attack):
    """Two of `python -m benchmarks.hostile_load`, for so short that times would say nothing."""
    found = importlib.import_module("benchmarks.hostile_load").measure(attack, seconds=1.5)
    for felt in (found.beside_sink, found.under, found.after):
        assert felt.failed == 0
        assert len(felt.submitted_s) > 0
    assert max(found.resident_mb) < 512


@pytest.mark.parametrize(
    ("under", "after", "failed", "resident_mb", "faults"),
    [
        (0.12, 0.1, 0, (200.0, 150.0), []),
        (0.16, 0.1, 0, (200.0, 150.0), ["1.60 times the time beside a sink during it"]),
        (0.1, 0.2, 1, (200.0, 600.0), [
            "1 reports are missing during it",
            "2.00 times the time beside a sink after it",
            "the gateway held 600 MB",
        ]),
    ],
)  # fmt: skip
def test_every_miss_of_an_attack_is_told(hostile, under, after, failed, resident_mb, faults):
    load = importlib.import_module("benchmarks.hostile_load")
    beside, during, later = (
        load.Felt([one], [one], failed if one == under and failed else 0)
        for one in (0.1 + 1e-12, under, after)
    )
    assert load.Suffered(beside, during, later, resident_mb).faults == faults
