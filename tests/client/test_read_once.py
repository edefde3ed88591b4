"""Test that a value is read once, by devices that are killed, race or fork, and tells no more."""

import os
import sqlite3
import struct
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geoveil.campaign import ValueCampaign
from geoveil.client import (
    Client,
    Epoch,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Policy,
    Receipt,
)
from geoveil.client.journal import FILE_NAME
from geoveil.gp import Coarsening, PlanarLaplace
from tests.client.conftest import dollars, in_threads
from tests.client.mortal import Lab, WireTransport, every_point, shuffled, unhurried
from tests.client.readings import WEEK, campaign, client_of, number, readings, spent

NAMES = [f"campaign-{i}" for i in range(6)]
MORTAL = Policy({"income": Limit(campaign=dollars(1.0), lifetime=dollars(1.0), epoch=Epoch(
    privacy=dollars(1.0), length=36_500 * timedelta(days=1)))})  # fmt: skip
"""One reading is all that the limit has room for, and its epoch does not end here."""


def open_now(name: str) -> ValueCampaign:
    now = datetime.now(UTC)
    epsilon = 1.0 if NAMES.index(name) % 2 else 0.5
    return campaign(name, epsilon, opens=now - WEEK, closes=now + WEEK)


def take_part(transport: WireTransport, state: Path, seed: int = 0) -> Any:
    """Answer everything, and return what the device believes."""
    with Client(
        policy=MORTAL, state_dir=state, transport=transport, timing=unhurried(), release_floor_s=0
    ) as client:
        for name in shuffled(seed, NAMES):
            client.fetch(name)
            client.contribute(name, 1000.0 * seed)
        client.flush(5.0)
        return client.history(), client.budgets(), len(readings(client))


def check_one_reading(lab: Lab, history: tuple[Receipt, ...], budgets: Any, count: int) -> None:
    """Fail unless all reports that were ever sent are from one reading, and it was paid for."""
    assert count == 1
    assert [Fraction(budget.spent) for budget in budgets] == [1]
    assert {receipt.campaign_id for receipt in history} == set(NAMES)
    assert len({receipt.epoch for receipt in history}) == 1
    fine = {number(r) for r in history if int(r.campaign_id[-1]) % 2}
    assert len(fine) == 1
    for name in NAMES:
        (counted,) = lab.collector.reports(name)
        assert lab.seen[name, 0] == {counted.SerializeToString(deterministic=True)}


@pytest.mark.deep
@pytest.mark.parametrize("stride", [61, pytest.param(3, marks=pytest.mark.deep)])
def test_a_device_killed_at_any_point_reads_its_value_once(stride, tmp_path):
    def lives(point: int) -> bool:
        lab = Lab(InMemoryCollector([open_now(name) for name in NAMES]))
        state = tmp_path / str(point)
        (first,) = lab.run(lambda wire: take_part(wire, state, 1), kill_at=point)
        (last,) = lab.run(lambda wire: take_part(wire, state, 2))
        check_one_reading(lab, *last.returned())
        return first.killed

    assert len(list(every_point(lives, stride))) >= 3


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_two_processes_with_eight_threads_each_read_once(tmp_path, times):
    def crowd(transport: WireTransport, state: Path) -> Any:
        with Client(
            policy=MORTAL, state_dir=state, transport=transport, release_floor_s=0
        ) as client:

            def life(seed: int) -> None:
                for name in shuffled(seed + 8 * os.getpid(), NAMES):
                    client.fetch(name)
                    client.contribute(name, 1000.0 * seed)

            in_threads(8, life)
            client.flush(10.0)
            return client.history(), client.budgets(), len(readings(client))

    for attempt in range(times):
        lab = Lab(InMemoryCollector([open_now(name) for name in NAMES]))
        state = tmp_path / str(attempt)
        for ended in lab.run(lambda wire, state=state: crowd(wire, state), processes=2):
            assert ended.returned()[2] == 1
        (last,) = lab.run(lambda wire, state=state: take_part(wire, state))
        check_one_reading(lab, *last.returned())


@pytest.mark.deep
def test_neither_a_directory_nor_a_million_reports_tell_more_than_a_reading(fake_time, tmp_path):
    """80 devices, half at $50,000 and half at $58,000, 1/ε apart: any guess which of the two is
    right in a share of at most 1/(1 + e⁻¹) = 73.1 %; 75 of 80 have a probability below 1e-5.

    The attacker has the device's directory, and 12,500 reports of campaigns at other rates, 10⁶ in
    all. It guesses by the reading, by all reports weighted as they are precise, by their median and
    by the number that is told most often. The control: the same reports with noise of their own,
    whose mean is right for all 80. And no file has a value's bytes.
    """
    rng = np.random.default_rng(8)
    rates = rng.uniform(0.25, 1.0, 12_500)
    right = dict.fromkeys(["reading", "mean", "median", "mode", "own noise"], 0)
    fine = PlanarLaplace(dollars(1.0), 1)
    coarsenings = [
        Coarsening(fine, PlanarLaplace(dollars(rate), 1)) for rate in np.linspace(0.25, 0.95, 8)
    ]
    scales = 8_000.0 / np.array([c.coarser.privacy.epsilon for c in coarsenings])
    for i in range(80):
        truth = 50_000.0 + 8_000.0 * (i % 2)
        state = tmp_path / str(i)
        asked = [campaign(f"c{j}", 1.0 / (1 + j)) for j in range(3)]
        client = client_of(asked, None, fake_time, state_dir=state)
        for c in asked:
            client.contribute(c.campaign_id, truth)
        client.close(0)
        with sqlite3.connect(state / FILE_NAME) as stolen:
            ((kept,),) = stolen.execute("SELECT point FROM reading").fetchall()
        stolen.close()
        point = int(kept) * asked[0].point_mechanism.step
        told = np.array([c.simulate(np.full(len(rates) // 8, point), rng) for c in coarsenings])
        told = told.reshape(len(coarsenings), -1)
        values, counts = np.unique(told, return_counts=True)
        own = truth + scales[:, None] * rng.laplace(size=told.shape)
        weights = np.repeat(scales**-2.0, told.shape[1])
        guesses = {
            "reading": point,
            "mean": np.average(told.ravel(), weights=weights),
            "median": np.median(told),
            "mode": values[counts.argmax()],
            "own noise": np.average(own.ravel(), weights=weights),
        }
        for name, guess in guesses.items():
            right[name] += (guess > 54_000.0) == (i % 2 == 1)
        for file in state.iterdir():
            content = file.read_bytes()
            assert struct.pack(">d", truth) not in content
            assert struct.pack("<d", truth) not in content
            assert repr(truth).encode() not in content
    assert right.pop("own noise") == 80
    assert max(right.values()) < 75, right


@pytest.mark.parametrize("before", [True, False], ids=["read before", "not read before"])
def test_a_process_that_forks_reads_once(tmp_path, before):
    """The parent and its child answer others' campaigns at once, from one reading."""
    asked = [open_now(name) for name in NAMES]
    with Client(
        policy=MORTAL,
        state_dir=tmp_path / "state",
        transport=InMemoryTransport(InMemoryCollector(asked)),
        release_floor_s=0,
        background=False,
    ) as client:
        for name in NAMES:
            client.fetch(name)
        if before:
            client.contribute(NAMES[1], 50_000.0)
        child = os.fork()
        for name in NAMES[:4] if child else NAMES[2:]:
            client.contribute(name, 50_000.0 if child else 70_000.0)
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        fine = {number(r) for r in client.history() if int(r.campaign_id[-1]) % 2}
        assert len(client.history()) == len(NAMES)
        assert len(fine) == len(readings(client)) == 1
        assert spent(client) == 1.0
