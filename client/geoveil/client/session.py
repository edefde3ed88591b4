"""All that a client does, as steps: the two shells only carry them out.

A step is a function of an `Effects`, which a shell implements with blocking calls or with asyncio.
A generator yields steps and is sent their results; a TransportError is thrown into it. What has to
happen in which order is therefore written once:

    find the entry in the journal ─ acknowledged or rejected ─> done, without any network
          │ none                   └ pending ─────────────────────────────────┐
    fetch the campaign ─> accept ─> check the value, draw ─> record ─> send the recorded ─> settle

A crash before `record` leaves no trace, and nothing has left the device. A crash after it leaves a
pending entry whose bytes are sent again; the server counts an id once.
"""

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from geoveil.campaign import Value, digest
from geoveil.client.batch import Batch
from geoveil.client.contribution import Receipt
from geoveil.client.core import AcceptedCampaign, Contributor
from geoveil.client.errors import (
    CampaignChanged,
    CampaignNotFound,
    CampaignNotOpen,
    DeliveryFailed,
    ParameterError,
    TransportError,
)
from geoveil.client.journal import Entry, Journal, MemoryJournal, Status
from geoveil.client.policy import Policy
from geoveil.client.retry import RETRYABLE, Deadline, Timing, pauses
from geoveil.gp import RandomSource
from geoveil.gp.validation import positive
from geoveil.proto.v1 import campaign_pb2, collector_pb2

_Result = TypeVar("_Result")
_MOST_CAMPAIGNS = 32
# Up to here, reading a campaign or drawing a report takes a few milliseconds.
_QUICK_BYTES = 4096
_QUICK_QUESTIONS = 100
_NOT_OPEN = {
    campaign_pb2.CAMPAIGN_STATE_PENDING: "pending",
    campaign_pb2.CAMPAIGN_STATE_CLOSED: "closed",
}


class Effects(Protocol):
    """What a shell can do. With asyncio, every result is awaited before it is sent back."""

    @property
    def transport(self) -> Any:
        """A Transport or an AsyncTransport."""
        ...

    @property
    def pause(self) -> Callable[[float], Any]:
        """Waits for so many seconds."""
        ...

    def local(self, work: Callable[[], Any], slow: bool) -> Any:
        """Return work(), which computes or uses the disk; `slow` if for more than a moment."""


Step: TypeAlias = Callable[[Effects], Any]
Steps: TypeAlias = Generator[Step, Any, _Result]


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What became of the reports that were pending."""

    acknowledged: int
    """Counted now, or found to have been counted before."""
    rejected: int
    """Refused for good."""
    pending: int
    """Still kept, to be sent again."""


class Session:
    """The steps of one client. Safe to share between threads; see `Client` for the arguments."""

    def __init__(
        self,
        *,
        policy: Policy,
        state_dir: str | os.PathLike[str] | None,
        timeout_s: float,
        source: RandomSource | None,
        floor_s: float | None,
        timing: Timing,
    ) -> None:
        self._timeout_s = positive("timeout_s", timeout_s, "seconds")
        self._timing = timing
        self._contributor = Contributor(policy=policy, source=source, floor_s=floor_s)
        self._journal = _journal(state_dir)
        self._campaigns: dict[str, AcceptedCampaign] = {}

    def contribute(self, campaign_id: str, value: Value) -> Steps[Receipt]:
        """Draw and send the one report to a campaign, or what is left to do of that."""
        if not isinstance(campaign_id, str) or not 1 <= len(campaign_id) <= 64:
            raise ParameterError("campaign_id", campaign_id, "1 to 64 characters")
        deadline = Deadline(self._timeout_s, self._timing.clock)
        entry = yield self._local(lambda: self._journal.find(campaign_id))
        if entry is None:
            accepted = yield from self._campaign(campaign_id, deadline)
            many = len(accepted.campaign.questions) > _QUICK_QUESTIONS
            slow = many or self._contributor.waits
            entry = yield self._local(lambda: self._draw(accepted, value), slow)
            # Another process may have been faster, with other bytes from the server.
            _check_unchanged(entry, accepted.digest)
        if entry.status is Status.PENDING:
            try:
                entry = yield from self._deliver(entry, deadline)
            except TransportError as error:
                if error.code == "FAILED_PRECONDITION":
                    yield from self._check_unchanged(entry, deadline)
                raise DeliveryFailed(entry.receipt(), error) from error
        receipt: Receipt = entry.receipt()
        return receipt

    def flush(self) -> Steps[FlushResult]:
        """Send what is pending; what fails stays pending."""
        deadline = Deadline(self._timeout_s, self._timing.clock)
        counts = dict.fromkeys(Status, 0)
        for entry in (yield self._local(self._journal.pending)):
            try:
                settled = yield from self._deliver(entry, deadline)
            except TransportError:
                settled = entry
            counts[settled.status] += 1
        return FlushResult(
            acknowledged=counts[Status.ACKNOWLEDGED],
            rejected=counts[Status.REJECTED],
            pending=counts[Status.PENDING],
        )

    def _draw(self, accepted: AcceptedCampaign, value: Value) -> Entry:
        contribution = self._contributor.prepare(accepted, value)
        return self._journal.record(Entry(contribution=contribution, recorded=self._timing.now()))

    def _campaign(self, campaign_id: str, deadline: Deadline) -> Steps[AcceptedCampaign]:
        known = self._campaigns.get(campaign_id)
        if known is not None:
            return known
        try:
            response = yield from self._fetch(campaign_id, deadline)
        except TransportError as error:
            if error.code == "NOT_FOUND":
                raise CampaignNotFound(campaign_id) from error
            raise
        published = response.envelope.campaign
        accepted: AcceptedCampaign = yield self._local(
            lambda: self._contributor.accept(campaign_id, published), len(published) > _QUICK_BYTES
        )
        if response.state in _NOT_OPEN:
            raise CampaignNotOpen(campaign_id, _NOT_OPEN[response.state])
        if len(self._campaigns) >= _MOST_CAMPAIGNS:
            self._campaigns.clear()
        self._campaigns[campaign_id] = accepted
        return accepted

    def _deliver(self, entry: Entry, deadline: Deadline) -> Steps[Entry]:
        made = entry.contribution
        batch = Batch(made.campaign_id, made.digest, [made])
        request = batch.request()
        response = yield from self._call(
            lambda io, seconds: io.transport.submit_reports(request, seconds), deadline
        )
        (outcome,) = batch.outcomes(response)
        settled: Entry = yield self._local(
            lambda: self._journal.settle(
                made.campaign_id, outcome.status, self._timing.now(), outcome.rejection
            )
        )
        return settled

    def _check_unchanged(self, entry: Entry, deadline: Deadline) -> Steps[None]:
        """Look whether the server shows another campaign now; if it can't be asked, say nothing."""
        try:
            response = yield from self._fetch(entry.contribution.campaign_id, deadline)
        except TransportError:
            return
        _check_unchanged(entry, digest(response.envelope.campaign))

    def _fetch(
        self, campaign_id: str, deadline: Deadline
    ) -> Steps[collector_pb2.GetCampaignResponse]:
        request = collector_pb2.GetCampaignRequest(campaign_id=campaign_id)
        return self._call(lambda io, seconds: io.transport.get_campaign(request, seconds), deadline)

    def _call(self, send: Callable[[Effects, float], Any], deadline: Deadline) -> Steps[Any]:
        """Call the server until it answers, refuses for good, or the time is up."""
        for pause in pauses(self._timing.jitter):
            left = deadline.remaining_s()
            if left <= 0:
                raise TransportError("DEADLINE_EXCEEDED", "no time is left")
            try:
                return (yield _timed(send, left))
            except TransportError as error:
                if error.code not in RETRYABLE or pause >= deadline.remaining_s():
                    raise
            yield _timed(lambda io, seconds: io.pause(seconds), pause)
        raise AssertionError("pauses never end")

    def _local(self, work: Callable[[], Any], slow: bool = False) -> Step:
        return lambda io: io.local(work, slow or self._journal.durable)


def _timed(act: Callable[[Effects, float], Any], seconds: float) -> Step:
    return lambda io: act(io, seconds)


def _check_unchanged(entry: Entry, found: bytes) -> None:
    pinned = entry.contribution.digest
    if found != pinned:
        raise CampaignChanged(entry.contribution.campaign_id, pinned.hex(), found.hex())


def _journal(state_dir: str | os.PathLike[str] | None) -> Journal:
    if state_dir is None:
        return MemoryJournal()
    from geoveil.client.sqlite_journal import SqliteJournal  # SQLite is not needed in memory

    return SqliteJournal(state_dir)
