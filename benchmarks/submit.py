"""Reports per second into SQLite, durable and deduplicated, over gRPC on this machine.

The reference is SQLite itself: the same rows, inserted by executemany into a table with the same
key and durability, without dedupe, sums, gRPC or checks.
"""

import secrets
import sqlite3
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc

from benchmarks.timing import Figure, medians, show
from geoveil.campaign import Attribute, Question, StatisticCampaign, digest, encode
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import (
    analyst_pb2,
    analyst_pb2_grpc,
    campaign_pb2,
    collector_pb2,
    collector_pb2_grpc,
    report_pb2,
)
from geoveil.simulation.local_server import local_server

BATCH, BATCHES = 4_096, 10


def table() -> list[Figure]:
    """Print microseconds per report."""
    now = datetime.now(UTC)
    campaign = encode(
        StatisticCampaign(
            campaign_id="load",
            title="Load",
            attribute=Attribute(name="income", unit="dollar"),
            privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
            questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
            opens=now,
            closes=now + timedelta(days=1),
        )
    )
    reference = "sqlite3 executemany"
    with (
        tempfile.TemporaryDirectory() as folder,
        local_server(Path(folder) / "a.db") as server,
        grpc.insecure_channel(server) as channel,
    ):
        envelope = campaign_pb2.CampaignEnvelope(campaign=campaign)
        analyst_pb2_grpc.AnalystStub(channel).CreateCampaign(
            analyst_pb2.CreateCampaignRequest(envelope=envelope)
        )
        stub = collector_pb2_grpc.CollectorStub(channel)
        times = medians(
            {
                reference: lambda: _plain(Path(folder) / "plain.db"),
                "aggregator, batches of 4,096": lambda: _submit(stub, campaign),
            },
            rounds=5,
        )
    return show(
        f"durable submission of {BATCH * BATCHES:,} reports",
        "µs per report",
        1e6 / (BATCH * BATCHES),
        times,
        reference,
    )


def _submit(stub: collector_pb2_grpc.CollectorStub, campaign: bytes) -> None:
    for _ in range(BATCHES):
        answers = [report_pb2.Answer(query_index=0, value=123_456)]
        reports = [
            report_pb2.Report(report_id=secrets.token_bytes(16), answers=answers)
            for _ in range(BATCH)
        ]
        response = stub.SubmitReports(
            collector_pb2.SubmitReportsRequest(
                campaign_id="load", campaign_digest=digest(campaign), reports=reports
            )
        )
        assert all(r.status == report_pb2.REPORT_STATUS_ACCEPTED for r in response.results)


def _plain(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS report (campaign INTEGER, id BLOB, answers BLOB,"
        " PRIMARY KEY (campaign, id)) WITHOUT ROWID"
    )
    for _ in range(BATCHES):
        rows = [(1, secrets.token_bytes(16), b"\x00\x01\xe2\x40") for _ in range(BATCH)]
        with connection:
            connection.executemany("INSERT INTO report VALUES (?, ?, ?)", rows)
    connection.close()
