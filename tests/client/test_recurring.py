"""Test that a recurring campaign gets one draw in every period, with any clock."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import Campaign
from geoveil.client import DeliveryStatus, InMemoryCollector, Limit, Policy
from geoveil.gp import GeoPrivacy

Make = Callable[..., Any]
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


@pytest.fixture
def weekly(make_campaign):
    """Ten weeks and a day: the last period is short."""
    made: Campaign = make_campaign(
        "weekly", opens=OPENS, closes=OPENS + 10 * WEEK + timedelta(days=1), period=WEEK
    )
    return made


@pytest.fixture
def generous():
    return Policy({"household income": Limit(campaign=GeoPrivacy(100, 8000, "dollar"))})


@pytest.fixture
def client(
    make_either: Make, state_dir: Path | None, collector: Any, weekly: Campaign, generous: Policy,
    fake_time: Any, make_source: Any,
) -> Any:  # fmt: skip
    collector.add(weekly)
    fake_time.date = OPENS
    return make_either(
        state_dir=state_dir, policy=generous, source=make_source(0), fetched=("weekly",)
    )


def test_every_period_is_drawn_for_once(client, fake_time):
    drawn = []
    for day in range(71):
        fake_time.date = OPENS + timedelta(days=day)
        drawn.append(client.contribute("weekly", 52_000 + day))
    history = client.history()
    assert [receipt.period for receipt in history] == list(range(11))
    assert len({receipt.report_id for receipt in history}) == 11
    assert drawn == [history[day // 7] for day in range(71)]


def test_a_clock_that_is_set_back_finds_what_was_drawn(client, fake_time):
    receipts = {}
    for week in (0, 3, 5):
        fake_time.date = OPENS + week * WEEK
        receipts[week] = client.contribute("weekly", 1)
    for week in (3, 0, 5, 3):
        fake_time.date = OPENS + week * WEEK + timedelta(days=2)
        assert client.contribute("weekly", 2) == receipts[week]
    assert len(client.history()) == 3
    # A period that was skipped can still be answered, once.
    fake_time.date = OPENS + 4 * WEEK
    assert client.contribute("weekly", 3) == client.contribute("weekly", 4)
    assert len(client.history()) == 4


def test_what_an_outage_held_up_goes_out_in_requests_of_its_own(
    client, fake_time, tape, collector, weekly
):
    """No request says which reports are of one person, be it of two periods or two campaigns."""
    collector.add(replace(weekly, campaign_id="also-weekly"))
    client.fetch("also-weekly")
    for week in range(5):
        fake_time.date = OPENS + week * WEEK
        client.contribute("weekly", 52_000)
        client.contribute("also-weekly", 52_000)
    fake_time.date = OPENS + 8 * WEEK
    result = client.flush()
    assert (result.acknowledged, result.pending) == (10, 0)
    assert [len(r.reports) for r in tape.requests if hasattr(r, "reports")] == [1] * 10
    assert [report.period for report in collector.reports("weekly")] == list(range(5))
    assert {receipt.status for receipt in client.history()} == {DeliveryStatus.ACKNOWLEDGED}


def test_a_period_that_the_server_has_not_reached_is_refused_alone(
    make_client, weekly, generous, fake_time, tape
):
    """The device's clock was ahead: its report for the future is rejected, the others count."""
    collector = InMemoryCollector([weekly], clock=lambda: OPENS + 2 * WEEK)
    tape.handler = collector
    client = make_client(policy=generous, fetched=("weekly",))
    for week in (2, 9):
        fake_time.date = OPENS + week * WEEK
        client.contribute("weekly", 52_000)
    result = client.flush()
    assert (result.acknowledged, result.rejected, result.pending) == (1, 1, 0)
    early = client.history()[1]
    assert early.period == 9
    assert early.rejection is not None
    assert early.rejection.reason == "WRONG_PERIOD"
    assert [report.period for report in collector.reports("weekly")] == [2]
