"""Test the asyncio client: slow work does not stop the loop, and cancelling loses nothing."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from geoveil.campaign import Allocation
from geoveil.client import (
    AsyncClient,
    InMemoryTransport,
    TransportError,
)
from geoveil.gp import Threshold
from tests.client.conftest import threads


async def test_a_slow_campaign_does_not_stop_the_loop(
    policy, make_campaign, collector, state_dir, fake_time
):
    """With asyncio, what takes its time is done in a thread, which close ends."""
    patient = replace(policy, most_queries=150, most_work=10**6)
    many = tuple(Threshold(1000.0 * i, 16_000, "smoothstep") for i in range(150))
    collector.add(make_campaign("many", queries=many, allocation=Allocation.SPLIT))
    before = threads()
    async with AsyncClient(
        policy=patient,
        transport=InMemoryTransport(collector).aio,
        state_dir=state_dir,
        background=False,
        timing=fake_time.timing(),
    ) as client:
        await client.fetch("many")
        receipt = await client.contribute("many", 52_000)
        assert threads() - before
    assert [a.query_index for a in receipt.answers] == list(range(150))
    assert threads() == before


async def test_a_flush_that_is_cancelled_loses_nothing(policy, tape, tmp_path, fake_time, steering):
    paused = asyncio.Event()

    async def forever(seconds: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    steering.failures[""] = TransportError("UNAVAILABLE")
    settings: dict[str, Any] = {
        "policy": policy,
        "transport": InMemoryTransport(tape).aio,
        "timing": replace(fake_time.timing(), sleep_async=forever),
        "state_dir": tmp_path / "state",
        "background": False,
    }
    async with AsyncClient(**settings) as client:
        await client.fetch("income")
        receipt = await client.contribute("income", 1)
        task = asyncio.create_task(client.flush())
        await paused.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        steering.failures.clear()
        assert (await client.flush()).acknowledged == 1
        assert (await client.history())[0].report_id == receipt.report_id
    assert len(tape.submitted) == 2
    assert len(set(tape.submitted)) == 1


async def test_a_contribution_that_is_cancelled_is_made_or_not(
    policy, tape, tmp_path, fake_time, make_source
):
    """Cancelled at each of its steps: afterwards there is one report, and only one draw of it."""
    for steps in range(6):
        source = make_source(steps)
        async with AsyncClient(
            policy=policy,
            transport=InMemoryTransport(tape).aio,
            timing=fake_time.timing(),
            state_dir=tmp_path / f"state{steps}",
            source=source,
            background=False,
        ) as client:
            await client.fetch("income")
            task = asyncio.create_task(client.contribute("income", 1))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            receipt = await client.contribute("income", 1)
            assert await client.history() == (receipt,)
            assert len(source.draws) == 3


async def test_two_flushes_at_once_do_not_send_twice(policy, collector, fake_time):
    asked: list[Any] = []
    arrived, free = asyncio.Event(), asyncio.Event()

    class Slow:
        """An AsyncTransport whose requests take until they are set free."""

        async def get_campaign(self, request: Any, timeout_s: float) -> Any:
            return collector(request)

        async def submit_reports(self, request: Any, timeout_s: float) -> Any:
            asked.append(request)
            arrived.set()
            await free.wait()
            return collector(request)

    async with AsyncClient(
        policy=policy, transport=Slow(), timing=fake_time.timing(), background=False
    ) as client:
        await client.fetch("income")
        await client.contribute("income", 1)
        both = [asyncio.create_task(client.flush()) for _ in range(2)]
        await arrived.wait()
        assert (await client.flush(timeout_s=0.001)).pending == 1  # the time is up
        free.set()
        assert [r.acknowledged for r in await asyncio.gather(*both)] == [1, 0]
    assert len(asked) == 1
