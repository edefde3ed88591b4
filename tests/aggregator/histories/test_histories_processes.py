"""Histories of faults on server processes and a SQLite file: SIGKILL at random moments.

As `test_histories_sqlite`, with gRPC on a socket; a death comes so many fractions of a millisecond
after a request was sent, which is left to chance: these histories differ from run to run. A full
disk is a limit that the system sets on the size of files.
"""

import pytest

from .processes import play_with_processes


@pytest.mark.deep
@pytest.mark.parametrize("number", [3, 10])
def test_each_report_is_counted_once(number):
    play_with_processes(number)
