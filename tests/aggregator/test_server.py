"""The wire contract over real connections: calls, streams and error details."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from math import ldexp
from random import Random
from statistics import fmean
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import Report, unpack
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.campaign import PublicKey, SmoothSpec, encode
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2

from .refusals import details_of, refused

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
    info, bad = details_of(error)
    assert info.reason == "INVALID_ARGUMENT"
    assert [violation.field for violation in bad.field_violations] == ["confidence"]
    assert await wire.sums(campaign) == [(0, 0, 0)] * 3


async def test_malformed_and_oversized_messages(start_server, publish):
    wire = (await start_server(max_message_bytes=4096)).wire
    await wire.create(publish())
    submit = wire.channel.unary_unary("/geoveil.proto.v1.Collector/SubmitReports")
    for malformed in (b"\xff", b"\x0a\xff", b"\x0a\x02\xff\xfe", bytes(10)):
        error = await refused(grpc.StatusCode.INVALID_ARGUMENT, submit(malformed))
        assert f"{len(malformed)} bytes" in error.details()
    await refused(grpc.StatusCode.RESOURCE_EXHAUSTED, submit(b"\x12\x88\x27" + bytes(5000)))


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
    info, retry = details_of(error)
    assert (info.reason, info.domain) == ("STORE_UNAVAILABLE", "geoveil")
    assert retry.retry_delay.ToMilliseconds() == 5_000
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


PATIENCE_S = 30


def submission(campaign: Any, *reports: report_pb2.Report, **changes: Any) -> Any:
    fields = {"campaign_id": campaign.campaign_id, "campaign_digest": campaign.digest}
    return collector_pb2.SubmitReportsRequest(reports=reports, **{**fields, **changes})


async def test_a_stream_answers_each_batch_as_a_call_would(wire, campaign, wire_report):
    batches = [
        [wire_report(n, (0, n)) for n in range(5)],
        [wire_report(4, (0, 4)), wire_report(5, (1, 7)), wire_report(6, (9, 1))],
        [wire_report(7, (2, 2**40))],
    ]
    stream = wire.collector.SubmitReportStream(timeout=PATIENCE_S)
    answered = []
    for batch in batches:  # each is on disk before the next is sent
        await stream.write(submission(campaign, *batch))
        answered.append([r.status for r in (await stream.read()).results])
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    rejected = report_pb2.REPORT_STATUS_REJECTED
    assert answered == [[ACCEPTED] * 5, [DUPLICATE, ACCEPTED, rejected], [ACCEPTED]]
    assert await wire.sums(campaign) == [(5, 10, 30), (1, 7, 49), (1, 2**40, 2**80)]


async def test_a_refused_batch_ends_the_stream_and_those_before_stand(wire, campaign, wire_report):
    requests = [
        submission(campaign, wire_report(1, (0, 5))),
        submission(campaign, wire_report(2, (0, 5)), campaign_digest=bytes(32)),
    ]
    stream = wire.collector.SubmitReportStream(timeout=PATIENCE_S)
    await stream.write(requests[0])
    assert [r.status for r in (await stream.read()).results] == [ACCEPTED]
    await stream.write(requests[1])
    error = await refused(grpc.StatusCode.FAILED_PRECONDITION, stream.read())
    assert details_of(error)[0].reason == "DIGEST_MISMATCH"
    assert (await wire.sums(campaign))[0] == (1, 5, 25)


async def test_malformed_bytes_in_a_stream_are_an_invalid_argument(wire):
    method = "/geoveil.proto.v1.Collector/SubmitReportStream"
    call = wire.channel.stream_stream(method)(timeout=PATIENCE_S)
    await call.write(b"\xff\xff\xff")
    await refused(grpc.StatusCode.INVALID_ARGUMENT, call.read())
    method = "/geoveil.proto.v1.Analyst/WatchEstimate"
    watch = wire.channel.unary_stream(method)(b"\xff\xff", timeout=PATIENCE_S)
    await refused(grpc.StatusCode.INVALID_ARGUMENT, watch.read())


async def test_a_sender_that_goes_away_leaves_whole_batches(wire, campaign, wire_report):
    stream = wire.collector.SubmitReportStream(timeout=PATIENCE_S)
    await stream.write(submission(campaign, *[wire_report(n, (0, 1)) for n in range(10)]))
    await stream.read()
    await stream.write(submission(campaign, *[wire_report(n, (0, 1)) for n in range(10, 20)]))
    stream.cancel()
    again = [wire_report(n, (0, 1)) for n in range(20)]
    await wire.submit(campaign, *again)
    assert (await wire.sums(campaign))[0] == (20, 20, 20)


@pytest.mark.deep
async def test_a_watch_over_the_wire(wire, publish, wire_report):
    campaign = publish(queries=1)
    await wire.create(campaign)
    request = analyst_pb2.WatchEstimateRequest(
        campaign_id="income", confidence=0.5, interval=Duration(seconds=1)
    )
    watch = wire.analyst.WatchEstimate(request, timeout=PATIENCE_S)
    shown = aiter(watch)
    first = await anext(shown)
    assert (first.estimates[0].n, first.estimates[0].confidence) == (0, 0.5)
    await wire.submit(campaign, wire_report(1, (0, 5)), wire_report(2, (0, 7)))
    await wire.analyst.CloseCampaign(analyst_pb2.CloseCampaignRequest(campaign_id="income"))
    last = [response async for response in shown][-1]
    assert last.state == campaign_pb2.CAMPAIGN_STATE_CLOSED
    assert last.estimates[0].n == 2
    assert await watch.code() is grpc.StatusCode.OK


async def test_watches_have_sound_requests(wire, publish):
    await wire.create(publish())
    wrong: Iterable[tuple[dict[str, Any], grpc.StatusCode]] = [
        ({"campaign_id": "unknown"}, grpc.StatusCode.NOT_FOUND),
        ({"confidence": 2.0}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"period": 1}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"interval": Duration()}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"interval": Duration(seconds=2**40)}, grpc.StatusCode.INVALID_ARGUMENT),
    ]
    for changes, status in wrong:
        request = analyst_pb2.WatchEstimateRequest(**{"campaign_id": "income", **changes})
        await refused(status, wire.analyst.WatchEstimate(request, timeout=PATIENCE_S).read())


async def test_browsing_over_the_wire(wire, publish):
    for name in ("a", "b", "c"):
        await wire.create(publish(name))
    request = collector_pb2.BrowseCampaignsRequest(page_size=2)
    first = await wire.collector.BrowseCampaigns(request)
    request.page_token = first.next_page_token
    second = await wire.collector.BrowseCampaigns(request)
    contents = [c.envelope.campaign for r in (first, second) for c in r.campaigns]
    assert contents == [publish(name).published for name in ("a", "b", "c")]
    assert {c.state for c in first.campaigns} == {campaign_pb2.CAMPAIGN_STATE_OPEN}
    assert second.next_page_token == ""


async def test_estimates_say_what_they_are_over_the_wire(wire, publish, wire_report, clock):
    campaign = publish(queries=1)
    weekly = replace(
        campaign.campaign, period=(clock.closes - clock.opens) / 4, minimum_participants=2
    )
    recurring = replace(campaign, campaign=weekly, published=encode(weekly))
    digest = await wire.create(recurring)
    recurring = replace(recurring, digest=digest)
    request = analyst_pb2.GetEstimateRequest(campaign_id="income")
    error = await refused(grpc.StatusCode.FAILED_PRECONDITION, wire.analyst.GetEstimate(request))
    assert "every query needs 2 answers" in error.details()
    assert details_of(error)[0].reason == "TOO_FEW_REPORTS"
    reports = [wire_report(n, (0, n)) for n in range(4)]
    for report in reports[2:]:
        report.period = 1
    await wire.submit(recurring, *reports)
    shown = await wire.analyst.GetEstimate(request)
    assert [(e.period, e.n, e.sum) for e in shown.estimates] == [(0, 2, "1"), (1, 2, "5")]
    assert (shown.privacy.epsilon, shown.privacy.per) == (1.0, 8000.0)
    assert shown.privacy_at_most.epsilon == 2.0
    assert shown.unbiased_for.startswith("Unbiased for the mean")
    assert not shown.estimates[0].HasField("median_of_means")
    request.period = 1
    assert [e.period for e in (await wire.analyst.GetEstimate(request)).estimates] == [1]
    late = wire_report(9, (0, 1))
    late.period = 3
    (result,) = await wire.submit(recurring, late)
    assert result.reason == report_pb2.REJECTION_REASON_WRONG_PERIOD


async def test_heavy_tails_have_a_median_of_means_over_the_wire(wire, publish, database):
    campaign = publish(queries=1, mechanism=SmoothSpec(0.3))
    await wire.create(campaign)
    rng = Random(6)
    # Ids of a sender who would have all of them in one block.
    sent = [(rng.randbytes(15) + b"!", rng.randrange(-(2**40), 2**40)) for _ in range(1_100)]
    reports = [
        report_pb2.Report(report_id=i, answers=[report_pb2.Answer(value=v)]) for i, v in sent
    ]
    await wire.submit(campaign, *reports)
    request = analyst_pb2.GetEstimateRequest(campaign_id="income")
    (shown,) = (await wire.analyst.GetEstimate(request)).estimates
    with SQLiteStore(database) as store:
        layout = Layout.stored(campaign.campaign, 32, store.get_campaign("income").block_key)
    blocks: list[list[int]] = [[] for _ in range(32)]
    for report_id, value in sent:
        (packed,) = layout.pack([Report(report_id, [(0, value)])])
        ((block, counted),) = unpack(packed.answers)
        assert counted == value
        blocks[block].append(value)
    means = sorted(fmean(block) for block in blocks)
    step = ldexp(1.0, campaign.campaign.grid_exponent)
    assert int(shown.sum) == sum(v for _, v in sent)
    assert shown.median_of_means.blocks == 32
    assert shown.median_of_means.value == pytest.approx((means[15] + means[16]) / 2 * step)
    # P[Binomial(32, 1/2) < 10] is the last below 2.5 %.
    assert shown.median_of_means.ci_low == pytest.approx(means[9] * step)
    assert shown.median_of_means.ci_high == pytest.approx(means[22] * step)


async def test_many_streams_at_once_count_once(wire, publish, wire_report):
    campaign = publish(queries=1)
    await wire.create(campaign)

    async def send(first: int) -> list[int]:
        async def requests() -> AsyncIterator[Any]:
            for start in range(first, first + 100, 10):
                yield submission(
                    campaign, *[wire_report(n, (0, n)) for n in range(start, start + 10)]
                )

        stream = wire.collector.SubmitReportStream(requests(), timeout=PATIENCE_S)
        return [r.status async for response in stream for r in response.results]

    statuses = await asyncio.gather(*[send(first) for first in (0, 50, 100, 0)])
    assert sum(of_one.count(ACCEPTED) for of_one in statuses) == 200
    assert await wire.sums(campaign) == [(200, sum(range(200)), sum(n * n for n in range(200)))]
