"""Test plans with a requested mechanism, by its name for campaigns."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from geoveil.analyst import LogNormalPrior, PlanRequest, PublicPrior, ShareAbove, plan_for
from geoveil.analyst.planner import KINDS, HardThreshold
from geoveil.analyst.planner.candidates import SLACK
from geoveil.analyst.planning import PlannedQuestions
from geoveil.campaign import Allocation, SmoothSpec, StatisticCampaign
from geoveil.gp import ApproximateLaplace, GeoPrivacy, ParameterError, UnsupportedError
from tests.analyst.planner.plans import plan

PAPER = "smooth:noise=student-t,nu=3,calibration=paper,reach=inf"
SPEC = SmoothSpec(noise="student-t", nu=3.0, calibration="paper", reach=math.inf)
LAW = PublicPrior.of_numbers(LogNormalPrior(11.5, 0.8), "dollar")
PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")
LATER = ShareAbove(150_000.0)
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
PUBLISHED: dict[str, Any] = {
    "campaign_id": "a", "title": "A", "opens": OPENS, "closes": OPENS + timedelta(days=1),
}  # fmt: skip


def request(*more: ShareAbove, **said: Any) -> PlanRequest:
    given = {"epsilon": 1.0, "per": 8_000.0, "source": LAW, "participants": 50_000}
    return PlanRequest.of([ShareAbove(100_000.0), *more], **(given | said))


def test_what_is_named_is_chosen_and_compared_and_becomes_the_campaign():
    planned = plan_for(request(mechanism=PAPER))
    report = planned.report()
    assert report["choice"] == PAPER
    assert report["reason"].startswith(f"{PAPER} is what was asked for at n = 50,000")
    first, *others = report["alternatives"]
    assert (first["mechanism"], first["times"]) == (PAPER, 1.0)
    assert others[0]["mechanism"] == "DebiasedLaplace"
    assert 0 < others[0]["times"] < 1
    campaign = planned.campaign(**PUBLISHED)
    assert isinstance(campaign, StatisticCampaign)
    assert campaign.mechanism == SPEC
    # Nothing is named: the best is chosen, as before.
    assert plan_for(request()).report()["choice"] == "DebiasedLaplace"


@pytest.mark.parametrize("allocation", [None, "split", "repeat"])
def test_several_questions_are_asked_with_what_is_named(allocation):
    planned = plan_for(request(LATER, mechanism=PAPER, allocation=allocation))
    assert isinstance(planned, PlannedQuestions)
    rows = {row.allocation: set(row.kinds) for row in planned.result.rows}
    assert rows["partition"] == rows["split"] == {PAPER}
    campaign = planned.campaign(**PUBLISHED)
    assert isinstance(campaign, StatisticCampaign)
    assert campaign.mechanism == SPEC
    assert allocation in (None, campaign.allocation.value)


def test_a_delta_is_planned_with_and_spent_only_where_it_is_needed():
    with_slack = plan_for(request(delta=1e-6, mechanism=SLACK))
    assert with_slack.report()["privacy"]["delta"] == 1e-6
    assert with_slack.report()["uses_delta"]
    campaign = with_slack.campaign(**PUBLISHED)
    assert campaign.privacy == replace(PRIVACY, delta=1e-6)
    best = plan_for(request(delta=1e-6))
    assert SLACK in {row["mechanism"] for row in best.report()["alternatives"]}
    assert not best.report()["uses_delta"]
    assert best.campaign(**PUBLISHED).privacy == PRIVACY


@pytest.mark.deep(keep=0)
def test_tables_of_bands_know_delta_and_reach():
    """What the coarse table says of a δ and a Λ is what the mechanism itself says."""
    for privacy in (replace(PRIVACY, delta=1e-3), replace(PRIVACY, delta=1e-9, reach=20_000.0)):
        found = plan(HardThreshold(1e5), privacy, LogNormalPrior(11.5, 0.8), 10**6, kinds=(SLACK,))
        best = found.choice
        assert isinstance(best.reports, ApproximateLaplace)
        assert best.reports.privacy == privacy
        for factor in (0.5, 2.0):
            query = replace(best.query, width=factor * best.query.width)
            other = found.problem.predict(KINDS[SLACK].build(query, privacy, {}))
            assert other.expected_error(10**6) > 0.99 * best.prediction.expected_error(10**6)


def test_split_divides_the_delta():
    planned = plan_for(request(LATER, delta=1e-6, mechanism=SLACK, allocation="split"))
    campaign = planned.campaign(**PUBLISHED)
    assert isinstance(campaign, StatisticCampaign)
    assert campaign.allocation is Allocation.SPLIT
    assert campaign.answer_privacy.delta == 5e-7
    assert campaign.report_privacy.delta == 1e-6


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"mechanism": "smooth:noise=student-t,nu=2"}, "nu must be"),
        ({"mechanism": "points:dimension=1"}, "mechanism must be one that answers questions"),
        ({"mechanism": "smooth:reach=5000"}, "mechanism must be one of reach 0 or inf"),
        ({"mechanism": PAPER, "allocation": "points"}, "mechanism must be left out of points"),
        ({"reach": 5_000.0}, "reach must be left out without a delta"),
        ({"delta": 1.0}, "delta must be"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_name(said, match):
    with pytest.raises(ParameterError, match=match):
        request(**said)


def test_what_does_not_serve_the_question_is_refused():
    with pytest.raises(UnsupportedError, match="smooth:noise=laplace"):
        plan_for(request(mechanism="smooth:noise=laplace"))  # there is no δ
