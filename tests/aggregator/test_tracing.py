"""Test that spans go from client to commit, without data on people, tokens or addresses."""

import asyncio
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import grpc
import pytest
from opentelemetry.instrumentation.grpc import client_interceptor
from opentelemetry.instrumentation.grpc.grpcext import intercept_channel
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from geoveil.client import GrpcTransport
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2

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
