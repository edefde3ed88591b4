"""A campaign: questions to many devices, and everything they need to answer.

There are three kinds. A report to a `StatisticCampaign` has perturbed answers to its questions; one
to a `ValueCampaign` has a perturbed point, which any query may use later; one to a `FormCampaign`
has several perturbed values of one person. A report consists of a few integers, each in a
*column*: a question, a coordinate, or a part of a field.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

from geoveil.campaign.signing import PublicKey
from geoveil.campaign.text import require_printable
from geoveil.campaign.tokens import check_token_key
from geoveil.campaign.translation import Asker, Texts, Translation, check_translations
from geoveil.campaign.words import in_language
from geoveil.gp import GeoPrivacy, ParameterError, QueryMechanism, enum_repr, lazy, validation

MOST_SLOTS = 100_000
"""The most columns times periods, which is a server's number of sums for a campaign."""
_LEAST = timedelta(minutes=1)
_LONGEST = timedelta(seconds=315_576_000_000)
"""The longest duration of Protocol Buffers, about 10,000 years."""
_TEN_YEARS = timedelta(days=3660)
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def check_campaign_id(campaign_id: object) -> None:
    """Raise ParameterError for an invalid campaign id."""
    if not isinstance(campaign_id, str) or not _ID.fullmatch(campaign_id):
        raise ParameterError(
            "campaign_id",
            campaign_id,
            "1 to 64 lower-case letters, digits, '-' and '_', the first a letter or digit",
        )


class State(Enum):
    """The state of a campaign, which decides whether it takes reports."""

    __repr__ = enum_repr

    PENDING = "pending"
    OPEN = "open"
    CLOSED = "closed"


class Charge(NamedTuple):
    """A report's cost for one attribute."""

    attribute: str
    """The attribute's name."""
    privacy: GeoPrivacy
    """The guarantee, with the unit of its distances."""
    any_two: float
    """ε between any two values at any distance; infinite without a promise."""


@dataclass(frozen=True, kw_only=True)
class Campaign(ABC):
    """The public fields of all kinds of campaigns, validated together on construction.

    Server and device can then encode, sign, decode and answer it.

    Raises:
        ParameterError: if a field is out of range.
        UnsupportedError: if the mechanism has no proof for a query, or a query or the mechanism has
            no encoding.
    """

    campaign_id: str
    """1 to 64 lower-case letters, digits, "-" and "_", beginning with a letter or digit."""
    title: str
    """One line for people, 1 to 200 visible characters."""
    opens: datetime
    """The time from which reports are accepted, with a time zone."""
    closes: datetime
    """The time until which reports are accepted, with a time zone."""
    period: timedelta | None = None
    """The length of a recurring campaign's periods, which begin when it opens: each participant
    answers once per period, and spends `report_privacy` each time. None if it does not recur."""
    minimum_participants: int = 0
    """The least number of answers behind a disclosed estimate, a promise by the server."""
    relay_operator: PublicKey | None = None
    """If set, reports come only through a relay, sealed for a gateway whose keys this key signs."""
    token_key: bytes | None = None
    """If set, each report needs a token from the issuer with this key, given as a modulus of 256
    bytes or, with periods, as a key id of 32 bytes per period; see `geoveil.campaign.tokens`.
    Otherwise anybody may send any number of reports."""
    window: timedelta | None = None
    """The last part of each period, or of the campaign, in which devices send reports at uniform
    times, having taken answers before. None: they send them at once."""
    asker: Asker | None = None
    """The asker, shown to people before they answer; None if unknown."""
    delete_after: datetime | None = None
    """The time after which the server deletes single reports but keeps their sums, with a time
    zone and not before `closes`; None if unknown."""
    language: str = ""
    """The language of the texts as a BCP 47 tag; "" if not stated."""
    translations: tuple[Translation, ...] = ()
    """The texts in other languages, at most 63 and distinct."""

    def __post_init__(self) -> None:
        self._check_kinds()
        check_campaign_id(self.campaign_id)
        require_printable("title", self.title, 200)
        self._check_content()
        self._check_dates()
        self._check_periods()
        if self.token_key is not None:
            check_token_key(self.token_key, None if self.period is None else self.periods)
        self._check_window()
        validation.require_count("minimum_participants", self.minimum_participants, 0, 10**12)
        check_translations(
            self.language,
            self.translations,
            asker=self.asker,
            attribute=hasattr(self, "attribute"),
            questions=len(getattr(self, "questions", ())),
        )
        self._complete()
        _ = self.encoded  # refuses campaigns without an encoding

    @lazy
    def encoded(self) -> bytes:
        """The canonical bytes, of which the digest is made."""
        from geoveil.campaign.codec import encode  # it imports this module

        return encode(self)

    @lazy
    @abstractmethod
    def columns(self) -> int:
        """The number of columns: questions, coordinates of a point, or columns of fields."""

    @lazy
    def answers_all(self) -> bool:
        """Whether a report has an integer for every column instead of one random column."""
        return True

    @property
    def answers(self) -> int:
        """The number of integers in a report: one, or one per column."""
        return self.columns if self.answers_all else 1

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The name of each column."""

    def words_for(self, label: str) -> str:
        """Return the text for people for a column or a later question."""
        return label

    @property
    def texts(self) -> Texts:
        """The texts for people in the language of `speaking`, where missing in the campaign's."""
        return self._texts(
            in_language((Translation(language=self.language or "und"), *self.translations))
        )

    def _texts(self, chosen: Translation) -> Texts:
        title, asker = chosen.title or self.title, chosen.asker or self.asker
        return Texts(title, asker, "", "", chosen.labels or self.labels)

    @lazy
    def mechanisms(self) -> tuple[QueryMechanism, ...]:
        """The mechanism of each column; empty if values themselves are perturbed."""
        return ()

    @lazy
    @abstractmethod
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that counts in each column.

        Bounded reports are always within; those with unbounded noise, and perturbed places, leave
        it with a probability of at most 2⁻⁴¹, for any value.
        """

    @property
    @abstractmethod
    def releasable(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer that a device may report in each column."""

    @lazy
    @abstractmethod
    def charges(self) -> tuple[Charge, ...]:
        """The cost of one report for each of its attributes."""

    @lazy
    def cohorts(self) -> int:
        """The number of cohorts by reading time that reports distinguish; 1 without cohorts."""
        return 1

    @lazy
    def indices(self) -> int:
        """The number of query indices: columns times cohorts."""
        return self.columns * self.cohorts

    @lazy
    def clamps(self) -> tuple[bool, ...]:
        """Whether a report outside a column's range counts at its end; otherwise it is refused."""
        return tuple(
            of_one != counts for of_one, counts in zip(self.releasable, self.ranges, strict=True)
        )

    def counted(self, index: int, value: int) -> int:
        """Return a reported integer, clamped to its range if the column clamps."""
        column = index % self.columns
        low, high = self.ranges[column]
        return min(max(value, low), high) if self.clamps[column] else value

    def state(self, now: datetime, *, closed: bool = False) -> State:
        """Return the state at `now`; `closed` says whether the analyst has closed it."""
        if closed or now >= self.closes:
            return State.CLOSED
        return State.PENDING if now < self.opens else State.OPEN

    @lazy
    def periods(self) -> int:
        """How often a participant can answer: once unless the campaign recurs."""
        if self.period is None:
            return 1
        return -((self.opens - self.closes) // self.period)

    def period_at(self, now: datetime) -> int:
        """Return the period at a time, from 0; times outside the dates give the nearest one."""
        if self.period is None:
            return 0
        return min(max((now - self.opens) // self.period, 0), self.periods - 1)

    def answered_until(self, period: int) -> datetime:
        """Return the end of a period's answers: the start of its window, or its own end."""
        end = self.closes
        if self.period is not None and period + 1 < self.periods:
            end = self.opens + (period + 1) * self.period
        return end - (self.window or timedelta())

    @property
    def slots(self) -> int:
        """The number of sums: one per column, cohort and period."""
        return self.indices * self.periods

    def slot(self, index: int, period: int) -> int:
        """Return the index of an answer's sum; the sums of a period are adjacent."""
        return period * self.indices + index

    @abstractmethod
    def _check_content(self) -> None:
        """Refuse content that does not belong to this kind of campaign."""

    @abstractmethod
    def _complete(self) -> None:
        """Build the mechanisms, and refuse those without a proof."""

    def _check_kinds(self) -> None:
        for name in ("opens", "closes"):
            validation.require_kind(name, getattr(self, name), datetime)
        validation.require_kind("delete_after", self.delete_after, datetime | None)
        validation.require_kind("relay_operator", self.relay_operator, PublicKey | None)
        validation.require_kind("asker", self.asker, Asker | None)
        translations = validation.items("translations", self.translations, Translation)
        object.__setattr__(self, "translations", translations)

    def _check_dates(self) -> None:
        for name in ("opens", "closes", "delete_after"):
            date = getattr(self, name)
            if date is None:
                continue
            if date.tzinfo is None:
                raise ParameterError(name, date.isoformat(), "a date with a time zone")
            try:
                date.astimezone(UTC)
            except OverflowError:
                raise ParameterError(name, date.isoformat(), "within the years 1 to 9999") from None
        if not self.opens < self.closes:
            raise ParameterError(
                "closes", self.closes.isoformat(), f"after {self.opens.isoformat()}"
            )
        if self.closes - self.opens > _TEN_YEARS:
            raise ParameterError(
                "closes", self.closes.isoformat(), "within ten years of its opening"
            )
        if self.delete_after is not None and not (
            timedelta() <= self.delete_after - self.closes <= _TEN_YEARS
        ):
            expected = f"None, or from the closing, {self.closes.isoformat()}, to ten years later"
            raise ParameterError("delete_after", self.delete_after.isoformat(), expected)

    def _check_periods(self) -> None:
        if self.period is None:
            if self.slots > MOST_SLOTS:
                few = f"so few that queries times cohorts are at most {MOST_SLOTS:,}"
                raise ParameterError("readings.cohorts", self.cohorts, few)
            return
        if not isinstance(self.period, timedelta) or not _LEAST <= self.period <= _LONGEST:
            expected = f"at least a minute, at most {_LONGEST.days:,} days, or None"
            raise ParameterError("period", str(self.period), expected)
        if self.slots > MOST_SLOTS:
            raise ParameterError(
                "period",
                str(self.period),
                f"so long that queries times {'cohorts times ' if self.cohorts > 1 else ''}periods,"
                f" {self.slots:,}, are at most {MOST_SLOTS:,}",
            )

    def _check_window(self) -> None:
        if self.window is None:
            return
        last = self.closes - self.opens - (self.periods - 1) * (self.period or timedelta())
        shortest = min(self.period or last, last)
        if not isinstance(self.window, timedelta) or not _LEAST <= self.window < shortest:
            expected = f"a minute or more, less than the shortest period, {shortest}; or None"
            raise ParameterError("window", str(self.window), expected)


def require_campaign(campaign: Campaign) -> Campaign:
    """Return the campaign; raise ParameterError if it is not a campaign."""
    validation.require_kind("campaign", campaign, Campaign)
    return campaign
