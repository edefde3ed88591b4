"""The client's work on the device, without the network: draw once, store the draw, show it.

    find the entry of the campaign and period ─ there is one ─> its receipt, whatever the value
          │ none
    is the campaign open? ─> room and limits ─> check the value and draw
                              ─> in one transaction: none yet, room and limits still, keep

A crash before the end of the transaction leaves no trace; a draw that is not stored is discarded. A
stored entry waits for the sender, which sends the same bytes until the server responds.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from random import SystemRandom

from geoveil.campaign import (
    Answers,
    PublicKey,
    State,
    Value,
    check_campaign_id,
    open_envelope,
)
from geoveil.client import ledger
from geoveil.client.contributions import (
    CampaignPoint,
    Contribution,
    DeliveryStatus,
    Entry,
    Reading,
    Receipt,
)
from geoveil.client.errors import (
    BudgetExceeded,
    CampaignNotFetched,
    CampaignNotOpen,
    ClientError,
    OutboxFull,
    PolicyRefused,
)
from geoveil.client.journal import NOTHING, Bounds, Drawn, Journal
from geoveil.client.policy import Policy
from geoveil.client.reports import AcceptedCampaign, ReportBuilder
from geoveil.gp import GeoPrivacy, ParameterError, RandomSource, paced, validation
from geoveil.proto.v1 import campaign_pb2

_LOG = logging.getLogger(__name__)
MOST_PENDING = 1_000
MOST_PENDING_BYTES = 4 << 20
CLOSE_TIMEOUT_S = 2.0
RELEASE_FLOOR_S = 0.002
"""More than eight times the duration of any single answer, including Student-t noise."""
_MOST_CAMPAIGN_BYTES = 1 << 20
"""The most bytes of all decoded campaigns together, which take some 30 MiB of memory."""
_LONGEST_TIMEOUT_S = 86_400.0
_MOMENT_US = 1_000


async def _sleep_async(seconds: float) -> None:
    import asyncio  # here, since apps without asyncio need not load it

    await asyncio.sleep(seconds)


_NOW = partial(datetime.now, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The client's clocks; tests inject their own, so that they need not wait."""

    clock: Callable[[], float] = time.monotonic
    """Returns never-decreasing seconds for deadlines."""
    now: Callable[[], datetime] = _NOW
    """Returns the date and time, with a time zone, for the journal."""
    jitter: Callable[[], float] = SystemRandom().random
    """Returns uniform numbers in [0, 1), which spread the retries of many devices."""
    sleep: Callable[[float], None] = time.sleep
    """Waits for a number of seconds."""
    sleep_async: Callable[[float], Awaitable[None]] = _sleep_async
    """The same for asyncio."""


def duration(timeout_s: float, *, zero: bool = False) -> float:
    """Return a timeout in seconds of at most a day; 0 only if permitted."""
    return validation.between("timeout_s", timeout_s, 0, _LONGEST_TIMEOUT_S, low_open=not zero)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCounts:
    """The number of reports of each kind."""

    pending: int
    """Reports that wait for sending or for a response."""
    pending_bytes: int
    """The bytes of pending reports."""
    acknowledged: int
    """Reports that the server counted."""
    rejected: int
    """Reports that the server permanently refused."""
    expired: int
    """Reports given up, because no response came until long after the campaign closed."""
    refused: int
    """Answers that this client refused because the outbox was full; nothing was drawn."""


class DeviceSession:
    """The client without the network. Threads may share it.

    Args:
        policy: the app's policy.
        state_dir: the journal's directory; None for a journal in memory.
        source: the random source; None for the operating system's.
        most_pending: the most reports that may wait for sending.
        most_pending_bytes: the most bytes of waiting reports.
        floor_s: the least time, in seconds, for reading a value and drawing.
        timing: the clocks.
        operator: the operator of the relay for reports; None to send directly to the server.
        gives_tokens: whether reports carry tokens if a campaign needs them.

    Raises:
        ParameterError: if an argument is out of range, or the source is not secure.
        JournalError: if the state directory can't be used.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        state_dir: str | os.PathLike[str] | None,
        source: RandomSource | None,
        most_pending: int,
        most_pending_bytes: int,
        floor_s: float,
        timing: Timing,
        operator: PublicKey | None = None,
        gives_tokens: bool = False,
    ) -> None:
        if state_dir is None:
            _say_that_all_is_forgotten()
        validation.require_kind("timing", timing, Timing)
        self.builder = ReportBuilder(policy=policy, source=source)
        self._operator = operator
        self.gives_tokens = gives_tokens
        self._bounds = Bounds(
            most_reports=validation.require_count("most_pending", most_pending),
            most_bytes=validation.require_count("most_pending_bytes", most_pending_bytes),
        )
        self.floor_s = validation.between("release_floor_s", floor_s, 0, 60)
        self.timing = replace(timing, now=partial(_date, timing.now))
        self.journal = Journal(state_dir)
        self._accepted: dict[str, AcceptedCampaign] = {}
        self._accepted_bytes = 0
        self._refused = 0
        self.wanted: dict[str, ClientError | None] = {}
        """Campaigns to fetch → the error of the last attempt."""

    def contribute(self, campaign_id: str, value: Value | Answers) -> Receipt:
        """Draw and store the one report to a campaign and period, or return the stored one."""
        check_campaign_id(campaign_id)
        accepted = self.campaign(campaign_id)
        if accepted is None:
            cause = self.wanted.setdefault(campaign_id, None)
            raise CampaignNotFetched(campaign_id, cause)
        campaign = accepted.campaign
        now = self.timing.now()
        period = campaign.period_at(now)
        state = campaign.state(now)
        if state is not State.OPEN or now >= campaign.answered_until(period):
            kept = self.journal.find(campaign_id, period)
            if kept is None:
                in_window = state is State.OPEN
                raise CampaignNotOpen(campaign_id, "in its window" if in_window else state.value)
            return kept.receipt()
        try:
            entry = None
            while entry is None:  # another thread or process has made a reading: use it
                entry = self._entry(accepted, value, period, now)
        except OutboxFull:
            self._refused += 1
            raise
        return entry.receipt()

    def _entry(
        self,
        accepted: AcceptedCampaign,
        value: Value | Answers,
        period: int,
        now: datetime,
    ) -> Entry | None:
        """Return a period's entry, stored or new; None if the epoch has another reading by now."""
        readings = self._readings(accepted)
        current = next((r for r in reversed(readings) if r.begins <= now < r.ends), None)
        permit = partial(_check_limits, accepted, now, readings, current)
        try:
            campaign_id = accepted.campaign.campaign_id
            entry = self.journal.admit(campaign_id, period, permit, self._bounds)
            if entry is not None:
                return entry
            points = self.journal.points(campaign_id, readings) if readings else ()
            # The floor excludes the journal, which does not see the value and whose time a slow
            # disk may stretch beyond any floor.
            draw = partial(self._draw, accepted, value, period, now, readings, current, points)
            made, new = paced(draw, self.floor_s) if self.floor_s else draw()
            return self.journal.record(made, permit, now, self._bounds, new)
        except BudgetExceeded:
            if self._readings(accepted) != readings:
                return None  # it was drawn for a reading that is no longer needed
            raise

    def _readings(self, accepted: AcceptedCampaign) -> tuple[Reading, ...]:
        """Return the readings of a campaign's attribute; empty if the policy has no epoch."""
        if accepted.epoch is None:
            return ()
        of = accepted.asks.attribute
        return self.journal.readings(of.name, of.unit, accepted.space)

    def _draw(
        self,
        accepted: AcceptedCampaign,
        value: Value | Answers,
        period: int,
        now: datetime,
        readings: tuple[Reading, ...],
        current: Reading | None,
        points: tuple[CampaignPoint, ...],
    ) -> tuple[Contribution, Drawn]:
        """Return a report, and its new reading and point."""
        builder = self.builder
        if accepted.epoch is None:
            return builder.prepare(accepted, value, period=period), NOTHING
        new = None
        if current is None:
            assert not isinstance(value, Mapping)  # forms have no epochs
            current = new = builder.read(accepted, value, readings, now)
        before = accepted.before(current, readings, now)
        kept_points = {kept.reading: kept for kept in points}
        needed = [current] if before is None else [current, before]
        answering = [kept_points.get(r) or builder.coarsen(accepted, r, now) for r in needed]
        made = builder.answer(accepted, *answering, now=now, period=period)
        fresh = tuple(point for point in answering if point.reading not in kept_points)
        return made, Drawn(reading=new, points=fresh)

    def campaign(self, campaign_id: str) -> AcceptedCampaign | None:
        """Return a campaign of this device; PolicyRefused if the policy does not permit it now."""
        accepted = self._accepted.get(campaign_id)
        if accepted is None:
            envelope = self.journal.envelope(campaign_id)
            if envelope is None:
                return None
            accepted = self.accept(campaign_id, envelope)
            self.remember(accepted)
        return accepted

    def accept(self, campaign_id: str, envelope: bytes) -> AcceptedCampaign:
        """Accept a campaign like `ReportBuilder.accept`, if this client can send its reports.

        Raises:
            PolicyRefused: if it can't.
        """
        accepted = self.builder.accept(campaign_id, envelope)
        campaign = accepted.campaign
        self._check_way(campaign_id, campaign.relay_operator, tokens=campaign.token_key is not None)
        return accepted

    def check_way_of(self, campaign_id: str) -> None:
        """Refuse to send an earlier client's report to a campaign that needs another route.

        Raises:
            PolicyRefused: if this client may not send it.
        """
        envelope = None if campaign_id in self._accepted else self.journal.envelope(campaign_id)
        if envelope is not None:
            message = campaign_pb2.Campaign.FromString(open_envelope(envelope).campaign)
            key = message.relay_operator
            operator = PublicKey(key) if key else None
            self._check_way(campaign_id, operator, tokens=bool(message.token_key))

    def _check_way(self, campaign_id: str, operator: PublicKey | None, *, tokens: bool) -> None:
        if tokens and not self.gives_tokens:
            raise PolicyRefused(campaign_id, "token", "one from its issuer", "none")
        if operator is not None and operator != self._operator:
            own = self._operator
            permitted = "none" if own is None else f"to the gateway of {own}"
            stated = f"to the gateway of {operator}"
            raise PolicyRefused(campaign_id, "relay", stated, permitted)

    def is_heavy(self, campaign_id: str) -> bool:
        """Return whether drawing a report to a campaign takes long."""
        accepted = self._accepted.get(campaign_id)
        return accepted is not None and accepted.work > _MOMENT_US

    def remember(self, accepted: AcceptedCampaign) -> None:
        """Cache a decoded campaign."""
        campaign = accepted.campaign
        self._accepted_bytes += len(campaign.encoded)
        if self._accepted_bytes > _MOST_CAMPAIGN_BYTES:
            self._accepted.clear()
            self._accepted_bytes = len(campaign.encoded)
        self._accepted[campaign.campaign_id] = accepted
        self.wanted.pop(campaign.campaign_id, None)

    def history(self) -> tuple[Receipt, ...]:
        """Return the receipts of all reports, oldest first."""
        return tuple(entry.receipt() for entry in self.journal.history())

    def budgets(self) -> tuple[ledger.Budget, ...]:
        """Return the limits over all campaigns with their spent parts."""
        every: list[ledger.Budget] = []
        policy = self.builder.policy
        now = self.timing.now()
        for attribute in policy.limits:
            limit = policy.limit(attribute)
            assert limit is not None  # the policy lists it
            of_attribute = partial(ledger.budgets, attribute, limit, now=now)
            every += self.journal.spent(attribute, limit.campaign.unit, of_attribute)
        return tuple(every)

    def counts(self) -> ReportCounts:
        """Return the number of reports of each kind."""
        of_status, size = self.journal.counts()
        return ReportCounts(
            pending=of_status[DeliveryStatus.PENDING],
            pending_bytes=size,
            acknowledged=of_status[DeliveryStatus.ACKNOWLEDGED],
            rejected=of_status[DeliveryStatus.REJECTED],
            expired=of_status[DeliveryStatus.EXPIRED],
            refused=self._refused,
        )


def _check_limits(
    accepted: AcceptedCampaign,
    now: datetime,
    readings: tuple[Reading, ...],
    current: Reading | None,
    history_of: ledger.HistoryOf,
) -> None:
    """Refuse a campaign if the limits leave no room, or it can't be answered yet.

    `readings` of its attribute are in order of their epochs; `current` is this epoch's, or None if
    a value or answer is drawn anew.
    """
    campaign = accepted.campaign
    for (name, privacy, _), limit in zip(campaign.charges, accepted.limits, strict=True):
        price: GeoPrivacy | None = privacy
        kept: tuple[Reading, ...] = ()
        if accepted.epoch is not None:
            price = None if current is not None else accepted.epoch.privacy
            before = accepted.before(current, readings, now)
            kept = tuple(reading for reading in (current, before) if reading is not None)
        ledger.check(
            price,
            limit,
            history_of(name, privacy.unit),
            campaign_id=campaign.campaign_id,
            attribute=name,
            now=now,
            kept=kept,
        )


@cache
def _say_that_all_is_forgotten() -> None:
    """Warn once per process that a client without a state_dir forgets everything."""
    _LOG.warning(
        "a client without a state_dir forgets what was answered and spent when its process ends: "
        "the next process starts with full limits and draws anew"
    )


def _date(now: Callable[[], datetime]) -> datetime:
    """Return a clock's date in UTC, and check that the calendar contains it."""
    date = now()
    if not isinstance(date, datetime) or date.utcoffset() is None:
        raise ParameterError("timing.now", type(date).__name__, "a date with a time zone")
    try:
        return date.astimezone(UTC)
    except OverflowError:
        end = datetime.min if date.year == datetime.min.year else datetime.max
        return end.replace(tzinfo=UTC)
