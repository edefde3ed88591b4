"""Test exactly-once counting through SIGKILL.

Report j to query q has the answer 2^j, so the binary digits of a query's sum name its reports.
Fails if, after the server was killed under load and started again on the same file,
* a report that was acknowledged is not counted, or is not called a duplicate when sent again;
* any report is counted twice, or in part (its row without its sum, or the other way round);
* sending everything again does not end in every report counted exactly once;
* an estimate before that is anything but the sum of whole reports.
What it can't show: a loss of power, where the disk may lose what the system had taken.
"""

import asyncio
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from geoveil.aggregator.store.maintenance import check_database
from geoveil.proto.v1 import report_pb2

ACCEPTED = report_pb2.REPORT_STATUS_ACCEPTED
DUPLICATE = report_pb2.REPORT_STATUS_DUPLICATE
QUERIES, PER_QUERY = 60, 40
PATIENCE_S = 60


def digits(total: int) -> set[int]:
    """Return the places of the ones in a binary number."""
    return {j for j in range(total.bit_length()) if total >> j & 1}


def check_whole(sums: list[tuple[int, int, int]]) -> list[set[int]]:
    """Return which reports are counted in each query, each once and whole."""
    counted = [digits(total) for _, total, _ in sums]
    for (n, _, squares), places in zip(sums, counted, strict=True):
        assert n == len(places)
        assert squares == sum(4**j for j in places)
    return counted


def check_rows(database: Path, reports: int) -> None:
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    found = check_database(database)
    assert (found.reports, found.faults) == (reports, ())


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    ("batch_size", "commit_limit", "acknowledged_before_kill"),
    [(200, 16_384, 600), (7, 16, 500), (1, 16_384, 150)],
)
async def test_killed_under_load(
    start_process,
    publish,
    wire_report,
    wire_of,
    database,
    batch_size,
    commit_limit,
    acknowledged_before_kill,
):
    campaign = publish(queries=QUERIES)
    keys = [(q, j) for q in range(QUERIES) for j in range(PER_QUERY)]
    Random(batch_size).shuffle(keys)
    reports = {(q, j): wire_report(PER_QUERY * q + j, (q, 2**j)) for q, j in keys}
    batches = [keys[i : i + batch_size] for i in range(0, len(keys), batch_size)]
    acknowledged: set[tuple[int, int]] = set()
    refusals: set[grpc.StatusCode] = set()
    enough = asyncio.Event()

    async def client(wire: Any, todo: Any) -> None:
        for batch in todo:
            try:
                results = await wire.submit(campaign, *[reports[key] for key in batch])
            except grpc.aio.AioRpcError as error:
                refusals.add(error.code())
                return
            assert {r.status for r in results} == {ACCEPTED}
            acknowledged.update(batch)
            if len(acknowledged) >= acknowledged_before_kill:
                enough.set()

    first = await start_process(commit_limit)
    async with grpc.aio.insecure_channel(first.address) as channel:
        wire = wire_of(channel)
        await wire.create(campaign)
        todo = iter(batches)
        clients = [asyncio.create_task(client(wire, todo)) for _ in range(8)]
        await asyncio.wait_for(enough.wait(), PATIENCE_S)
        first.process.kill()
        await asyncio.wait_for(asyncio.gather(*clients), PATIENCE_S)
        await first.process.wait()
    assert refusals == {grpc.StatusCode.UNAVAILABLE}
    assert len(acknowledged) < len(keys), "the load ended before the kill: it tested nothing"

    second = await start_process(commit_limit)
    async with grpc.aio.insecure_channel(second.address) as channel:
        wire = wire_of(channel)
        counted = check_whole(await wire.sums(campaign))
        for q, j in acknowledged:
            assert j in counted[q]
        for batch in batches:
            results = await wire.submit(campaign, *[reports[key] for key in batch])
            for (q, j), result in zip(batch, results, strict=True):
                assert result.status == (DUPLICATE if j in counted[q] else ACCEPTED)
        assert check_whole(await wire.sums(campaign)) == [set(range(PER_QUERY))] * QUERIES
        second.process.terminate()
        assert await asyncio.wait_for(second.process.wait(), PATIENCE_S) == 0
    check_rows(database, len(keys))


def test_the_oracle_sees_a_loss_and_a_double_count():
    whole = [(3, 0b111, 1 + 4 + 16)]
    assert check_whole(whole) == [{0, 1, 2}]
    for wrong in ([(3, 0b1000, 1 + 4 + 16)], [(2, 0b111, 21)], [(3, 0b111, 21 + 16)]):
        with pytest.raises(AssertionError):
            check_whole(wrong)
