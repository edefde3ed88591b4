"""Histories of faults on server processes and a SQLite file: SIGKILL at random moments.

As `test_histories_sqlite`, with gRPC on a socket; a death comes so many fractions of a millisecond
after a request was sent, which is left to chance: these histories differ from run to run. A full
disk is a limit that the system sets on the size of files.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .machine import Machine
from .operations import History
from .playing import play_many
from .processes import Nursery, Processes


@pytest.mark.deep
@pytest.mark.parametrize("number", [3, 10])
def test_each_report_is_counted_once(number):
    with Nursery() as nursery:

        async def play(history: History) -> None:
            with TemporaryDirectory() as folder:
                world = Processes(nursery, Path(folder))
                try:
                    await Machine(world).play(history)
                finally:
                    await world.close()

        play_many(play, number)
