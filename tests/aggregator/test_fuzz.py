"""Thousands of wrong messages in streams over a real connection; `test_hostile` has single ones.

Fails if one of them gets INTERNAL or UNKNOWN, or if the state is not exactly what the messages that
were taken ask for.
"""

from contextlib import suppress
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest

from benchmarks import hostile_messages
from geoveil.aggregator.grpc import submissions
from geoveil.aggregator.grpc.wire_columns import read_columns
from geoveil.proto.v1 import analyst_pb2, collector_pb2, report_pb2

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
