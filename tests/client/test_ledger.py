"""Test the sums of privacy losses and their limits against brute force over all windows."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial, reduce
from operator import add

import pytest
from hypothesis import given, settings, strategies as st

from geoveil.campaign import Charge
from geoveil.client import BudgetExceeded, Limit, Window
from geoveil.client.contributions import Contribution, DeliveryStatus, Reading
from geoveil.client.journal import Bounds, Journal
from geoveil.client.ledger import SpendingHistory, Telling, budgets, check, total
from geoveil.gp import GeoPrivacy

steady = settings(max_examples=3 * settings().max_examples)
T0 = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def dollars(epsilon: float, per: float = 1000.0) -> GeoPrivacy:
    return GeoPrivacy(epsilon, per, "dollar")


@dataclass
class ListHistory:
    """The history that the others are compared with."""

    answers: list[tuple[datetime, str, GeoPrivacy]] = field(default_factory=list)
    epochs: set[tuple[str, datetime]] = field(default_factory=set)
    """The campaigns that a reading has answered, by its epoch."""

    def spendings(self, *, campaign_id: str | None = None) -> Counter[GeoPrivacy]:
        return Counter(p for _, campaign, p in self.answers if campaign_id in (None, campaign))

    def tellings(self, *, after: datetime | None) -> Iterator[Telling]:
        for when, _, privacy in self.answers:
            if after is None or when > after:
                yield Telling(privacy=privacy, last=when)

    def used(self, campaign_id: str, epoch: datetime) -> bool:
        return (campaign_id, epoch) in self.epochs


def accepted(
    history: SpendingHistory, limit: Limit, asked: GeoPrivacy, now: datetime, campaign_id: str = "c"
) -> bool:
    try:
        check(asked, limit, history, campaign_id=campaign_id, attribute="income", now=now)
    except BudgetExceeded:
        return False
    return True


def refusal(
    history: SpendingHistory, limit: Limit, asked: GeoPrivacy, now: datetime, campaign_id: str = "c"
) -> BudgetExceeded:
    with pytest.raises(BudgetExceeded) as raised:
        check(asked, limit, history, campaign_id=campaign_id, attribute="income", now=now)
    return raised.value


EPSILONS = st.sampled_from([0.1, 0.2, 0.25, 0.3, 1 / 3, 0.7, 1.0])
PRICES = st.builds(dollars, EPSILONS, st.sampled_from([1000.0, 700.0, 3000.1]))
CAMPAIGNS = st.sampled_from(["a", "b"])
FORWARDS = st.integers(0, 8)
ANYWHERE = st.integers(-6, 8)
LIMITS = st.builds(
    lambda campaign, lifetime, windows: Limit(
        campaign=dollars(campaign),
        lifetime="unbounded" if lifetime is None else dollars(lifetime),
        windows=tuple(Window(limit=dollars(e), length=n * HOUR) for e, n in windows),
    ),
    st.sampled_from([0.5, 1.0, 50.0]),
    st.sampled_from([None, 1.0, 2.1]),
    st.lists(st.tuples(st.sampled_from([0.3, 0.7, 1.0, 1.3]), st.integers(1, 12)), max_size=3),
)


def within_all(limit: Limit, answers: list[tuple[datetime, str, GeoPrivacy]]) -> bool:
    """Whether no campaign, no lifetime and no stretch [t, t + length) costs more than permitted."""

    def cost(chosen: Iterable[tuple[datetime, str, GeoPrivacy]]) -> Fraction:
        rates = (Fraction(p.epsilon) / Fraction(p.per) for _, _, p in chosen)
        return sum(rates, Fraction(0))

    def rate(privacy: GeoPrivacy) -> Fraction:
        return Fraction(privacy.epsilon) / Fraction(privacy.per)

    campaigns = {campaign for _, campaign, _ in answers}
    return (
        all(
            cost(a for a in answers if a[1] == campaign) <= rate(limit.campaign)
            for campaign in campaigns
        )
        and (not isinstance(limit.lifetime, GeoPrivacy) or cost(answers) <= rate(limit.lifetime))
        and all(
            cost(a for a in answers if start <= a[0] < start + window.length) <= rate(window.limit)
            for window in limit.windows
            for start, _, _ in answers
        )
    )


@steady
@given(LIMITS, st.lists(st.tuples(FORWARDS, CAMPAIGNS, PRICES), max_size=12))
def test_an_answer_is_taken_if_and_only_if_no_stretch_of_time_costs_too_much(limit, moves):
    history, now = ListHistory(), T0
    for hours, campaign, asked in moves:
        now += hours * HOUR
        taken = accepted(history, limit, asked, now, campaign)
        assert taken == within_all(limit, [*history.answers, (now, campaign, asked)])
        if taken:
            history.answers.append((now, campaign, asked))


@steady
@given(LIMITS, st.lists(st.tuples(ANYWHERE, CAMPAIGNS, PRICES), max_size=12))
def test_no_clock_can_make_any_stretch_of_time_cost_too_much(limit, moves):
    """Set back, a clock may make the ledger refuse more, never less: what is dated later counts."""
    history, now = ListHistory(), T0
    for hours, campaign, asked in moves:
        now += hours * HOUR
        taken = accepted(history, limit, asked, now, campaign)
        as_if_now = [(min(when, now), c, p) for when, c, p in history.answers]
        assert taken == within_all(limit, [*as_if_now, (now, campaign, asked)])
        if taken:
            history.answers.append((now, campaign, asked))
        assert within_all(limit, history.answers)


@pytest.mark.deep
@steady
@given(LIMITS, st.lists(st.tuples(ANYWHERE, CAMPAIGNS, PRICES), max_size=12))
def test_the_window_frees_exactly_when_it_says(limit, moves):
    history, now = ListHistory(), T0
    for hours, campaign, asked in moves:
        now += hours * HOUR
        if accepted(history, limit, asked, now, campaign):
            history.answers.append((now, campaign, asked))
            continue
        frees = refusal(history, limit, asked, now, campaign).frees
        if frees is None:
            assert not accepted(history, limit, asked, now + timedelta(days=3650), campaign)
            continue
        assert frees > now
        assert accepted(history, limit, asked, frees, campaign)
        assert not accepted(history, limit, asked, frees - timedelta(microseconds=1), campaign)


def entry_of(campaign: str, period: int, privacy: GeoPrivacy, attribute: str) -> Contribution:
    return Contribution(
        campaign_id=campaign,
        period=period,
        digest=b"d" * 32,
        report=b"",
        charges=(Charge(attribute, privacy, math.inf),),
        step_exponent=-10,
        closes=T0 + timedelta(days=400),
    )


def agreed(
    history: SpendingHistory,
    limit: Limit,
    asked: GeoPrivacy,
    now: datetime,
    campaign: str,
    of_rows: SpendingHistory,
) -> bool:
    """Return whether both histories take an answer, having made sure that they agree."""
    taken = accepted(history, limit, asked, now, campaign)
    assert accepted(of_rows, limit, asked, now, campaign) == taken
    if not taken:
        kept, expected = (refusal(one, limit, asked, now, campaign) for one in (of_rows, history))
        assert kept.args == expected.args
    for name in (None, campaign):
        sums = [total(one.spendings(campaign_id=name)) for one in (of_rows, history)]
        assert sums[0] == sums[1]
    lists = [list(budgets("income", limit, one, now)) for one in (of_rows, history)]
    assert lists[0] == lists[1]
    return taken


@pytest.mark.deep
@steady
@given(LIMITS, st.lists(st.tuples(ANYWHERE, CAMPAIGNS, PRICES), max_size=10))
def test_the_journal_keeps_the_same_book(limit, moves):
    """Every decision, refusal and budget, on rows of SQL among those of other attributes."""
    history, now = ListHistory(), T0
    bounds = Bounds(most_reports=10**6, most_bytes=10**6)
    journal = Journal(None)

    def keep(campaign: str, period: int, privacy: GeoPrivacy, attribute: str) -> None:
        made = entry_of(campaign, period, privacy, attribute)
        entry = journal.record(made, lambda history_of: None, now, bounds)
        assert entry is not None
        outcome = replace(entry, status=DeliveryStatus.ACKNOWLEDGED, settled=now)
        journal.record_outcome(outcome)

    for period, (hours, campaign, asked) in enumerate(moves):
        now += hours * HOUR
        keep("other attribute", period, dollars(9), "debt")
        keep("other unit", period, GeoPrivacy(9, 1, "euro"), "income")

        same = partial(agreed, history, limit, asked, now, campaign)
        if journal.spent("income", "dollar", same):
            keep(campaign, period, asked, "income")
            history.answers.append((now, campaign, asked))
    journal.close()


def test_a_thousand_small_losses_are_added_without_an_error():
    """A thousand times the double 0.1 is more than a hundred, and 999 of it and the rest is not."""
    small, limit = dollars(0.1), Limit(campaign=dollars(1e6), lifetime=dollars(100.0))
    history = ListHistory([(T0, f"c{i}", small) for i in range(999)])
    assert reduce(add, [0.1] * 1000) < 100  # what floating-point numbers make of it
    assert not accepted(history, limit, small, T0)
    rest = Fraction(100) - 999 * Fraction(0.1)
    fits = float(rest)
    while Fraction(fits) > rest:
        fits = float(Fraction(fits) - Fraction(2) ** -60)
    assert accepted(history, limit, dollars(fits), T0)


def test_different_distances_are_one_currency():
    limit = Limit(campaign=dollars(1, 1000))
    history = ListHistory([(T0, "c", dollars(1, 2000)), (T0, "c", dollars(1, 4000))])
    assert accepted(history, limit, dollars(1, 4000), T0)
    assert not accepted(history, limit, dollars(1, 3999.999), T0)


def test_the_refusal_says_what_is_spent_asked_and_permitted_and_when_there_is_room():
    limit = Limit(
        campaign=dollars(5), windows=(Window(limit=dollars(1), length=timedelta(days=30)),)
    )
    history = ListHistory([(T0, "a", dollars(0.5)), (T0 + HOUR, "b", dollars(0.25))])
    error = refusal(history, limit, dollars(0.5), T0 + 2 * HOUR)
    assert (error.campaign_id, error.attribute) == ("c", "income")
    assert (error.spent, error.cost, error.limit) == (0.75, dollars(0.5), dollars(1))
    # Half a unit more has room only when the second has left as well.
    assert refusal(history, limit, dollars(0.875), T0 + 2 * HOUR).frees == error.frees + HOUR
    assert error.scope == "any 30 days"
    assert error.frees == T0 + timedelta(days=30)
    for part in (
        *("'c'", "'income'", "ε = 0.5 per 1000 dollar", "ε = 1 per 1000 dollar"),
        *("ε = 0.75 is spent", "any 30 days", "from 2026-05-31T00:00:00+00:00"),
    ):
        assert part in str(error)


def test_of_several_limits_the_one_that_holds_longest_is_named():
    day, month = (
        Window(limit=dollars(e), length=timedelta(days=d)) for e, d in ((0.5, 1), (1.0, 30))
    )
    for windows in ((day, month), (month, day)):
        limit = Limit(campaign=dollars(5), windows=windows)
        error = refusal(ListHistory([(T0, "a", dollars(1))]), limit, dollars(0.5), T0)
        assert error.frees == T0 + timedelta(days=30)
        assert error.limit == dollars(1.0)
        limit = Limit(campaign=dollars(5), lifetime=dollars(1), windows=windows)
        error = refusal(ListHistory([(T0, "a", dollars(1))]), limit, dollars(0.5), T0)
        assert (error.scope, error.frees) == ("lifetime", None)
        assert str(error).endswith("is spent; there will never be room for it")


def test_what_a_window_can_never_hold_frees_never():
    window = Window(limit=dollars(1), length=HOUR)
    limit = Limit(campaign=dollars(5), windows=(window,))
    assert refusal(ListHistory(), limit, dollars(2), T0).frees is None


def test_a_window_counts_a_reading_for_which_the_campaign_has_paid():
    """It leaves again with the report, though it costs the campaign and the lifetime no more."""
    reading = Reading(
        attribute="income", space="", begins=T0, ends=T0 + HOUR, privacy=dollars(1), point=(0,),
        drawn=T0,
    )  # fmt: skip
    window = Window(limit=dollars(0.5), length=HOUR)
    limit = Limit(campaign=dollars(1), lifetime=dollars(1), windows=(window,))
    history = ListHistory(epochs={("c", T0)})
    with pytest.raises(BudgetExceeded) as raised:
        check(None, limit, history, campaign_id="c", attribute="income", now=T0, kept=[reading])
    assert raised.value.scope == "any 0.0416666 days"


def test_a_window_has_room_when_slack_has_left_it():
    spent = replace(dollars(0.1), delta=0.3, reach=1000.0)
    limit = replace(spent, epsilon=1.0, delta=0.5)
    window = Window(limit=limit, length=timedelta(days=1))
    history = ListHistory([(T0, "a", spent)])
    error = refusal(history, Limit(campaign=limit, windows=(window,)), spent, T0)
    assert (error.scope, error.frees) == ("any 1 day", T0 + timedelta(days=1))


def test_budgets_list_every_limit_over_all_campaigns():
    windows = (Window(limit=dollars(1, 500), length=HOUR),)
    limit = Limit(campaign=dollars(5), lifetime=dollars(7), windows=windows)
    history = ListHistory([(T0 - 2 * HOUR, "a", dollars(1)), (T0, "b", dollars(0.5))])
    found = [
        (b.attribute, b.scope, b.limit, b.spent) for b in budgets("income", limit, history, T0)
    ]
    assert found == [
        ("income", "lifetime", dollars(7), 1.5),
        ("income", "any 0.0416666 days", dollars(1, 500), 0.25),
    ]
