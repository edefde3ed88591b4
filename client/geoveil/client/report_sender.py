"""What a client does over the network: fetch campaigns, deliver what waits, as steps.

The sender holds nothing of its own that must not be lost: what waits is in the journal, and is
sent until the server says what became of it. The server counts a report's id once, so to send it
twice, from two processes even, does no harm. Every report has a request of its own: two in one
would tell the server that they are of one person.
"""

import logging
import math
from dataclasses import dataclass
from datetime import timedelta

from geoveil.campaign import Campaign
from geoveil.client.backoff import SERVER, Backoff, concerns
from geoveil.client.batch import Batch
from geoveil.client.contribution import Entry, Status
from geoveil.client.device_session import DeviceSession, check_id
from geoveil.client.errors import (
    CampaignChanged,
    CampaignNotFound,
    CampaignNotOpen,
    ClientError,
    TransportError,
)
from geoveil.client.retry import FIRST_PAUSE_S, LONGEST_PAUSE_S, Deadline, duration
from geoveil.client.steps import Send, Step, Steps, local, once, pause, until_answered
from geoveil.proto.v1 import campaign_pb2, collector_pb2

_LOG = logging.getLogger(__name__)
KEPT_AFTER_CLOSE = timedelta(days=30)
"""A report that waits so long after its campaign closed is given up."""
# Up to here, reading a campaign takes a few milliseconds.
_QUICK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushResult:
    """What became of the reports that were waiting."""

    acknowledged: int
    """Counted now, or found to have been counted before."""
    rejected: int
    """Refused for good."""
    pending: int
    """Still kept, to be sent again."""


class ReportSender:
    """See the module.

    Args:
        session: whose reports are delivered.
        timeout_s: of one request that the background makes, in seconds.
    """

    def __init__(self, session: DeviceSession, timeout_s: float) -> None:
        self._session = session
        self._journal = session.journal
        self._timing = session.timing
        self._timeout_s = timeout_s
        self._backoff = Backoff(self._timing.clock, self._timing.jitter)

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """Return the end of a time that begins now; of the client's own if none is given.

        Raises:
            ParameterError: if it is out of range.
        """
        seconds = self._timeout_s if timeout_s is None else duration(timeout_s)
        return Deadline(seconds, self._timing.clock)

    def fetch(self, campaign_id: str, deadline: Deadline) -> Steps[Campaign]:
        """Ask the server for a campaign; check it and keep it."""
        check_id(campaign_id)
        request = collector_pb2.GetCampaignRequest(campaign_id=campaign_id)
        send: Send = lambda io, seconds: io.transport.get_campaign(request, seconds)  # noqa: E731
        try:
            response = yield from until_answered(send, deadline, self._timing.jitter)
        except TransportError as error:
            if error.code == "NOT_FOUND":
                raise CampaignNotFound(campaign_id) from error
            raise
        size = response.envelope.ByteSize()
        campaign: Campaign = yield local(
            lambda: self._keep(campaign_id, response), size > _QUICK_BYTES or self._journal.durable
        )
        return campaign

    def flush(self, deadline: Deadline) -> Steps[FlushResult]:
        """Send what waits until nothing is left that another try could help, or time is up."""
        total = FlushResult(acknowledged=0, rejected=0, pending=0)
        # Its own: who flushes asks to try now, and more often than the background does.
        backoff = Backoff(
            self._timing.clock, self._timing.jitter, FIRST_PAUSE_S, LONGEST_PAUSE_S, math.inf
        )
        while True:
            waiting = yield from self._waiting()
            backoff.retain({e.contribution.campaign_id for e in waiting})
            entries = [e for e in waiting if backoff.ready(e.contribution.campaign_id)]
            done = yield from self._deliver(entries, deadline, backoff)
            total = FlushResult(
                acknowledged=total.acknowledged + done.acknowledged,
                rejected=total.rejected + done.rejected,
                pending=done.pending + len(waiting) - len(entries),
            )
            wait_s = backoff.next_s()
            if wait_s is None or wait_s >= deadline.remaining_s():
                return total
            yield pause(wait_s)

    def work(self) -> Steps[float | None]:
        """Do what the background has to do now; return in how many seconds to come back.

        Returns:
            None if nothing waits: come back when there is something new.
        """
        if not self._backoff.ready(SERVER):
            # Not even a look at what waits: an app that contributes all the while wakes us often.
            return self._backoff.next_s()
        for campaign_id in list(self._session.wanted):
            if self._backoff.ready(campaign_id):
                yield from self._fetch_wanted(campaign_id)
        entries = yield from self._waiting()
        ready = [e for e in entries if self._backoff.ready(e.contribution.campaign_id)]
        left = len(entries)
        if ready:
            done = yield from self._deliver(ready)
            left -= done.acknowledged + done.rejected
        wanted = set(self._session.wanted)
        self._backoff.retain(wanted | {e.contribution.campaign_id for e in entries})
        return self._backoff.next_s() or 0.0 if left or wanted else None

    def _fetch_wanted(self, campaign_id: str) -> Steps[None]:
        try:
            yield from self.fetch(campaign_id, self.deadline())
        except ClientError as error:
            self._session.wanted[campaign_id] = error
            self._note(error, campaign_id)
        else:
            self._succeeded(campaign_id)

    def _waiting(self) -> Steps[tuple[Entry, ...]]:
        now = self._timing.now()

        def read() -> tuple[Entry, ...]:
            waiting = self._journal.pending()
            late = [e for e in waiting if now - e.contribution.closes > KEPT_AFTER_CLOSE]
            for entry in late:
                self._journal.record_result(entry, Status.EXPIRED, now)
            return self._journal.pending() if late else waiting

        waiting: tuple[Entry, ...] = yield local(read, self._journal.durable)
        return waiting

    def _deliver(
        self,
        entries: tuple[Entry, ...] | list[Entry],
        deadline: Deadline | None = None,
        backoff: Backoff | None = None,
    ) -> Steps[FlushResult]:
        """Send entries once; without a deadline, each request has the time of its own."""
        counts = {Status.ACKNOWLEDGED: 0, Status.REJECTED: 0}
        failed: set[str] = set()
        for entry in entries:
            campaign_id = entry.contribution.campaign_id
            if failed & {campaign_id, SERVER}:
                continue
            try:
                status = yield from self._send(entry, deadline or self.deadline())
            except TransportError as error:
                yield self._failed(entry, str(error))
                failed.add(self._note(error, campaign_id, backoff))
            else:
                self._succeeded(campaign_id, backoff)
                counts[status] += 1
        return FlushResult(
            acknowledged=counts[Status.ACKNOWLEDGED],
            rejected=counts[Status.REJECTED],
            pending=len(entries) - sum(counts.values()),
        )

    def _send(self, entry: Entry, deadline: Deadline) -> Steps[Status]:
        durable = self._journal.durable
        yield local(lambda: self._journal.mark_sent(entry, self._timing.now()), durable)
        batch = Batch.of(entry.contribution)
        request = batch.request()
        response = yield from once(
            lambda io, seconds: io.transport.submit_reports(request, seconds), deadline
        )
        (outcome,) = batch.outcomes(response)
        settled = (entry, outcome.status, self._timing.now(), outcome.rejection)
        yield local(lambda: self._journal.record_result(*settled), durable)
        return outcome.status

    def _failed(self, entry: Entry, failure: str) -> Step:
        return local(lambda: self._journal.fail(entry, failure), self._journal.durable)

    def _keep(self, campaign_id: str, response: collector_pb2.GetCampaignResponse) -> Campaign:
        envelope = response.envelope.SerializeToString(deterministic=True)
        accepted = self._session.builder.accept(campaign_id, envelope)
        if response.state == campaign_pb2.CAMPAIGN_STATE_CLOSED:
            raise CampaignNotOpen(campaign_id, "closed")
        pinned = self._journal.pin(campaign_id, accepted.digest, envelope, self._timing.now())
        if pinned != accepted.digest:
            raise CampaignChanged(campaign_id, pinned.hex(), accepted.digest.hex())
        self._session.remember(accepted)
        return accepted.campaign

    def _note(self, error: ClientError, campaign_id: str, backoff: Backoff | None = None) -> str:
        """Put off what an error concerns, and return its key."""
        key = concerns(error, campaign_id)
        if self._backoff.failed(key, error):
            _LOG.warning("campaign %r: %s", campaign_id, error)
        if backoff is not None:
            backoff.failed(key, error)
        return key

    def _succeeded(self, campaign_id: str, backoff: Backoff | None = None) -> None:
        for one in (self._backoff, backoff or self._backoff):
            one.succeeded(SERVER)
            one.succeeded(campaign_id)
