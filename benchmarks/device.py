"""Processor time of one report on a device: to draw and store it, and to send it.

Everything is written durably to a state directory, and only processor time counts, so that neither
the disk nor busy processes matter. Campaigns recur: by its second period, a device has done
everything once. The floor that hides how long a value took is off (`release_floor_s=0`); a separate
line shows it, as only the end of that wait takes processor time. The reference, in the same run, is
a row of the same size that is committed to a bare SQLite file, and then flushed to the disk, as
a report is before it is sent.
"""

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from benchmarks.timing import Figure, show
from geoveil.campaign import Attribute, Question, StatisticCampaign
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Limit, Policy, Timing
from geoveil.gp import GeoPrivacy, Threshold

_REFERENCE = "bare commit of a row"
CAMPAIGNS = (10, 100, 400, 1_000)
FLUSHED = 200
START = datetime(2026, 1, 1, tzinfo=UTC)
PERIOD = timedelta(hours=1)
PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")
POLICY = Policy(
    {
        "income": Limit(
            campaign=GeoPrivacy(100.0, 8_000.0, "dollar"),
            lifetime=GeoPrivacy(10_000.0, 8_000.0, "dollar"),
        )
    }
)


def table() -> list[Figure]:
    """Print microseconds of processor time."""
    with tempfile.TemporaryDirectory() as folder:
        times = dict(_bare(Path(folder)))
        for count in CAMPAIGNS:
            times |= _device(Path(folder) / f"{count}", count)
    return show("one report, processor time", "median µs", 1e6, times, _REFERENCE)


def _bare(folder: Path) -> Iterable[tuple[str, float]]:
    bare = sqlite3.connect(folder / "bare.sqlite3", isolation_level=None)
    bare.execute("PRAGMA journal_mode = WAL")
    bare.execute("PRAGMA synchronous = NORMAL")
    bare.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, data BLOB)")

    def commit(_: object) -> None:
        bare.execute("INSERT INTO entry (data) VALUES (randomblob(250))")

    def flush(_: object) -> None:
        commit(_)
        log = os.open(folder / "bare.sqlite3-wal", os.O_RDONLY)
        os.fsync(log)
        os.close(log)

    yield _REFERENCE, _median(commit, range(1_000))
    yield "... and a flush to the disk", _median(flush, range(FLUSHED))
    bare.close()


def _device(state: Path, count: int) -> dict[str, float]:
    names = [f"campaign-{i}" for i in range(count)]
    collector = InMemoryCollector(map(campaign, names))
    now = START
    client = Client(
        policy=POLICY,
        state_dir=state,
        transport=InMemoryTransport(collector),
        background=False,
        most_pending=10_000,
        release_floor_s=0,
        timing=Timing(now=lambda: now),
    )
    for name in names:
        client.fetch(name)
        client.contribute(name, 52_000.0)
    client.flush()
    times: list[float] = []
    while len(times) < 300:
        now += PERIOD
        times += _times(lambda name: client.contribute(name, 52_000.0), names)
    found = {f"contribute, among {count:,} campaigns": statistics.median(times)}
    client.flush(3_600)
    if count >= FLUSHED:
        now += PERIOD
        for name in names[:FLUSHED]:
            client.contribute(name, 52_000.0)
        found[f"flush, among {count:,} campaigns"] = (
            _times(lambda _: client.flush(3_600), [0])[0] / FLUSHED
        )
    client.close()
    if count == CAMPAIGNS[-1]:
        patient = Client(
            policy=POLICY,
            state_dir=state,
            transport=InMemoryTransport(collector),
            background=False,
            timing=Timing(now=lambda: now + PERIOD),
        )
        found["contribute, with the floor of 2 ms that hides the value"] = _median(
            lambda name: patient.contribute(name, 52_000.0), names[:300]
        )
        patient.close(0.0)
    return found


def campaign(name: str) -> StatisticCampaign:
    return StatisticCampaign(
        campaign_id=name,
        title="Income",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=PRIVACY,
        questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
        opens=START,
        closes=START + 100 * PERIOD,
        period=PERIOD,
    )


_Given = TypeVar("_Given")


def _median(act: Callable[[_Given], object], given: Iterable[_Given]) -> float:
    return statistics.median(_times(act, given))


def _times(act: Callable[[_Given], object], given: Iterable[_Given]) -> list[float]:
    found = []
    for one in given:
        start = time.process_time()
        act(one)
        found.append(time.process_time() - start)
    return found
