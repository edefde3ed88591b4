"""Plans of campaigns that compare by ratio, held against plans of the logarithms themselves."""

import math
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from geoveil.analyst import (
    HistogramPrior,
    LogNormalPrior,
    PlanningSession,
    PlanRequest,
    PublicPrior,
    SamplePrior,
    ShareAbove,
    ShareBetween,
    plan_for,
    planned_quantiles,
)
from geoveil.analyst.hard_question import Heap
from geoveil.analyst.plan_files import campaign_of
from geoveil.analyst.planner import ExpPrior, HeapedPrior, LogPrior, SoftQuestion
from geoveil.campaign import StatisticCampaign
from geoveil.gp import GeoPrivacy, LogScale, ParameterError

SCALE = LogScale(1_000.0)
LAW = LogNormalPrior(10.8, 0.9)
INCOMES = PublicPrior.of_numbers(LAW, "dollar")
RNG = np.random.default_rng(35)
VALUES = np.append(RNG.lognormal(10.8, 0.9, 3_000), np.zeros(150))


def wish(asked: Any = None, source: PublicPrior = INCOMES, **changes: Any) -> PlanRequest:
    given: dict[str, Any] = {"epsilon": 2.0, "per": 2, "participants": 50_000, "scale": SCALE}
    return PlanRequest.of(asked or [ShareAbove(50_000)], source=source, **(given | changes))


@pytest.mark.parametrize("at", [1_500.0, 50_000.0, 400_000.0])
def test_logarithms_of_a_prior_have_the_shares_of_its_values(at: float) -> None:
    """Closed forms: a log-normal law and a uniform one, with a heap; below the floor an atom."""
    y, floor = math.log(at), math.log(SCALE.floor)
    normal = NormalDist(10.8, 0.9)
    logs = LogPrior(HeapedPrior(LAW, (Heap(0.0, 0.1), Heap(60_000.0, 0.2))), SCALE)
    expected = 0.7 * (1 - normal.cdf(y)) + 0.2 * (at < 60_000)
    assert logs.expectation(lambda x: x > y, breaks=[y]) == pytest.approx(expected, abs=1e-9)
    below = 0.1 + 0.7 * normal.cdf(floor)
    assert logs.expectation(lambda x: x == floor, breaks=[y]) == pytest.approx(below, abs=1e-9)
    even = LogPrior(HistogramPrior([0.0, 500_000.0], [1]), SCALE)
    found = even.expectation(lambda x: x > y, breaks=[y])
    assert found == pytest.approx(1 - at / 500_000, abs=1e-12)
    again = ExpPrior(even).expectation(lambda x: x > at, breaks=[at])
    assert again == pytest.approx(1 - at / 500_000, abs=1e-9)


def test_scenarios_of_logarithms_are_of_the_values() -> None:
    logs = LogPrior(INCOMES.doubted(scale=0.1).make(None), SCALE)
    richer = logs.scenarios["values 10 % higher"]
    y = math.log(50_000)
    truth = 1 - NormalDist(10.8 + math.log(1.1), 0.9).cdf(y)
    assert richer.expectation(lambda x: x > y, breaks=[y]) == pytest.approx(truth, abs=1e-9)
    assert logs.scaled(1.1).expectation(lambda x: x > y, breaks=[y]) == pytest.approx(truth)


@pytest.mark.parametrize("allocation", [None, "points"])
def test_a_plan_is_that_of_the_logarithms(allocation: str | None) -> None:
    """The same people and question as numbers of their own, for which there is no scale."""
    ours = wish(source=PublicPrior.of_numbers(SamplePrior(VALUES), "dollar"), allocation=allocation)
    logs = SamplePrior([SCALE.coordinate(value) for value in VALUES])
    theirs = PlanRequest.of(
        [ShareAbove(math.log(50_000))], epsilon=2.0, per=GeoPrivacy.per_factor(2, 2).per,
        source=PublicPrior.of_numbers(logs, "nat"), participants=50_000, allocation=allocation,
    )  # fmt: skip
    found, same = (plan_for(one).report() for one in (ours, theirs))
    assert found["targets"] == same["targets"]
    assert found["choice"] == same["choice"]
    ours_best, theirs_best = (one["alternatives"][0] for one in (found, same))
    assert ours_best["center"] == pytest.approx([math.exp(x) for x in theirs_best["center"]])
    assert ours_best["width"] == pytest.approx(math.exp(theirs_best["width"]))
    assert found["ratios_from"] == 1_000.0
    assert "ratios_from" not in same


@pytest.mark.deep(keep=0, rest=0)
def test_the_predicted_error_is_that_of_campaigns() -> None:
    """600 campaigns of 2,000 people: the spread is known to 2.9 %, and held to 5 of these."""
    request = wish(participants=2_000, epsilon=4.0)
    planned = plan_for(request)
    campaign = planned.campaign(
        campaign_id="planned", title="Planned", opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2026, 2, 1, tzinfo=UTC),
    )  # fmt: skip
    assert isinstance(campaign, StatisticCampaign)
    (mechanism,) = campaign.mechanisms
    rng = np.random.default_rng(36)
    found = []
    for _ in range(600):
        incomes = rng.lognormal(10.8, 0.9, 2_000)
        found.append(mechanism.simulate(SCALE.to_log(incomes), rng).mean())
    predicted = planned.report()["targets"]["population"]["error_95"] / 1.96
    assert np.std(found) == pytest.approx(predicted, rel=0.15)


def test_several_questions_and_sessions_are_on_the_scale(tmp_path: Any) -> None:
    asked = [ShareAbove(50_000), ShareBetween(20_000, 90_000)]
    given = {"epsilon": 2.0, "per": 2, "participants": 200_000, "scale": SCALE}
    session = PlanningSession(INCOMES)
    forecast = session.forecast(session.request(asked[:1], **given))
    planned = session.plan(session.request(asked[:1], **given))
    assert forecast.planned.report()["targets"] == planned.report()["targets"]
    assert session._searches.cache_info().misses == 1  # both share it
    together = plan_for(wish(asked, participants=200_000, allocation="partition"))
    together.write(tmp_path / "plan.toml")
    campaign = campaign_of(
        tmp_path / "plan.toml", campaign_id="x", title="X",
        opens=datetime(2026, 1, 1, tzinfo=UTC), closes=datetime(2026, 2, 1, tzinfo=UTC),
    )  # fmt: skip
    assert campaign.attribute.scale == SCALE
    assert campaign.privacy == GeoPrivacy.per_factor(2.0, 2, "dollar")
    assert campaign.labels == ("above 50,000", "20,000 to 90,000")


@pytest.mark.deep(keep=0, rest=1)
def test_the_nearest_wish_is_a_factor_that_will_do() -> None:
    with pytest.raises(ParameterError, match=r"per at most 1\.\d+, or epsilon at least") as caught:
        plan_for(wish(epsilon=0.5, participants=1_000, target_error=0.02))
    factor = float(str(caught.value).partition("per at most ")[2].partition(",")[0])
    again = wish(epsilon=0.5, per=factor, participants=1_000, target_error=0.02)
    assert plan_for(again).report()["targets"]
    with pytest.raises(ParameterError, match=r"A threshold in \[1000, \d{7}"):
        plan_for(wish([ShareAbove(1e12)], PublicPrior.of_numbers(LogNormalPrior(9, 1.0), "dollar")))


def test_quantiles_are_planned_in_dollars_and_factors() -> None:
    """The median of the blurred law is its own, as it is symmetric in the logarithm."""
    privacy = GeoPrivacy.per_factor(2.0, 2, "dollar")
    (row,) = planned_quantiles(INCOMES, privacy, 50_000, [0.5], 4.0, 0.01, SCALE)
    assert row["value"] == pytest.approx(math.exp(10.8), rel=1e-3)  # the floor is far below
    assert row["width"] == pytest.approx(4.0)
    assert 1 < row["error_95"] < 1.05
    assert 1 < row["moved"] < 1.2


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"per": 1.0}, "factor must be a finite number > 1"),
        ({"reach": 3.0, "delta": 1e-6}, "reach must be left out on a log scale"),
        ({"asked": [ShareAbove(1_000)]}, "threshold must be above 1,000"),
        ({"soft": True, "width": 1.0}, "width must be a finite number > 1"),
    ],
)
def test_what_has_no_ratio_is_refused(changes: dict[str, Any], refused: str) -> None:
    with pytest.raises(ParameterError, match=refused):
        wish(**changes)


def test_soft_widths_are_factors() -> None:
    request = wish(soft=True, width=4.0)
    (question,) = request.questions
    assert isinstance(question, SoftQuestion)
    assert question.query.at == SCALE.coordinate(50_000)  # type: ignore[attr-defined]
    assert plan_for(request).report()["alternatives"][0]["width"] == 4.0
