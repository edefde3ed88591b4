"""Test the central ε of a campaign: its conditions, and its sentence."""

from dataclasses import replace
from datetime import timedelta

import pytest

from geoveil.analyst import (
    central_privacy,
    central_record,
    central_text,
    of_one_question,
)
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
    assert of_one_question(replace(asked, allocation=Allocation.SPLIT), 10_001) == 10_001


def test_a_pair_by_ratio_is_a_factor_apart():
    privacy = GeoPrivacy.per_factor(1.0, 2, "dollar")
    record = {"honest": 9, "delta": 1e-6, "epsilon": 0.12341, "any_two_epsilon": 0.4, "per": 0.69}
    record["in_window"] = False
    assert "0.124 between two values a factor 2 apart and 0.4" in central_text(record, privacy)
