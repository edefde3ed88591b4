"""Thousands of histories of faults, on SQLite: every report counted once, whatever happens.

Two replicas in this process serve one file (`in_process`); histories are drawn by Hypothesis
(`operations`), played (`machine`) and judged (`model`). GEOVEIL_HISTORIES=N multiplies the number
of histories; see `playing`.

Fails if, in any history,
* a report that was ever answered ACCEPTED or DUPLICATE is not in the sums exactly once and whole,
  or one that was rejected is in them, or an id is answered ACCEPTED twice;
* an estimate, asked for at any time or watched, or the rows of an export are not a sum of whole
  reports between what was acknowledged and what was sent; or after a close was answered a new
  report is accepted;
* an answer is not explained by what may be stored: DUPLICATE for a new report, a conflict with
  nothing, NOT_OPEN in time, ACCEPTED out of it, a wrong reason;
* a watch misses a change or its end, a device is shown what is closed or not shown what is open;
* a lone request is said to be too much; there is a status INTERNAL, or UNAVAILABLE while nothing is
  in the way;
* once all is healed and all is sent again, anything is in doubt, or rows and sums disagree.

Most of these histories are the same in every run (`scheduled`). Of those with threads it is left to
chance which of several requests at once is done first, and how far a caller that gives up let the
server come; the model takes either order. One that depends on that may fail on one run and not on
the next.

The image of a machine that dies is copied while another replica may be in a transaction, so which
of its unacknowledged reports are in it is left to chance as well.

What is not simulated here: a power failure (what the system has taken survives every death here,
so whether it was flushed is not seen), gRPC itself, and a death between two instructions of which
none is a statement (for these, `test_histories_processes`).
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .campaigns import Violation
from .in_process import InProcessSQLite, Parts
from .machine import Machine
from .mutants import MUTANTS
from .operations import History
from .playing import Play, play_many

MOST_FOR_A_CONTROL = 300
RARE = {"WatchesOldNumbers", "QueuesWhatItRefuses"}
"""What fewer than one history in so many shows: only a count that changes between two looks of a
watch does, and a request refused by a full queue. `test_reproductions` has a history for each."""
# Where there is memory to write to, flushing costs nothing; no death here depends on it.
FOLDER = next((str(p) for p in [Path("/dev/shm")] if p.is_dir()), None)


def player(parts: Parts | None = None) -> Play:
    async def play(history: History) -> None:
        with TemporaryDirectory(dir=FOLDER) as folder:
            world = InProcessSQLite(Path(folder), parts)
            try:
                await Machine(world).play(history)
            finally:
                await world.close()

    return play


@pytest.mark.parametrize("number", [20, pytest.param(300, marks=pytest.mark.deep)])
@pytest.mark.parametrize("size", [pytest.param(10, marks=pytest.mark.deep), 20])
def test_each_report_is_counted_once(size, number):
    play_many(player(), number, size=size, threads=False)


@pytest.mark.deep
@pytest.mark.parametrize("number", [20, pytest.param(100, marks=pytest.mark.deep)])
def test_each_report_is_counted_once_by_threads(number):
    play_many(player(), number)


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in RARE])
def test_a_broken_part_is_caught(name):
    parts = MUTANTS[name]
    with pytest.raises(Violation):
        play_many(player(parts), MOST_FOR_A_CONTROL, shrink=False, threads=False)
