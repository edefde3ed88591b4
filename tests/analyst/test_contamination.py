"""Test the bound on false reports: it is attained, and intervals cover the honest mean."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from geoveil.analyst import (
    CampaignEstimates,
    Contamination,
    LabelledEstimate,
    PlannedQuestion,
    PlannedQuestions,
    PlanRequest,
    ShareAbove,
    plan_for,
    planned_contamination,
)
from geoveil.campaign import Difference
from geoveil.gp import ParameterError, UnsupportedError
from geoveil.gp.estimation import Accumulator
from geoveil.gp.intervals import IntervalMethod
from geoveil.gp.limits import UNLIMITED
from geoveil.simulation.priors import public_prior
from tests.analyst.statistics.test_over_time import campaign

from .test_estimates import MECHANISM, labelled as summed

LOW, HIGH = MECHANISM.range
FRACTION, PEOPLE, CAMPAIGNS = 0.05, 4_000, 200
LIARS = round(FRACTION * PEOPLE)


def labelled(reports: Any, **but: Any) -> LabelledEstimate:
    sums = Accumulator.of(np.rint(reports / MECHANISM.step).astype(int).tolist())
    one_report = (HIGH - LOW) / len(reports)
    return replace(summed(sums, MECHANISM.step_exponent, one_report=one_report), **but)


def test_liars_at_the_ends_reach_the_bound_and_no_more() -> None:
    honest = np.full(PEOPLE, LOW)
    lying = np.where(np.arange(PEOPLE) < LIARS, HIGH, honest)
    moved = labelled(lying).contaminated(FRACTION).contamination.moved
    assert lying.mean() - honest.mean() == pytest.approx(moved, rel=1e-12)
    assert moved == pytest.approx(FRACTION * (HIGH - LOW), rel=1e-12)


def test_sentences_round_bounds_up() -> None:
    """A bound rounded to the nearest number would be too small in half of the cases."""
    for width in np.linspace(0.5, 7.0, 200):
        liars = Contamination(FRACTION, width, (0.0, width / 3))
        moved, by_values = map(float, re.findall(r"at most ([0-9.]+)", liars.words))
        assert liars.moved <= moved * (1 + 1e-9) <= 1.01 * liars.moved
        assert liars.moved_by_values <= by_values * (1 + 1e-9) <= 1.01 * liars.moved_by_values
    assert Contamination(0.0, 1.0).words.startswith("by at most 0, whatever")


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("says", [HIGH, LOW], ids=["high", "low"])
def test_an_interval_under_contamination_holds_the_honest_mean(says: float) -> None:
    """200 campaigns of 4,000, of whom 200 lie: in 95 % and more, and not if all are trusted."""
    rng = np.random.default_rng(11)
    people = rng.normal(0.0, 20_000.0, 20_000)
    truth = float(MECHANISM.query.value(people).mean())
    held = trusted = by_values = trusting = 0
    for _ in range(CAMPAIGNS):
        reports = MECHANISM.simulate(rng.choice(people, PEOPLE), rng)
        reports[:LIARS] = says
        row = labelled(reports)
        found = row.contaminated(FRACTION)
        assert found.ci_low is not None
        assert found.ci_high is not None
        held += found.ci_low <= truth <= found.ci_high
        assert row.ci_low is not None
        assert row.ci_high is not None
        trusted += row.ci_low <= truth <= row.ci_high
        reports[:LIARS] = MECHANISM.simulate(np.full(LIARS, math.copysign(1e9, says)), rng)
        row = labelled(reports)
        widened = row.contaminated(FRACTION).contamination.moved_by_values
        assert row.ci_low is not None
        assert row.ci_high is not None
        by_values += row.ci_low - widened <= truth <= row.ci_high + widened
        trusting += row.ci_low <= truth <= row.ci_high
    assert held >= 0.95 * CAMPAIGNS
    assert by_values >= 0.95 * CAMPAIGNS
    assert trusted <= 0.1 * CAMPAIGNS
    assert trusting <= 0.6 * CAMPAIGNS


def test_what_cannot_be_is_cut_off_and_the_hard_share_is_widened_too() -> None:
    row = labelled(np.full(PEOPLE, 0.0), softness=Difference(0.001, 0.002))
    found = row.contaminated(FRACTION)
    assert row.hard is not None
    assert found.hard is not None
    assert row.ci_high is not None
    assert found.ci_low == 0.0
    assert found.ci_high == pytest.approx(row.ci_high + FRACTION * (HIGH - LOW))
    assert found.hard.ci_high == pytest.approx(row.hard.ci_high + FRACTION * (HIGH - LOW))
    assert found.hard.value == row.hard.value
    none = row.contaminated(0.0)
    assert (none.ci_low, none.ci_high, none.hard) == (row.ci_low, row.ci_high, row.hard)
    shown = found.to_dict()
    assert shown["fraction"] == FRACTION
    assert shown["moved_by_false_values"] == FRACTION
    assert labelled(np.zeros(1)).contaminated(FRACTION).to_dict()["ci_low"] is None


def test_noise_without_bound_counts_within_what_one_report_can_move() -> None:
    row = labelled(np.zeros(100), limits=UNLIMITED, method=IntervalMethod.STUDENT, one_report=0.07)
    assert row.contaminated(0.1).contamination.moved == pytest.approx(0.7)
    for fraction, said in ((1.0, row), (-0.1, row), (0.1, replace(row, one_report=None))):
        with pytest.raises(ParameterError, match="contamination"):
            said.contaminated(fraction)


def test_no_curve_is_made_where_answers_may_be_false() -> None:
    """The curve of the same estimates without false answers is the control."""
    asked = campaign()
    rows = tuple(replace(labelled(np.zeros(9)), label="above", period=p) for p in (0, 1))
    found = CampaignEstimates(asked, "open", rows, "", asked.privacy, asked.privacy)
    assert found.over_time().periods == (0, 1)
    with pytest.raises(UnsupportedError, match="one by one"):
        found.contaminated(FRACTION).over_time()


def test_joint_estimates_and_trends_keep_that_answers_may_be_false() -> None:
    """The trend of the same estimates without false answers is the control."""
    asked = campaign()
    answers = np.tile([0.2, 0.6], 200)
    rows = tuple(replace(labelled(answers), label="above", period=p) for p in (0, 1))
    found = CampaignEstimates(asked, "open", rows, "", asked.privacy, asked.privacy)
    doubted = found.contaminated(FRACTION)
    assert doubted.joint(period=0).contamination == FRACTION
    honest, wide = (of.trends()[0] for of in (found, doubted))
    assert wide.low[0] < honest.low[0] < honest.high[0] < wide.high[0]


def planned(*asked: ShareAbove, **said: Any) -> PlannedQuestion | PlannedQuestions:
    source = public_prior("lognormal:98000,0.83")
    request = PlanRequest.of(
        asked, epsilon=1.0, per=8_000.0, source=source, participants=500_000, unit="dollar", **said
    )
    return plan_for(request)


@pytest.mark.deep
def test_a_plan_says_what_its_reports_can_do() -> None:
    found = planned(ShareAbove(100_000.0), soft=True, width=80_000.0)
    (row,) = planned_contamination(found, FRACTION)
    width = 1 + 12 / 10**2  # smoothstep of ten noise scales
    assert row["moved"] == pytest.approx(FRACTION * width, rel=1e-3)
    assert row["moved_by_false_values"] == FRACTION
    with pytest.raises(ParameterError, match="contamination"):
        planned_contamination(found, 1.5)


@pytest.mark.deep
def test_of_several_questions_all_liars_may_answer_the_same() -> None:
    asked = ShareAbove(100_000.0), ShareAbove(150_000.0), ShareAbove(75_000.0)
    rows = planned_contamination(planned(*asked, allocation="partition"), 0.01)
    # Of 300 participants 3 lie; 297 answer one of three questions: 99 to each.
    assert [row["fraction"] for row in rows] == pytest.approx([3 / 102] * 3)
    found = planned(*asked, allocation="points")
    rows = planned_contamination(found, 0.01)
    assert [row["fraction"] for row in rows] == pytest.approx([0.01] * 3)
    assert [row["question"] for row in rows] == [question.label for question in asked]
    for row, way in zip(rows, found.chosen().alternatives, strict=True):
        reports: Any = way.reports
        low, high = reports.estimator.limits.reports
        assert row["moved"] == pytest.approx(0.01 * (high - low))


def test_nothing_is_promised_where_nothing_is_bounded() -> None:
    with pytest.raises(ParameterError, match="bounds"):
        Contamination(0.01, math.inf)
