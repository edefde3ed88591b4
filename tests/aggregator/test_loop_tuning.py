"""Test that a serving process changes its own settings, only while it serves."""

import asyncio
import gc
import selectors
import socket
import sys

import pytest

from geoveil.aggregator.grpc import loop_tuning
from geoveil.aggregator.grpc.loop_tuning import for_serving, serving_loop

PATIENCE_S = 30


@pytest.fixture
def thawed():
    """Nothing is frozen before a test, and all that was there after it."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.deep
def test_what_is_there_is_frozen_and_let_go_again(thawed):
    before = (sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count())
    with for_serving():
        assert gc.get_freeze_count() > before[2] + 10_000
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[0] > before[1][0]
    assert (sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count()) == before


def test_what_was_frozen_before_stays_so():
    gc.freeze()
    before = gc.get_freeze_count()
    with for_serving():
        pass
    # Frozen objects still die when nothing refers to them; unfreezing would leave none.
    assert gc.get_freeze_count() > before / 2 > 0


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_garbage_of_calls_is_still_collected():
    with for_serving():
        for _ in range(50_000):
            Cycle()
        assert sum(isinstance(one, Cycle) for one in gc.get_objects()) < 20_000


def test_events_are_looked_for_now_and_then_while_there_is_work(monkeypatch):
    now = 100.0
    monkeypatch.setattr(loop_tuning.time, "monotonic", lambda: now)
    here, there = socket.socketpair()
    with here, there, loop_tuning._Patient() as selector:
        selector.register(here, selectors.EVENT_READ)
        there.send(b"x")
        assert len(selector.select(0)) == 1
        assert selector.select(0) == []
        assert len(selector.select(1)) == 1  # there is nothing else to do
        now += 0.01
        assert len(selector.select(0)) == 1


def test_work_without_end_does_not_keep_events_waiting_for_ever():
    async def read() -> bytes:
        loop = asyncio.get_running_loop()
        working = True

        def work() -> None:
            if working:
                loop.call_soon(work)

        work()
        reader, writer = await asyncio.open_connection(sock=here)
        there.send(b"x")
        try:
            return await asyncio.wait_for(reader.readexactly(1), PATIENCE_S)
        finally:
            working = False
            writer.close()

    here, there = socket.socketpair()
    with here, there, asyncio.Runner(loop_factory=serving_loop) as runner:
        assert runner.run(read()) == b"x"
