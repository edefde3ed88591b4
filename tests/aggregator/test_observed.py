"""Metrics and traces: every documented name, true counts, spans to the commit, and no person."""

import asyncio
import re
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from opentelemetry.instrumentation.grpc import client_interceptor
from opentelemetry.instrumentation.grpc.grpcext import intercept_channel
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.domain.reports import Status
from geoveil.aggregator.ops.authorizer import Denial
from geoveil.campaign.admission import Reason
from geoveil.client import GrpcTransport
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2

DOCUMENT = Path(__file__).parents[2] / "docs" / "operating.md"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(server: Any) -> str:
    url = f"http://127.0.0.1:{server.aggregator.metrics_port}/metrics"

    def get() -> str:
        with urllib.request.urlopen(url, timeout=20) as response:
            return str(response.read().decode())

    return await asyncio.to_thread(get)


async def samples(server: Any) -> Samples:
    families = text_string_to_metric_families(await scrape(server))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def at(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


async def eventually(server: Any, name: str) -> float:
    """Return the first value that is not zero; what sets it tells nobody."""
    async with asyncio.timeout(20):
        while True:
            if value := at(await samples(server), name):
                return value
            await asyncio.sleep(0.01)


async def test_reports_are_counted_by_outcome_and_reason(start_server, publish, wire_report):
    server = await start_server(metrics_port=0)
    wire, campaign = server.wire, publish()
    await wire.create(campaign)
    good = [wire_report(n, (0, n)) for n in range(5)]
    await wire.submit(campaign, *good)
    await wire.submit(campaign, *good[:2], wire_report(1, (1, 1)), wire_report(9, (7, 1)))
    found = await samples(server)
    outcomes = {s: at(found, "geoveil_reports_total", outcome=s.name.lower()) for s in Status}
    assert outcomes == {Status.ACCEPTED: 5, Status.DUPLICATE: 2, Status.REJECTED: 2}
    reasons = {
        r: at(found, "geoveil_reports_rejected_total", reason=r.name.lower()) for r in Reason
    }
    counted = {Reason.ID_CONFLICT: 1, Reason.WRONG_ANSWERS: 1}
    assert reasons == {reason: counted.get(reason, 0) for reason in Reason}
    assert at(found, "geoveil_commit_reports_sum") == 8
    assert at(found, "geoveil_commit_seconds_count") == 2
    assert at(found, "geoveil_queue_weight") == 0


async def test_calls_are_counted_by_code(start_server, publish, wire_report):
    server = await start_server(metrics_port=0)
    wire, campaign = server.wire, publish()
    await wire.create(campaign)
    await wire.submit(campaign, wire_report(1, (0, 1)))
    for _ in range(3):
        with pytest.raises(grpc.aio.AioRpcError):
            await wire.submit(publish("absent"), wire_report(1, (0, 1)))
    for made_up in ("/geoveil.proto.v1.Collector/Nothing", "/x/y"):
        with pytest.raises(grpc.aio.AioRpcError):
            await wire.channel.unary_unary(made_up)(b"")
    stream = wire.collector.SubmitReportStream()
    for number in (2, 3):
        await stream.write(
            collector_pb2.SubmitReportsRequest(
                campaign_id=campaign.campaign_id,
                campaign_digest=campaign.digest,
                reports=[wire_report(number, (0, 1))],
            )
        )
        await stream.read()
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    found = await samples(server)
    calls = {
        (dict(labels)["method"], dict(labels)["code"]): value
        for (name, labels), value in found.items()
        if name == "geoveil_rpcs_total"
    }
    assert calls == {
        ("geoveil.proto.v1.Analyst/CreateCampaign", "OK"): 1,
        ("geoveil.proto.v1.Collector/SubmitReports", "OK"): 1,
        ("geoveil.proto.v1.Collector/SubmitReports", "NOT_FOUND"): 3,
        ("geoveil.proto.v1.Collector/SubmitReportStream", "OK"): 1,
    }
    method = "geoveil.proto.v1.Collector/SubmitReports"
    assert at(found, "geoveil_rpc_seconds_count", method=method) == 4
    assert at(found, "geoveil_reports_total", outcome="accepted") == 3


async def test_refusals_and_cancelled_calls_are_counted(start_server, publish):
    server = await start_server(host="0.0.0.0", metrics_port=0)
    with pytest.raises(grpc.aio.AioRpcError):
        await server.wire.create(publish())
    found = await samples(server)
    assert at(found, "geoveil_rpcs_denied_total", reason="analyst_closed") == 1
    method = "geoveil.proto.v1.Analyst/CreateCampaign"
    assert at(found, "geoveil_rpcs_total", method=method, code="PERMISSION_DENIED") == 1


async def test_the_queue_and_failures_of_the_database_show(
    start_server, publish, wire_report, database
):
    entered, released = threading.Event(), threading.Event()

    class Failing(SQLiteStore):
        def commit(self, batch: Any) -> Any:
            entered.set()
            assert released.wait(20)
            raise ServiceError(Code.STORE_UNAVAILABLE)

    server = await start_server(lambda: Failing(database), metrics_port=0)
    campaign = publish()
    await server.wire.create(campaign)
    first = asyncio.create_task(server.wire.submit(campaign, wire_report(1, (0, 1))))
    assert await asyncio.to_thread(entered.wait, 20)
    more = [wire_report(n, (0, 1)) for n in range(2, 9)]
    second = asyncio.create_task(server.wire.submit(campaign, *more))
    assert await eventually(server, "geoveil_queue_weight") == 7
    released.set()
    for task in (first, second):
        with pytest.raises(grpc.aio.AioRpcError):
            await task
    found = await samples(server)
    assert at(found, "geoveil_queue_weight") == 0
    assert at(found, "geoveil_store_errors_total", operation="commit") == 2
    assert at(found, "geoveil_commit_seconds_count") == 0


async def test_open_campaigns_are_counted(start_server, publish, clock):
    first = await start_server()
    for name in ("one", "two", "three"):
        await first.wire.create(publish(name))
    await first.aggregator._service.close_campaign("one")
    server = await start_server(metrics_port=0)
    assert await eventually(server, "geoveil_campaigns_open") == 2


async def test_a_scrape_names_no_campaign_and_no_caller(start_server, publish, wire_report):
    server = await start_server(metrics_port=0)
    wire, campaign = server.wire, publish("secret-campaign")
    await wire.create(campaign)
    await wire.submit(campaign, wire_report(123_456_789, (0, 4711)))
    text = await scrape(server)
    for hidden in ("secret-campaign", "123456789", "127.0.0.1", "ipv4"):
        assert hidden not in text
    assert not re.search(r"(?<![\d.])4711(?!\d)", text)  # within a time it may stand by chance
    assert 'method="geoveil.proto.v1.Collector/SubmitReports"' in text


async def test_names_are_those_of_the_document(start_server):
    server = await start_server(metrics_port=0)
    families = {
        (f.name + "_total" * (f.type == "counter"), f.type)
        for f in text_string_to_metric_families(await scrape(server))
        if f.name.startswith("geoveil_") and not f.name.endswith("_created")
    }
    rows = re.findall(r"^\| `(geoveil_\w+)` \| (\w+) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert set(rows) == families


async def test_closed_lists_begin_at_zero(start_server):
    found = await samples(await start_server(metrics_port=0))
    for denial in Denial:
        assert at(found, "geoveil_rpcs_denied_total", reason=denial.name.lower()) == 0
    for status in Status:
        assert at(found, "geoveil_reports_total", outcome=status.name.lower()) == 0
    assert at(found, "geoveil_ready") == 1
    assert at(found, "geoveil_tls_certificate_expires_timestamp_seconds") == 0


@pytest.mark.deep
async def test_metrics_are_off_unless_asked_for_and_end_with_the_server(start_server):
    assert (await start_server()).aggregator.metrics_port is None
    server = await start_server(metrics_port=0)
    port = server.aggregator.metrics_port
    with pytest.raises(ParameterError, match="metrics_port"):
        await start_server(metrics_port=port)
    await server.aggregator.stop()
    again = await start_server(metrics_port=port)
    assert again.aggregator.metrics_port == port


SUBMIT = "geoveil.proto.v1.Collector/SubmitReports"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self):
        self.requests = []

    def Export(self, request, context):
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def spans(self):
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def collector(monkeypatch):
    with ThreadPoolExecutor(1) as pool:
        server, collector = grpc.server(pool), Collector()
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        yield collector
        server.stop(None)


def request_of(campaign, *reports):
    return collector_pb2.SubmitReportsRequest(
        campaign_id=campaign.campaign_id, campaign_digest=campaign.digest, reports=reports
    )


async def test_a_trace_goes_from_a_client_to_the_commit_and_names_nobody(
    start_server, publish, wire_report, collector, monkeypatch
):
    server = await start_server(traces=1.0)
    campaign = publish()
    await server.wire.create(campaign)
    sent = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(sent))
    tracing, connect = client_interceptor(provider), grpc.insecure_channel
    monkeypatch.setattr(
        grpc, "insecure_channel", lambda *a, **k: intercept_channel(connect(*a, **k), tracing)
    )
    request = request_of(campaign, wire_report(987_654_321, (0, 123_457)))
    with closing(GrpcTransport(server.address)) as transport:
        await asyncio.to_thread(transport.submit_reports, request, 30)
    await server.aggregator.stop()

    (of_client,) = (span.context for span in sent.get_finished_spans())
    assert of_client is not None
    (of_call,) = [span for span in collector.spans if span.name == SUBMIT]
    (of_commit,) = [span for span in collector.spans if span.name == "commit"]
    assert of_call.trace_id == of_commit.trace_id == of_client.trace_id.to_bytes(16, "big")
    assert of_call.parent_span_id == of_client.span_id.to_bytes(8, "big")
    assert of_commit.parent_span_id == of_call.span_id
    assert of_call.start_time_unix_nano <= of_commit.start_time_unix_nano
    assert of_commit.end_time_unix_nano <= of_call.end_time_unix_nano
    held = {attribute.key for attribute in of_call.attributes}
    assert held == {"rpc.system", "rpc.service", "rpc.method", "rpc.grpc.status_code"}
    assert not of_commit.attributes
    assert not [span for span in collector.spans if span.events or span.links or span.trace_state]
    everything = " ".join(map(str, collector.requests))
    for secret in ("123457", campaign.campaign_id, server.address, "peer"):
        assert secret not in everything
    assert (987_654_321).to_bytes(16, "big") not in everything.encode()


async def test_failed_calls_are_traced_and_unknown_methods_are_not(start_server, collector):
    server = await start_server(traces=1.0)
    with grpc.insecure_channel(server.address) as channel:
        for path in ("/geoveil.proto.v1.Collector/GetCampaign", "/geoveil.v1.Collector/Nothing"):
            call = channel.unary_unary(path, bytes, bytes)
            metadata = (
                ("traceparent", "00-not a trace"),
                ("tracestate", "who=alice"),
                ("authorization", "Bearer gv_secret"),
            )
            with pytest.raises(grpc.RpcError):
                await asyncio.to_thread(call, b"\xff", metadata=metadata)
    await server.aggregator.stop()
    (span,) = collector.spans
    assert span.name == "geoveil.proto.v1.Collector/GetCampaign"
    assert not span.parent_span_id
    assert not span.trace_state
    assert not re.search("alice|gv_secret", str(collector.requests))
    (code,) = [a.value.int_value for a in span.attributes if a.key == "rpc.grpc.status_code"]
    assert code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


@pytest.mark.parametrize("traces", [None, 1e-9])
async def test_a_caller_cannot_ask_to_be_traced(traces, start_server, collector):
    """A sampled traceparent changes nothing; of 5 calls 1e-9 are traced by chance: 5e-9."""
    server = await start_server(traces=traces)
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary("/geoveil.proto.v1.Collector/GetCampaign", bytes, bytes)
        for i in range(5):
            metadata = (("traceparent", f"00-{'f' * 31}{i}-{'2' * 16}-01"),)
            with pytest.raises(grpc.RpcError):
                await asyncio.to_thread(call, b"", metadata=metadata)
    await server.aggregator.stop()
    assert collector.spans == []


async def test_without_the_extra_the_setting_is_refused(start_server, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ParameterError, match=r"traces must be left out, or pip install"):
        await start_server(traces=0.5)
    with pytest.raises(ParameterError, match="traces"):
        await start_server(traces=1.5)
