"""A δ is refused unless the app allows it, and adds up over campaigns and processes."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from geoveil.campaign import SmoothSpec
from geoveil.client import BudgetExceeded, Epoch, Limit, Policy, PolicyRefused, Window
from geoveil.gp import GeoPrivacy, ParameterError

PURE = GeoPrivacy(1.0, 8_000.0, "dollar")
SLACK = replace(PURE, delta=1e-6)
NAME = "household income"


@pytest.fixture
def slack(make_campaign, collector):
    """Three campaigns of δ = 10⁻⁶ each."""
    spec = SmoothSpec(noise="laplace", calibration="paper")
    made = tuple(
        make_campaign(f"slack-{i}", privacy=SLACK, mechanism=spec, step_exponent=None)
        for i in range(3)
    )
    for campaign in made:
        collector.add(campaign)
    return made


def limits(delta: float, **more: Any) -> Policy:
    most = GeoPrivacy(100.0, 8_000.0, "dollar", delta)
    return Policy({NAME: Limit(campaign=replace(SLACK, epsilon=10.0), lifetime=most, **more)})


def test_a_slack_is_refused_unless_the_app_allows_it(make_either, slack, make_source):
    source = make_source(0)
    for most in (PURE, replace(PURE, epsilon=100.0), replace(SLACK, delta=9e-7)):
        client = make_either(policy=Policy({NAME: most}), source=source)
        with pytest.raises(PolicyRefused) as refused:
            client.fetch("slack-0")
        assert refused.value.stated == "ε = 1 per 8000 dollar, δ = 1e-06"
    assert source.draws == []
    allowed = make_either(policy=Policy({NAME: SLACK}), fetched=("slack-0",))
    assert allowed.contribute("slack-0", 97_000).privacy == SLACK


def test_a_slack_for_shorter_distances_is_less(make_either, make_campaign, collector):
    spec = SmoothSpec(noise="laplace", calibration="paper")
    near = replace(SLACK, reach=50_000.0)
    collector.add(make_campaign("near", privacy=near, mechanism=spec, step_exponent=None))
    with pytest.raises(PolicyRefused, match="up to 50000"):
        make_either(policy=Policy({NAME: SLACK})).fetch("near")
    client = make_either(policy=Policy({NAME: near}), fetched=("near",))
    assert client.contribute("near", 97_000).privacy == near


def test_slacks_add_up_over_campaigns(make_either, state_dir, slack):
    """Two fit into 2·10⁻⁶ exactly, the third does not, although its ε would."""
    ids = tuple(campaign.campaign_id for campaign in slack)
    client = make_either(state_dir=state_dir, policy=limits(2e-6), fetched=ids)
    for campaign_id in ids[:2]:
        assert client.contribute(campaign_id, 97_000).privacy == SLACK
    (budget,) = client.budgets()
    assert (budget.spent, budget.spent_delta) == (2.0, float(2 * Fraction(1e-6)))
    with pytest.raises(BudgetExceeded, match="δ = 2e-06 is spent") as refused:
        client.contribute(ids[2], 97_000)
    assert refused.value.spent_delta == 2e-06
    assert [receipt.privacy for receipt in client.history()] == [SLACK, SLACK]
    assert client.history()[0].to_dict()["charges"][0]["delta"] == 1e-6


def test_limits_of_a_slack_go_together():
    near = replace(SLACK, reach=9.0)
    with pytest.raises(ParameterError, match="reaches of the limits"):
        Limit(campaign=SLACK, lifetime=near)
    with pytest.raises(ParameterError, match="campaign must be"):
        Limit(campaign=replace(PURE, reach=9.0))
    with pytest.raises(ParameterError, match="pure"):
        Epoch(privacy=SLACK, length=timedelta(days=1))
    assert Limit(campaign=near, windows=(Window(limit=near, length=timedelta(days=1)),))
    assert Limit(campaign=PURE, lifetime=near)  # a limit without slack has no reach
