"""Test that periods tile a recurring campaign's time, and that every answer has one sum."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from geoveil.campaign import Attribute, Question, StatisticCampaign, decode, encode
from geoveil.campaign.model import MOST_SLOTS
from geoveil.gp import GeoPrivacy, GeoVeilError, ParameterError, Threshold
from geoveil.proto.v1 import campaign_pb2 as pb

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ONCE = StatisticCampaign(
    campaign_id="income",
    title="Income",
    attribute=Attribute(name="household income", unit="dollar"),
    privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
    questions=tuple(Question(f"q{i}", Threshold(1e5 + i, 24_000, "smoothstep")) for i in range(3)),
    opens=NOW,
    closes=NOW + timedelta(days=30),
)


def seconds(low, high):
    return st.integers(low, high).map(lambda s: timedelta(seconds=s))


@given(seconds(1, 86_400 * 20), seconds(60, 86_400 * 3), seconds(-86_400, 86_400 * 21))
def test_periods_tile_the_time_that_a_campaign_is_open(length, period, after):
    campaign = replace(ONCE, questions=ONCE.questions[:1], closes=NOW + length, period=period)
    begins = [NOW]  # counted, not divided
    while begins[-1] + period < campaign.closes:
        begins.append(begins[-1] + period)
    assert campaign.periods == len(begins)
    begun = [i for i, start in enumerate(begins) if start <= NOW + after]
    assert campaign.period_at(NOW + after) == (begun[-1] if begun else 0)


def test_a_period_begins_with_its_first_moment():
    weekly = replace(ONCE, period=timedelta(days=7))
    assert weekly.periods == 5
    second = NOW + timedelta(days=7)
    assert weekly.period_at(second - timedelta(microseconds=1)) == 0
    assert weekly.period_at(second) == 1
    assert replace(weekly, closes=NOW + timedelta(days=28)).periods == 4


def test_every_question_and_period_has_a_slot_of_its_own():
    daily = replace(ONCE, period=timedelta(days=1))
    slots = [daily.slot(q, p) for p in range(daily.periods) for q in range(3)]
    assert slots == list(range(daily.slots))
    assert daily.slots == 90
    assert (ONCE.periods, ONCE.slots, ONCE.period_at(NOW + timedelta(days=20))) == (1, 3, 0)


@given(seconds(86_400, 86_400 * 60), st.integers(0, 10**12))
def test_bytes_bring_period_and_minimum_back(period, minimum):
    campaign = replace(ONCE, period=period, minimum_participants=minimum)
    assert decode(encode(campaign)) == campaign


@pytest.mark.parametrize(
    "period",
    [timedelta(0), timedelta(seconds=59), timedelta(days=-7), timedelta.max, 7, "7d"],
)
def test_periods_last_a_minute_to_ten_thousand_years(period):
    with pytest.raises(ParameterError, match="period must be at least a minute"):
        replace(ONCE, period=period)


def test_a_campaign_has_so_many_sums_and_no_more():
    long = replace(ONCE, questions=ONCE.questions[:1], closes=NOW + timedelta(minutes=MOST_SLOTS))
    assert replace(long, period=timedelta(minutes=1)).slots == MOST_SLOTS
    longer = replace(long, closes=long.closes + timedelta(seconds=1))
    with pytest.raises(ParameterError, match="queries times periods, 100,001"):
        replace(longer, period=timedelta(minutes=1))


@pytest.mark.parametrize("least", [-1, 10**12 + 1, True, 2.0, "5", None])
def test_minimum_is_a_count(least):
    with pytest.raises(ParameterError, match="minimum_participants"):
        replace(ONCE, minimum_participants=least)


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(0, 0), (-1, 0), (2**62, 0), (60, 1), (60, -5), (60, 2**31 - 1)]
)
def test_durations_on_the_wire_that_are_no_period_are_refused(seconds, nanos):
    message = pb.Campaign.FromString(encode(replace(ONCE, period=timedelta(days=7))))
    message.period.seconds, message.period.nanos = seconds, nanos
    with pytest.raises(GeoVeilError, match=r"period|update geoveil"):
        decode(message.SerializeToString(deterministic=True))
