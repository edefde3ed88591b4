"""Test ten campaigns over 52 weeks in two processes of eight threads, killed at every step.

    python -m tests.client.test_killed_year 29 /dev/shm

works in that directory, and kills at every step of the weeks in which a value is read, at every
29th of the others; the test at fewer. A step is whatever a device does outside its own memory:
see `mortal`. Of each week there are as many lives as steps, all from the state in which the week
before ended; the device then comes back, and must find itself as if nobody had died.
"""

import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    Question,
    Readings,
    StatisticCampaign,
    ValueCampaign,
)
from geoveil.client import (
    AnswerNotYet,
    Client,
    Epoch,
    InMemoryCollector,
    Limit,
    Policy,
    Receipt,
    Timing,
)
from geoveil.client.contributions import Reading
from geoveil.gp import Threshold
from tests.client.conftest import dollars, in_threads
from tests.client.mortal import Lab, WireTransport, shuffled, unhurried

OPENS = datetime(2026, 1, 5, tzinfo=UTC)
WEEK, QUARTER = timedelta(days=7), timedelta(days=91)
WEEKS, THREADS, PROCESSES = 52, 8, 2


POLICY = Policy(
    {
        "income": Limit(
            campaign=dollars(10.0),
            lifetime=dollars(10.0),
            epoch=Epoch(privacy=dollars(1.0), length=QUARTER),
        )
    }
)


def campaigns() -> list[Campaign]:
    """Return ten: points at the rate of the reading and at half of it, and questions that are
    answered from them, some of them extrapolated."""
    common: dict[str, Any] = {
        "title": "Income",
        "attribute": Attribute(name="income", unit="dollar"),
        "opens": OPENS,
        "closes": OPENS + WEEKS * WEEK,
        "period": WEEK,
    }
    made: list[Campaign] = [
        ValueCampaign(
            campaign_id=f"points-{i}",
            privacy=dollars(1.0 / (1 + i % 2)),
            mechanism=PlanarLaplaceSpec(1),
            **common,
        )
        for i in range(5)
    ]
    above = Question("above", Threshold(50_000, 32_000, "smoothstep"))
    made += [
        StatisticCampaign(
            campaign_id=f"share-{i}",
            privacy=dollars(0.5),
            questions=(above,),
            allocation=Allocation.PARTITION,
            readings=Readings(every=QUARTER, extrapolated=i % 2 == 0),
            **common,
        )
        for i in range(5)
    ]
    return made


ASKED = campaigns()
NAMES = [one.campaign_id for one in ASKED]
Told = tuple[tuple[Receipt, ...], tuple[Any, Sequence[Reading]], Any]


def when(week: int) -> datetime:
    """Return when in a week its reports are made."""
    return OPENS + (week + 0.5) * WEEK


def live(transport: WireTransport, state: Path, week: int, threads: int = THREADS) -> Told:
    """Answer in one week, a thread alone all campaigns, of several each four of them."""
    waiting = unhurried()
    timing = Timing(clock=waiting.clock, sleep=waiting.sleep, now=lambda: when(week))
    with Client(
        policy=POLICY, state_dir=state, transport=transport, timing=timing, release_floor_s=0
    ) as client:

        def answer(number: int) -> None:
            seed = number + THREADS * os.getpid()
            for name in shuffled(seed, NAMES)[: 10 if threads == 1 else 4]:
                client.fetch(name)
                with suppress(AnswerNotYet):
                    client.contribute(name, 1_000.0 * (seed % 97) + week)

        in_threads(threads, answer)
        client.flush(10.0)
        journal = client._session.journal
        kept = journal.readings("income", "dollar", "Number()")
        points = {name: journal.points(name, kept) for name in NAMES}
        return client.history(), (client.budgets(), kept), points


def check(lab: Lab, told: Told, week: int) -> None:
    """Fail unless every epoch has one reading and every campaign one point in it, both paid for,
    and no other report than the one that is remembered was ever sent."""
    history, (budgets, kept), points = told
    by_epoch = defaultdict(set)
    for receipt in history:
        assert receipt.epoch is not None
        by_epoch[receipt.epoch].add(receipt.campaign_id)
    assert set(by_epoch) == {reading.begins for reading in kept}
    spent = {budget.scope: Fraction(budget.spent) for budget in budgets}
    assert spent["lifetime"] >= len(kept)
    assert len({(r.campaign_id, r.period) for r in history}) == len(history)
    answered = {r.campaign_id for r in history if r.period == week}
    moved_on = {c.campaign_id for c in ASKED if c.readings and c.readings.extrapolated}
    assert sum(r.campaign_id not in moved_on for r in history) == 7 * (week + 1)
    assert answered >= set(NAMES) - moved_on
    for name in NAMES:
        begun = [point.reading.begins for point in points[name]]
        assert len(set(begun)) == len(begun)
        if name not in answered:  # its two readings are too close together yet
            assert not lab.collector.reports(name)
            continue
        (counted,) = lab.collector.reports(name)
        assert lab.seen[name, week] == {counted.SerializeToString(deterministic=True)}
    fine = {
        (r.epoch, r.answers)
        for r in history
        if r.campaign_id in ("points-0", "points-2", "points-4")
    }
    assert len(fine) == len(kept)


def through(weeks: int, reading: int, other: int | None, place: Path) -> tuple[int, int]:
    """Live through some weeks, and be killed on the way.

    Args:
        weeks: how many.
        reading: killed at every so-manieth step of weeks in which a value is read.
        other: and of the others; None: not in these.
        place: a directory.

    Returns:
        How many processes were killed, and how many readings there are at the end.
    """
    state, deaths = place / "state", 0
    kept: Sequence[Reading] = ()
    for week in range(weeks):
        stride = reading if not kept or kept[-1].ends <= when(week) else other
        point = week % stride if stride else None
        while stride and point is not None:
            branch = place / "branch"
            shutil.rmtree(branch, ignore_errors=True)
            if state.exists():
                shutil.copytree(state, branch)
            killed = killed_at(point, branch, week)
            deaths += killed
            point = point + stride if killed else None
        lab = Lab(InMemoryCollector(ASKED))
        (last,) = lab.run(partial(live, state=state, week=week, threads=1))
        check(lab, last.returned(), week)
        kept = last.returned()[1][1]
    return deaths, len(kept)


def killed_at(point: int, state: Path, week: int) -> int:
    """Let both processes live until a step, and one come back; return how many were killed."""
    lab = Lab(InMemoryCollector(ASKED))
    ended = lab.run(lambda wire: live(wire, state, week), kill_at=point, processes=PROCESSES)
    for one in ended:
        assert one.killed or one.returned()
    (last,) = lab.run(lambda wire: live(wire, state, week, 1))
    check(lab, last.returned(), week)
    return sum(one.killed for one in ended)


@pytest.mark.deep
def test_a_year_of_kills_reads_once_in_a_quarter(tmp_path):
    """Fourteen weeks touch two epochs; killed in those in which a value is read."""
    deaths, read = through(14, 157, None, tmp_path)
    assert deaths >= 6
    assert read == 2


if __name__ == "__main__":
    with TemporaryDirectory(dir=sys.argv[2]) as where:
        found = through(WEEKS, 1, int(sys.argv[1]), Path(where))
    print("processes killed: {}; readings in the year: {}".format(*found))
