"""Every mechanism of the papers as a campaign: hundreds of clients over gRPC find the truth.

A threshold, a range, a two-way threshold and a kernel, each with Student-t, generalized Cauchy and
Laplace noise and the best one, calibrated exactly and as in the paper, at reach 0 and ∞: 48
campaigns are served, and 16 refused by name.
"""

import math

import numpy as np
import pytest

from geoveil.analyst import Analyst
from geoveil.campaign import Attribute, Question, SmoothSpec
from geoveil.client import Client, Limit, Number, Point, Policy
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError, Range, Threshold, TwoWayThreshold
from geoveil.simulation.local_server import local_server
from tests.campaigns import above_100k

PEOPLE = 300
QUERIES = {
    "threshold": Threshold(50.0, 24.0),
    "range": Range(30.0, 80.0, 24.0),
    "two-way": TwoWayThreshold((50.0, 40.0), 24.0),
    "kernel": GaussianKernel((50.0,), 24.0),
}
REFUSED = {
    ("laplace", "exact", 0.0): "reach must be left out, or inf, that of the guarantee",
    ("laplace", "paper", 0.0): "reach must be left out, or inf, that of the guarantee",
    ("best", "paper", 0.0): "calibration must be 'exact' for the best noise",
    ("best", "paper", math.inf): "calibration must be 'exact' for the best noise",
}
Z = 4.9
"""Two-sided, α = 1e-6 for each of 48 estimates whose bits nobody seeds: 5e-5 for all of them."""


def campaign_of(query, noise, calibration, reach):
    return above_100k(
        f"{noise}-{calibration}-{reach:g}",
        attribute=Attribute(name="value", unit="unit"),
        privacy=GeoPrivacy(1.0, 8.0, "unit", delta=1e-6 if noise == "laplace" else 0.0),
        questions=(Question("q", query),),
        mechanism=SmoothSpec(noise=noise, calibration=calibration, reach=reach),
    )


def served(query, noise):
    """Return the campaigns of a noise; others have to be refused by name."""
    found = []
    for calibration in ("exact", "paper"):
        for reach in (0.0, math.inf):
            refused = REFUSED.get((noise, calibration, reach))
            if refused is None:
                found.append(campaign_of(query, noise, calibration, reach))
                continue
            with pytest.raises(ParameterError, match=refused):
                campaign_of(query, noise, calibration, reach)
    return found


@pytest.mark.deep(keep=0, rest=1)
@pytest.mark.parametrize("noise", ["student-t", "generalized-cauchy", "laplace", "best"])
@pytest.mark.parametrize("kind", QUERIES)
def test_clients_find_the_truth(tmp_path, kind, noise):
    """The truth is that of these people. Control: a truth that is off by one is not found."""
    query = QUERIES[kind]
    campaigns = served(query, noise)
    values = np.random.default_rng(35).normal(55.0, 20.0, (PEOPLE, query.dimension))
    each = campaigns[0].privacy
    all_of_them = GeoPrivacy(4.0, each.per, each.unit, delta=4 * each.delta)
    held = Number() if query.dimension == 1 else Point(query.dimension)
    policy = Policy({"value": Limit(campaign=each, lifetime=all_of_them, value=held)})
    with local_server(tmp_path / "served.db") as address, Analyst(address) as analyst:
        for campaign in campaigns:
            analyst.create(campaign)
        for value in values.tolist():
            with Client(address, policy=policy, state_dir=None, background=False,
                        release_floor_s=0) as client:  # fmt: skip
                for campaign in campaigns:
                    client.fetch(campaign.campaign_id)
                    client.contribute(campaign.campaign_id, value)
                assert client.flush(10).acknowledged == len(campaigns)
        truth = float(query.value(values if query.dimension == 2 else values[:, 0]).mean())
        for campaign in campaigns:
            (estimate,) = analyst.estimate(campaign.campaign_id).estimates
            assert estimate.n == PEOPLE
            off = (estimate.value - truth) / estimate.standard_error
            assert abs(off) < Z
            assert abs(off - 1 / estimate.standard_error) > Z
