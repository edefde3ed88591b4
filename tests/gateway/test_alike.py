"""Test that gRPC and every protocol of the gateway answer one table of calls alike."""

import asyncio
import gzip
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.message import Message

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.proto.v1 import analyst_pb2 as analyst, campaign_pb2, collector_pb2 as collector
from geoveil.proto.v1.report_pb2 import Report
from tests.aggregator.conftest import Published

from .web_client import ANALYST, COLLECTOR, GrpcCaller, Outcome, WebCaller

FORMS = [("connect", False), ("connect", True), ("grpc-web", False), ("grpc-web", True)]
NAMES = ["connect", "connect-json", "grpc-web", "grpc-web-json"]
FORGED = campaign_pb2.CampaignSignature(public_key=b"k" * 32, signature=b"s" * 64)
Row = tuple[str, Message | bytes]


def table(publish: Callable[..., Published], wire_report: Callable[..., Report]) -> list[Row]:
    income, other = publish(), publish(title="Another title")

    def envelope(of: Published, **more: Any) -> campaign_pb2.CampaignEnvelope:
        return campaign_pb2.CampaignEnvelope(campaign=of.published, **more)

    def submit(*reports: Report, **changes: Any) -> collector.SubmitReportsRequest:
        said = {"campaign_id": "income", "campaign_digest": income.digest, "reports": reports}
        return collector.SubmitReportsRequest(**{**said, **changes})

    def named(kind: Any, name: str = "income", **more: Any) -> Message:
        message: Message = kind(campaign_id=name, **more)
        return message

    few = [wire_report(i, (i % 3, 100 * i)) for i in range(6)]
    return [
        (ANALYST + "CreateCampaign", analyst.CreateCampaignRequest(envelope=envelope(income))),
        (ANALYST + "CreateCampaign", analyst.CreateCampaignRequest(envelope=envelope(income))),
        (ANALYST + "CreateCampaign", analyst.CreateCampaignRequest(envelope=envelope(other))),
        (ANALYST + "CreateCampaign", analyst.CreateCampaignRequest()),
        (
            ANALYST + "CreateCampaign",
            analyst.CreateCampaignRequest(envelope=envelope(publish("forged"), signature=FORGED)),
        ),
        (ANALYST + "ListCampaigns", analyst.ListCampaignsRequest()),
        (ANALYST + "ListCampaigns", analyst.ListCampaignsRequest(page_size=2000)),
        (COLLECTOR + "BrowseCampaigns", collector.BrowseCampaignsRequest(page_size=1)),
        (COLLECTOR + "BrowseCampaigns", collector.BrowseCampaignsRequest(page_token="none")),
        (COLLECTOR + "GetCampaign", collector.GetCampaignRequest(campaign_id="income")),
        (COLLECTOR + "GetCampaign", collector.GetCampaignRequest(campaign_id="nöne")),
        (COLLECTOR + "SubmitReports", submit(*few)),
        (COLLECTOR + "SubmitReports", submit(*few[:2], wire_report(9, (7, 1)))),
        (COLLECTOR + "SubmitReports", submit(wire_report(1, (1, -5)), Report(report_id=b"short"))),
        (COLLECTOR + "SubmitReports", submit()),
        (COLLECTOR + "SubmitReports", submit(*few, campaign_id="none")),
        (COLLECTOR + "SubmitReports", submit(*few, campaign_digest=b"d" * 32)),
        (COLLECTOR + "SubmitReportStream", submit(wire_report(20, (0, 7)))),
        (COLLECTOR + "SubmitReportStream", submit(campaign_digest=b"d" * 32)),
        (ANALYST + "GetEstimate", named(analyst.GetEstimateRequest)),
        (ANALYST + "GetEstimate", named(analyst.GetEstimateRequest, confidence=2.0)),
        (ANALYST + "GetEstimate", named(analyst.GetEstimateRequest, "none")),
        (ANALYST + "EstimateQueries", named(analyst.EstimateQueriesRequest)),
        (ANALYST + "ExportReports", named(analyst.ExportReportsRequest)),
        (ANALYST + "ExportReports", named(analyst.ExportReportsRequest, "none")),
        (ANALYST + "CloseCampaign", named(analyst.CloseCampaignRequest)),
        (ANALYST + "CloseCampaign", named(analyst.CloseCampaignRequest, "none")),
        (COLLECTOR + "SubmitReports", submit(wire_report(30, (0, 1)))),
        (ANALYST + "WatchEstimate", named(analyst.WatchEstimateRequest)),
        (COLLECTOR + "NoSuchMethod", collector.GetCampaignRequest()),
        ("/other.Service/GetCampaign", collector.GetCampaignRequest()),
        ("/grpc.health.v1.Health/Check", b""),
    ]


async def asked(caller: GrpcCaller | WebCaller, rows: list[Row]) -> list[Outcome]:
    return [
        await caller.call(path, one if isinstance(one, bytes) else one.SerializeToString())
        for path, one in rows
    ]


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "in_json"), FORMS, ids=NAMES)
async def test_every_call_is_answered_as_over_grpc(
    start_web, publish, wire_report, tmp_path, kind, in_json
):
    rows = table(publish, wire_report)
    first = await start_web(database=tmp_path / "grpc.db")
    second = await start_web(database=tmp_path / "web.db")
    async with GrpcCaller(first.address) as caller:
        expected = await asked(caller, rows)
    web = second.web
    async with WebCaller(web, kind, in_json=in_json) as caller:
        found = await asked(caller, rows)
    for row, of_grpc, of_web in zip(rows, expected, found, strict=True):
        assert of_web == of_grpc, row[0]
    reasons = {one.reason for one in expected}
    assert reasons > {"CAMPAIGN_ID_TAKEN", "SIGNATURE_INVALID", "DIGEST_MISMATCH", ""}
    assert {one.code for one in expected} > {"OK", "NOT_FOUND", "UNIMPLEMENTED"}


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "in_json"), [FORMS[0], FORMS[2]], ids=["connect", "grpc-web"])
async def test_bytes_that_are_no_messages_are_refused_alike(start_web, kind, in_json):
    server = await start_web(max_message_bytes=5_000)
    paths = (COLLECTOR + "GetCampaign", COLLECTOR + "SubmitReports", ANALYST + "GetEstimate")
    unsound = (
        *(b"\xff", b"\x0a\xff", gzip.compress(b"\xff"), gzip.compress(b"a" * 100_000)),
        *(gzip.compress(b"abc")[:-4], b"\x1f\x8b", b"a" * 4_900, b"a" * 6_000),
    )
    rows: list[Row] = [(path, content) for path in paths for content in unsound]
    async with GrpcCaller(server.address) as caller:
        expected = await asked(caller, rows)
    web = server.web
    async with WebCaller(web, kind, in_json=in_json) as caller:
        found = await asked(caller, rows)
    for row, of_grpc, of_web in zip(rows, expected, found, strict=True):
        assert (of_web.code, of_web.details) == (of_grpc.code, of_grpc.details), row
    assert {one.code for one in expected} == {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("kind", "in_json"), FORMS, ids=NAMES)
async def test_tokens_are_asked_for_and_told_alike(start_web, tmp_path, clock, kind, in_json):
    file = tmp_path / "tokens.json"
    tokens = TokenFile(file)
    past = clock.now - timedelta(days=1)
    texts = [
        tokens.create("few", [Scope.CREATE], None),
        tokens.create("other", [Scope.ESTIMATE], None, campaigns=["other"]),
        tokens.create("old", [Scope.ESTIMATE], past),
        tokens.create("good", [Scope.ESTIMATE], None),
    ]
    server = await start_web(tokens_file=file)
    request = analyst.GetEstimateRequest(campaign_id="income").SerializeToString()
    headers = [{}, {"authorization": "Bearer none"}, {"authorization": "Basic abc"}]
    headers += [{"authorization": f"Bearer {text}"} for text in texts]
    found = []
    for caller in (
        GrpcCaller(server.address),
        WebCaller(server.web, kind, in_json=in_json),
    ):
        async with caller:
            found.append(
                [await caller.call(ANALYST + "GetEstimate", request, **one) for one in headers]
            )
    assert found[0] == found[1]
    assert [one.reason for one in found[0]] == [
        *("TOKEN_MISSING", "TOKEN_UNKNOWN", "TOKEN_MISSING", "SCOPE_MISSING", "OTHER_CAMPAIGN"),
        *("TOKEN_EXPIRED", "CAMPAIGN_NOT_FOUND"),
    ]


async def test_the_gateway_has_a_share_of_its_own(start_web):
    """What is asked by the gateway takes nothing from callers of gRPC; the delay is told alike."""
    server = await start_web(call_rate=0.01, call_burst=3)
    request = collector.GetCampaignRequest(campaign_id="income").SerializeToString()
    async with (
        GrpcCaller(server.address) as over_grpc,
        WebCaller(server.web, "connect", in_json=True) as over_http,
    ):
        path = COLLECTOR + "GetCampaign"
        of_web = [await over_http.call(path, request) for _ in range(6)]
        of_grpc = [await over_grpc.call(path, request) for _ in range(6)]
    for found in (of_web, of_grpc):
        assert [one.code for one in found] == ["NOT_FOUND"] * 3 + ["RESOURCE_EXHAUSTED"] * 3
        assert {one.reason for one in found[3:]} == {"RATE_LIMITED"}
        delays = [getattr(one.details[1], "retry_delay").seconds for one in found[3:]]  # noqa: B009
        assert all(90 <= delay <= 100 for delay in delays)


async def test_a_defect_is_told_alike_and_says_nothing(start_web, monkeypatch, caplog):
    server = await start_web()

    async def broken(*_: object, **__: object) -> None:
        raise KeyError("4711")

    monkeypatch.setattr(server.aggregator._service, "get_campaign", broken)
    found = []
    for caller in (
        GrpcCaller(server.address),
        *(WebCaller(server.web, kind, in_json=j) for kind, j in FORMS),
    ):
        async with caller:
            found.append(await caller.call(COLLECTOR + "GetCampaign", b""))
    assert found == [found[0]] * 5
    assert (found[0].code, found[0].reason) == ("INTERNAL", "INTERNAL")
    assert "4711" not in caplog.text + repr(found)


@pytest.mark.parametrize("header", ["connect-timeout-ms", "grpc-timeout"])
async def test_the_patience_of_the_caller_is_kept(start_web, monkeypatch, header):
    server = await start_web()
    ended = asyncio.Event()

    async def slow(*_: object, **__: object) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    monkeypatch.setattr(server.aggregator._service, "get_campaign", slow)
    async with WebCaller(server.web, "connect", in_json=False) as caller:
        path, name = COLLECTOR + "GetCampaign", header.replace("-", "_")
        found = await caller.call(path, b"", **{name: "500" if "connect" in header else "500m"})
        assert found.code == "DEADLINE_EXCEEDED"
        await asyncio.wait_for(ended.wait(), 10)  # told over another connection
        for unsound in ("-1", "1e3", "99999999999", ""):
            found = await caller.call(path, b"", **{name: unsound})
            assert (found.code, found.reason) == ("INVALID_ARGUMENT", "INVALID_ARGUMENT")
