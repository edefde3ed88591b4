"""A campaign about ratios, answered by hundreds of devices over gRPC."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst import Analyst, ShareAbove, ShareBetween
from geoveil.analyst.campaigns import campaign_asking
from geoveil.client import Client, Policy
from geoveil.gp import GeoPrivacy, LogScale
from geoveil.simulation.local_server import local_server

PEOPLE = 300
HALF = GeoPrivacy.per_factor(4.0, 2, "dollar")
Z = 4.9
"""Two-sided, α = 1e-6 for each of four estimates whose bits nobody seeds."""


@pytest.mark.deep(keep=0, rest=1)
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
