"""The standard error that a new campaign expects, against exact sums over numbers of answers."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest

from geoveil.analyst.campaigns import _errors, expected_text, refuse_unlikely
from geoveil.campaign import (
    Attribute,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    Question,
    StatisticCampaign,
)
from geoveil.gp import GeoPrivacy, Linear, ParameterError, Query, TabulatedProfile, Threshold


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
    of_four = replace(
        campaign(4), mechanism=LipschitzLaplaceSpec(), privacy=GeoPrivacy(1.0, 40.0, "dollar")
    )
    variance = 1 / 4 + 2 * 0.6**2
    assert math.sqrt(variance / 4) < 0.5 < 2 * math.sqrt(variance) * of_halves(4, 16)
    with pytest.raises(ParameterError, match="standard error"):
        refuse_unlikely(of_four, 16, ())
    refuse_unlikely(replace(of_four, questions=of_four.questions[:1]), 4, ())


def asked(query: Query, mechanism: MechanismSpec) -> StatisticCampaign:
    alone = Question("mean", query)
    return replace(campaign(1), questions=(alone,), mechanism=mechanism)


def worst_of_two(value: np.ndarray, noise: np.ndarray) -> float:
    """The largest variance of answers, noise included, of people at any one or two places."""
    second = noise + value**2
    first, other = np.triu_indices(len(value))
    best = 0.0
    for part in np.linspace(0, 1, 41):
        mean = part * value[first] + (1 - part) * value[other]
        best = max(best, float((part * second[first] + (1 - part) * second[other] - mean**2).max()))
    return best


def noise_by_sums(profile, places: np.ndarray, high: float) -> np.ndarray:
    """Var g(s + N), N Laplace noise of scale 1, by sums over a dense mesh of N."""
    steps = np.linspace(-high, high, 60_001)
    weights = np.exp(-np.abs(steps))
    weights /= weights.sum()
    answers = [profile(place + steps) for place in places]
    return np.array([weights @ g**2 - (weights @ g) ** 2 for g in answers])


def step_of(width: float):
    """Return a smoothstep of a width and its debiased form for noise of scale 1."""

    def value(s):
        t = np.clip(s / width + 0.5, 0, 1)
        return t * t * (3 - 2 * t)

    def debiased(s):
        t = s / width + 0.5
        return value(s) - np.where(np.abs(t - 0.5) < 0.5, (6 - 12 * t) / width**2, 0)

    return value, debiased


@pytest.mark.parametrize("width", [0.7, 2.0, 3.0, 4.0, 6.0, 16.0])
def test_the_largest_error_is_one_that_some_people_have(width):
    """Where noise is largest answers differ least. Control: the sum of both maxima."""
    value, debiased = step_of(width)
    places = np.linspace(-width / 2 - 2, width / 2 + 2, 61)
    noise = noise_by_sums(debiased, places, 30)
    true = math.sqrt(worst_of_two(value(places), noise))
    ((error, _),) = _errors(asked(Threshold(0, width, "smoothstep"), DebiasedLaplaceSpec()), 1)
    assert 0.999 * true <= error <= 1.002 * true
    if width in {2.0, 3.0, 4.0, 6.0}:
        assert math.sqrt(noise.max() + 0.25) > 1.05 * true


def test_noise_that_is_the_same_for_all_adds_to_how_people_differ():
    ((error, _),) = _errors(asked(Threshold(0, 5.0), LipschitzLaplaceSpec()), 1)
    assert error == pytest.approx(math.sqrt(2 / 25 + 1 / 4), rel=1e-6)


def test_a_campaign_is_not_refused_for_an_error_that_nobody_has():
    """An S-shaped table from 0 to 100, noise of a fifth. Control: the sum of both maxima."""
    ages = TabulatedProfile((0.0, 2.5, 5.0), (0.0, 50.0, 100.0), (0.0, 40.0, 40.0, 0.0))
    about = asked(Linear(ages, 1.0), DebiasedLaplaceSpec())
    refuse_unlikely(about, 13_000, ())
    largest = about.mechanisms[0].largest_variance
    assert math.sqrt((largest + 50**2) / 13_000) > 0.57
    with pytest.raises(ParameterError, match="standard error"):
        refuse_unlikely(about, 11_000, ())


@pytest.mark.parametrize(("questions", "participants"), [(40, 50), (5, 20), (2, 100)])
def test_the_error_with_four_times_as_many_is_theirs(questions, participants):
    """Control: half the error is too little where few answer each question."""
    text = expected_text(campaign(questions), participants)
    said = float(text.split("together, and ")[1].split(" ")[0])
    true = of_halves(questions, 4 * participants)
    assert true <= said <= 1.13 * true
    if questions == 40:
        assert stated(questions, participants) / 2 < 0.95 * true
