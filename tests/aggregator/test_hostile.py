"""Hostile messages against live servers, the soak, and its verdicts."""

import importlib
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from benchmarks import hostile_messages
from geoveil.aggregator.grpc import submissions
from geoveil.aggregator.grpc.wire_columns import read_columns
from geoveil.proto.v1 import analyst_pb2, collector_pb2, report_pb2


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return importlib.import_module("benchmarks.hostile")


@pytest.mark.deep
@pytest.mark.parametrize("messages", [200, pytest.param(3000, marks=pytest.mark.deep)])
def test_hostile_messages_leave_no_trace(hostile, messages):
    found = hostile.attack(messages, seed=1)
    assert found.faults == []
    assert sum(found.statuses.values()) == messages
    assert set(found.statuses) >= {
        *("OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "PERMISSION_DENIED"),
        "RESOURCE_EXHAUSTED",
    }


@pytest.mark.deep
def test_a_change_of_state_is_noticed(hostile, monkeypatch):
    """The control: one new report among the messages."""
    requests = []

    def draw(known: Any, rng: Random) -> tuple[str, tuple[bytes, ...]]:
        if not requests:
            requests.append(hostile.Requests(known.campaign, 1).draw())
        return hostile.SUBMIT, (requests[0],)

    monkeypatch.setattr(hostile, "draw", draw)
    assert hostile.attack(20, seed=1).faults == ["the state was changed"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"statuses": {"OK": 1, "INTERNAL": 1}}, "status INTERNAL"),
        ({"statuses": {"OK": 1, "UNAVAILABLE": 1}}, "status UNAVAILABLE"),
        ({"resident_mb": (100.0, 150.0)}, "memory grew by 50 MB"),
        ({"alive": False}, "the server does not serve any more"),
    ],
)
def test_every_fault_of_an_attack_is_told(hostile, changes, fault):
    sound = {
        "statuses": {"OK": 2},
        "resident_mb": (100.0, 110.0),
        "seconds": 1.0,
        "same_state": True,
        "alive": True,
    }
    assert hostile.Found(**sound).faults == []
    assert hostile.Found(**(sound | changes)).faults == [fault]


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize(
    "attack", ["empty reports", "pages not read", "web: requests without an end"]
)
def test_a_device_reports_beside_an_attack(hostile, attack):
    """Two of `python -m benchmarks.hostile_load`, for so short that times would say nothing."""
    found = importlib.import_module("benchmarks.hostile_load").measure(attack, seconds=1.5)
    for felt in (found.beside_sink, found.under, found.after):
        assert felt.failed == 0
        assert len(felt.submitted_s) > 0
    assert max(found.resident_mb) < 512


@pytest.mark.parametrize(
    ("under", "after", "failed", "resident_mb", "faults"),
    [
        (0.12, 0.1, 0, (200.0, 150.0), []),
        (0.16, 0.1, 0, (200.0, 150.0), ["1.60 times the time beside a sink during it"]),
        (0.1, 0.2, 1, (200.0, 600.0), [
            "1 reports are missing during it",
            "2.00 times the time beside a sink after it",
            "the gateway held 600 MB",
        ]),
    ],
)  # fmt: skip
def test_every_miss_of_an_attack_is_told(hostile, under, after, failed, resident_mb, faults):
    load = importlib.import_module("benchmarks.hostile_load")
    beside, during, later = (
        load.Felt([one], [one], failed if one == under and failed else 0)
        for one in (0.1 + 1e-12, under, after)
    )
    assert load.Suffered(beside, during, later, resident_mb).faults == faults


ACCEPTED = report_pb2.REPORT_STATUS_ACCEPTED
PERMITTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
}
LARGE = 160
"""Reports of a request that is read by NumPy."""


def mutated(message: bytes, rng: Random) -> bytes:
    """Return the message with a few bytes changed, added, removed or repeated; or only noise."""
    if rng.random() < 0.05:
        return rng.randbytes(rng.randrange(200))
    return hostile_messages.mutated(message, rng)


@pytest.mark.deep
@pytest.mark.parametrize("seed", [3, 4])
async def test_mutated_messages_in_streams(start_server, publish, wire_report, seed):
    rng = Random(seed)
    wire = (await start_server()).wire
    campaign = publish()
    await wire.create(campaign)
    batch = [wire_report(n, (n % 3, 2**n)) for n in range(4)]
    sound = collector_pb2.SubmitReportsRequest(
        campaign_id=campaign.campaign_id, campaign_digest=campaign.digest, reports=batch
    ).SerializeToString()
    watched = analyst_pb2.WatchEstimateRequest(campaign_id="nobody", confidence=0.9, period=0)
    submit = wire.channel.stream_stream("/geoveil.proto.v1.Collector/SubmitReportStream")
    watch = wire.channel.unary_stream("/geoveil.proto.v1.Analyst/WatchEstimate")
    seen = set()
    taken: dict[bytes, list[tuple[int, int]]] = {}
    for _ in range(300):
        messages = [mutated(sound, rng) for _ in range(rng.randrange(1, 6))]
        stream = submit(timeout=30)
        answers = await in_turn(stream, messages)
        seen.add(await stream.code())
        for message, answer in zip(messages, answers, strict=False):
            reports = collector_pb2.SubmitReportsRequest.FromString(message).reports
            results = collector_pb2.SubmitReportsResponse.FromString(answer).results
            for report, result in zip(reports, results, strict=True):
                if result.status == ACCEPTED:
                    assert report.report_id not in taken
                    taken[report.report_id] = [
                        (a.query_index, campaign.campaign.counted(a.query_index, a.value))
                        for a in report.answers
                    ]
        never = watch(mutated(watched.SerializeToString(), rng), timeout=30)
        with pytest.raises(grpc.aio.AioRpcError):
            await never.read()
        assert await never.code() in PERMITTED
    assert seen <= PERMITTED
    assert {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT} <= seen
    assert taken, "no mutated report was sound: the state was not put to the test"
    expected = [[v for a in taken.values() for i, v in a if i == query] for query in range(3)]
    assert await wire.sums(campaign) == [(len(v), sum(v), sum(x * x for x in v)) for v in expected]


async def in_turn(stream: Any, messages: list[bytes]) -> list[bytes]:
    """Send one message after the other; return the answers that came before the stream ended.

    Each waits for the answer before: grpc.aio's client reports INTERNAL, whatever the server says,
    if the stream ends while it writes (grpc/grpc#36066).
    """
    answers = []
    with suppress(grpc.aio.AioRpcError):
        for message in messages:
            await stream.write(message)
            answers.append(await stream.read())
        await stream.done_writing()
    return answers


async def test_large_requests_are_read_by_numpy(start_server, publish, wire_report, monkeypatch):
    """Else the large ones above would put nothing else to the test than the small ones."""
    read = []

    def spy(message: bytes) -> Any:
        read.append(read_columns(message))
        return read[-1]

    monkeypatch.setattr(submissions, "read_columns", spy)
    wire = (await start_server()).wire
    campaign = publish()
    await wire.create(campaign)
    reports = [wire_report(n, (n % 3, 3**30 + n)) for n in range(LARGE)]
    results = await wire.submit(campaign, *reports)
    assert [result.status for result in results] == [ACCEPTED] * LARGE
    assert [len(columns.reports) for columns in read] == [LARGE]
    assert [n for n, _, _ in await wire.sums(campaign)] == [54, 53, 53]


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return importlib.import_module("benchmarks.soak")


def test_growth_is_that_after_the_first_quarter(soak):
    samples = [(900.0 * i, 100.0 if i < 4 else 100.0 + 0.5 * i) for i in range(17)]
    slope, error = soak.growth(samples)
    assert slope == pytest.approx(2.0)
    assert error == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("hours", "per_hour", "defects", "missing", "wrong"),
    [
        (4.0, 0.5, 0, 0, []),
        (4.0, 1.5, 0, 0, ["the aggregator grows by 1.5 MB an hour"]),
        (0.1, 1.5, 0, 0, []),
        (4.0, 0.5, 2, 3, ["2 lines are called defect", "3 reports are missing"]),
    ],
)
def test_every_fault_of_a_soak_is_told(soak, hours, per_hour, defects, missing, wrong):
    memory = {"aggregator": [(360.0 * i, 100 + per_hour * i / 10) for i in range(40)]}
    assert soak._judged(hours, Counter(), memory, defects, missing) == wrong


@pytest.mark.deep(keep=0, rest=0)
def test_a_minute_of_it(soak):
    """Two restarts of the database among them; memory is not judged in so short a time."""
    assert soak.soak(0.012) == []
