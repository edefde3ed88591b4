"""A server with chosen answers, for the commands of devices and analysts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from geoveil.proto.v1 import (
    analyst_pb2,
    analyst_pb2_grpc,
    campaign_pb2,
    collector_pb2,
    collector_pb2_grpc,
    report_pb2,
)


class Hostile(collector_pb2_grpc.CollectorServicer, analyst_pb2_grpc.AnalystServicer):
    """Shows its envelopes one after the other, then the last for ever; takes every report."""

    def __init__(self) -> None:
        self.address = ""
        self.envelopes: list[bytes] = []
        self.asked = 0
        self.sent: list[collector_pb2.SubmitReportsRequest] = []
        self.rejection: report_pb2.ReportResult | None = None
        self.estimate = analyst_pb2.GetEstimateResponse()
        self.refusal: str | None = None

    def GetCampaign(self, request, context):
        if self.refusal is not None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refusal)
        self.asked += 1
        first, *more = self.envelopes
        self.envelopes = more or [first]
        return collector_pb2.GetCampaignResponse(
            envelope=campaign_pb2.CampaignEnvelope.FromString(first),
            state=campaign_pb2.CAMPAIGN_STATE_OPEN,
        )

    def SubmitReports(self, request, context):
        self.sent.append(request)
        accepted = report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_ACCEPTED)
        return collector_pb2.SubmitReportsResponse(results=[self.rejection or accepted])

    def GetEstimate(self, request, context):
        if self.refusal is not None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refusal)
        return self.estimate

    def ListCampaigns(self, request, context):
        return analyst_pb2.ListCampaignsResponse(
            campaigns=[
                analyst_pb2.CampaignSummary(
                    envelope=campaign_pb2.CampaignEnvelope.FromString(envelope), state=77
                )
                for envelope in self.envelopes
            ]
        )


@contextmanager
def hostile_server() -> Iterator[Hostile]:
    """Run one on a free port; yield it."""
    servicer = Hostile()
    server = grpc.server(ThreadPoolExecutor(2))
    collector_pb2_grpc.add_CollectorServicer_to_server(servicer, server)
    analyst_pb2_grpc.add_AnalystServicer_to_server(servicer, server)
    servicer.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield servicer
    finally:
        server.stop(None)
