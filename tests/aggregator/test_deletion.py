"""Test that reports are deleted after a campaign's signed date, and that sums still answer."""

import asyncio
import os
import signal
import sqlite3
import sys
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.errors import public
from geoveil.aggregator.domain.reports import PackedReport, Reason, Report, Status, pack
from geoveil.aggregator.grpc import server
from geoveil.aggregator.store import CampaignRecord, Submission, open_store
from geoveil.aggregator.store.maintenance import check_database
from geoveil.campaign import PlanarLaplaceSpec, PointQuestion, encode, seal
from geoveil.gp import Threshold

from .conftest import CLOSES, OPENS, Published
from .refusals import refuses

DAYS = timedelta(days=1)
UNTIL = CLOSES + 10 * DAYS
ABOVE = [PointQuestion("above", Threshold(1_000.0, 16_000.0, "smoothstep"))]


def asked_until(publish, until=UNTIL, *, points=False):
    more = {"mechanism": PlanarLaplaceSpec(1)} if points else {}
    return replace(publish(queries=1, **more).campaign, delete_after=until)


@pytest.fixture
def start(start_service, publish, clock):
    """Starts a service whose campaign has 40 reports; returns it with what submits them again."""

    async def begin(points=False):
        running = await start_service()
        campaign = asked_until(publish, points=points)
        digest = await running.service.create_campaign(seal(encode(campaign)))
        reports = [Report(i.to_bytes(16), [(0, i)]) for i in range(1, 41)]

        async def submit(more=()):
            results = await running.service.submit("income", digest, [*reports, *more])
            return {result.reason or result.status for result in results}

        assert await submit() == {Status.ACCEPTED}
        clock.now = UNTIL - DAYS
        return running.service, submit

    return begin


async def refused(rows):
    with refuses(Code.REPORTS_DELETED) as caught:
        async for _ in rows:
            pass
    assert "only sums are kept" in public(caught.value).text


@pytest.mark.deep
async def test_sums_stay_and_no_report_is_counted_again_whatever_the_clock_says(start, clock):
    service, submit = await start()
    await service.delete_due()
    before = await service.estimate("income")
    rows = [part async for part in service.export("income")]
    assert sum(len(part.periods) for part in rows[1:]) == 40
    assert await submit() == {Status.DUPLICATE}
    # From the date on nobody gets reports, also before the server has deleted them.
    clock.now = UNTIL
    await refused(service.export("income"))
    clock.now = UNTIL + DAYS
    await service.delete_due()
    await service.delete_due()
    assert (await service.estimate("income")).disclosure == before.disclosure
    new = [Report(bytes(16), [(0, 5)])]
    for now in (UNTIL, CLOSES - DAYS, OPENS + DAYS):
        clock.now = now
        assert await submit(new) == {Reason.NOT_OPEN}
    sums = (await service.estimate("income")).disclosure.estimates
    assert [each.sums for each in sums] == [each.sums for each in before.disclosure.estimates]
    assert check_database(service._writer._open_store()._path).faults == ()


async def test_points_answer_no_new_question_and_keep_their_mean(start, clock):
    service, _ = await start(points=True)
    assert (await service.estimate_queries("income", ABOVE)).disclosure.estimates[0].sums.n == 40
    mean = (await service.estimate("income")).disclosure
    clock.now = UNTIL + DAYS
    with pytest.raises(ServiceError, match="only sums are kept: 2030-02-11 00:00 UTC"):
        await service.estimate_queries("income", ABOVE)
    await service.delete_due()
    assert (await service.estimate("income")).disclosure == mean


@pytest.mark.parametrize("points", [False, True])
async def test_an_export_that_is_overtaken_ends_with_an_error(start, clock, points):
    """Also by a server whose clock is ahead: it never passes for the whole."""
    service, _ = await start(points)
    rows = service.export("income")
    await anext(rows)
    clock.now = UNTIL + DAYS
    await service.delete_due()
    clock.now = UNTIL - DAYS
    await refused(rows)
    await refused(service.export("income"))
    if points:
        with pytest.raises(ServiceError, match="only sums are kept"):
            await service.estimate_queries("income", ABOVE)


async def test_reports_of_slow_clocks_are_waited_for(start_service, publish, clock):
    service = (await start_service(clock_skew_s=60)).service
    campaign = asked_until(publish, CLOSES)
    digest = await service.create_campaign(seal(encode(campaign)))
    clock.now = CLOSES + timedelta(seconds=59)
    await service.delete_due()
    (first,) = await service.submit("income", digest, [Report(bytes(16), [(0, 5)])])
    clock.now += timedelta(seconds=1)
    await service.delete_due()
    (again,) = await service.submit("income", digest, [Report(bytes(16), [(0, 5)])])
    assert (first.status, again.reason) == (Status.ACCEPTED, Reason.NOT_OPEN)


@pytest.mark.deep
async def test_a_server_deletes_by_itself(
    start_server, publish, wire_report, store, clock, monkeypatch
):
    monkeypatch.setattr(server, "_NOTE_FIRST_S", 0.0)
    monkeypatch.setattr(server, "_NOTE_S", 0.05)
    campaign = asked_until(publish)
    published = Published.of(campaign)
    wire = (await start_server()).wire
    await wire.create(published)
    await wire.submit(published, *(wire_report(i, (0, i)) for i in range(1, 41)))
    sums = await wire.sums(published)
    clock.now = UNTIL + DAYS
    for _ in range(1_000):
        if not store.due(clock.now):
            break
        await asyncio.sleep(0.05)
    assert store.answers("income").packed == b""
    assert await wire.sums(published) == sums


def filled(database, count):
    """Return the random ids of reports that a database was filled with."""
    random = Random(1)
    ids = [random.randbytes(16) for _ in range(count)]
    with open_store(database) as store:
        store.create_campaign(
            CampaignRecord(campaign_id="d", published=b"d", queries=1, delete_after=CLOSES)
        )
        reports = [PackedReport(each, pack([(0, i)])) for i, each in enumerate(ids)]
        store.commit([Submission("d", reports, admit=True)])
    return ids


@pytest.mark.deep
def test_the_files_hold_nothing_of_deleted_reports(database):
    ids = filled(database, 700)

    def held():
        files = b"".join(path.read_bytes() for path in database.parent.iterdir())
        return sum(each in files for each in ids)

    assert held() > 650  # the control; some lie on two pages
    with open_store(database) as store:
        while store.delete_reports("d", 300):
            pass
        assert held() == 0


def test_a_check_finds_a_report_that_is_left(database):
    filled(database, 600)
    with open_store(database) as store:
        assert store.delete_reports("d", 1)
        assert check_database(database).faults == ()  # they are being deleted
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE campaign SET deleted = 1")
    (fault,) = check_database(database).faults
    assert fault == "campaign d: reports remain that should have been deleted"


_PROGRAM = """
import sys
from pathlib import Path
from geoveil.aggregator.store import open_store
with open_store(Path(sys.argv[1])) as store:
    print("begun", flush=True)
    while store.delete_reports("d", 1):
        print("deleted", flush=True)
"""


@pytest.mark.deep(keep=0)
async def test_a_server_that_is_killed_goes_on_where_it_was(database):
    ids = filled(database, 10_000)
    with open_store(database) as store:
        sums = store.totals("d")
        left = [len(ids)]
        for _ in range(2):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _PROGRAM, str(database)),
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            for _ in range(8):
                await process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            await process.wait()
            assert store.due(CLOSES) == ["d"]
            left.append(check_database(database).reports)
            assert check_database(database).faults == ()
        assert all(0 < after < before for before, after in pairwise(left))
        while store.delete_reports("d"):
            pass
        assert (store.totals("d"), store.get_campaign("d").reports) == (sums, len(ids))
        assert check_database(database).faults == ()
