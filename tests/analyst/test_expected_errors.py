"""The standard error that a new campaign expects, against exact sums over numbers of answers."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from geoveil.analyst.campaigns import expected_text, refuse_unlikely
from geoveil.campaign import Attribute, LipschitzLaplaceSpec, Question, StatisticCampaign
from geoveil.gp import GeoPrivacy, ParameterError, Threshold


def campaign(questions: int) -> StatisticCampaign:
    """Return a campaign whose noise is small for people far from all thresholds."""
    return StatisticCampaign(
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 1.0, "dollar"),
        questions=tuple(
            Question(str(k), Threshold(1e3 * k, 1e2, "smoothstep")) for k in range(questions)
        ),
        campaign_id="incomes",
        title="Incomes",
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2026, 2, 1, tzinfo=UTC),
    )


def stated(questions: int, participants: int) -> float:
    text = expected_text(campaign(questions), participants)
    return float(text.split("at most ")[1].split(" ")[0])


def of_halves(questions: int, participants: int) -> float:
    """The standard error of a share of 1/2 that is answered by at least one of them."""
    p = Fraction(1, questions)
    answered = [
        (math.comb(participants, n) * p**n * (1 - p) ** (participants - n), n)
        for n in range(1, participants + 1)
    ]
    mean = sum(chance / n for chance, n in answered) / sum(chance for chance, _ in answered)
    return math.sqrt(mean / 4)


@pytest.mark.parametrize(
    ("questions", "participants"), [(2, 10), (4, 30), (5, 20), (20, 50), (10, 100), (2, 1_002)]
)
def test_the_number_of_answers_to_one_of_several_questions_varies(questions, participants):
    """Control: with as many answers as expected the error is too small where they are few."""
    true, said = of_halves(questions, participants), stated(questions, participants)
    assert true <= said <= 1.13 * true
    alone = math.sqrt(questions / participants) / 2
    assert alone < (1.002 if participants > 1_000 else 0.96) * true
    assert stated(1, participants) <= 1.13 / (2 * math.sqrt(participants))


def test_too_few_answers_are_refused_though_enough_are_expected():
    """With the noise of 0.6 of the range, the same for all. Control: four answers are enough."""
    asked = replace(
        campaign(4), mechanism=LipschitzLaplaceSpec(), privacy=GeoPrivacy(1.0, 40.0, "dollar")
    )
    variance = 1 / 4 + 2 * 0.6**2
    assert math.sqrt(variance / 4) < 0.5 < 2 * math.sqrt(variance) * of_halves(4, 16)
    with pytest.raises(ParameterError, match="standard error"):
        refuse_unlikely(asked, 16, ())
    refuse_unlikely(replace(asked, questions=asked.questions[:1]), 4, ())
