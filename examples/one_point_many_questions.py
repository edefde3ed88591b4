"""A value campaign: everyone sends one perturbed place to a server; anything is asked of it later.

Run: python examples/one_point_many_questions.py
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from geoveil.analyst import (
    Analyst,
    DensityAt,
    ShareWithin,
    asked_of_points,
    campaign_for_points,
    softness_of_points,
)
from geoveil.campaign import encode, seal
from geoveil.campaign.connection import open_channel
from geoveil.client import Limit, Place, Policy, ReportBuilder, gather
from geoveil.gp import GeoPrivacy
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub
from geoveil.simulation import collisions
from geoveil.simulation.local_server import local_server

PEOPLE = 2_000
PRIVACY = GeoPrivacy(epsilon=1.0, per=200.0, unit="metre")
AREA = AzimuthalEquidistant(longitude_deg=-73.98, latitude_deg=40.72, radius_m=60_000)


def main() -> None:
    """Publish, answer and ask, on a server of this machine."""
    # The analyst publishes a campaign that asks for a place, and for nothing about it yet.
    now = datetime.now(UTC)
    campaign = campaign_for_points(
        attribute="location",
        privacy=PRIVACY,
        plane=AREA,
        campaign_id="where",
        title="Where collisions happen",
        opens=now,
        closes=now + timedelta(days=1),
    )
    places = collisions().sample(PEOPLE, np.random.default_rng(1))

    with (
        tempfile.TemporaryDirectory() as folder,
        local_server(Path(folder) / "aggregator.db") as address,
        Analyst(address) as analyst,
        open_channel(address) as channel,
    ):
        analyst.create(campaign)

        # Each device perturbs its place once, with Client.contribute; this host acts for many.
        limit = Limit(campaign=PRIVACY, value=Place(AREA.area))
        builder = ReportBuilder(policy=Policy({"location": limit}))
        accepted = builder.accept("where", seal(encode(campaign)))
        for batch in gather(builder.prepare(accepted, place) for place in places):
            CollectorStub(channel).SubmitReports(batch.request())

        # Only now the questions: any number, at no further cost in privacy.
        asked = [
            DensityAt(-73.985, 40.755, "density around Midtown"),
            DensityAt(-73.98, 40.69, "density around Downtown Brooklyn"),
            ShareWithin(-73.985, 40.755, 4_000, "share within 4 km of Midtown"),
        ]
        softness = softness_of_points(campaign, bandwidth=1_000.0)
        questions = asked_of_points(campaign, asked, softness)
        shown = analyst.ask("where", questions)

    print(f"{PEOPLE:,} places, {PRIVACY} each. {shown.unbiased_for}\n")
    points = AREA.project(places)
    for question, estimate in zip(questions, shown.estimates, strict=True):
        truth = question.query.value(points).mean()
        print(
            f"{question.label:<34} {estimate.value:.3f} ± {1.96 * estimate.standard_error:.3f}"
            f"   (truth {truth:.3f})"
        )


if __name__ == "__main__":
    main()
