"""Test that a report spends exactly its stated ε under each allocation."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from mpmath import mp, mpf

from geoveil.campaign import (
    Allocation,
    Attribute,
    LipschitzLaplaceSpec,
    Question,
    StatisticCampaign,
    decode,
    encode,
)
from geoveil.gp import GeoPrivacy, ParameterError, Threshold
from geoveil.proto.v1 import campaign_pb2 as pb

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT, WIDTH, PER = 100_000.0, 24_000.0, 8_000.0
SPENT = {Allocation.PARTITION: 1, Allocation.SPLIT: 1, Allocation.REPEAT: 2}
"""ε per 8,000 dollars of a report to two questions."""
OF_AN_ANSWER = {
    Allocation.PARTITION: Fraction(1),
    Allocation.SPLIT: Fraction(1, 2),
    Allocation.REPEAT: Fraction(1),
}


def twice(allocation, questions=2, privacy=None, **more):
    """Return a campaign that asks the same question several times: answers add up the most."""
    return StatisticCampaign(
        campaign_id="twice",
        title="Income above 100k",
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=privacy or GeoPrivacy(1.0, PER, "dollar"),
        questions=tuple(
            Question(f"q{i}", Threshold(AT, WIDTH, "smoothstep")) for i in range(questions)
        ),
        mechanism=LipschitzLaplaceSpec(),
        allocation=allocation,
        opens=NOW,
        closes=NOW + timedelta(days=28),
        **more,
    )


def smoothstep(x):
    t = mpf(1) / 2 + (mpf(x) - mpf(AT)) / mpf(WIDTH)
    return 3 * t**2 - 2 * t**3


def below(y, scale):
    """Laplace distribution function."""
    return mp.exp(y / scale) / 2 if y < 0 else 1 - mp.exp(-y / scale) / 2


def law(allocation, x, outputs, cell):
    """Return report → probability, for answers rounded to multiples of `cell`, by enumeration."""
    slope = mpf(3) / (2 * mpf(WIDTH))
    each = OF_AN_ANSWER[allocation]
    scale = slope * mpf(PER) * each.denominator / each.numerator
    answer = {
        k: below((k + mpf(1) / 2) * cell - smoothstep(x), scale)
        - below((k - mpf(1) / 2) * cell - smoothstep(x), scale)
        for k in outputs
    }
    if allocation is Allocation.PARTITION:
        return {((q, k),): p / 2 for q in range(2) for k, p in answer.items()}
    return {((0, i), (1, j)): answer[i] * answer[j] for i, j in product(answer, answer)}


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("allocation", SPENT)
def test_a_report_tells_values_apart_by_what_it_is_said_to_spend_and_no_less(allocation):
    """Every report of two answers on a grid of 1/32, from -3 to 4, at points 100 dollars apart."""
    spent = twice(allocation).report_privacy
    assert spent == GeoPrivacy(float(SPENT[allocation]), PER, "dollar")
    x, other = AT - 50.0, AT + 50.0
    with mp.workdps(40):
        outputs, cell = range(-96, 129), mpf(1) / 32
        here, there = (law(allocation, point, outputs, cell) for point in (x, other))
        largest = max(abs(mp.log(here[report] / there[report])) for report in here)
    assert largest <= spent.at(100.0)
    assert largest > 0.99 * spent.at(100.0)


def test_the_price_of_one_answer_does_not_cover_a_report_that_repeats_it():
    """The control: whoever charges ε for two answers of ε is refuted by the report itself."""
    campaign = twice(Allocation.REPEAT)
    with mp.workdps(40):
        here, there = (
            law(Allocation.REPEAT, x, (-32, 64), mpf(1) / 32) for x in (AT - 50, AT + 50)
        )
        largest = max(abs(mp.log(here[report] / there[report])) for report in here)
    assert largest > 1.9 * campaign.answer_privacy.at(100.0)
    assert largest > 1.9 * campaign.privacy.at(100.0)


@pytest.mark.parametrize("allocation", SPENT)
def test_the_mechanisms_of_a_campaign_together_reach_what_a_report_spends(allocation):
    """The largest rates of log-densities near the threshold, of the answers in a report."""
    campaign = twice(allocation)
    x, outputs = np.array([AT - 10, AT + 10]), np.array([-2.0, 3.0])
    rates = [
        np.abs(np.diff(m.log_density(outputs[:, None], x), axis=1)).max() / 20
        for m in campaign.mechanisms
    ]
    together = sum(rates) if campaign.answers == 2 else max(rates)
    assert together == pytest.approx(campaign.report_privacy.rate, rel=1e-5)
    assert together <= campaign.report_privacy.rate


@given(st.sampled_from(list(SPENT)), st.integers(1, 40), st.floats(0.01, 100), st.integers(1, 28))
def test_no_price_is_understated_by_rounding(allocation, questions, epsilon, days):
    campaign = twice(
        allocation, questions, GeoPrivacy(epsilon, PER, "dollar"), period=timedelta(days=days),
    )  # fmt: skip
    answers = campaign.answers * campaign.answer_privacy.exact_rate
    assert answers <= campaign.report_privacy.exact_rate
    assert campaign.periods * campaign.report_privacy.exact_rate <= (
        campaign.total_privacy.exact_rate
    )
    assert float(answers) == pytest.approx(campaign.report_privacy.rate, rel=1e-14, abs=0)


def test_repeat_is_split_at_m_times_the_privacy():
    """The same reports for the same price: only what is written in the campaign differs."""
    repeat = twice(Allocation.REPEAT, 4, GeoPrivacy(0.25, PER, "dollar"))
    split = twice(Allocation.SPLIT, 4, GeoPrivacy(1.0, PER, "dollar"))
    assert repeat.report_privacy == split.report_privacy == GeoPrivacy(1.0, PER, "dollar")
    assert repeat.answer_privacy == split.answer_privacy
    assert repeat.grid_exponent == split.grid_exponent
    assert repeat.ranges == split.ranges


def test_one_question_costs_the_same_however_it_is_allocated():
    assert {twice(allocation, 1).report_privacy for allocation in SPENT} == {
        GeoPrivacy(1.0, PER, "dollar")
    }


def test_periods_multiply_what_repetition_has_multiplied():
    weekly = twice(Allocation.REPEAT, 3, period=timedelta(days=7))
    assert weekly.periods == 4
    assert weekly.report_privacy.epsilon == 3.0
    assert weekly.total_privacy.epsilon == 12.0


def test_a_price_beyond_all_numbers_is_refused():
    with pytest.raises(ParameterError, match="epsilon"):
        twice(Allocation.REPEAT, privacy=GeoPrivacy(1e50, PER, "dollar"))


def test_the_allocation_is_part_of_what_devices_agree_to():
    campaigns = [twice(allocation, step_exponent=-30) for allocation in SPENT]
    assert len({encode(campaign) for campaign in campaigns}) == len(campaigns)
    assert [decode(encode(campaign)) for campaign in campaigns] == campaigns
    on_the_wire = [pb.Campaign.FromString(encode(c)).allocation for c in campaigns]
    assert on_the_wire == [1, 2, 3]  # numbers are for ever


@pytest.mark.parametrize("number", [0, 5, 99])
def test_an_allocation_that_is_not_known_is_refused(number):
    message = pb.Campaign.FromString(encode(twice(Allocation.REPEAT)))
    message.allocation = number
    with pytest.raises(ParameterError, match="allocation must be one of"):
        decode(message.SerializeToString(deterministic=True))
