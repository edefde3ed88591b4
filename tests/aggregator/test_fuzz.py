"""Thousands of wrong messages over a real connection.

Fails if one of them gets INTERNAL or UNKNOWN, if one that was refused changed anything, if the
state is not exactly what the messages that were taken ask for, or if the server does not serve
afterwards.
"""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from benchmarks import hostile_messages
from geoveil.aggregator.grpc import submissions
from geoveil.aggregator.grpc.wire_columns import read_columns
from geoveil.campaign import SigningKey, seal
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2

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


def contents(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table but that of the day's counts, which follow the clock."""
    with closing(sqlite3.connect(database)) as connection:
        find = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        tables = [name for (name,) in connection.execute(find) if name != "report_day"]
        assert "campaign" in tables
        return {t: connection.execute(f"SELECT * FROM {t}").fetchall() for t in tables}


@pytest.mark.deep
@pytest.mark.parametrize(("seed", "messages"), [(1, 700), (1, 3000), (2, 3000)])
async def test_mutated_messages(start_server, publish, wire_report, database, seed, messages):
    rng = Random(seed)
    wire = (await start_server()).wire
    campaign, closed = publish(), publish("closed")
    for one in (campaign, closed):
        await wire.create(one)
    await wire.analyst.CloseCampaign(analyst_pb2.CloseCampaignRequest(campaign_id="closed"))
    batch = [wire_report(n, (n % 3, 2**n)) for n in range(4)]
    large = [wire_report(100 + n, (n % 3, 3**30 + n)) for n in range(LARGE)]
    envelope = campaign_pb2.CampaignEnvelope(campaign=publish("new").published)
    signed = campaign_pb2.CampaignEnvelope.FromString(
        seal(publish("signed").published, SigningKey.generate())
    )
    seeds: list[tuple[str, Message, type[Message]]] = [
        (
            "Collector/SubmitReports",
            collector_pb2.SubmitReportsRequest(
                campaign_id=one.campaign_id, campaign_digest=one.digest, reports=reports
            ),
            collector_pb2.SubmitReportsResponse,
        )
        for one, reports in ((campaign, batch), (closed, batch), (campaign, large))
    ] + [
        (
            "Collector/GetCampaign",
            collector_pb2.GetCampaignRequest(campaign_id="income"),
            collector_pb2.GetCampaignResponse,
        ),
        (
            "Collector/BrowseCampaigns",
            collector_pb2.BrowseCampaignsRequest(page_size=1, page_token="income"),
            collector_pb2.BrowseCampaignsResponse,
        ),
        *[
            (
                "Analyst/CreateCampaign",
                analyst_pb2.CreateCampaignRequest(envelope=one),
                analyst_pb2.CreateCampaignResponse,
            )
            for one in (envelope, signed)
        ],
        (
            "Analyst/GetEstimate",
            analyst_pb2.GetEstimateRequest(campaign_id="income", confidence=0.9, period=0),
            analyst_pb2.GetEstimateResponse,
        ),
        (
            "Analyst/CloseCampaign",
            analyst_pb2.CloseCampaignRequest(campaign_id="closed"),
            analyst_pb2.CloseCampaignResponse,
        ),
        (
            "Analyst/ListCampaigns",
            analyst_pb2.ListCampaignsRequest(),
            analyst_pb2.ListCampaignsResponse,
        ),
    ]
    seen: set[grpc.StatusCode] = set()
    taken: dict[bytes, list[tuple[int, int]]] = {}
    created = ["income", "closed"]
    before = contents(database)
    for _ in range(messages):
        method, message, response_type = rng.choice(seeds)
        data = mutated(message.SerializeToString(), rng)
        status, response = await call(wire, method, data, response_type)
        seen.add(status)
        assert status in PERMITTED, (method, data)
        if isinstance(response, collector_pb2.SubmitReportsResponse):
            reports = collector_pb2.SubmitReportsRequest.FromString(data).reports
            for report, result in zip(reports, response.results, strict=True):
                if result.status == ACCEPTED:
                    assert report.report_id not in taken
                    taken[report.report_id] = [
                        (a.query_index, campaign.campaign.counted(a.query_index, a.value))
                        for a in report.answers
                    ]
        if isinstance(response, analyst_pb2.CreateCampaignResponse):
            request = analyst_pb2.CreateCampaignRequest.FromString(data)
            name = campaign_pb2.Campaign.FromString(request.envelope.campaign).campaign_id
            created += [] if name in created else [name]
        if rng.random() < 0.05:  # a refusal leaves no trace
            before = contents(database)
            await refused_changes_nothing(wire, rng, database, before)
    assert seen == PERMITTED
    assert taken, "no mutated report was sound: the state was not put to the test"
    listed = (await wire.analyst.ListCampaigns(analyst_pb2.ListCampaignsRequest())).campaigns
    names = [campaign_pb2.Campaign.FromString(c.envelope.campaign).campaign_id for c in listed]
    assert names == created
    expected = [[v for a in taken.values() for i, v in a if i == query] for query in range(3)]
    assert await wire.sums(campaign) == [(len(v), sum(v), sum(x * x for x in v)) for v in expected]
    assert await wire.sums(closed) == [(0, 0, 0)] * 3
    (result,) = await wire.submit(campaign, wire_report(10**9, (0, 1)))
    assert result.status == ACCEPTED


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


async def call(
    wire: Any, method: str, data: bytes, response_type: type[Message]
) -> tuple[grpc.StatusCode, Message | None]:
    multicallable = wire.channel.unary_unary(
        f"/geoveil.proto.v1.{method}", response_deserializer=response_type.FromString
    )
    try:
        return grpc.StatusCode.OK, await multicallable(data, timeout=30)
    except grpc.aio.AioRpcError as error:
        return error.code(), None


async def refused_changes_nothing(
    wire: Any, rng: Random, database: Path, before: dict[str, list[tuple[Any, ...]]]
) -> None:
    """Send what can't be taken to every method that changes anything."""
    noise = report_pb2.Report(report_id=rng.randbytes(16), answers=[report_pb2.Answer(value=1)])
    requests = [
        (
            "Collector/SubmitReports",
            collector_pb2.SubmitReportsRequest(
                campaign_id="income", campaign_digest=rng.randbytes(32), reports=[noise]
            ),
        ),
        (
            "Analyst/CreateCampaign",
            analyst_pb2.CreateCampaignRequest(
                envelope=campaign_pb2.CampaignEnvelope(campaign=rng.randbytes(50))
            ),
        ),
        ("Analyst/CloseCampaign", analyst_pb2.CloseCampaignRequest(campaign_id="nobody's")),
    ]
    for method, request in requests:
        status, _ = await call(
            wire, method, request.SerializeToString(), analyst_pb2.CloseCampaignResponse
        )
        assert status is not grpc.StatusCode.OK
    assert contents(database) == before


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
