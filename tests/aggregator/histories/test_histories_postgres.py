"""Histories of faults on PostgreSQL, with three independent replicas.

As `test_histories_sqlite`, where it is said what fails them and what is left to chance. Besides:
a connection is cut at a chosen round, before the server got it or before its answer came back,
COMMIT included; all connections end at once, which nobody may notice who was idle; the server
restarts; and the last write of every transaction fails for want of room, after rows were written.
Some histories share a database, under campaigns of their own, and the server carries what earlier
ones left into later ones.

Left to chance besides: how soon the server notices that a client is gone, and so how long others
wait for its locks; and when SIGKILL comes, of the few histories with real processes. That there is
no room is what a trigger says, in the words and with the code of the server (53100); one test fills
the file system of a database, where one can be mounted. Rows and sums of the whole database are
compared at the end of every history.
"""

from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from geoveil.aggregator.store import open_store, postgres_counting
from geoveil.aggregator.store.schema import SLOT_BITS, slots

from ..cutting_proxy import CuttingProxy, cutting_proxy  # noqa: TID252 - tests are no package
from ..postgres import PostgresServer  # noqa: TID252 - tests are no package
from .campaigns import Kind
from .in_process_postgres import InProcessPostgres, empty, prepare
from .machine import Machine
from .operations import Create, History, RestartDatabase, Upload
from .playing import Play, play_many, play_one
from .processes import play_with_processes
from .sharing import InlineReader

_EMPTIED = 8
"""Histories, after which the database is emptied: at the end of each all of it is checked."""


@pytest.fixture
def proxies(postgres_url):
    with ExitStack() as stack:
        folders = [
            Path(stack.enter_context(TemporaryDirectory()))
            for _ in range(InProcessPostgres.replicas)
        ]
        yield [stack.enter_context(cutting_proxy(postgres_url, folder)) for folder in folders]


def player(
    server: PostgresServer, url: str, proxies: list[CuttingProxy], *, whole_server: bool = False
) -> Play:
    prepare(url)
    numbers = count(1)

    async def play(history: History) -> None:
        reader = InlineReader(partial(open_store, url))
        await reader.start()
        number = next(numbers)
        tag = f"-{number}"
        world = InProcessPostgres(server, url, proxies, reader, tag, whole_server=whole_server)
        try:
            await Machine(world).play(history)
        finally:
            await world.heal()
            await reader.stop()
            if number % _EMPTIED == 0:
                empty(url)

    return play


@pytest.mark.deep
@pytest.mark.parametrize("number", [6, pytest.param(15, marks=pytest.mark.deep)])
def test_each_report_is_counted_once(postgres_server, postgres_url, proxies, number):
    play_many(player(postgres_server, postgres_url, proxies), number)


@pytest.mark.deep
@pytest.mark.parametrize("number", [3, pytest.param(15, marks=pytest.mark.deep)])
def test_each_report_is_counted_once_where_ids_share_slots(
    postgres_server, postgres_url, proxies, monkeypatch, number
):
    def two(key: int, ids: bytes) -> Any:
        return (key << SLOT_BITS) + slots(0, ids) % 2

    monkeypatch.setattr(postgres_counting, "slots", two)
    play_many(player(postgres_server, postgres_url, proxies), number)


@pytest.mark.deep
def test_the_server_restarts(postgres_server, postgres_url, proxies):
    first, second = (
        Upload(tuple((n, Kind.GOOD) for n in numbers), replica=replica)
        for replica, numbers in enumerate((range(3), range(2, 6)))
    )
    history: History = [
        Create(),
        first,
        RestartDatabase(),
        first,
        second,
        RestartDatabase(),
        second,
    ]
    play_one(player(postgres_server, postgres_url, proxies, whole_server=True), history)


@pytest.mark.deep
@pytest.mark.parametrize("number", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_processes_are_killed(postgres_server, postgres_url, number):
    play_with_processes(number, (postgres_server, postgres_url))
