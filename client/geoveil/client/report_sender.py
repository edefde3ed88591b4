"""The client's network work as steps: fetch campaigns, deliver reports.

Reports wait in the journal until the server responds; it counts an id only once, so sending twice
does no harm. Every report has a separate request, since two in one would show that they are one
person's. A generator yields steps and gets their results or a ClientError; the two clients carry
out the steps, blocking or with asyncio. Full-jitter exponential back-off separates attempts within
one deadline.
"""

import logging
import math
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from geoveil.campaign import Campaign, check_campaign_id
from geoveil.client.contributions import Contribution, DeliveryStatus, Entry, ReportBatch
from geoveil.client.device_session import DeviceSession, duration
from geoveil.client.errors import (
    CampaignChanged,
    CampaignNotFound,
    CampaignNotOpen,
    ClientError,
    PolicyRefused,
    TransportError,
)
from geoveil.proto.v1 import campaign_pb2, collector_pb2

_Result = TypeVar("_Result")
_LOG = logging.getLogger(__name__)
KEPT_AFTER_CLOSE = timedelta(days=30)
"""A report that still waits this long after its campaign closed is given up."""
# Reading a campaign of at most this size takes a few milliseconds.
_QUICK_BYTES = 4096
_MOST_TOGETHER = 16
"""The reports whose departure is recorded and flushed together; each is sent separately."""
QUIET_S = 0.1
"""Seconds without a call of the app before the background loads gRPC, which blocks threads."""
MOST_UNQUIET = 100
"""After finding the app busy this many times, the background loads gRPC nevertheless."""
_LOOK_S = 60.0
"""Seconds after which to look again at the waiting reports, and at the clock, which may be set."""
FAILED_WAIT_S = 30.0
"""Seconds until the background retries after a failure other than the network's."""


class Local(NamedTuple):
    """Runs work(), which computes or uses the disk."""

    work: Callable[[], Any]
    slow: bool
    """Whether it takes too long for an event loop to wait."""


class Pause(NamedTuple):
    """A step that waits."""

    seconds: float


class Request(NamedTuple):
    """A step that sends a request and returns the response."""

    method: str
    """The name of a method of Transport and AsyncTransport."""
    message: Any
    timeout_s: float


Step: TypeAlias = Local | Pause | Request
Steps: TypeAlias = Generator[Step, Any, _Result]


FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0


class Deadline:
    """The end of the time for all attempts together."""

    def __init__(self, timeout_s: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = clock() + timeout_s

    def remaining_s(self) -> float:
        """Return the seconds left, at least 0."""
        return max(self._end - self._clock(), 0.0)


def pauses(
    jitter: Callable[[], float],
    first_s: float = FIRST_PAUSE_S,
    longest_s: float = LONGEST_PAUSE_S,
) -> Iterator[float]:
    """Yield without end the seconds to wait after each failed attempt; see also `after`.

    The k-th is uniform between 0 and min(first_s · 2^k, longest_s), so that devices that failed
    together do not retry together. `jitter` returns uniform numbers in [0, 1).

    Example:
        >>> from itertools import islice
        >>> list(islice(pauses(lambda: 0.5), 7))
        [0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5]
    """
    while True:
        yield jitter() * first_s
        first_s = min(2 * first_s, longest_s)


def after(error: TransportError, pause_s: float, jitter: Callable[[], float]) -> float:
    """Return the seconds to wait after an error, from `pauses` and the server's requested delay.

    The delay is lengthened by up to as much again, so that devices do not retry together.

    Example:
        >>> after(TransportError("UNAVAILABLE"), 0.1, lambda: 0.5)
        0.1
        >>> after(TransportError("UNAVAILABLE", retry_after_s=2.0), 0.1, lambda: 0.5)
        3.1
    """
    if error.retry_after_s is None:
        return pause_s
    return pause_s + error.retry_after_s * (1 + jitter())


FIRST_S = 1.0
LONGEST_S = 300.0
SERVER = ""
"""The key for failures that concern all campaigns; no campaign has this id."""
_OF_SERVER = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNAUTHENTICATED"})


def concerns(error: ClientError, campaign_id: str) -> str:
    """Return the key that an error about a campaign delays."""
    of_server = isinstance(error, TransportError) and error.code in _OF_SERVER
    return SERVER if of_server else campaign_id


@dataclass(slots=True)
class Backoff:
    """Remembers delayed work and the end of each delay."""

    clock: Callable[[], float]
    """Returns never-decreasing seconds."""
    jitter: Callable[[], float]
    """Returns uniform numbers in [0, 1)."""
    first_s: float = FIRST_S
    """The longest first pause in seconds."""
    longest_s: float = LONGEST_S
    """The longest pause in seconds."""
    hopeless_s: float = LONGEST_S
    """Seconds to wait after a failure that a retry can't fix."""
    _until: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, Iterator[float]] = field(default_factory=dict)

    def failed(self, key: str, error: ClientError) -> bool:
        """Delay a key; return whether this is its first failure after a success."""
        first = key not in self._pauses
        upcoming = self._pauses.setdefault(key, pauses(self.jitter, self.first_s, self.longest_s))
        wait_s = next(upcoming)
        if not isinstance(error, TransportError):
            wait_s = self.hopeless_s
        else:
            wait_s = after(error, wait_s if error.retryable else self.hopeless_s, self.jitter)
        self._until[key] = self.clock() + wait_s
        return first

    def succeeded(self, key: str) -> None:
        """Forget the failures of a key and of the server, which has responded."""
        for paused in (key, SERVER):
            self._until.pop(paused, None)
            self._pauses.pop(paused, None)

    def ready(self, key: str) -> bool:
        """Return whether a key and the server may be tried now."""
        until = max(self._until.get(key, -math.inf), self._until.get(SERVER, -math.inf))
        return until <= self.clock()

    def retain(self, keys: Collection[str]) -> None:
        """Forget all keys except these and the server's, since nothing waits for the others."""
        for key in self._pauses.keys() - keys - {SERVER}:
            del self._pauses[key], self._until[key]

    def next_s(self) -> float | None:
        """Return the seconds until the next retry; None if nothing is delayed."""
        # While the server is delayed, ended delays of campaigns don't matter.
        keys = self._until.keys() - {SERVER} if self.ready(SERVER) else {SERVER}
        if not keys:  # the server's pause has ended: try at once
            return 0.0 if SERVER in self._until else None
        return max(min(self._until[key] for key in keys) - self.clock(), 0.0)


def described(error: Exception) -> str:
    """Return the loggable text of an error, for a foreign one only its type."""
    return str(error) if isinstance(error, ClientError) else type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushResult:
    """The outcome of the waiting reports."""

    acknowledged: int
    """Reports counted now or before."""
    rejected: int
    """Reports permanently refused."""
    pending: int
    """Reports to send again, or later in a campaign's window."""


class ReportSender:
    """Fetches campaigns and delivers the session's reports; a request takes at most `timeout_s`."""

    def __init__(self, session: DeviceSession, timeout_s: float) -> None:
        self._session = session
        self._journal = session.journal
        self._timing = session.timing
        self._timeout_s = timeout_s
        self._backoff = Backoff(self._timing.clock, self._timing.jitter)
        self._tokens = Backoff(self._timing.clock, self._timing.jitter)
        self._with_tokens: set[str] = set()
        """Ids of reports whose tokens need no more fetching."""

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """Return a deadline from now, by default the client's; ParameterError if out of range."""
        seconds = self._timeout_s if timeout_s is None else duration(timeout_s)
        return Deadline(seconds, self._timing.clock)

    def fetch(self, campaign_id: str, deadline: Deadline) -> Steps[Campaign]:
        """Fetch a campaign from the server, check it, and store it."""
        check_campaign_id(campaign_id)
        request = collector_pb2.GetCampaignRequest(campaign_id=campaign_id)
        waits = pauses(self._timing.jitter)
        while True:
            try:
                response = yield _within(deadline, "get_campaign", request)
                break
            except TransportError as error:
                if error.code == "NOT_FOUND":
                    raise CampaignNotFound(campaign_id) from error
                wait_s = after(error, next(waits), self._timing.jitter)
                if not error.retryable or wait_s >= deadline.remaining_s():
                    raise
            yield Pause(wait_s)
        size = response.envelope.ByteSize()
        campaign: Campaign = yield Local(
            partial(self._keep, campaign_id, response),
            size > _QUICK_BYTES or self._journal.durable,
        )
        return campaign

    def flush(self, deadline: Deadline) -> Steps[FlushResult]:
        """Send the waiting reports until no attempt can help or time is up."""
        acknowledged = rejected = 0
        # A separate one, since a flush tries at once, and more often than the background.
        backoff = Backoff(
            self._timing.clock, self._timing.jitter, FIRST_PAUSE_S, LONGEST_PAUSE_S, math.inf
        )
        while True:
            done, later = yield from self._deliver(backoff, deadline)
            acknowledged += done.acknowledged
            rejected += done.rejected
            waits = [self._to_departure_s(later)]
            if done.pending > len(later):
                waits.append(backoff.next_s() or 0.0)
            wait_s = min((s for s in waits if s is not None), default=math.inf)
            if wait_s >= deadline.remaining_s():
                return replace(done, acknowledged=acknowledged, rejected=rejected)
            yield Pause(min(wait_s, _LOOK_S))

    def work(self) -> Steps[float | None]:
        """Do the background's work; return the seconds to the next turn, None if nothing waits."""
        if not self._backoff.ready(SERVER):
            # Don't even look at the waiting reports, since a busy app wakes the background often.
            return self._backoff.next_s()
        for campaign_id in list(self._session.wanted):
            if self._backoff.ready(campaign_id):
                try:
                    yield from self.fetch(campaign_id, self.deadline())
                except ClientError as error:
                    self._session.wanted[campaign_id] = error
                    self._failed(error, campaign_id, self._backoff)
                else:
                    self._backoff.succeeded(campaign_id)
        done, later = yield from self._deliver(self._backoff)
        departs_s = self._to_departure_s(later)
        look_s = None if departs_s is None else min(departs_s, _LOOK_S)
        if done.pending == len(later) and not self._session.wanted:
            return look_s
        again_s = self._backoff.next_s() or 0.0
        return again_s if look_s is None else min(again_s, look_s)

    def _to_departure_s(self, later: Collection[datetime]) -> float | None:
        """Return the seconds until the first departure; None without one."""
        if not later:
            return None
        return max((min(later) - self._timing.now()).total_seconds(), 0.0)

    def _deliver(
        self, backoff: Backoff, deadline: Deadline | None = None
    ) -> Steps[tuple[FlushResult, list[datetime]]]:
        """Send the waiting, undelayed reports once; without a deadline, each has its own timeout.

        It also returns the departures of those whose time in a window has not come.
        """
        durable = self._journal.durable
        waiting: list[Entry]
        held: list[Contribution]
        waiting, held = yield Local(self._waiting, durable)
        campaigns = set(self._session.wanted) if backoff is self._backoff else set()
        for entry in waiting:
            campaigns.add(entry.contribution.campaign_id)
        backoff.retain(campaigns)
        ready = set(filter(backoff.ready, campaigns))
        counts = {DeliveryStatus.ACKNOWLEDGED: 0, DeliveryStatus.REJECTED: 0}
        waits, together, settled = list(waiting), 1, 0
        # Another process may have sent them meanwhile, long before, if this one was stopped.
        recent = Deadline(_LOOK_S, self._timing.clock)
        while waits and recent.remaining_s():
            leaving = [e for e in waits[:together] if e.contribution.campaign_id in ready]
            del waits[:together]
            if leaving:
                mark = partial(self._journal.mark_sent, leaving, self._timing.now())
                settled += len(leaving)
                leaving = yield Local(mark, durable)
                settled -= len(leaving)
            for entry in leaving:
                campaign_id = entry.contribution.campaign_id
                if campaign_id not in ready or not recent.remaining_s():
                    continue
                batch = ReportBatch.of(entry.contribution)  # a separate request
                until = deadline or self.deadline()
                try:
                    yield Local(partial(self._session.check_way_of, campaign_id), durable)
                    response = yield _within(until, "submit_reports", batch.request())
                    (result,) = batch.results(response)
                except (TransportError, PolicyRefused) as error:
                    outcome = replace(entry, failure=str(error))
                    key = self._failed(error, campaign_id, backoff)
                    ready = set() if key == SERVER else ready - {key}
                else:
                    outcome = replace(entry, status=result.status, rejection=result.rejection)
                    self._backoff.succeeded(campaign_id)
                    backoff.succeeded(campaign_id)
                    counts[result.status] += 1
                yield Local(partial(self._record, outcome), durable)
            # Only while the server responds, since refused requests have not left.
            together = min(2 * together, _MOST_TOGETHER)
        if self._session.gives_tokens:
            yield from self._fetch_tokens(held, deadline)
        later = [each.departs for each in held if each.departs is not None]
        done = FlushResult(
            acknowledged=counts[DeliveryStatus.ACKNOWLEDGED],
            rejected=counts[DeliveryStatus.REJECTED],
            pending=len(waiting) + len(later) - sum(counts.values()) - settled,
        )
        return done, later

    def _fetch_tokens(self, held: list[Contribution], deadline: Deadline | None) -> Steps[None]:
        """Get tokens long before reports leave, so that an issuer can't link them by time.

        Failures are retried later, and when the report leaves.
        """
        for report in held:
            request = ReportBatch.of(report).request()
            key = request.reports[0].report_id.hex()
            if key in self._with_tokens or not self._tokens.ready(key):
                continue
            try:
                check = partial(self._session.check_way_of, report.campaign_id)
                yield Local(check, self._journal.durable)
                yield _within(deadline or self.deadline(), "fetch_tokens", request)
            except (TransportError, PolicyRefused) as error:
                self._tokens.failed(key, error)
            else:
                self._with_tokens.add(key)

    def _waiting(self) -> tuple[list[Entry], list[Contribution]]:
        now = self._timing.now()
        waiting, held = [], []
        for entry in self._journal.pending():
            departs = entry.contribution.departs
            if now - entry.contribution.closes > KEPT_AFTER_CLOSE:
                self._record(replace(entry, status=DeliveryStatus.EXPIRED))
            elif departs is None or departs <= now:
                waiting.append(entry)
            else:
                held.append(entry.contribution)
        return waiting, held

    def _record(self, outcome: Entry) -> None:
        """Record an outcome, settled now: until then, another process may have sent it again."""
        settled = None if outcome.status is DeliveryStatus.PENDING else self._timing.now()
        self._journal.record_outcome(replace(outcome, settled=settled))

    def _keep(self, campaign_id: str, response: collector_pb2.GetCampaignResponse) -> Campaign:
        envelope = response.envelope.SerializeToString(deterministic=True)
        accepted = self._session.accept(campaign_id, envelope)
        if response.state == campaign_pb2.CAMPAIGN_STATE_CLOSED:
            raise CampaignNotOpen(campaign_id, "closed")
        pinned = self._journal.pin(campaign_id, accepted.digest, envelope, self._timing.now())
        if pinned != accepted.digest:
            raise CampaignChanged(campaign_id, pinned.hex(), accepted.digest.hex())
        self._session.remember(accepted)
        return accepted.campaign

    def _failed(self, error: ClientError, campaign_id: str, backoff: Backoff) -> str:
        """Delay the work affected by an error, and return its key."""
        key = concerns(error, campaign_id)
        if self._backoff.failed(key, error):
            _LOG.warning("campaign %r: %s", campaign_id, error)
        if backoff is not self._backoff:
            backoff.failed(key, error)
        return key


def _within(deadline: Deadline, method: str, message: Any) -> Request:
    """Return the step that sends a request, or raise if no time is left."""
    left_s = deadline.remaining_s()
    if left_s <= 0:
        raise TransportError("DEADLINE_EXCEEDED", "no time is left")
    return Request(method, message, left_s)
