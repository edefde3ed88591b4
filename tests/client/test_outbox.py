"""Test the bounds on waiting reports, over processes and restarts, and when they are given up."""

from datetime import timedelta
from typing import Any

import pytest

from geoveil.client import (
    DeliveryStatus,
    FlushResult,
    Limit,
    OutboxFull,
    ParameterError,
    Policy,
    ReportCounts,
    TransportError,
)
from geoveil.gp import GeoPrivacy

DAY = timedelta(days=1)


@pytest.fixture
def daily(collector, make_campaign, fake_time):
    campaign = make_campaign("daily", period=DAY)
    collector.add(campaign)
    fake_time.date = campaign.opens
    return campaign


@pytest.fixture
def make(make_either, daily, state_dir):
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(400, 8000, "dollar"))})

    def make(**settings: Any) -> Any:
        return make_either(state_dir=state_dir, policy=policy, fetched=("daily",), **settings)

    return make


def fill(client: Any, fake_time: Any, days: int) -> None:
    for _ in range(days):
        client.contribute("daily", 52_000)
        fake_time.date += DAY


def test_the_report_that_is_too_many_is_not_drawn(make, fake_time, make_source):
    source = make_source(0)
    client = make(most_pending=3, source=source)
    fill(client, fake_time, 3)
    drawn, spent = list(source.draws), client.counts()
    for tries in (1, 2):
        with pytest.raises(OutboxFull) as raised:
            client.contribute("daily", 52_000)
        error = raised.value
        assert (error.reports, error.most_reports) == (3, 3)
        assert error.size == spent.pending_bytes
        assert "3 reports" in str(error)
        assert client.counts().refused == tries
    assert source.draws == drawn
    assert len(client.history()) == 3
    # The day is not lost: once there is room, it can be answered.
    assert client.flush().acknowledged == 3
    assert client.contribute("daily", 52_000).period == 3
    assert client.counts() == ReportCounts(
        pending=1, pending_bytes=client.counts().pending_bytes, acknowledged=3, rejected=0,
        expired=0, refused=2,
    )  # fmt: skip


def test_receipts_are_shown_although_the_outbox_is_full(make, fake_time):
    client = make(most_pending=1)
    receipt = client.contribute("daily", 52_000)
    assert client.contribute("daily", 1) == receipt
    assert client.counts().refused == 0


def test_the_bound_holds_over_restarts(make_either, daily, fake_time, tmp_path):
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(400, 8000, "dollar"))})
    settings: dict[str, Any] = {
        "state_dir": tmp_path / "state", "policy": policy, "most_pending": 2
    }  # fmt: skip
    client = make_either(fetched=("daily",), **settings)
    fill(client, fake_time, 2)
    client.close(0)
    again = make_either(**settings)
    with pytest.raises(OutboxFull):
        again.contribute("daily", 52_000)
    other = make_either(**settings)
    assert other.flush() == FlushResult(acknowledged=2, rejected=0, pending=0)
    assert again.contribute("daily", 52_000)


@pytest.mark.parametrize("name", ["most_pending", "most_pending_bytes"])
@pytest.mark.parametrize("value", [0, 1.5, True])
def test_bounds_are_positive_integers(make_either, name, value):
    with pytest.raises(ParameterError, match=name):
        make_either(**{name: value})


@pytest.mark.parametrize(("later", "expired"), [(timedelta(0), False), (DAY / 86_400, True)])
def test_what_waits_is_given_up_thirty_days_after_its_campaign_closed(
    make, fake_time, steering, daily, later, expired
):
    client = make()
    client.contribute("daily", 52_000)
    steering.failures[""] = TransportError("INTERNAL")
    fake_time.date = daily.closes + 30 * DAY + later
    result = client.flush()
    (receipt,) = client.history()
    assert (receipt.status is DeliveryStatus.EXPIRED) == expired
    assert result.pending == (0 if expired else 1)
    assert client.counts().expired == (1 if expired else 0)
    if expired:
        assert receipt.settled == fake_time.date
        assert steering.asked == []


def test_a_campaign_that_expired_makes_room(
    make, fake_time, steering, daily, collector, make_campaign
):
    client = make(most_pending=1)
    client.contribute("daily", 52_000)
    fake_time.date = daily.closes + 31 * DAY
    collector.add(make_campaign("next", closes=fake_time.date + DAY))
    client.fetch("next")
    with pytest.raises(OutboxFull):
        client.contribute("next", 52_000)
    client.flush()
    assert client.contribute("next", 52_000)


def test_an_answer_that_comes_after_the_report_was_given_up_counts(
    make_client, daily, fake_time, tmp_path, tape
):
    """Two processes: one gives up while the other's request is under way."""
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(400, 8000, "dollar"))})
    settings: dict[str, Any] = {"state_dir": tmp_path / "state", "policy": policy}
    slow, other = make_client(fetched=("daily",), **settings), make_client(**settings)
    slow.contribute("daily", 52_000)
    handler = tape.handler

    def give_up_meanwhile(request: Any) -> Any:
        tape.handler = handler
        fake_time.date = daily.closes + 31 * DAY
        assert other.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)
        assert other.history()[0].status is DeliveryStatus.EXPIRED
        return handler(request)

    tape.handler = give_up_meanwhile
    assert slow.flush().acknowledged == 1
    assert slow.history()[0].status is DeliveryStatus.ACKNOWLEDGED
