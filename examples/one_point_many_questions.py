"""A value campaign: everyone sends one perturbed place to a server; anything is asked of it later.

Run: python examples/one_point_many_questions.py
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from geoveil.campaign import (
    Attribute,
    PlanarLaplaceSpec,
    PointQuestion,
    ValueCampaign,
    encode,
    encode_point_question,
    seal,
)
from geoveil.campaign.connection import open_channel
from geoveil.client import Limit, Place, Policy, ReportBuilder, gather
from geoveil.gp import Disc, GaussianKernel, GeoPrivacy, SmoothedRegion
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1.analyst_pb2 import CreateCampaignRequest, EstimateQueriesRequest
from geoveil.proto.v1.analyst_pb2_grpc import AnalystStub
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub
from geoveil.simulation import collisions
from geoveil.simulation.local_server import local_server

PEOPLE = 2_000
PRIVACY = GeoPrivacy(epsilon=1.0, per=200.0, unit="metre")


def main() -> None:
    """Publish, answer and ask, on a server of this machine."""
    # The analyst publishes a campaign that asks for a place, and for nothing about it yet.
    plane = AzimuthalEquidistant(longitude_deg=-73.98, latitude_deg=40.72, radius_m=60_000)
    now = datetime.now(UTC)
    campaign = ValueCampaign(
        campaign_id="where",
        title="Where collisions happen",
        attribute=Attribute(name="location", unit="metre", coordinates=plane),
        privacy=PRIVACY,
        mechanism=PlanarLaplaceSpec(dimension=2),
        opens=now,
        closes=now + timedelta(days=1),
    )
    envelope = CampaignEnvelope.FromString(seal(encode(campaign)))
    places = collisions().sample(PEOPLE, np.random.default_rng(1))

    with (
        tempfile.TemporaryDirectory() as folder,
        local_server(Path(folder) / "aggregator.db") as address,
        open_channel(address) as channel,
    ):
        analyst, collector = AnalystStub(channel), CollectorStub(channel)
        analyst.CreateCampaign(CreateCampaignRequest(envelope=envelope))

        # Each device perturbs its place once, with Client.contribute; this host acts for many.
        limit = Limit(campaign=PRIVACY, value=Place(plane.area))
        builder = ReportBuilder(policy=Policy({"location": limit}))
        accepted = builder.accept("where", envelope.SerializeToString())
        for batch in gather(builder.prepare(accepted, place) for place in places):
            collector.SubmitReports(batch.request())

        # Only now the questions: any number, at no further cost in privacy.
        midtown, brooklyn = map(tuple, plane.project([[-73.985, 40.755], [-73.98, 40.69]]).tolist())
        questions = [
            PointQuestion("density around Midtown", GaussianKernel(midtown, bandwidth=1_000.0)),
            PointQuestion("density around Downtown Brooklyn", GaussianKernel(brooklyn, 1_500.0)),
            PointQuestion(
                "share within 4 km of Midtown",
                SmoothedRegion(Disc(midtown, 4_000.0, 1.0), bandwidth=500.0),
            ),
        ]
        queries = [encode_point_question(question) for question in questions]
        shown = analyst.EstimateQueries(
            EstimateQueriesRequest(campaign_id="where", queries=queries)
        )

    print(f"{PEOPLE:,} places, {PRIVACY} each. {shown.unbiased_for}\n")
    points = plane.project(places)
    for question, estimate in zip(questions, shown.estimates, strict=True):
        truth = question.query.value(points).mean()
        print(
            f"{question.label:<34} {estimate.value:.3f} ± {1.96 * estimate.standard_error:.3f}"
            f"   (truth {truth:.3f})"
        )


if __name__ == "__main__":
    main()
