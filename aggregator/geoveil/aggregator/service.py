"""What the aggregator does, whatever carries the requests to it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from geoveil.aggregator.admission import Admission
from geoveil.aggregator.config import Settings
from geoveil.aggregator.errors import Code, ServiceError
from geoveil.aggregator.reader import Reader
from geoveil.aggregator.reports import PackedReport, Reason, Report, Result, Status, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.aggregator.writer import Writer
from geoveil.campaign import Campaign, State, decode, digest
from geoveil.gp import GeoVeilError, ParameterError
from geoveil.gp.estimation import Accumulator, Estimate, estimate

Clock = Callable[[], datetime]
"""Tells the time, with a time zone."""

_MOST_CACHED = 256
"""Campaigns kept decoded; one may hold 10,000 mechanisms."""
_RESULTS = MappingProxyType(
    {
        Outcome.ACCEPTED: Result(Status.ACCEPTED),
        Outcome.DUPLICATE: Result(Status.DUPLICATE),
        Outcome.ID_CONFLICT: Result(
            Status.REJECTED,
            Reason.ID_CONFLICT,
            "report_id must be new, or come with the answers it came with before",
        ),
        Outcome.NOT_OPEN: Result(
            Status.REJECTED, Reason.NOT_OPEN, "the campaign must be open to take a new report"
        ),
    }
)


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class CampaignStanding:
    """A campaign as published, and how it stands now."""

    record: CampaignRecord
    state: State


@dataclass(frozen=True, slots=True)
class QueryEstimate:
    """What the reports say of one query."""

    label: str
    sums: Accumulator
    estimate: Estimate


class _Decoded:
    """A campaign ready for use. Campaigns never change, so neither does this."""

    def __init__(self, published: bytes) -> None:
        self.campaign = decode(published)
        self.digest = digest(published)
        self.admission = Admission(self.campaign)


class Service:
    """Campaigns and their reports.

    Args:
        writer: started; does what changes the database.
        reader: started; does what doesn't.
        settings: its limits.
        clock: tells the time.

    Raises:
        ServiceError: CAMPAIGN_NOT_FOUND for an unknown campaign, STORE_UNAVAILABLE, STOPPING.
    """

    def __init__(
        self, writer: Writer, reader: Reader, settings: Settings, clock: Clock = utc_now
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._max_batch = settings.max_batch
        self._skew = timedelta(seconds=settings.clock_skew_s)
        self._clock = clock
        self._decoded: OrderedDict[str, asyncio.Task[_Decoded]] = OrderedDict()

    async def create_campaign(self, published: bytes) -> bytes:
        """Publish a campaign and return its digest; the same bytes again are welcome.

        Raises:
            ServiceError: CAMPAIGN_ID_TAKEN if the id has other bytes.
            GeoVeilError: if the campaign is not sound.
        """
        campaign = await asyncio.to_thread(decode, published)
        record = CampaignRecord(
            campaign_id=campaign.campaign_id,
            published=published,
            queries=len(campaign.questions),
        )
        await self._writer.call(lambda store: store.create_campaign(record))
        return digest(published)

    async def close_campaign(self, campaign_id: str) -> None:
        """Take no new reports once this returns; idempotent."""
        await self._writer.call(lambda store: store.close_campaign(campaign_id))

    async def get_campaign(self, campaign_id: str) -> CampaignStanding:
        """Return one campaign."""
        return await self._standing(await self._record(campaign_id))

    async def list_campaigns(self) -> list[CampaignStanding]:
        """Return all campaigns, in order of creation."""
        records = await self._reader.call(lambda store: store.list_campaigns())
        return [await self._standing(record) for record in records]

    async def submit(
        self, campaign_id: str, campaign_digest: bytes, reports: Sequence[Report]
    ) -> list[Result]:
        """Count each report once; return what became of each when all accepted are durable.

        Raises:
            ParameterError: if there are none or too many.
            ServiceError: DIGEST_MISMATCH if they were made for other bytes, QUEUE_FULL. The whole
                batch is refused, and nothing was changed.
        """
        if not 1 <= len(reports) <= self._max_batch:
            raise ParameterError("number of reports", len(reports), f"1 to {self._max_batch:,}")
        decoded = await self._decode(campaign_id)
        if campaign_digest != decoded.digest:
            raise ServiceError(Code.DIGEST_MISMATCH)
        faults = [decoded.admission.fault(report) for report in reports]
        sound = [
            PackedReport(report.report_id, pack(report.answers))
            for report, fault in zip(reports, faults, strict=True)
            if fault is None
        ]
        outcomes: list[Outcome] = []
        if sound:
            submission = Submission(campaign_id, sound, self._admits(decoded.campaign))
            outcomes = await self._writer.submit(submission)
        results = iter([_RESULTS[outcome] for outcome in outcomes])
        return [next(results) if fault is None else fault for fault in faults]

    async def estimate(
        self, campaign_id: str, confidence: float = 0.95
    ) -> tuple[CampaignStanding, list[QueryEstimate]]:
        """Return the campaign and one estimate per query, in its order.

        Args:
            campaign_id: of the campaign.
            confidence: of the intervals, in (0, 1).

        Raises:
            ParameterError: if `confidence` is not in (0, 1).
        """
        standing = await self.get_campaign(campaign_id)
        campaign = (await self._decode(campaign_id)).campaign
        sums = await self._reader.call(lambda store: store.totals(campaign_id))
        # Up to 10,000 queries in exact arithmetic: too long for the event loop.
        estimates = await asyncio.to_thread(_estimate, campaign, sums, confidence)
        return standing, estimates

    async def _record(self, campaign_id: str) -> CampaignRecord:
        return await self._reader.call(lambda store: store.get_campaign(campaign_id))

    async def _standing(self, record: CampaignRecord) -> CampaignStanding:
        campaign = (await self._decode(record.campaign_id)).campaign
        return CampaignStanding(record, campaign.state(self._clock(), closed=record.closed))

    def _admits(self, campaign: Campaign) -> bool:
        """Return whether new reports are taken by the dates; the store knows if it was closed."""
        now = self._clock()
        return campaign.opens <= now + self._skew and now - self._skew < campaign.closes

    async def _decode(self, campaign_id: str) -> _Decoded:
        """Return a campaign decoded; many requests that ask at once share the work."""
        task = self._decoded.get(campaign_id)
        if task is None:
            task = asyncio.create_task(self._load(campaign_id), name=campaign_id)
            task.add_done_callback(self._forget_failure)
            self._decoded[campaign_id] = task
            while len(self._decoded) > _MOST_CACHED:
                self._decoded.popitem(last=False)
        else:
            self._decoded.move_to_end(campaign_id)
        # Shielded: a caller that goes away must not take the others' campaign with it.
        return await asyncio.shield(task)

    def _forget_failure(self, task: "asyncio.Task[_Decoded]") -> None:
        """Let the next request try again: the campaign may be created in the meantime."""
        failed = task.cancelled() or task.exception() is not None
        if failed and self._decoded.get(task.get_name()) is task:
            del self._decoded[task.get_name()]

    async def _load(self, campaign_id: str) -> _Decoded:
        record = await self._record(campaign_id)
        try:
            return await asyncio.to_thread(_Decoded, record.published)
        except GeoVeilError as error:
            # Not the caller's fault: written by a later version, or damaged.
            raise ServiceError(Code.INTERNAL, "a stored campaign can't be read") from error


def _estimate(
    campaign: Campaign, sums: Sequence[Accumulator], confidence: float
) -> list[QueryEstimate]:
    return [
        QueryEstimate(q.label, of_query, estimate(of_query, campaign.grid_exponent, confidence))
        for q, of_query in zip(campaign.questions, sums, strict=True)
    ]
