"""Test the wire contract over real connections, on a port chosen by the operating system."""

import logging
from typing import Any

import grpc
import grpc.aio
import pytest

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.campaign import PublicKey
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2

from .refusals import refused

ACCEPTED = report_pb2.REPORT_STATUS_ACCEPTED
DUPLICATE = report_pb2.REPORT_STATUS_DUPLICATE
REJECTED = report_pb2.REPORT_STATUS_REJECTED


def what(results: list[report_pb2.ReportResult]) -> list[int]:
    """Return the status of each report, or minus the reason why it was rejected."""
    return [-r.reason if r.status == REJECTED else r.status for r in results]


async def test_the_way_of_a_campaign(wire, publish, wire_report):
    campaign = publish()
    assert await wire.create(campaign) == campaign.digest
    fetched = await wire.collector.GetCampaign(
        collector_pb2.GetCampaignRequest(campaign_id="income")
    )
    assert fetched.envelope.campaign == campaign.published
    assert fetched.state == campaign_pb2.CAMPAIGN_STATE_OPEN
    results = await wire.submit(campaign, wire_report(1, (0, 2**44)), wire_report(2, (0, -3)))
    assert what(results) == [ACCEPTED, ACCEPTED]
    assert all(r.reason == 0 and r.detail == "" for r in results)
    assert await wire.sums(campaign) == [(2, 2**44 - 3, 2**88 + 9), (0, 0, 0), (0, 0, 0)]
    await wire.analyst.CloseCampaign(analyst_pb2.CloseCampaignRequest(campaign_id="income"))
    listed = await wire.analyst.ListCampaigns(analyst_pb2.ListCampaignsRequest())
    (summary,) = listed.campaigns
    assert summary.envelope.campaign == campaign.published
    assert summary.state == campaign_pb2.CAMPAIGN_STATE_CLOSED
    assert summary.reports == 2


async def test_estimates_leave_out_what_there_is_not(wire, campaign, wire_report):
    await wire.submit(campaign, *[wire_report(n, (min(n, 1), 5)) for n in range(3)])
    request = analyst_pb2.GetEstimateRequest(campaign_id="income", confidence=0.5)
    response = await wire.analyst.GetEstimate(request)
    one, two, none = response.estimates
    assert [e.label for e in response.estimates] == ["above 1", "above 2", "above 3"]
    assert [e.n for e in response.estimates] == [1, 2, 0]
    optional = ("value", "standard_error", "ci_low", "ci_high")
    present = [[e.HasField(name) for name in optional] for e in (one, two, none)]
    assert present == [[True, False, False, False], [True] * 4, [False] * 4]
    assert one.confidence == 0.5
    defaults = await wire.analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id="income"))
    assert defaults.estimates[0].confidence == 0.95


async def test_sending_again_counts_once_even_across_restarts(start_server, publish, wire_report):
    campaign = publish()
    batch = [wire_report(n, (n % 3, n)) for n in range(50)]
    first = await start_server()
    await first.wire.create(campaign)
    assert what(await first.wire.submit(campaign, *batch, batch[7])) == [ACCEPTED] * 50 + [
        DUPLICATE
    ]
    assert what(await first.wire.submit(campaign, *batch)) == [DUPLICATE] * 50
    before = await first.wire.sums(campaign)
    await first.aggregator.stop()
    second = await start_server()
    assert what(await second.wire.submit(campaign, *batch)) == [DUPLICATE] * 50
    conflict = what(await second.wire.submit(campaign, wire_report(7, (0, 7))))
    assert conflict == [-report_pb2.REJECTION_REASON_ID_CONFLICT]
    assert await second.wire.sums(campaign) == before
    assert [n for n, _, _ in before] == [17, 17, 16]


async def test_whole_requests_are_refused_with_their_status(start_server, publish, wire_report):
    wire = (await start_server(max_batch=100)).wire
    campaign, other = publish(), publish(title="Another title")
    good = wire_report(1, (0, 5))
    status = grpc.StatusCode
    error = await refused(status.NOT_FOUND, wire.submit(campaign, good))
    assert "no such campaign" in error.details()
    await wire.create(campaign)
    await refused(status.FAILED_PRECONDITION, wire.submit(other, good))
    await refused(status.ALREADY_EXISTS, wire.create(other))
    for count in (0, 101):
        error = await refused(status.INVALID_ARGUMENT, wire.submit(campaign, *[good] * count))
        assert f"1 to 100, got number of reports={count}" in error.details()
    envelope = campaign_pb2.CampaignEnvelope(campaign=b"\xff")
    request = analyst_pb2.CreateCampaignRequest(envelope=envelope)
    await refused(status.INVALID_ARGUMENT, wire.analyst.CreateCampaign(request))
    asked = analyst_pb2.GetEstimateRequest(campaign_id="income", confidence=1.5)
    error = await refused(status.INVALID_ARGUMENT, wire.analyst.GetEstimate(asked))
    assert error.details() == "confidence must be a number in (0, 1), got confidence=1.5"
    assert await wire.sums(campaign) == [(0, 0, 0)] * 3


async def test_malformed_and_oversized_messages(start_server, publish):
    wire = (await start_server(max_message_bytes=4096)).wire
    await wire.create(publish())
    submit = wire.channel.unary_unary("/geoveil.proto.v1.Collector/SubmitReports")
    for malformed in (b"\xff", b"\x0a\xff", b"\x0a\x02\xff\xfe", bytes(10)):
        error = await refused(grpc.StatusCode.INVALID_ARGUMENT, submit(malformed))
        assert f"{len(malformed)} bytes" in error.details()
    await refused(grpc.StatusCode.RESOURCE_EXHAUSTED, submit(b"\x12\x88\x27" + bytes(5000)))
    unknown = wire.channel.unary_unary("/geoveil.proto.v1.Collector/Nothing")
    await refused(grpc.StatusCode.UNIMPLEMENTED, unknown(b""))


async def test_defects_are_logged_without_contents_and_told_without_details(
    wire, campaign, wire_report, caplog, monkeypatch
):

    def broken(self: Layout, reports: Any) -> bytes:
        raise ValueError(f"can't pack {[report.answers for report in reports]}")

    monkeypatch.setattr(Layout, "pack", broken)
    with caplog.at_level(logging.DEBUG):
        call = wire.submit(campaign, wire_report(123_456_789, (0, 4711)))
        error = await refused(grpc.StatusCode.INTERNAL, call)
        assert error.details() == "internal error"
    (logged,) = (vars(record) for record in caplog.records if record.message == "defect")
    assert logged["method"] == "geoveil.proto.v1.Collector/SubmitReports"
    assert "in broken" in logged["exception"]
    assert "builtins.ValueError" in logged["exception"]
    said = caplog.text + str([vars(record) for record in caplog.records])
    for content in ("4711", "123456789", repr((123_456_789).to_bytes(16, "big")), "127.0.0.1"):
        assert content not in said


async def test_a_port_in_use_is_refused_and_leaves_nothing_open(start_server):
    port = int((await start_server()).address.rpartition(":")[2])
    with pytest.raises(ParameterError, match="free, and one of this machine"):
        await start_server(port=port)


async def test_a_failed_commit_is_unavailable_and_can_be_sent_again(
    start_server, publish, wire_report, database
):
    full = True

    class Moody(SQLiteStore):
        def commit(self, batch: Any) -> Any:
            if full:
                raise ServiceError(Code.STORE_UNAVAILABLE, "database or disk is full")
            return super().commit(batch)

    wire = (await start_server(lambda: Moody(database))).wire
    campaign = publish()
    await wire.create(campaign)
    good = wire_report(1, (0, 5))
    error = await refused(grpc.StatusCode.UNAVAILABLE, wire.submit(campaign, good))
    assert "disk" not in error.details()
    assert await wire.sums(campaign) == [(0, 0, 0)] * 3
    full = False
    assert what(await wire.submit(campaign, good)) == [ACCEPTED]
    assert (await wire.sums(campaign))[0] == (1, 5, 25)


async def test_replicas_on_postgresql_count_a_report_once(
    start_server, publish, wire_report, postgres_url
):
    url = DatabaseURL(postgres_url)
    one, two = [(await start_server(database=url)).wire for _ in range(2)]
    campaign = publish()
    await one.create(campaign)
    report = wire_report(1, (0, 5))
    assert what(await one.submit(campaign, report)) == [ACCEPTED]
    assert what(await two.submit(campaign, report, wire_report(2, (0, 7)))) == [DUPLICATE, ACCEPTED]
    assert (await one.sums(campaign))[0] == (2, 12, 74)


async def test_settings_reach_the_service(start_server, publish, wire_report):
    status = grpc.StatusCode
    campaign = publish()
    key = PublicKey.parse("ed25519:" + 32 * "0a")
    trusting = (await start_server(trusted_keys=(key,))).wire
    await refused(status.PERMISSION_DENIED, trusting.create(campaign))
    for limit in ({"campaign_rate": 0.001}, {"peer_rate": 0.001, "peer_burst": 1}):
        wire = (await start_server(**limit)).wire
        await wire.create(campaign)
        await wire.submit(campaign, wire_report(1, (0, 5)))
        error = await refused(
            status.RESOURCE_EXHAUSTED, wire.submit(campaign, wire_report(1, (0, 5)))
        )
        assert "too many requests" in error.details()
