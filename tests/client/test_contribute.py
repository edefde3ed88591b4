"""Test that a report is stored at once, once per campaign, without the network."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from geoveil.campaign import digest, encode, seal
from geoveil.client import (
    CampaignNotFetched,
    CampaignNotOpen,
    DeliveryStatus,
    InMemoryTransport,
    Limit,
    ParameterError,
    Policy,
    PolicyRefused,
    PrivateValueError,
    Receipt,
    ReportBuilder,
    device_session,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import report_pb2


def forbidden(request: Any) -> Any:
    raise AssertionError("the network was used")


def test_a_value_becomes_one_report_that_waits(make_either, state_dir, tape, campaign, make_source):
    source = make_source(3)
    client = make_either(state_dir=state_dir, fetched=("income",), source=source)
    tape.before = forbidden
    receipt = client.contribute("income", 52_000)
    twin = ReportBuilder(
        policy=Policy({"household income": campaign.privacy}), source=make_source(3)
    )
    made = twin.prepare(twin.accept("income", seal(encode(campaign))), 52_000)
    report = report_pb2.Report.FromString(made.report)
    assert receipt == Receipt(
        campaign_id="income",
        period=0,
        charges=campaign.charges,
        report_id=report.report_id.hex(),
        digest=digest(encode(campaign)).hex(),
        answers=receipt.answers,
        step_exponent=campaign.grid_exponent,
        drawn=datetime(2026, 5, 1, tzinfo=UTC),
        status=DeliveryStatus.PENDING,
    )
    assert [(a.query_index, a.value) for a in receipt.answers] == [
        (a.query_index, a.value) for a in report.answers
    ]
    (answer,) = receipt.answers
    assert receipt.perturbed == (answer.value * 2.0**campaign.grid_exponent,)
    assert not receipt.acknowledged
    assert client.history() == (receipt,)


def test_contributing_again_is_the_receipt_whatever_the_value(
    make_either, state_dir, tape, make_source
):
    source = make_source(0)
    client = make_either(state_dir=state_dir, fetched=("income",), source=source)
    tape.before = forbidden
    first = client.contribute("income", 52_000)
    drawn = list(source.draws)
    assert first.fresh
    for value in (52_000, 1e9, "not even a number", math.nan, None):
        again = client.contribute("income", value)
        assert again == first
        assert not again.fresh  # nobody may think that this value counts
    assert source.draws == drawn
    (kept,) = client.history()
    assert not kept.fresh


def test_the_receipt_outlives_the_client_and_shows_what_became_of_it(make_either, tmp_path, tape):
    first = make_either(state_dir=tmp_path / "state", fetched=("income",))
    kept = first.contribute("income", 52_000)
    first.close(0)
    again = make_either(state_dir=tmp_path / "state", transport=InMemoryTransport(forbidden))
    assert again.contribute("income", 1) == kept
    last = make_either(state_dir=tmp_path / "state")
    assert last.flush().acknowledged == 1
    sent = last.contribute("income", 2)
    assert sent == replace(
        kept, status=DeliveryStatus.ACKNOWLEDGED, sent=sent.sent, settled=sent.settled
    )
    assert sent.sent == sent.settled == datetime(2026, 5, 1, tzinfo=UTC)
    assert sent.acknowledged


def test_clients_in_memory_do_not_share_what_they_drew(make_either):
    ids = {make_either(fetched=("income",)).contribute("income", 1).report_id for _ in range(5)}
    assert len(ids) == 5


@pytest.mark.parametrize(
    ("campaign_id", "value", "good"),
    [("income", math.nan, 52_000), ("income", None, 52_000), ("places", 7.0, (-73.98, 40.72))],
)
def test_a_bad_value_costs_nothing_and_a_good_one_still_counts(
    make_either, tape, make_source, campaign_id, value, good
):
    source = make_source(0)
    client = make_either(source=source, fetched=("income", "places"))
    with pytest.raises(PrivateValueError):
        client.contribute(campaign_id, value)
    assert source.draws == []
    assert client.history() == ()
    assert all(budget.spent == 0 for budget in client.budgets())
    assert client.contribute(campaign_id, good).status is DeliveryStatus.PENDING


@pytest.mark.parametrize("place", [(2.35, 48.86), (106.02, -40.72), (-73.98, 42.0), (0.0, 90.0)])
def test_places_outside_the_area_take_part(make_either, place):
    """Staying silent would tell where a person is not."""
    assert (
        make_either(fetched=("places",)).contribute("places", place).status
        is DeliveryStatus.PENDING
    )


def test_a_campaign_that_is_not_here_is_not_waited_for(make_either, tape, make_source):
    source = make_source(0)
    client = make_either(source=source)
    with pytest.raises(CampaignNotFetched, match=r"call fetch\('income'\)") as raised:
        client.contribute("income", 52_000)
    assert raised.value.cause is None
    assert tape.requests == []
    assert source.draws == []
    client.fetch("income")
    assert client.contribute("income", 52_000).status is DeliveryStatus.PENDING


@pytest.mark.parametrize("bad", ["", "x" * 65, 3, None])
def test_what_can_not_be_an_id_is_refused(make_either, tape, bad):
    client = make_either()
    with pytest.raises(ParameterError, match="campaign_id"):
        client.contribute(bad, 52_000)
    with pytest.raises(ParameterError, match="campaign_id"):
        client.fetch(bad)
    assert tape.requests == []


@pytest.mark.parametrize(
    ("date", "state"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC) - timedelta(microseconds=1), "pending"),
        (datetime(2026, 1, 1, tzinfo=UTC), None),
        (datetime(2027, 1, 1, tzinfo=UTC) - timedelta(microseconds=1), None),
        (datetime(2027, 1, 1, tzinfo=UTC), "closed"),
    ],
)
def test_the_clock_of_the_device_says_whether_a_campaign_is_open(
    make_either, fake_time, make_source, date, state
):
    source = make_source(0)
    client = make_either(fetched=("income",), source=source)
    fake_time.date = date
    if state is None:
        assert client.contribute("income", 52_000).drawn == date
        return
    with pytest.raises(CampaignNotOpen, match=f"is {state}") as raised:
        client.contribute("income", 52_000)
    assert raised.value.state == state
    assert source.draws == []


def test_a_receipt_stays_after_the_campaign_has_closed(make_either, fake_time):
    client = make_either(fetched=("income",))
    receipt = client.contribute("income", 52_000)
    fake_time.date = datetime(2028, 1, 1, tzinfo=UTC)
    assert client.contribute("income", 52_000) == receipt


def test_a_policy_that_became_stricter_holds_for_campaigns_fetched_before(
    make_either, tmp_path, make_source
):
    make_either(state_dir=tmp_path / "state", fetched=("income",)).close()
    stricter = Policy({"household income": Limit(campaign=GeoPrivacy(0.5, 8000, "dollar"))})
    source = make_source(0)
    client = make_either(state_dir=tmp_path / "state", policy=stricter, source=source)
    with pytest.raises(PolicyRefused, match=r"privacy loss of 'household income'"):
        client.contribute("income", 52_000)
    assert source.draws == []
    assert client.history() == ()


@pytest.mark.deep(keep=2)
def test_more_campaigns_than_are_kept_at_hand_are_fetched_once(
    make_either, state_dir, tape, collector, make_campaign, monkeypatch
):
    monkeypatch.setattr(device_session, "_MOST_CAMPAIGN_BYTES", 30 * len(encode(make_campaign())))
    names = [f"c{i}" for i in range(70)]
    for name in names:
        collector.add(make_campaign(name))
    client = make_either(state_dir=state_dir, fetched=tuple(names))
    for name in names:
        client.contribute(name, 1)
    assert tape.fetched == 70
    assert [r.campaign_id for r in client.history()] == sorted(names)
