"""The cost of a person's answers so far, and whether there is room for another; it only reads.

Privacy losses about one attribute (its name and unit) and slacks δ add up [MATH §1], as exact
fractions.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from operator import itemgetter
from typing import Protocol, TypeAlias

from geoveil.campaign import days_in
from geoveil.client.contributions import Reading, ReadingKey
from geoveil.client.errors import BudgetExceeded
from geoveil.client.limits import Limit
from geoveil.gp import GeoPrivacy, compose


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """The disclosure of one draw: a report with its own noise, or all answers of a reading."""

    privacy: GeoPrivacy
    """Its cost."""
    last: datetime | None
    """The time when its last report was settled; None while one still waits."""
    reading: ReadingKey | None = None
    """The reading; None if the report has its own noise."""


class SpendingHistory(Protocol):
    """The answers about an attribute that count against its limits."""

    def spendings(self, *, campaign_id: str | None = None) -> Mapping[GeoPrivacy, int]:
        """Return the number of draws by price, for one campaign or for all."""
        ...

    def tellings(self, *, after: datetime | None) -> Iterable[Telling]:
        """Return the draws whose reports left after a time or still wait; None for all."""
        ...

    def used(self, campaign_id: str, epoch: datetime) -> bool:
        """Return whether an epoch's reading has answered a campaign."""
        ...


HistoryOf: TypeAlias = Callable[[str, str], SpendingHistory]
"""Returns an attribute's history by its name and unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One of an attribute's limits, and its spent part."""

    attribute: str
    scope: str
    """ "lifetime", or "any 365 days" for a window."""
    limit: GeoPrivacy
    """The largest permitted cost."""
    spent: float
    """The spent ε in nats over the limit's distance `per`."""
    spent_delta: float = 0.0
    """The spent δ."""


def check(
    asked: GeoPrivacy | None,
    limit: Limit,
    history: SpendingHistory,
    *,
    campaign_id: str,
    attribute: str,
    now: datetime,
    kept: Sequence[Reading] = (),
) -> None:
    """Refuse an answer that would exceed its attribute's limit after the answers in `history`.

    Args:
        asked: the answer's cost; None if others have paid for it.
        now: the time. Answers that a wrong clock has dated later count too.
        kept: the readings that the answer uses. Each counts once against a campaign's limit, and
            once in every window in which a report from it leaves.

    Raises:
        BudgetExceeded: with the limit, the spent part, the cost, and when there is room again; if
            several limits are exceeded, the one that lasts longest.
    """
    refusals: list[BudgetExceeded] = []
    for scope in _scopes(limit, campaign_id, now):
        tellings: list[Telling] = []
        anew: Sequence[Reading] = ()
        if scope.length is not None:
            tellings = list(history.tellings(after=scope.after))
            counted = {telling.reading for telling in tellings}
            anew = [reading for reading in kept if reading.key not in counted]
        elif scope.campaign_id is not None:
            anew = [reading for reading in kept if not history.used(campaign_id, reading.begins)]
        prices = [*([] if asked is None else [asked]), *(reading.privacy for reading in anew)]
        if not prices:
            continue
        spent = _spent(scope, history)
        price = total(Counter(prices))
        if not (spent + price).within(scope.limit):
            again = {reading.key for reading in kept}
            leaving = [telling for telling in tellings if telling.reading not in again]
            refusal = BudgetExceeded(
                campaign_id,
                attribute=attribute,
                scope=scope.name,
                spent=_over(spent, scope.limit),
                spent_delta=float(spent.slack),
                cost=compose(*prices),
                limit=scope.limit,
                frees=_frees(scope, price + spent, leaving, now),
            )
            refusals.append(refusal)
    if refusals:
        never = datetime.max.replace(tzinfo=UTC)
        raise max(refusals, key=lambda refusal: refusal.frees or never)


def budgets(attribute: str, limit: Limit, history: SpendingHistory, now: datetime) -> list[Budget]:
    """Return the limits over all campaigns with their spent parts."""
    every = []
    for scope in _scopes(limit, None, now):
        spent = _spent(scope, history)
        every.append(
            Budget(
                attribute=attribute,
                scope=scope.name,
                limit=scope.limit,
                spent=_over(spent, scope.limit),
                spent_delta=float(spent.slack),
            )
        )
    return every


@dataclass(frozen=True, slots=True)
class Spent:
    """The joint cost of answers by sequential composition, as exact fractions [MATH §1]."""

    rate: Fraction
    """The sum of rates, ε per unit of distance."""
    slack: Fraction
    """The sum of the δ."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.rate + other.rate, self.slack + other.slack)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.rate - other.rate, self.slack - other.slack)

    def within(self, limit: GeoPrivacy) -> bool:
        """Return whether a limit permits this spending in rate and δ."""
        return self.rate <= limit.exact_rate and self.slack <= limit.delta


def total(draws: Mapping[GeoPrivacy, int]) -> Spent:
    """Return the joint cost of draws, counted by price."""
    return Spent(
        _sum([count * privacy.exact_rate for privacy, count in draws.items()]),
        _sum([count * Fraction(privacy.delta) for privacy, count in draws.items()]),
    )


def _sum(numbers: Sequence[Fraction]) -> Fraction:
    """Return the sum; a single number, the most common case, is not added to 0, which is slow."""
    return numbers[0] if len(numbers) == 1 else sum(numbers, Fraction(0))


@dataclass(frozen=True, slots=True)
class _Scope:
    name: str
    limit: GeoPrivacy
    campaign_id: str | None = None
    length: timedelta | None = None
    after: datetime | None = None


def _scopes(limit: Limit, campaign_id: str | None, now: datetime) -> Iterator[_Scope]:
    if campaign_id is not None:
        yield _Scope("this campaign", limit.campaign, campaign_id)
    if isinstance(limit.lifetime, GeoPrivacy):
        yield _Scope("lifetime", limit.lifetime)
    for window in limit.windows:
        yield _Scope(
            f"any {days_in(window.length)}",
            window.limit,
            length=window.length,
            after=_shifted(now, -window.length),
        )


def _spent(scope: _Scope, history: SpendingHistory) -> Spent:
    """Return the cost that counts against a limit, for all draws or those sent in a window."""
    if scope.length is None:
        return total(history.spendings(campaign_id=scope.campaign_id))
    return total(Counter(telling.privacy for telling in history.tellings(after=scope.after)))


def _frees(
    scope: _Scope, needed: Spent, leaving: Iterable[Telling], now: datetime
) -> datetime | None:
    """Return when a window has room, None for never, assuming that waiting reports leave now."""
    dated = [(telling.last or now, telling.privacy) for telling in leaving]
    for when, privacy in sorted(dated, key=itemgetter(0)):
        needed -= total({privacy: 1})
        if needed.within(scope.limit):
            assert scope.length is not None
            return _shifted(when, scope.length)
    return None


def _shifted(when: datetime, by: timedelta) -> datetime | None:
    """Return a later time; None beyond the calendar."""
    try:
        return when + by
    except OverflowError:
        return None


def _over(spent: Spent, limit: GeoPrivacy) -> float:
    """Return a rate as ε over a limit's distance."""
    return float(spent.rate * Fraction(limit.per))
