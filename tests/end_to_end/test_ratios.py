"""A campaign about ratios, answered by hundreds of devices over gRPC."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst import (
    Analyst,
    Quantiles,
    ShareAbove,
    ShareBetween,
    asked_of_points,
    campaign_for_points,
    softness_of_points,
)
from geoveil.analyst.campaigns import campaign_asking
from geoveil.campaign import Readings
from geoveil.client import Client, Policy
from geoveil.gp import GeoPrivacy, LogScale
from geoveil.simulation.local_server import local_server

PEOPLE = 300
HALF = GeoPrivacy.per_factor(4.0, 2, "dollar")
Z = 4.9
"""Two-sided, α = 1e-6 for each of four estimates whose bits nobody seeds."""


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize("mechanism", ["debiased", "smooth"])
def test_devices_find_the_shares(tmp_path, mechanism):
    """The truth is of these people."""
    now = datetime.now(UTC)
    scale = LogScale(1_000.0)
    campaign = campaign_asking(
        [ShareAbove(60_000), ShareBetween(20_000, 120_000)],
        attribute="income",
        privacy=HALF,
        scale=scale,
        width=3,
        mechanism=mechanism,
        campaign_id="ratio",
        title="By ratio",
        opens=now - timedelta(hours=1),
        closes=now + timedelta(days=1),
    )
    incomes = np.random.default_rng(35).lognormal(np.log(50_000), 1.0, PEOPLE)
    incomes[:30] = 0.0
    with local_server(tmp_path / "ratio.db") as address, Analyst(address) as analyst:
        analyst.create(campaign)
        policy = Policy({"income": HALF})
        for income in incomes:
            with Client(address, policy=policy, state_dir=None, background=False,
                        release_floor_s=0) as client:  # fmt: skip
                client.fetch("ratio")
                client.contribute("ratio", float(income))
                assert client.flush(10).acknowledged == 1
        estimates = analyst.estimate("ratio").estimates
    logs = np.log(np.maximum(incomes, 1_000.0))
    truths = [float(question.query.value(logs).mean()) for question in campaign.questions]
    for estimate, truth in zip(estimates, truths, strict=True):
        assert estimate.n > 100
        assert abs(estimate.value - truth) <= Z * estimate.standard_error
        # Control: had the values not been mapped, all were above, and none between.
        unmapped = float(np.mean(estimate is estimates[0]))
        assert abs(estimate.value - unmapped) > Z * estimate.standard_error


@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize("readings", [None, Readings(every=timedelta(days=91))])
def test_points_of_a_period_are_asked_in_dollars(tmp_path, readings):
    """30 people answer in the second of three periods, from one reading or anew."""
    now = datetime.now(UTC)
    campaign = campaign_for_points(
        attribute="income",
        privacy=HALF,
        scale=LogScale(1_000.0),
        campaign_id="ratio",
        title="By ratio",
        opens=now - timedelta(hours=36),
        closes=now + timedelta(hours=36),
        period=timedelta(days=1),
        readings=readings,
    )
    incomes = np.random.default_rng(36).lognormal(np.log(50_000), 1.0, 30)
    incomes[:3] = 0.0
    with local_server(tmp_path / "ratio.db") as address, Analyst(address) as analyst:
        analyst.create(campaign)
        for person, income in enumerate(incomes):
            with Client(address, policy=Policy.permitting(campaign), background=False,
                        state_dir=tmp_path / str(person), release_floor_s=0) as client:  # fmt: skip
                client.fetch("ratio")
                client.contribute("ratio", float(income))
                assert client.flush(10).acknowledged == 1
        asked = asked_of_points(campaign, [ShareAbove(20_000)], softness_of_points(campaign, 3))
        (estimate,) = [e for e in analyst.ask("ratio", asked).estimates if e.period == 1]
        found = analyst.ask("ratio", Quantiles(levels=(0.5,)), 1 - 1e-6, period=1)
    truth = float(asked[0].query.value(np.log(np.maximum(incomes, 1_000.0))).mean())
    assert estimate.n == 30
    assert abs(estimate.value - truth) <= Z * estimate.standard_error
    assert found.low[0] < np.median(incomes) < found.high[0]
