"""Test that simultaneous requests share a pass over the points, with unchanged answers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.concurrency_limit import ConcurrencyLimit
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.shared_scan import MOST_TOGETHER, PointAnswers, SharedScan
from geoveil.aggregator.store import StoredAnswers
from geoveil.campaign import Attribute, PointQuestion
from geoveil.gp import GeoPrivacy, Threshold, UnsupportedError

from .conftest import value_campaign

BLOCKS, IN_BLOCK = 6, 500
CAMPAIGN = value_campaign(
    1, attribute=Attribute(name="age", unit="year"), privacy=GeoPrivacy(1.0, 2.0, "year")
)
LAYOUT = Layout.of(CAMPAIGN)
PERIODS = {0: BLOCKS * IN_BLOCK}


class Stored:
    """Stands in for reader and store: the same blocks at each pass, which it counts."""

    def __init__(self, fails: bool = False) -> None:
        self.read = 0
        self.started = asyncio.Event()
        self._fails = fails

    async def call(self, function: Callable[["Stored"], StoredAnswers]) -> StoredAnswers:
        await asyncio.sleep(0)
        return function(self)

    def answers(self, campaign_id: str, after: bytes, limit: int) -> StoredAnswers:
        self.read += 1
        self.started.set()
        if self._fails:
            raise ServiceError(Code.STORE_UNAVAILABLE)
        number = int.from_bytes(after)
        found = np.zeros(IN_BLOCK, [("query_index", "<u4"), ("value", "<i8")])
        ages = np.random.default_rng(number).normal(40.0, 15.0, IN_BLOCK)
        found["value"] = np.rint(ages / CAMPAIGN.point_mechanism.step)
        return StoredAnswers(
            found.tobytes(), (number + 1).to_bytes(8) if number + 1 < BLOCKS else None
        )


def above(age: float) -> list[PointQuestion]:
    return [PointQuestion("above", Threshold(age, 6.0, "smoothstep"))]


def ask(
    passes: SharedScan, age: float, questions: Sequence[PointQuestion] | None = None
) -> "asyncio.Task[PointAnswers]":
    asked = questions or above(age)
    key = str(age).encode()
    return asyncio.create_task(passes.answer(key, LAYOUT, asked, PERIODS, 0.95, joint=True))


def passes_over(stored: Any) -> SharedScan:
    return SharedScan(stored, ConcurrencyLimit(2))


async def test_requests_at_a_time_cost_one_pass_and_get_what_each_gets_alone():
    """Apart they cost a pass each, which is the control."""
    ages, alone, together = [20.0, 40.0, 60.0, 65.0][:MOST_TOGETHER], Stored(), Stored()
    apart = [await ask(passes_over(alone), age) for age in ages]
    found = await asyncio.gather(*(ask(passes, age) for passes in [passes_over(together)]
                                   for age in ages))  # fmt: skip
    assert alone.read == len(ages) * BLOCKS
    assert together.read == BLOCKS
    for one, other in zip(found, apart, strict=True):
        assert one.estimates == other.estimates
        assert np.array_equal(one.covariances[0], other.covariances[0])


async def test_who_comes_while_a_pass_runs_waits_for_the_next():
    stored = Stored()
    passes = passes_over(stored)
    first = ask(passes, 20.0)
    await stored.started.wait()
    later = [ask(passes, age) for age in (30.0, 40.0, 50.0)]
    same = ask(passes, 20.0)
    await asyncio.gather(first, *later, same)
    assert stored.read == 2 * BLOCKS
    assert first.result() is same.result()
    assert await ask(passes, 40.0) is later[1].result()  # kept
    assert stored.read == 2 * BLOCKS


async def test_more_than_a_pass_holds_wait_for_the_next():
    stored = Stored()
    passes = passes_over(stored)
    ages = [20.0 + i for i in range(MOST_TOGETHER + 1)]
    found = await asyncio.gather(*(ask(passes, age) for age in ages))
    assert stored.read == 2 * BLOCKS
    assert len({answers.estimates[0].estimate.value for answers in found}) == len(ages)


async def test_what_is_refused_is_refused_alone():
    passes = passes_over(Stored())
    bad = ask(passes, 1.0, [PointQuestion("ramp", Threshold(1.0, 200.0, "linear"))])
    good = ask(passes, 40.0)
    with pytest.raises(UnsupportedError, match="ramp"):
        await bad
    assert (await good).estimates[0].estimate.n == BLOCKS * IN_BLOCK


async def test_a_pass_ends_when_nobody_waits_and_not_before():
    stored = Stored()
    passes = passes_over(stored)
    first, other = ask(passes, 20.0), ask(passes, 30.0)
    await stored.started.wait()
    first.cancel()
    assert (await other).estimates[0].estimate.n == BLOCKS * IN_BLOCK
    stored.read = 0
    stored.started.clear()
    alone = ask(passes, 50.0)
    await stored.started.wait()
    alone.cancel()
    await asyncio.sleep(0.1)
    assert stored.read < BLOCKS
    assert (await ask(passes, 60.0)).estimates[0].estimate.n == BLOCKS * IN_BLOCK


async def test_a_store_that_fails_fails_all_and_not_for_ever():
    passes = passes_over(Stored(fails=True))
    for _ in range(2):
        asked = [ask(passes, age) for age in (20.0, 30.0)]
        for one in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(one, ServiceError)
            assert one.code is Code.STORE_UNAVAILABLE
