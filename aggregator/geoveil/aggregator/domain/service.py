"""The aggregator's service, independent of the transport."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from geoveil.aggregator.domain.campaign_cache import (
    MOST_ON_PAGE,
    CampaignCache,
    CampaignStatus,
    Clock,
    Page,
    page,
    publish,
    utc_now,
)
from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.estimates import (
    DisclosedEstimates,
    disclose,
    disclosed,
    periods_shown,
)
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.preparation import prepare, takes_little
from geoveil.aggregator.domain.rates import RateLimits
from geoveil.aggregator.domain.reports import Report, ReportResult, UnreadReports
from geoveil.aggregator.domain.rows import Rows, export
from geoveil.aggregator.domain.shared_scan import AnswerCache, SharedScan
from geoveil.aggregator.domain.store_contract import (
    CampaignPage,
    CampaignRecord,
    Extent,
    Outcome,
    Progress,
    Store,
    StoredSums,
    Submission,
)
from geoveil.aggregator.domain.threads import ConcurrencyLimit, Reader, Writer
from geoveil.aggregator.domain.watching import PollTimer, watch
from geoveil.campaign import Campaign, PointQuestion, PublicKey, State, require_attribute
from geoveil.gp import ParameterError, validation

__all__ = ["CampaignStatus", "Clock", "Service", "Snapshot", "utc_now"]

_LOG = logging.getLogger(__name__)
_FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC).toordinal()
_WIDTH = 2
_REPORT_BYTES = 32
"""Bytes on the wire of an ordinary report with one answer."""
_REJECTED_COSTS = 10
"""The price, in reports, of one that can never be counted, because its fault is described."""
_MUCH = 16 << 10
"""Bytes of campaigns that a call may return without an extra charge."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A campaign and its disclosed estimates."""

    status: CampaignStatus
    disclosure: DisclosedEstimates


def _delete(campaign_id: str, store: Store) -> bool:
    return store.delete_reports(campaign_id)


def _same(shown: Snapshot) -> Snapshot:
    return shown


class ServiceSettings(Protocol):
    """The settings of a service; `Settings` has them."""

    @property
    def max_batch(self) -> int:
        """The most reports of a request."""
        ...

    @property
    def clock_skew_s(self) -> float:
        """Seconds by which a device's clock may be wrong."""
        ...

    @property
    def trusted_keys(self) -> Collection[PublicKey]:
        """The keys of which one must sign a new campaign; empty for any."""
        ...


class Service:
    """Campaigns and their reports; the writer and the reader of the database are started.

    Campaigns need a signature by one of the settings' trusted keys, if there are any. `pace` times
    watches.

    Raises:
        ServiceError: CAMPAIGN_NOT_FOUND for an unknown campaign, STORE_UNAVAILABLE, STOPPING; and
            RATE_LIMITED from calls with the address of a device, `peer`.
    """

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        settings: ServiceSettings,
        clock: Clock = utc_now,
        *,
        limits: RateLimits | None = None,
        pace: PollTimer | None = None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._max_batch = settings.max_batch
        self._skew = timedelta(seconds=settings.clock_skew_s)
        self._clock = clock
        self._trusted_keys = frozenset(settings.trusted_keys)
        self._limits = limits or RateLimits()
        self._pace = pace or PollTimer()
        self._library = CampaignCache(reader, clock)
        self.batches = ConcurrencyLimit(1)
        """Runs large requests of devices, one at a time: two at once would not be faster."""
        self.analyses = ConcurrencyLimit(_WIDTH)
        """Runs the work for analysts."""
        self._pages = ConcurrencyLimit(_WIDTH)
        self._scan = SharedScan(reader, ConcurrencyLimit(_WIDTH))

    async def create_campaign(self, published: bytes) -> bytes:
        """Publish a result of `geoveil.campaign.seal` unchanged, and return its digest.

        Publishing the same envelope again has no effect.

        Raises:
            ServiceError: CAMPAIGN_ID_TAKEN if the id has another envelope or signature;
                SIGNER_NOT_TRUSTED.
            SignatureInvalid: if there is a signature that does not verify.
            GeoVeilError: if the campaign is invalid.
        """
        record, digest = await self.analyses.run(publish, published, self._trusted_keys)
        await self._writer.call(lambda store: store.create_campaign(record))
        return digest

    async def close_campaign(self, campaign_id: str) -> None:
        """Close a campaign: once this returns it takes no new reports; idempotent.

        Where its date has closed it, that lasts as long as the clock is not set back.
        """
        record = await self._reader.call(lambda store: store.get_campaign(campaign_id))
        # Otherwise its date has closed it, so nobody stopped it because of the estimates.
        if self._clock() - self._skew < record.closes:
            await self._writer.call(lambda store: store.close_campaign(campaign_id))

    async def get_campaign(self, campaign_id: str, *, peer: str | None = None) -> CampaignStatus:
        """Return one campaign, to a device if there is a `peer`."""
        if peer is not None:
            self._limits.peers.admit(peer)
        status = await self._library.status(campaign_id)
        if peer is not None:
            self._charge(peer, status)
        return status

    async def list_campaigns(
        self, size: int = 0, token: str = "", *, only: Collection[str] | None = None
    ) -> Page:
        """Return campaigns, or `only` those with given ids, in order of creation; see `page`."""
        read = partial(self._read_page, only=only)
        return await page(read, self._clock(), size, token, closed=True)

    async def note_day(self) -> None:
        """Record each campaign's number of reports so far today."""
        today = self._clock().astimezone(UTC).date().toordinal() - _FIRST_DAY
        await self._writer.call(lambda store: store.note_day(today))

    async def delete_due(self) -> None:
        """Delete the reports of campaigns whose signed deletion date has passed; keep the sums.

        It allows for clock skew, so that reports in time by a device's clock are still taken.
        """
        now = self._clock() - self._skew
        for campaign_id in await self._reader.call(lambda store: store.due(now)):
            delete = partial(_delete, campaign_id)
            while await self._writer.call(delete):
                pass  # other writes run in between
            _LOG.info("reports_deleted", extra={"campaign": campaign_id})

    async def plan_participants(self, campaign_id: str, participants: int | None) -> None:
        """Store the number of participants that a campaign's analyst expects; None if unknown."""
        await self._writer.call(lambda store: store.plan_participants(campaign_id, participants))

    async def progress(self, campaign_ids: Collection[str]) -> Mapping[str, Progress]:
        """Return the daily report counts of the campaigns that exist."""
        return await self._reader.call(lambda store: store.progress(campaign_ids))

    async def extent(self) -> Extent | None:
        """Return the size of the database, and the number of servers that write to it, if known."""
        return await self._reader.call(lambda store: store.extent())

    async def count_open_campaigns(self) -> int:
        """Return the number of campaigns that take reports."""
        count, token = 0, ""
        while True:
            shown = await page(self._read_page, self._clock(), MOST_ON_PAGE, token, closed=False)
            count += sum(status.state is State.OPEN for status in shown.statuses)
            token = shown.next_token
            if not token:
                return count

    async def browse_campaigns(self, size: int = 0, token: str = "", *, peer: str = "") -> Page:
        """Return campaigns that are open or will open, in order of creation; see `page`."""
        self._limits.peers.admit(peer)
        async with self._pages:
            browsed = await page(self._read_page, self._clock(), size, token, closed=False)
        self._charge(peer, *browsed.statuses)
        return browsed

    async def submit(
        self,
        campaign_id: str,
        campaign_digest: bytes,
        reports: Sequence[Report] | UnreadReports,
        peer: str = "",
        *,
        paid: int = 0,
    ) -> list[ReportResult]:
        """Count each report once; return all results when the accepted reports are durable.

        Args:
            campaign_digest: the digest of the campaign that the reports answer.
            peer: the sender's address, used only for rate limits and never stored.
            paid: the result of `admit_size` for the request.

        Raises:
            ParameterError: if there are no or too many reports, or one can't be read.
            ServiceError: DIGEST_MISMATCH if the digest is another campaign's, QUEUE_FULL,
                CAMPAIGN_FULL, DISK_FULL. No report of the batch was counted then.
        """
        count = validation.require_count("number of reports", len(reports), 1, self._max_batch)
        if count > paid:
            self._limits.peers.admit(peer, count - paid)
        publication = await self._library.publication(campaign_id)
        if campaign_digest != publication.digest:
            raise ServiceError(Code.DIGEST_MISMATCH)
        self._limits.admit_campaign(campaign_id, count)
        campaign, now = publication.campaign, self._clock()
        latest = campaign.period_at(now + self._skew)
        if takes_little(publication, reports):
            prepared = prepare(publication, reports, latest)
        else:
            prepared = await self.batches.run(prepare, publication, reports, latest)
        if rejected := len(prepared.faults) - prepared.faults.count(None):
            self._limits.peers.charge(peer, (_REJECTED_COSTS - 1) * rejected)
        bins = publication.layout.bins
        in_time, early = prepared.packed
        # A future period takes no new reports, but recognises those counted before the clock was
        # set back. It comes first, so that a later failure leaves no trace.
        of_early: list[Outcome] = []
        of_in_time: list[Outcome] = []
        if early:
            of_early = await self._writer.submit(
                Submission(campaign_id, early, admit=False, bins=bins)
            )
        if in_time:
            # By the dates; the store knows whether the analyst closed it.
            admit = campaign.opens <= now + self._skew and now - self._skew < campaign.closes
            of_in_time = await self._writer.submit(Submission(campaign_id, in_time, admit, bins))
        return prepared.results(iter(of_in_time), iter(of_early))

    def admit_size(self, peer: str, size: int) -> int:
        """Charge an unread request of `size` bytes; return the number of reports charged."""
        reports = max(1, size // _REPORT_BYTES)
        self._limits.peers.admit(peer, reports)
        return reports

    async def estimate(
        self,
        campaign_id: str,
        confidence: float = 0.95,
        period: int | None = None,
        tell: Callable[[Snapshot], Any] = _same,
    ) -> Any:
        """Return the campaign and its estimates (`disclose`); `tell` converts them in a thread.

        Raises:
            ParameterError: if `confidence` is not in (0, 1), or the period has not begun.
            ServiceError: TOO_FEW_REPORTS.
        """
        async with self.analyses:  # up to 100,000 sums, each with one or more objects
            status, layout, sums, begun = await self._sums(campaign_id)

            def shown() -> Any:
                totals, counts = sums
                looked_from = self._looked_from(status, layout.campaign)
                disclosure = disclose(
                    layout, totals, begun, period, confidence, counts, looked_from
                )
                return tell(Snapshot(status, disclosure))

            return await asyncio.to_thread(shown)

    async def estimate_queries(
        self,
        campaign_id: str,
        questions: Sequence[PointQuestion],
        confidence: float = 0.95,
        period: int | None = None,
        *,
        joint: bool = False,
        cohort: int | None = None,
    ) -> Snapshot:
        """Return a value campaign and its points' answers to questions; see `PointSums`.

        They are of one period or all that have begun, and of one cohort, from 0, or all.
        Simultaneous calls share one pass over all reports; see `SharedScan`.

        Raises:
            GeoVeilError: if a parameter is out of range, or points can't answer a question.
            ServiceError: TOO_FEW_REPORTS, TOO_COSTLY, REPORTS_DELETED.
        """
        status, layout, periods, begun = await self._showable(campaign_id, period)
        campaign = require_attribute(layout.campaign)
        last = campaign.cohorts - 1
        if cohort is not None and (last == 0 or not 0 <= cohort <= last):
            few = "absent: the campaign has none" if last == 0 else f"from 0 to {last}"
            raise ParameterError("cohort", cohort, few)
        looked_from = self._looked_from(status, layout.campaign)
        key = await self.analyses.run(
            AnswerCache.key, campaign_id, questions, periods, confidence, joint, cohort,
            looked_from,
        )  # fmt: skip
        answers = await self._scan.answer(
            key, layout, questions, periods, confidence, joint=joint, cohort=cohort,
            looked_from=looked_from,
        )  # fmt: skip
        return Snapshot(
            status,
            disclosed(
                campaign,
                answers.estimates,
                begun,
                later=True,
                covariances=answers.covariances,
            ),
        )

    async def export(
        self, campaign_id: str, period: int | None = None
    ) -> AsyncIterator[CampaignRecord | Rows]:
        """Yield the campaign, then its reports as `Rows`, for one period or all that have begun.

        Raises:
            ParameterError: if the period has not begun.
            ServiceError: TOO_FEW_REPORTS, REPORTS_DELETED.
        """
        status, layout, periods, _ = await self._showable(campaign_id, period)
        yield status.record
        async for rows in export(self._reader, layout, list(periods)):
            yield rows

    async def watch(
        self,
        campaign_id: str,
        confidence: float = 0.95,
        period: int | None = None,
        interval_s: float = 10.0,
        tell: Callable[[Snapshot], Any] = _same,
    ) -> AsyncIterator[Any]:
        """Yield `estimate` whenever reports are counted, until the campaign is closed.

        Estimates are at least `interval_s` apart, 1 to 3,600 seconds. A waiting watch holds only
        the result of `tell` in memory.

        Raises:
            ParameterError: if a parameter is out of range.
            ServiceError: TOO_FEW_REPORTS if there are too few when the campaign closes; STOPPING.
        """
        changes = watch(
            lambda: self._library.status(campaign_id),
            lambda: self.estimate(campaign_id, confidence, period, tell),
            self._pace,
            interval_s,
        )
        async for snapshot in changes:
            yield snapshot

    def drain(self) -> None:
        """End all watches with STOPPING, since they would delay the server's stop; idempotent."""
        self._pace.stop()

    async def _read_page(
        self,
        after: str,
        limit: int,
        most_bytes: int,
        open_at: datetime | None,
        only: Collection[str] | None = None,
    ) -> CampaignPage:
        return await self._reader.call(
            lambda store: store.campaign_page(
                after, limit=limit, most_bytes=most_bytes, only=only, open_at=open_at
            )
        )

    async def _sums(self, campaign_id: str) -> tuple[CampaignStatus, Layout, StoredSums, int]:
        """Return a campaign with its state, layout and sums, and the number of begun periods."""
        status = await self._library.status(campaign_id)
        layout = (await self._library.publication(campaign_id)).layout
        sums = await self._reader.call(lambda store: store.sums(campaign_id))
        # Allows for devices whose clocks are fast.
        latest = layout.campaign.period_at(self._clock() + self._skew)
        return status, layout, sums, latest + 1

    async def _showable(
        self, campaign_id: str, period: int | None
    ) -> tuple[CampaignStatus, Layout, dict[int, int], int]:
        """Return a campaign with its state, layout, `periods_shown` and number of begun periods."""
        async with self.analyses:
            status, layout, sums, begun = await self._sums(campaign_id)
            until = layout.campaign.delete_after
            if until is not None and until <= self._clock():
                raise ServiceError(Code.REPORTS_DELETED, told=f"{until:%Y-%m-%d %H:%M} UTC")
            periods = await asyncio.to_thread(periods_shown, layout, sums.totals, begun, period)
        return status, layout, periods, begun

    def _charge(self, peer: str, *statuses: CampaignStatus) -> None:
        """Charge a peer for the bytes of a large response."""
        size = sum(len(status.record.published) for status in statuses)
        if size > _MUCH:
            self._limits.peers.charge(peer, size // _REPORT_BYTES)

    def _looked_from(self, status: CampaignStatus, campaign: Campaign) -> int:
        """Return the first period without an end date; see `interval_method`."""
        if status.record.closed:  # time and number of looks before the close are unknown
            return 0
        return (
            campaign.periods if status.state is State.CLOSED else campaign.period_at(self._clock())
        )
