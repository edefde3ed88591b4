"""Coverage of the intervals that a server returns, over campaigns of exact releases sent to it.

For every way to divide ε among two questions, and for questions asked later of perturbed values, it
creates, answers and reads 2,000 campaigns of 200 people over gRPC. Two in a hundred people are far
above both thresholds, and as many lie within the band of the first.
"""

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from benchmarks.intervals import CAMPAIGNS, LEAST, PRIVACY, B, Found, too_little
from benchmarks.serving import served
from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    PointQuestion,
    Question,
    StatisticCampaign,
    ValueCampaign,
    digest,
    encode,
    encode_point_question,
    seal,
)
from geoveil.gp import SeededSource, Threshold
from geoveil.proto.v1 import (
    analyst_pb2,
    analyst_pb2_grpc,
    campaign_pb2,
    collector_pb2,
    collector_pb2_grpc,
    report_pb2,
)

PEOPLE, QUICK = 200, 50
PLACES, SHARES = np.array([-30 * B, 0.0, 30 * B]), np.array([0.96, 0.02, 0.02])
QUERIES = {f"at {at} b": Threshold(at * B, 3 * B, "smoothstep") for at in (0, 10)}
_CHANCE = 2.0


def rows(*, quick: bool = False) -> Iterator[tuple[list[str], bool]]:
    """Yield the cells of a row for each allocation and question, and whether it failed."""
    campaigns = QUICK if quick else CAMPAIGNS
    with (
        tempfile.TemporaryDirectory() as folder,
        served("aggregator", str(Path(folder) / "served.db")) as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        for allocation in (Allocation.PARTITION, Allocation.SPLIT, Allocation.REPEAT, None):
            name = "points" if allocation is None else allocation.value
            shown = np.array(list(answered(channel, allocation, campaigns)))
            for number, (label, query) in enumerate(QUERIES.items()):
                truth = float(np.asarray(query.value(PLACES)).ravel() @ SHARES)
                student, found = (_found(ends, truth) for ends in _ends(shown[:, :, number]))
                wrong = too_little(found, campaigns, _CHANCE)
                shares = ["  ".join(f"{c:.1%}" for c in f.coverage) for f in (student, found)]
                about = PEOPLE // len(QUERIES) if allocation is Allocation.PARTITION else PEOPLE
                width = f"{found.width / student.width:.3f}"
                title = f"by a server: {name}, {label}"
                yield [title, f"{about}", *shares, width, ", ".join(wrong)], bool(wrong)


def answered(
    channel: grpc.Channel, allocation: Allocation | None, campaigns: int
) -> Iterator[list[list[tuple[float, ...]]]]:
    """Yield both ends, estimate, standard error and answers, for each confidence and query."""
    rng, source = np.random.default_rng(campaigns), SeededSource(campaigns)
    first = _campaign(allocation, 0)
    people = rng.choice(PLACES, (campaigns, PEOPLE), p=SHARES)
    noisy = _released(first, people.ravel(), source).reshape(campaigns, PEOPLE, -1)
    every = list(range(first.columns))
    for number, values in enumerate(noisy):
        campaign, reports = _campaign(allocation, number), []
        for device, row in enumerate(values):
            columns = every if campaign.answers_all else [int(rng.integers(first.columns))]
            answers = [report_pb2.Answer(query_index=c, value=int(row[c])) for c in columns]
            reports.append(report_pb2.Report(report_id=device.to_bytes(16, "big"), answers=answers))
        _send(channel, campaign, reports)
        yield [_read(channel, campaign, confidence) for confidence in LEAST]


def _campaign(allocation: Allocation | None, number: int) -> Campaign:
    now = datetime.now(UTC)
    more: dict[str, Any] = {
        "campaign_id": f"{allocation.value if allocation else 'points'}-{number}",
        "title": "Coverage",
        "attribute": Attribute(name="income", unit="dollar"),
        "privacy": PRIVACY,
        "opens": now - timedelta(hours=1),
        "closes": now,  # one look; reports are accepted for another minute, as clocks differ
    }
    if allocation is None:
        return ValueCampaign(mechanism=PlanarLaplaceSpec(1), **more)
    questions = tuple(Question(label, query) for label, query in QUERIES.items())
    return StatisticCampaign(questions=questions, allocation=allocation, **more)


def _released(campaign: Campaign, values: np.ndarray, source: SeededSource) -> np.ndarray:
    """Return people's reports, (people, columns)."""
    if isinstance(campaign, ValueCampaign):
        return np.asarray(campaign.point_mechanism.release_many(values, source))
    columns = [mechanism.release_many(values, source) for mechanism in campaign.mechanisms]
    return np.stack(columns, axis=1)


def _send(channel: grpc.Channel, campaign: Campaign, reports: list[report_pb2.Report]) -> None:
    envelope = campaign_pb2.CampaignEnvelope.FromString(seal(encode(campaign)))
    created = analyst_pb2.CreateCampaignRequest(envelope=envelope)
    analyst_pb2_grpc.AnalystStub(channel).CreateCampaign(created)
    request = collector_pb2.SubmitReportsRequest(
        campaign_id=campaign.campaign_id, campaign_digest=digest(encode(campaign)), reports=reports
    )
    results = collector_pb2_grpc.CollectorStub(channel).SubmitReports(request).results
    assert {result.status for result in results} == {report_pb2.REPORT_STATUS_ACCEPTED}


def _read(channel: grpc.Channel, campaign: Campaign, confidence: float) -> list[tuple[float, ...]]:
    analyst, asked = analyst_pb2_grpc.AnalystStub(channel), campaign.campaign_id
    if isinstance(campaign, ValueCampaign):
        questions = [PointQuestion(label, query) for label, query in QUERIES.items()]
        queries = [encode_point_question(question) for question in questions]
        shown = analyst.EstimateQueries(
            analyst_pb2.EstimateQueriesRequest(
                campaign_id=asked, confidence=confidence, queries=queries
            )
        )
    else:
        shown = analyst.GetEstimate(
            analyst_pb2.GetEstimateRequest(campaign_id=asked, confidence=confidence)
        )
    return [(e.ci_low, e.ci_high, e.value, e.standard_error, e.n) for e in shown.estimates]


def _ends(shown: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the ends of Student's and of the server's intervals, (campaigns, confidences, 2)."""
    from scipy import special

    value, error, n = np.moveaxis(shown[:, :, 2:], 2, 0)
    margin = special.stdtrit(n - 1, (1 + np.array(list(LEAST))) / 2) * error
    yield np.stack([value - margin, value + margin], axis=2)
    yield shown[:, :, :2]


def _found(ends: np.ndarray, truth: float) -> Found:
    held = (ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])
    return Found(tuple(held.mean(axis=0).tolist()), float((ends[:, 0, 1] - ends[:, 0, 0]).mean()))
