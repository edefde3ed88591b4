"""Test the central ε of a campaign: its conditions, and its sentence."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from geoveil.analyst import (
    CentralWish,
    LogNormalPrior,
    PlanRequest,
    PublicPrior,
    ShareAbove,
    central_privacy,
    central_record,
    central_text,
    of_one_question,
    plan_for,
)
from geoveil.analyst.central import central_cap
from geoveil.campaign import Allocation, Attribute, PlanarLaplaceSpec, Question
from geoveil.gp import Cap, GeoPrivacy, ParameterError, Threshold
from tools.vectors.examples import small_campaign

CAPPED = small_campaign("c", cap=Cap(3.0, 3.0))
QUESTIONS = tuple(
    Question(f"above {at}", Threshold(at, 16_000.0, "smoothstep")) for at in (9e4, 12e4)
)


def test_three_scales_and_a_hundred_thousand_people_are_said():
    record = central_record(CAPPED, 100_000, 1e-6)
    assert record is not None
    assert record["any_two_epsilon"] == central_privacy(6.0, 100_000, delta=1e-6).epsilon <= 0.4
    assert record["epsilon"] == central_privacy(6.0, 100_000, 1.0, 1e-6).epsilon
    assert central_text(record, CAPPED.report_privacy) == (
        "If 100,000 honest reports reach the analyst in uniformly random order with no sender,"
        " which takes a relay and a campaign with a window, their central ε is 0.185 between two"
        " values 8,000 dollar apart and 0.358 between any two, at δ = 1e-06."
    )
    windowed = replace(CAPPED, window=timedelta(days=2))
    assert central_text(central_record(windowed, 100_000, 1e-6), CAPPED.report_privacy) == (
        "If 100,000 honest reports reach the analyst in uniformly random order with no sender, as"
        " the campaign's window has it behind a relay for devices connected all through it, their"
        " central ε is 0.185 between two values 8,000 dollar apart and 0.358 between any two, at"
        " δ = 1e-06."
    )
    assert central_record(CAPPED, 100_000)["delta"] == 1e-7


@pytest.mark.parametrize(
    "campaign",
    [small_campaign("c"), replace(CAPPED, cap=Cap(6.0, 6.0))],
    ids=["no cap", "a cap that protects no far values"],
)
def test_nothing_is_said_where_nothing_is_proven(campaign):
    assert central_record(campaign, 10**6) is None


def test_nothing_is_said_of_nobody_and_a_wrong_number_is_refused():
    assert central_record(CAPPED, 0) is None
    with pytest.raises(ParameterError, match="honest must be"):
        central_record(CAPPED, -1)
    with pytest.raises(ParameterError, match=r"delta must be a number in \(0, 1\)"):
        central_record(CAPPED, 5, 1.0)


@pytest.mark.parametrize("wished", [0.001, 0.4, 48.0])
def test_the_largest_report_that_keeps_a_wish_is_the_last_of_all(wished):
    wish = CentralWish(epsilon=wished, honest=10_000, delta=1e-6)
    most = wish.largest_epsilon
    assert most == 0 or wish.of(most) <= wished
    assert wished == 48.0 or wish.of(most + 0.125) > wished


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"epsilon": 0.0}, r"central must be a number in \(0, 48\]"),
        ({"epsilon": math.nan}, r"central must be a number in \(0, 48\]"),
        ({"honest": 0}, "honest must be"),
        ({"delta": 1.0}, r"delta must be a number in \(0, 1\)"),
    ],
)
def test_wishes_out_of_range_are_refused(given, expected):
    with pytest.raises(ParameterError, match=expected):
        CentralWish(**{"epsilon": 0.4, "honest": 100_000} | given)


@pytest.mark.deep(keep=0)
def test_a_cap_keeps_a_wished_central_epsilon_and_its_price_is_said():
    source = PublicPrior.of_numbers(LogNormalPrior(11.1, 0.8), "dollar")
    free, wished, never = (
        PlanRequest.of(
            [ShareAbove(100_000)], epsilon=1, per=8_000, source=source, participants=100_000,
            central=None if of is None else CentralWish(epsilon=of, honest=100_000, delta=1e-6),
        )
        for of in (None, 0.4, 0.003)
    )  # fmt: skip
    planned, without = (plan_for(of) for of in (wished, free))
    cap = planned.cap.cap
    assert planned.central(100_000, 1e-6)["any_two_epsilon"] <= 0.4
    assert central_privacy(cap.below + cap.above + 0.125, 100_000, delta=1e-6).epsilon > 0.4
    assert without.central(100_000, 1e-6)["any_two_epsilon"] > 0.4  # control
    price = planned.price_of_central(without)
    ratio = (
        planned.report()["targets"]["hard_question"]["error_95"]
        / (without.report()["targets"]["hard_question"]["error_95"])
    )
    assert price["times"] == pytest.approx(ratio * math.sqrt(planned.cap.factor))
    assert 1 < price["times"] < 1.2
    wish = replace(planned, request=replace(planned.request, target_error=0.003))
    with pytest.raises(ParameterError, match="target_error must be at least"):
        wish.price_of_central(without)
    with pytest.raises(ParameterError, match=r"central must be at least 0\.005\d*, which 100,000"):
        plan_for(never)


def test_answers_without_a_cap_keep_no_wish():
    prior, wish = LogNormalPrior(11.1, 0.8), CentralWish(epsilon=0.4, honest=10**5)
    points = small_campaign("p", mechanism=PlanarLaplaceSpec(dimension=1))
    with pytest.raises(ParameterError, match="central must be left out with a delta, and for"):
        central_cap(points, wish, prior)
    with pytest.raises(ParameterError, match=r"central must be at least 0\.823, which 1,000"):
        central_cap(small_campaign("c"), CentralWish(epsilon=0.4, honest=1_000), prior)
    several = small_campaign("s", allocation=Allocation.SPLIT, questions=QUESTIONS)
    cap = central_cap(several, wish, prior).cap
    assert cap.below + cap.above <= wish.largest_epsilon / 2


def test_points_of_a_range_have_one_and_others_none():
    attribute = Attribute(name="income", unit="dollar", least=0.0, most=32_000.0)
    points = small_campaign("p", attribute=attribute, mechanism=PlanarLaplaceSpec(dimension=1))
    record = central_record(points, 10_000)
    assert record["any_two_epsilon"] == central_privacy(4.0, 10_000).epsilon
    anywhere = replace(points, attribute=Attribute(name="income", unit="dollar"))
    assert central_record(anywhere, 10_000) is None


def test_people_of_a_partition_are_shared_out():
    asked = replace(CAPPED, questions=QUESTIONS)
    assert of_one_question(asked, 10_001) == 5_000
    split = replace(asked, allocation=Allocation.SPLIT)
    assert of_one_question(split, 10_001) == 10_001


def test_only_reports_to_the_same_question_count():
    """Control: without a second question nothing else can be meant."""
    for campaign, many in (
        (replace(CAPPED, questions=QUESTIONS), "500 honest reports to the same question reach"),
        (CAPPED, "500 honest reports reach"),
    ):
        assert many in central_text(central_record(campaign, 500), campaign.report_privacy)


def test_a_pair_by_ratio_is_a_factor_apart():
    privacy = GeoPrivacy.per_factor(1.0, 2, "dollar")
    record = {"honest": 9, "delta": 1e-6, "epsilon": 0.12341, "any_two_epsilon": 0.4, "per": 0.69}
    record |= {"in_window": False, "of_several_questions": False}
    assert "0.124 between two values a factor 2 apart and 0.4" in central_text(record, privacy)
