"""Estimates of a value campaign from growing numbers of stored points: time and memory.

The questions are posed only afterwards: shares above thresholds and densities, some with the
covariances of all estimates. The reference is the smallest number of points in the same run; all
points come from one seed, in a SQLite file. Every part runs in its own process, so that its
resident memory is that of the work.
"""

import asyncio
import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.timing import Figure, seconds_of, show
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.domain.rows import points_of
from geoveil.aggregator.domain.shared_scan import SharedScan
from geoveil.aggregator.domain.threads import ConcurrencyLimit, Reader
from geoveil.aggregator.domain.values import PointSums
from geoveil.aggregator.store import CampaignRecord, Submission, open_store
from geoveil.campaign import Attribute, PlanarLaplaceSpec, PointQuestion, ValueCampaign
from geoveil.gp import GaussianKernel, GeoPrivacy, Threshold

MOST = int(float(os.environ.get("GEOVEIL_POINTS", "1e7")))
"""The number of points of the largest campaign."""
SIZES = (MOST // 100, MOST // 10, MOST)
_BATCH = 4_096
_AT_ONCE = 16


def table() -> list[Figure]:
    """Print the cost of many questions, then time and peak memory for each number of points."""
    found = _many()
    context = multiprocessing.get_context("spawn")
    told = f"{len(_questions())} thresholds of a value campaign, jointly"
    print(f"{told}, from all of its points in SQLite:")
    first = None
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder, context.Pool(1, maxtasksperchild=1) as pool:
            file = Path(folder) / "points.db"
            pool.apply(_fill, (file, size))
            seconds, megabytes, counted = pool.apply(_estimate, (file,))
        micros = 1e6 * seconds / counted
        first = first or micros
        print(
            f"  {counted:>11,} points: {micros:.2f} µs of processors per point"
            f" ({micros / first:.2f} × the first), {megabytes:.0f} MB at most",
            flush=True,
        )
    return found


def _many() -> list[Figure]:
    """Print the cost of many questions of points already read, relative to sorting the points."""
    random = np.random.default_rng(1)
    size = MOST // 10
    line, plane = _campaign(1), _campaign(2)
    points = random.lognormal(11.3, 0.8, (size, 1)) + random.laplace(0, 8_000, (size, 1))
    places = random.normal(0, 40_000, (size, 2)) + random.laplace(0, 8_000, (size, 2))
    shares = _questions()
    ticks = np.linspace(-120_000, 120_000, 61).tolist()
    density = [
        PointQuestion(f"{x} {y}", GaussianKernel((x, y), 16_000)) for x in ticks for y in ticks
    ]
    of_numbers = {
        "1 threshold": (shares[:1], False),
        "200 thresholds": (shares, False),
        "200 thresholds, jointly": (shares, True),
    }
    of_places = {
        "1 kernel": (density[:1], False),
        "61 × 61 kernels": (density, False),
        "61 kernels, jointly": (density[:61], True),
    }
    found = []
    reference = "sorting them"
    for kind, campaign, values, asked in (
        ("numbers", line, points, of_numbers),
        ("places", plane, places, of_places),
    ):
        packed = _packed(np.rint(values / campaign.point_mechanism.step).astype(np.int64))
        layout = Layout.of(campaign)
        runs: dict[str, Callable[[], None]] = {reference: partial(_sorted, packed)}
        for name, (questions, joint) in asked.items():
            runs[name] = partial(_asked, layout, packed, questions, size, joint=joint)
        times = seconds_of(runs, rounds=3, of=min)
        found += show(
            f"{size:,} stored {kind}", "ns of processors each", 1e9 / size, times, reference
        )
    return found


def _packed(values: np.ndarray[Any, np.dtype[np.int64]]) -> list[bytes]:
    answers = np.zeros(values.shape, [("query_index", "<u4"), ("value", "<i8")])
    answers["query_index"] = np.arange(values.shape[1])
    answers["value"] = values
    block = (1 << 17) // values.shape[1]
    return [answers[i : i + block].tobytes() for i in range(0, len(answers), block)]


def _asked(
    layout: Layout,
    packed: list[bytes],
    questions: list[PointQuestion],
    size: int,
    *,
    joint: bool,
) -> None:
    sums = PointSums(layout.campaign, questions, (size, 1), joint=joint)
    for block in packed:
        sums.add(points_of(layout, block))
    assert sums.estimates([0], 0.95)[-1].sums.n == size
    assert len(sums.covariances([0])) == joint


def _sorted(packed: list[bytes]) -> None:
    for block in packed:
        np.sort(np.frombuffer(block, [("query_index", "<u4"), ("value", "<i8")])["value"])


def _campaign(dimension: int = 1) -> ValueCampaign:
    opens = datetime(2026, 1, 1, tzinfo=UTC)
    return ValueCampaign(
        campaign_id="points",
        title="Income, asked later",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1, 8_000, "dollar"),
        mechanism=PlanarLaplaceSpec(dimension),
        opens=opens,
        closes=opens + timedelta(days=365),
    )


def _questions() -> list[PointQuestion]:
    return [
        PointQuestion(f"above {at}", Threshold(at, 24_000, "smoothstep"))
        for at in range(1_000, 201_000, 1_000)
    ]


def _fill(file: Path, size: int) -> None:
    random = np.random.default_rng(1)
    campaign = _campaign()
    step = campaign.point_mechanism.step
    record = CampaignRecord(campaign_id=campaign.campaign_id, published=b"", queries=1)
    with open_store(file) as store:
        store.create_campaign(record)
        for start in range(0, size, _BATCH * _AT_ONCE):
            count = min(_BATCH * _AT_ONCE, size - start)
            points = random.lognormal(11.3, 0.8, count) + random.laplace(0, 8_000, count)
            ids = secrets.token_bytes(16 * count)
            reports = [
                PackedReport(ids[16 * i : 16 * i + 16], pack([(0, value)]))
                for i, value in enumerate(np.rint(points / step).astype(np.int64).tolist())
            ]
            store.commit([Submission(campaign.campaign_id, reports, True)])


def _estimate(file: Path) -> tuple[float, float, int]:
    """Return seconds of processor time, the peak resident megabytes, and the points counted."""
    return asyncio.run(_estimated(file))


async def _estimated(file: Path) -> tuple[float, float, int]:
    reader = Reader(partial(open_store, file))
    await reader.start()
    process = psutil.Process()
    watched = asyncio.create_task(_peak(process))
    before = time.process_time()
    layout = Layout.of(_campaign())
    passes = SharedScan(reader, ConcurrencyLimit(1))
    found, _ = await passes.answer(b"", layout, _questions(), {0: 0}, 0.95, joint=True)
    seconds = time.process_time() - before
    watched.cancel()
    await reader.stop()
    return seconds, await watched, found[0].sums.n


async def _peak(process: psutil.Process) -> float:
    most = 0
    try:
        while True:
            most = max(most, process.memory_info().rss)
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        return most / 1e6
