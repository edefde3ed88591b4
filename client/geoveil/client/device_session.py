"""What a client does on the device, without any network: draw once, keep it, show what was kept.

    find the entry of the campaign and period ─ there is one ─> its receipt, whatever the value
          │ none
    is the campaign open? ─> check the value ─> room and limits ─> draw
                              ─> in one transaction: none yet, room and limits still, keep

A crash before the end of the transaction leaves no trace, and a draw that is not kept is forgotten.
After it, the entry waits to be sent by the sender; its bytes are sent until the server has
answered, and are never made again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign import Campaign, State, Value
from geoveil.client import ledger
from geoveil.client.contribution import Entry, Receipt, Status
from geoveil.client.errors import (
    CampaignNotFetched,
    CampaignNotOpen,
    ClientError,
    OutboxFull,
    ParameterError,
)
from geoveil.client.journal import Bounds, Journal
from geoveil.client.policy import Limit
from geoveil.client.report_builder import AcceptedCampaign, ReportBuilder
from geoveil.client.retry import Timing
from geoveil.gp import paced
from geoveil.gp.validation import between

_MOST_CAMPAIGNS = 32
_MOMENT_US = 1_000
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many reports there are of each kind."""

    pending: int
    """Wait to be sent, or for the answer."""
    pending_bytes: int
    """Bytes of those."""
    acknowledged: int
    """Counted by the server."""
    rejected: int
    """Refused by the server for good."""
    expired: int
    """Given up: no answer came until long after the campaign closed."""
    undeliverable: int
    """Given up by an earlier version of geoveil, which could not read them any more."""
    refused: int
    """Answers that this client did not take because the outbox was full; nothing was drawn."""


class DeviceSession:
    """See the module. Safe to share between threads; see `Client` for the arguments."""

    def __init__(
        self,
        *,
        builder: ReportBuilder,
        journal: Journal,
        bounds: Bounds,
        floor_s: float,
        timing: Timing,
    ) -> None:
        self.builder = builder
        self.journal = journal
        self.timing = timing
        self._bounds = bounds
        self._floor_s = between("release_floor_s", floor_s, 0, 60)
        self._accepted: dict[str, AcceptedCampaign] = {}
        self._refused = 0
        self.wanted: dict[str, ClientError | None] = {}
        """Campaigns to be fetched, each with why that failed last."""

    def contribute(self, campaign_id: str, value: Value) -> Receipt:
        """Draw and keep the one report to a campaign and period, or return what is kept."""
        check_id(campaign_id)
        accepted = self.campaign(campaign_id)
        if accepted is None:
            cause = self.wanted.setdefault(campaign_id, None)
            raise CampaignNotFetched(campaign_id, cause)
        now = self.timing.now()
        period = accepted.campaign.period_at(now)
        entry = self.journal.find(campaign_id, period)
        if entry is None:
            _check_open(accepted.campaign, now)
            point = self._paced(partial(self.builder.point, accepted, value))
            try:
                entry = self._draw_once(accepted, point, period, now)
            except OutboxFull:
                self._refused += 1
                raise
        return entry.receipt()

    def campaign(self, campaign_id: str) -> AcceptedCampaign | None:
        """Return a campaign that this device has and the policy permits.

        Raises:
            PolicyRefused: if the policy, which may have changed since it was fetched, refuses it.
        """
        known = self._accepted.get(campaign_id)
        if known is None:
            envelope = self.journal.envelope(campaign_id)
            if envelope is None:
                return None
            known = self.builder.accept(campaign_id, envelope)
            self.remember(known)
        return known

    def is_heavy(self, campaign_id: str) -> bool:
        """Return whether to draw for a campaign takes more than a moment."""
        known = self._accepted.get(campaign_id)
        return known is not None and known.work > _MOMENT_US

    def remember(self, accepted: AcceptedCampaign) -> None:
        """Keep a campaign at hand, ready for use."""
        if len(self._accepted) >= _MOST_CAMPAIGNS:
            self._accepted.clear()
        self._accepted[accepted.campaign.campaign_id] = accepted
        self.wanted.pop(accepted.campaign.campaign_id, None)

    def history(self) -> tuple[Receipt, ...]:
        """Return the receipts of all reports, oldest first."""
        return tuple(entry.receipt() for entry in self.journal.history())

    def budgets(self) -> tuple[ledger.Budget, ...]:
        """Return the limits over all campaigns, and what is spent of them."""
        found: list[ledger.Budget] = []
        policy = self.builder.policy
        now = self.timing.now()
        for attribute in policy.limits:
            limit = policy.limit(attribute)
            assert limit is not None  # it is listed
            of_attribute = partial(_listed, attribute, limit, now)
            found += self.journal.spent(attribute, limit.campaign.unit, of_attribute)
        return tuple(found)

    def counts(self) -> Counts:
        """Return how many reports there are of each kind."""
        found, size = self.journal.counts()
        return Counts(
            pending=found[Status.PENDING],
            pending_bytes=size,
            acknowledged=found[Status.ACKNOWLEDGED],
            rejected=found[Status.REJECTED],
            expired=found[Status.EXPIRED],
            undeliverable=found[Status.UNDELIVERABLE],
            refused=self._refused,
        )

    def _paced(self, work: Callable[[], _Result]) -> _Result:
        """Do what looks at the value, in half of the floor: it does so twice.

        The journal does not look at it. Its time, which a disk may stretch beyond any floor, is
        left out, so that the end of the floor stays far from what is hidden.
        """
        return paced(work, self._floor_s / 2) if self._floor_s else work()

    def _draw_once(
        self, accepted: AcceptedCampaign, point: NDArray[np.float64], period: int, now: datetime
    ) -> Entry:
        """Draw and keep a report; if somebody else was faster, return the one that is kept."""
        permit = partial(self._check_limits, accepted.campaign, now)
        campaign_id = accepted.campaign.campaign_id
        entry = self.journal.admit(campaign_id, period, permit, self._bounds)
        if entry is None:
            made = self._paced(partial(self.builder.draw, accepted, point, period))
            entry = self.journal.record(made, permit, now, self._bounds)
        return entry

    def _check_limits(
        self, campaign: Campaign, now: datetime, history_of: ledger.HistoryOf
    ) -> None:
        attribute = campaign.attribute
        limit = self.builder.policy.limit(attribute.name)
        assert limit is not None  # the policy permits the campaign
        ledger.check(
            campaign.report_privacy,
            limit,
            history_of(attribute.name, attribute.unit),
            campaign_id=campaign.campaign_id,
            attribute=attribute.name,
            now=now,
        )


def check_id(campaign_id: str) -> None:
    """Refuse what can't be the id of a campaign."""
    if not isinstance(campaign_id, str) or not 1 <= len(campaign_id) <= 64:
        raise ParameterError("campaign_id", campaign_id, "1 to 64 characters")


def _check_open(campaign: Campaign, now: datetime) -> None:
    state = campaign.state(now)
    if state is not State.OPEN:
        raise CampaignNotOpen(campaign.campaign_id, state.value)


def _listed(
    attribute: str, limit: Limit, now: datetime, history: ledger.SpendingHistory
) -> list[ledger.Budget]:
    return list(ledger.budgets(attribute, limit, history, now))
