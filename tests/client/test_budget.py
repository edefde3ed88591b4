"""Test that nothing is drawn for answers beyond the limits, in any order."""

from datetime import timedelta
from typing import Any

import pytest

from geoveil.campaign import Attribute
from geoveil.client import Budget, BudgetExceeded, Limit, Place, Policy, Window
from geoveil.gp import GeoPrivacy
from tests.client.conftest import dollars

DAY = timedelta(days=1)


@pytest.fixture
def names(collector, make_campaign):
    """Five campaigns about one income, each for ε = 1 per 8,000 dollars."""
    names = tuple(f"c{i}" for i in range(5))
    for name in names:
        collector.add(make_campaign(name))
    return names


def test_a_lifetime_is_spent_over_all_campaigns(make_either, state_dir, names, make_source):
    policy = Policy({"household income": Limit(campaign=dollars(1), lifetime=dollars(2.5))})
    source = make_source(0)
    client = make_either(state_dir=state_dir, policy=policy, fetched=names, source=source)
    for name in names[:2]:
        client.contribute(name, 52_000)
    drawn = list(source.draws)
    for name in names[2:]:
        with pytest.raises(BudgetExceeded) as raised:
            client.contribute(name, 52_000)
        assert (raised.value.spent, raised.value.frees) == (2.0, None)
    assert source.draws == drawn
    assert len(client.history()) == 2
    assert client.budgets() == (
        Budget(attribute="household income", scope="lifetime", limit=dollars(2.5), spent=2.0),
    )
    # What was answered still has its receipt.
    assert client.contribute(names[0], 1) == client.history()[0]


def test_a_limit_of_one_campaign_alone_is_that_of_all(make_either, names):
    """Else any number of campaigns might each have it; only "unbounded" says so."""
    unbounded = Limit(campaign=dollars(1), lifetime="unbounded")
    freely = make_either(policy=Policy({"household income": unbounded}), fetched=names)
    for name in names:
        freely.contribute(name, 52_000)
    policy = Policy({"household income": Limit(campaign=dollars(1))})
    client = make_either(policy=policy, fetched=names)
    client.contribute(names[0], 52_000)
    with pytest.raises(BudgetExceeded, match="lifetime"):
        client.contribute(names[1], 52_000)
    window = Window(limit=dollars(2), length=timedelta(days=1))
    assert Limit(campaign=dollars(1), windows=(window,)).lifetime is None


def test_a_value_is_not_looked_at_where_there_is_no_room(make_either, names):
    policy = Policy({"household income": dollars(1)})
    client = make_either(policy=policy, fetched=names)
    client.contribute(names[0], 52_000)
    with pytest.raises(BudgetExceeded):
        client.contribute(names[1], "52000")


def test_a_window_slides(make_either, names, fake_time):
    window = Window(limit=dollars(2), length=30 * DAY)
    policy = Policy({"household income": Limit(campaign=dollars(1), windows=(window,))})
    client = make_either(policy=policy, fetched=names)
    start = fake_time.date
    for name, day in zip(names, (0, 10), strict=False):
        fake_time.date = start + day * DAY
        client.contribute(name, 52_000)
        client.flush(1)
    fake_time.date = start + 20 * DAY
    with pytest.raises(BudgetExceeded) as raised:
        client.contribute(names[2], 52_000)
    assert raised.value.frees == start + 30 * DAY
    fake_time.date = raised.value.frees
    client.contribute(names[2], 52_000)
    with pytest.raises(BudgetExceeded) as raised:
        client.contribute(names[3], 52_000)
    assert raised.value.frees == start + 40 * DAY
    fake_time.date = raised.value.frees
    client.contribute(names[3], 52_000)
    fake_time.date = start + 55 * DAY  # the last two still wait: they may leave on any day
    with pytest.raises(BudgetExceeded) as raised:
        client.contribute(names[4], 52_000)
    assert raised.value.frees == start + 85 * DAY


def test_a_clock_set_forward_and_back_gives_no_room(make_either, names, fake_time):
    window = Window(limit=dollars(1), length=30 * DAY)
    policy = Policy({"household income": Limit(campaign=dollars(1), windows=(window,))})
    client = make_either(policy=policy, fetched=names)
    start = fake_time.date
    fake_time.date = start + 100 * DAY
    client.contribute(names[0], 52_000)
    client.flush(1)
    fake_time.date = start
    with pytest.raises(BudgetExceeded) as raised:
        client.contribute(names[1], 52_000)
    assert raised.value.frees == start + 130 * DAY


def test_the_limit_of_one_campaign_holds_for_all_its_periods(
    make_either, collector, make_campaign, fake_time
):
    collector.add(make_campaign("daily", period=DAY))
    policy = Policy({"household income": Limit(campaign=dollars(3))})
    client = make_either(policy=policy, fetched=("daily",))
    for _ in range(3):
        client.contribute("daily", 52_000)
        fake_time.date += DAY
    with pytest.raises(BudgetExceeded, match="permitted for this campaign") as raised:
        client.contribute("daily", 52_000)
    assert (raised.value.scope, raised.value.frees) == ("this campaign", None)
    assert len(client.history()) == 3


def test_attributes_have_budgets_of_their_own(make_either, collector):
    policy = Policy(
        {
            "household income": dollars(1),
            "location": Limit(
                campaign=GeoPrivacy(1, 1000, "metre"),
                lifetime=GeoPrivacy(1, 1000, "metre"),
                value=Place(None),
            ),
            "debt": dollars(1),
        }
    )
    client = make_either(policy=policy, fetched=("income", "places"))
    client.contribute("income", 52_000)
    client.contribute("places", (-73.98, 40.72))
    assert [(b.attribute, b.spent, b.limit.unit) for b in client.budgets()] == [
        ("household income", 1.0, "dollar"),
        ("location", 1.0, "metre"),
        ("debt", 0.0, "dollar"),
    ]


def test_what_was_spent_outlives_the_client_and_its_policy(make_either, tmp_path, names):
    """A limit that is added later counts what was spent before it."""
    settings: dict[str, Any] = {"state_dir": tmp_path / "state"}
    client = make_either(**settings, fetched=names)
    for name in names[:3]:
        client.contribute(name, 52_000)
    client.close(0)
    policy = Policy({"household income": Limit(campaign=dollars(1), lifetime=dollars(3))})
    again = make_either(**settings, policy=policy)
    assert [b.spent for b in again.budgets()] == [3.0]
    with pytest.raises(BudgetExceeded):
        again.contribute(names[3], 52_000)


def test_rejected_and_expired_reports_stay_spent(make_either, names, collector, fake_time):
    """The server has seen the one and may have seen the other."""
    policy = Policy({"household income": Limit(campaign=dollars(1), lifetime=dollars(2))})
    client = make_either(policy=policy, fetched=names)
    client.contribute(names[0], 52_000)
    collector.close(names[0])
    assert client.flush().rejected == 1
    client.contribute(names[1], 52_000)
    del collector._held[names[1]]
    fake_time.date += 700 * DAY
    client.flush()
    counts = client.counts()
    assert (counts.rejected, counts.expired) == (1, 1)
    assert [b.spent for b in client.budgets()] == [2.0]


def test_one_name_in_two_units_is_two_attributes(make_either, collector, make_campaign):
    """A policy has one unit for a name; the other is refused, and never summed with it."""
    euro = Attribute(name="household income", unit="euro")
    collector.add(make_campaign("e", attribute=euro, privacy=GeoPrivacy(1, 8000, "euro")))
    policy = Policy({"household income": GeoPrivacy(1, 8000, "euro")})
    client = make_either(policy=policy, fetched=("e",))
    client.contribute("e", 52_000)
    assert [(b.spent, b.limit.unit) for b in client.budgets()] == [(1.0, "euro")]
