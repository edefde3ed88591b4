"""Test that a campaign with the paper's mechanism has the paper's error.

100 campaigns of 40 devices each, over gRPC, at every setting: devices hold Californian incomes,
drawn with replacement; an error is the estimate less the hard share of the very devices. Its mean
square is compared with the formula of `oneway`, in which the authors' functions give the same
numbers (docs/reproductions.md).
"""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst import Analyst, ShareAbove
from geoveil.analyst.campaigns import campaign_asking
from geoveil.campaign import MECHANISMS
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.simulation.experiments import oneway
from geoveil.simulation.local_server import local_server
from tests.end_to_end.test_plan_round_trip import Seeded, answered

CAMPAIGNS, DEVICES = 100, 40
MECHANISM = "smooth:noise=student-t,nu=3,calibration=paper,reach=inf"
Z = 3.0
"""Two-sided, α = 0.0027 at each setting, as if means of squares were normal; seeds are fixed."""


def squares_of(address, panel, seed):
    """Return the squared errors of all campaigns."""
    values, shares = oneway.distinct_values(panel.given)
    draw, now = np.random.default_rng(seed), datetime.now(UTC)
    campaign = campaign_asking(
        [ShareAbove(panel.threshold)],
        attribute="household income",
        privacy=GeoPrivacy(1.0, panel.per, "dollar"),
        width=panel.setting.seed.width,
        mechanism=MECHANISM,
        minimum_participants=10,
        campaign_id="served",
        title="Served",
        opens=now - timedelta(hours=1),
        closes=now + timedelta(days=1),
    )
    errors = []
    with Analyst(address) as analyst:
        for number in range(CAMPAIGNS):
            name = f"served-{panel.threshold:.0f}-{number}"
            analyst.create(replace(campaign, campaign_id=name))
            incomes = draw.choice(values, DEVICES, p=shares)
            answered(address, name, incomes, Seeded(1000 * seed + number))
            (estimate,) = analyst.estimate(name).estimates
            assert estimate.n == DEVICES
            errors.append(estimate.value - float(np.mean(incomes > panel.threshold)))
    return np.square(errors)


def expected(panel, profile=None):
    """Return the error of the published mechanism, or of its noise with another profile."""
    if profile is None:
        (row,) = oneway.exact(replace(panel, people=(DEVICES,)), "Student-t")
        return row.error
    query = Threshold(panel.threshold, panel.setting.seed.width, profile)
    mechanism = MECHANISMS.parse(MECHANISM).build(query, GeoPrivacy(1.0, panel.per, "dollar"))
    values, shares = oneway.distinct_values(panel.given)
    off = mechanism.mean(values) - (values > panel.threshold)
    bias = np.sum(shares * off)
    varied = np.sum(shares * (mechanism.variance(values) + np.square(off - bias)))
    return bias**2 + varied / DEVICES


def check(address, panel, seed):
    assert expected(panel, "linear") == pytest.approx(expected(panel), rel=1e-6)
    squares = squares_of(address, panel, seed)
    spread = squares.std(ddof=1) / math.sqrt(CAMPAIGNS)
    told = panel.threshold, squares.mean(), spread, expected(panel)
    print("threshold, served, its error, expected:", *told)
    assert abs(squares.mean() - expected(panel)) < Z * spread, told
    assert abs(squares.mean() - expected(panel, "smoothstep")) > Z * spread, told


@pytest.mark.deep(rest=0)
def test_the_error_of_a_served_campaign_is_the_paper_s(tmp_path):
    """T = 10,000 and 100,000 at the middle ε. Control: the noise of a smoothstep is another."""
    with local_server(tmp_path / "aggregator.db") as address:
        for number in (1, 4):
            check(address, oneway.PANELS[number], number)
