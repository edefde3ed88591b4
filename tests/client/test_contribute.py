"""A report is stored at once, once per campaign or period, without the network."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import Allocation, Campaign, LipschitzLaplaceSpec, digest, encode, seal
from geoveil.client import (
    Budget,
    CampaignNotFetched,
    CampaignNotOpen,
    DeliveryStatus,
    InMemoryCollector,
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
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import report_pb2
from tests.client.conftest import dollars


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
def weekly_client(
    make_either: Make, state_dir: Path | None, collector: Any, weekly: Campaign, generous: Policy,
    fake_time: Any, make_source: Any,
) -> Any:  # fmt: skip
    collector.add(weekly)
    fake_time.date = OPENS
    return make_either(
        state_dir=state_dir, policy=generous, source=make_source(0), fetched=("weekly",)
    )


def test_every_period_is_drawn_for_once(weekly_client, fake_time):
    drawn = []
    for day in range(71):
        fake_time.date = OPENS + timedelta(days=day)
        drawn.append(weekly_client.contribute("weekly", 52_000 + day))
    history = weekly_client.history()
    assert [receipt.period for receipt in history] == list(range(11))
    assert len({receipt.report_id for receipt in history}) == 11
    assert drawn == [history[day // 7] for day in range(71)]


def test_a_clock_that_is_set_back_finds_what_was_drawn(weekly_client, fake_time):
    receipts = {}
    for week in (0, 3, 5):
        fake_time.date = OPENS + week * WEEK
        receipts[week] = weekly_client.contribute("weekly", 1)
    for week in (3, 0, 5, 3):
        fake_time.date = OPENS + week * WEEK + timedelta(days=2)
        assert weekly_client.contribute("weekly", 2) == receipts[week]
    assert len(weekly_client.history()) == 3
    # A period that was skipped can still be answered, once.
    fake_time.date = OPENS + 4 * WEEK
    assert weekly_client.contribute("weekly", 3) == weekly_client.contribute("weekly", 4)
    assert len(weekly_client.history()) == 4


def test_what_an_outage_held_up_goes_out_in_requests_of_its_own(
    weekly_client, fake_time, tape, collector, weekly
):
    """No request says which reports are of one person, be it of two periods or two campaigns."""
    collector.add(replace(weekly, campaign_id="also-weekly"))
    weekly_client.fetch("also-weekly")
    for week in range(5):
        fake_time.date = OPENS + week * WEEK
        weekly_client.contribute("weekly", 52_000)
        weekly_client.contribute("also-weekly", 52_000)
    fake_time.date = OPENS + 8 * WEEK
    result = weekly_client.flush()
    assert (result.acknowledged, result.pending) == (10, 0)
    assert [len(r.reports) for r in tape.requests if hasattr(r, "reports")] == [1] * 10
    assert [report.period for report in collector.reports("weekly")] == list(range(5))
    assert {receipt.status for receipt in weekly_client.history()} == {DeliveryStatus.ACKNOWLEDGED}


def test_a_period_that_the_server_has_not_reached_is_refused_alone(
    make_client, weekly, generous, fake_time, tape
):
    """The device's clock was ahead: its report for the future is rejected, the others count."""
    collector = InMemoryCollector([weekly], clock=lambda: OPENS + 2 * WEEK)
    tape.handler = collector
    weekly_client = make_client(policy=generous, fetched=("weekly",))
    for week in (2, 9):
        fake_time.date = OPENS + week * WEEK
        weekly_client.contribute("weekly", 52_000)
    result = weekly_client.flush()
    assert (result.acknowledged, result.rejected, result.pending) == (1, 1, 0)
    early = weekly_client.history()[1]
    assert early.period == 9
    assert early.rejection is not None
    assert early.rejection.reason == "WRONG_PERIOD"
    assert [report.period for report in collector.reports("weekly")] == [2]


M = 3


def policy_of(*, campaign: float = 100, lifetime: float | None = None, **more: Any) -> Policy:
    most = None if lifetime is None else dollars(lifetime)
    return Policy({"household income": Limit(campaign=dollars(campaign), lifetime=most, **more)})


@pytest.fixture
def repeat(make_campaign, collector):
    """Three questions, each answered for ε = 1 per 8,000 dollars."""
    made: Campaign = make_campaign(
        "repeat",
        queries=tuple(Threshold(80_000 + 20_000 * i, 16_000, "smoothstep") for i in range(M)),
        allocation=Allocation.REPEAT,
    )
    collector.add(made)
    return made


def test_all_queries_are_answered_and_all_of_them_are_charged(
    make_either, state_dir, repeat, collector
):
    policy = policy_of(lifetime=10)
    client = make_either(state_dir=state_dir, policy=policy, fetched=("repeat",))
    receipt = client.contribute("repeat", 97_000)
    assert receipt.privacy == dollars(M)
    assert [answer.query_index for answer in receipt.answers] == [0, 1, 2]
    assert client.flush().acknowledged == 1
    (kept,) = client.history()
    assert kept.privacy == dollars(M)
    (budget,) = client.budgets()
    assert budget == Budget(
        attribute="household income", scope="lifetime", limit=dollars(10), spent=float(M)
    )
    (sent,) = collector.reports("repeat")
    assert [a.query_index for a in sent.answers] == [0, 1, 2]
    assert client.contribute("repeat", 1.0) == kept  # once, as ever
    assert client.budgets() == (budget,)


@pytest.mark.parametrize(
    ("most", "permitted"),
    [(1.0, False), (2.0, False), (math.nextafter(M, 0), False), (float(M), True), (4.0, True)],
)
def test_a_cap_is_compared_with_the_sum(make_either, repeat, make_source, most, permitted):
    """Between ε and mε as well: a cap on a campaign is none on each of its queries."""
    source = make_source(0)
    client = make_either(policy=policy_of(campaign=most), source=source)
    if permitted:
        client.fetch("repeat")
        assert client.contribute("repeat", 97_000).privacy == dollars(M)
        return
    with pytest.raises(PolicyRefused) as refused:
        client.fetch("repeat")
    assert refused.value.stated == "ε = 3 per 8000 dollar"
    assert source.draws == []


def test_the_answers_of_a_report_are_drawn_independently(
    make_client, make_campaign, collector, make_source
):
    """Two equal answers to one question put twice would mean that noise was used again."""
    collector.add(
        make_campaign(
            "twice",
            queries=(Threshold(97_000, 16_000, "smoothstep"),) * 2,
            allocation=Allocation.REPEAT,
            mechanism=LipschitzLaplaceSpec(),  # whose answers have no atoms
        )
    )
    client = make_client(policy=policy_of(), fetched=("twice",), source=make_source(1))
    client.contribute("twice", 97_000)
    client.flush()
    (sent,) = collector.reports("twice")
    assert isinstance(sent, report_pb2.Report)
    first, second = (answer.value for answer in sent.answers)
    assert first != second
