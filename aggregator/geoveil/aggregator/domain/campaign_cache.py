"""Published campaigns, and pages of them: each envelope is decoded once, and relayed unchanged."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.store_contract import CampaignPage, CampaignRecord
from geoveil.aggregator.domain.threads import ConcurrencyLimit, Reader
from geoveil.campaign import Admission, PublicKey, State, decode, digest, open_envelope, signer
from geoveil.gp import GeoVeilError, ParameterError, validation

Clock = Callable[[], datetime]
"""Returns the current time, with a time zone."""

_MOST_CACHED = 256
"""The most decoded campaigns in the cache."""
_MOST_BYTES_CACHED = 4 << 20
"""The most bytes of their envelopes; decoded campaigns take up to thirty times as much."""
MOST_ON_PAGE = 1_000
_DEFAULT_ON_PAGE = 100
_MOST_BYTES = 256 << 10
"""The most bytes of a page with several campaigns; a single campaign may have up to 1 MiB."""


def utc_now() -> datetime:
    """Return this machine's current time."""
    return datetime.now(UTC)


class Publication:
    """A stored campaign ready for use, immutable; GeoVeilError if its record is invalid."""

    def __init__(self, record: CampaignRecord) -> None:
        content = open_envelope(record.published).campaign
        self.campaign = decode(content)
        self.digest = digest(content)
        self.layout = Layout.stored(self.campaign, record.queries, record.block_key)
        self.admission = Admission(self.campaign)


def publish(
    published: bytes, trusted_keys: Collection[PublicKey] = ()
) -> tuple[CampaignRecord, bytes]:
    """Return the record of a new campaign, and its digest; see `Service.create_campaign`."""
    envelope = open_envelope(published)
    key = signer(envelope)
    if trusted_keys and key not in trusted_keys:
        raise ServiceError(Code.SIGNER_NOT_TRUSTED)
    campaign = decode(envelope.campaign)
    layout = Layout.of(campaign)
    record = CampaignRecord(
        campaign_id=campaign.campaign_id,
        published=published,
        queries=layout.sums,
        block_key=layout.key,
        opens=campaign.opens,
        closes=campaign.closes,
        delete_after=campaign.delete_after,
    )
    return record, digest(envelope.campaign)


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """A campaign as published, and its current state."""

    record: CampaignRecord
    state: State


class CampaignCache:
    """Finds campaigns.

    Raises:
        ServiceError: from every method: CAMPAIGN_NOT_FOUND, STORE_UNAVAILABLE, STOPPING; INTERNAL
            if a stored campaign can't be read.
    """

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._loading: OrderedDict[str, asyncio.Task[Publication]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._decoding = ConcurrencyLimit(1)

    async def status(self, campaign_id: str) -> CampaignStatus:
        """Return a campaign and its current state."""
        record = await self._reader.call(lambda store: store.get_campaign(campaign_id))
        campaign = (await self.publication(campaign_id)).campaign
        return CampaignStatus(record, campaign.state(self._clock(), closed=record.closed))

    async def publication(self, campaign_id: str) -> Publication:
        """Return a campaign ready for use."""
        task = self._loading.get(campaign_id)
        if task is None:
            task = asyncio.create_task(self._load(campaign_id), name=campaign_id)
            task.add_done_callback(self._forget_failure)
            self._loading[campaign_id] = task
            self._forget_oldest()
        else:
            self._loading.move_to_end(campaign_id)
            if task.done():
                return task.result()
        # Shielded, since a caller that disconnects must not cancel the others' loading.
        return await asyncio.shield(task)

    def _forget_oldest(self) -> None:
        """Drop the least recently used campaigns beyond the limits, but never the last one."""
        while len(self._loading) > _MOST_CACHED or (
            len(self._loading) > 1 and sum(self._sizes.values()) > _MOST_BYTES_CACHED
        ):
            name, _ = self._loading.popitem(last=False)
            self._sizes.pop(name, None)

    def _forget_failure(self, task: "asyncio.Task[Publication]") -> None:
        """Let the next request try again, since the campaign may exist by then."""
        failed = task.cancelled() or task.exception() is not None
        if failed and self._loading.get(task.get_name()) is task:
            del self._loading[task.get_name()]

    async def _load(self, campaign_id: str) -> Publication:
        record = await self._reader.call(lambda store: store.get_campaign(campaign_id))
        try:
            publication = await self._decoding.run(Publication, record)
        except GeoVeilError as error:
            # Not the caller's fault: a later version wrote it, or it is damaged.
            raise ServiceError(Code.INTERNAL, "a stored campaign can't be read") from error
        if campaign_id in self._loading:
            self._sizes[campaign_id] = len(record.published)
            self._forget_oldest()
        return publication


Read = Callable[[str, int, int, datetime | None], Awaitable[CampaignPage]]
"""Returns `Store.campaign_page` for `after`, `limit`, `most_bytes` and `open_at`."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of campaigns, and the token of the next page."""

    statuses: Sequence[CampaignStatus]
    next_token: str
    """The id of the last campaign on this page; empty on the last page."""


async def page(read: Read, now: datetime, size: int, token: str, *, closed: bool) -> Page:
    """Return the page of campaigns that follows `token`, in order of creation.

    Pages neither skip nor repeat a campaign that does not change meanwhile. A page has fewer than
    `size` campaigns if they are large.

    Args:
        size: the most campaigns on the page, 1 to 1,000; 0 means 100.
        token: the token in the previous page; empty for the first.
        closed: whether to include closed campaigns.

    Raises:
        ParameterError: if the token is invalid, or the size out of range.
        ServiceError: STORE_UNAVAILABLE.
    """
    validation.require_count("page_size", size, 0, MOST_ON_PAGE)
    try:
        of_store = await read(token, size or _DEFAULT_ON_PAGE, _MOST_BYTES, None if closed else now)
    except ServiceError as error:
        if error.code is Code.CAMPAIGN_NOT_FOUND:
            expected = "one from an earlier page, or empty"
            raise ParameterError("page_token", token, expected) from None
        raise
    shown = [CampaignStatus(record, record.state(now)) for record in of_store.records]
    return Page(shown, shown[-1].record.campaign_id if of_store.more else "")
