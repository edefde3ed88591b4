"""Test that dozens of devices in Chromium with the papers' mechanisms find the truth."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.aggregator import Aggregator, Settings
from geoveil.analyst import AsyncAnalyst
from geoveil.campaign import Attribute, Question, SmoothSpec, StatisticCampaign
from geoveil.gp import GaussianKernel, GeoPrivacy, Query, Range, Threshold, TwoWayThreshold
from tests.gateways import gateway_of

PEOPLE = 60
QUERIES: dict[str, Query] = {
    "threshold": Threshold(50.0, 24.0),
    "range": Range(30.0, 80.0, 24.0),
    "two-way": TwoWayThreshold((50.0, 40.0), 24.0),
    "kernel": GaussianKernel((50.0,), 24.0),
}
NOISES = {
    "student-t": SmoothSpec(noise="student-t", calibration="paper", reach=math.inf),
    "generalized-cauchy": SmoothSpec(noise="generalized-cauchy", calibration="paper", reach=0.0),
    "laplace": SmoothSpec(noise="laplace", calibration="paper", reach=math.inf),
    "best": SmoothSpec(noise="best", calibration="exact", reach=0.0),
}
Z = 4.9
"""Two-sided, α = 1e-6 for each of 16 estimates whose bits nobody seeds: 2e-5 for all of them."""
ANSWERED = """async ([id, values]) => {
  const { Client, MemoryStorage, Policy } = await import("/pages/geoveil-client.js");
  const [server, background] = [location.origin, false];
  const looking = new Client({ server, policy: new Policy({ limits: {} }), background });
  const offer = await looking.offer(id);
  const policy = Policy.permitting(offer);
  let counted = 0;
  for (const value of values) {
    const storage = new MemoryStorage();
    const device = new Client({ server, policy, storage, background, releaseFloorMs: 0 });
    await device.contribute(id, value, { digest: offer.digest });
    counted += (await device.flush()).acknowledged;
  }
  return counted;
}"""


@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize("kind", QUERIES)
async def test_devices_in_pages_find_the_truth(tmp_path, context, kind):
    """The truth is that of these people. Control: a truth that is off by one is not found."""
    query, now = QUERIES[kind], datetime.now(UTC)
    values = np.random.default_rng(36).normal(55.0, 20.0, (PEOPLE, query.dimension))
    truth = float(query.value(values if query.dimension == 2 else values[:, 0]).mean())
    settings = Settings(database=tmp_path / "reports.db", port=0, web="127.0.0.1:0", grace_s=0.5)
    async with (
        Aggregator(settings) as aggregator,
        gateway_of(aggregator) as gateway,
        AsyncAnalyst(aggregator.address) as analyst,
    ):
        page = await context.new_page()
        for name, mechanism in NOISES.items():
            campaign = StatisticCampaign(
                campaign_id=name,
                title=name,
                attribute=Attribute(name="value", unit="unit"),
                privacy=GeoPrivacy(1.0, 8.0, "unit", delta=1e-6 if name == "laplace" else 0.0),
                questions=(Question("q", query),),
                mechanism=mechanism,
                opens=now - timedelta(hours=1),
                closes=now + timedelta(days=1),
            )
            await analyst.create(campaign)
            await page.goto(f"http://{gateway.address}/take-part/{name}")
            told = values.tolist() if query.dimension == 2 else values[:, 0].tolist()
            assert await page.evaluate(ANSWERED, [name, told]) == PEOPLE
            (estimate,) = (await analyst.estimate(name)).estimates
            assert estimate.value is not None
            assert estimate.standard_error is not None
            off = (estimate.value - truth) / estimate.standard_error
            assert abs(off) < Z
            assert abs(off - 1 / estimate.standard_error) > Z
