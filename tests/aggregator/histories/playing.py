"""The number of histories, and their seed.

The environment variable GEOVEIL_HISTORIES=N plays N times as many, with a seed that is drawn anew
and printed (give pytest --timeout=0); without it the histories are the same in every run. A failure
is shrunk, and printed as a list of operations that can be pasted into `test_reproductions.py`.
"""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from hypothesis import HealthCheck, Phase, given, seed, settings

from .campaigns import Violation
from .operations import History, histories
from .scheduled import scheduled
from .sharing import sharing
from .traps import watching_statements

_PATIENCE_S = 300.0
"""Most histories take a tenth of a second, those of processes a few."""
MULTIPLE = int(os.environ.get("GEOVEIL_HISTORIES", "0"))
Play = Callable[[History], Awaitable[None]]


def play_many(
    play: Play,
    number: int,
    *,
    size: int = 20,
    restarts: bool = True,
    shrink: bool = True,
    threads: bool = True,
) -> None:
    """Play so many histories, on one event loop.

    Args:
        play: plays one.
        number: how many.
        size: operations of each, about.
        restarts: whether the database restarts.
        shrink: whether to look for a shorter one that fails.
        threads: whether writers have threads of their own; see `scheduled`.

    Raises:
        Violation: if a promise was broken, by the shortest history that was found to do so.
    """
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    fresh = secrets.randbits(32) if MULTIPLE else None
    writers = nullcontext() if threads else scheduled()
    with watching_statements(), sharing(), writers, asyncio.Runner() as runner:

        @settings(
            max_examples=number * max(1, MULTIPLE),
            derandomize=fresh is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=phases,
        )
        @given(histories(size, restarts=restarts))
        def test(history: History) -> None:
            runner.run(_awaited(play, history))

        if fresh is not None:
            print(f"seed {fresh}, {number * MULTIPLE} histories")
            test = seed(fresh)(test)
        test()


def play_one(play: Play, history: History, *, threads: bool = True) -> None:
    """Play one history."""
    writers = nullcontext() if threads else scheduled()
    with watching_statements(), sharing(), writers, asyncio.Runner() as runner:
        runner.run(_awaited(play, history))


async def _awaited(play: Play, history: History) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await play(history)
    except TimeoutError as error:
        raise Violation("a history ends") from error
