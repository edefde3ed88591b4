"""Campaigns a page at a time, for devices and analysts.

Only dates are read of what was published, so that a page costs little whatever is asked in it.
"""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.message import DecodeError

from geoveil.aggregator.domain.campaign_cache import CampaignStatus
from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.store import CampaignPage, CampaignRecord
from geoveil.campaign import State
from geoveil.gp import ParameterError
from geoveil.proto.v1.campaign_pb2 import Campaign, CampaignEnvelope

MOST_ON_PAGE = 1_000
MOST_LOOKED_AT = 1_000
"""Campaigns that are read for a page, closed ones included."""
_DEFAULT_ON_PAGE = 100
_MOST_BYTES = 256 << 10
"""The most bytes of a page of several campaigns; a campaign alone has up to 1 MiB."""
_LEAST_READ = 100
"""Campaigns read at once: of a small page among many closed campaigns, too."""
_READ_BYTES = 2 << 20
"""Bytes of campaigns read at once."""
_MOST_BYTES_READ = 8 << 20
"""Bytes read for a page, closed campaigns included; those of the last read may exceed it."""

Read = Callable[[str, int, int], Awaitable[CampaignPage]]
"""Reads what `Store.campaign_page` returns for `after`, `limit` and `most_bytes`."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some campaigns, and how to get those after them."""

    standings: Sequence[CampaignStatus]
    next_token: str
    """Empty if there are no more."""


async def page(read: Read, now: datetime, size: int, token: str, *, closed: bool) -> Page:
    """Return the page of campaigns after `token`, in order of creation.

    Of campaigns that stay as they are, pages neither skip nor repeat one, whatever is added or
    closed between them. A page holds fewer than `size` if campaigns are large, or if many are
    passed over, as no more than `MOST_LOOKED_AT` are read for one; it may be empty and still have a
    token.

    Args:
        read: of the store.
        now: the time.
        size: most campaigns on it, 1 to 1,000; 100 if 0.
        token: of the page before; empty for the first. It names the campaign that page ended with.
        closed: whether campaigns that take no reports any more are shown.

    Raises:
        ParameterError: if the token is of no page, or the size out of range.
        ServiceError: INTERNAL if a stored campaign can't be read; STORE_UNAVAILABLE.
    """
    if not 0 <= size <= MOST_ON_PAGE:
        raise ParameterError("page_size", size, f"an integer from 0 to {MOST_ON_PAGE:,}")
    size = size or _DEFAULT_ON_PAGE
    after = _campaign_of(token)
    shown: list[CampaignStatus] = []
    looked_at = read_bytes = total = 0
    while True:
        limit = min(max(size, _LEAST_READ), MOST_LOOKED_AT - looked_at)
        found = await _read(read, after, limit, token)
        looked_at += len(found.records)
        read_bytes += sum(len(record.published) for record in found.records)
        for standing in await asyncio.to_thread(_standings, found.records, now):
            if closed or standing.state is not State.CLOSED:
                total += len(standing.record.published)
                if len(shown) == size or (shown and total > _MOST_BYTES):
                    return Page(shown, _token_of(after))
                shown.append(standing)
            after = standing.record.campaign_id
        if not found.more:
            return Page(shown, "")
        if len(shown) == size or looked_at == MOST_LOOKED_AT or read_bytes >= _MOST_BYTES_READ:
            return Page(shown, _token_of(after))


async def pages(read: Read, clock: Callable[[], datetime]) -> AsyncIterator[Page]:
    """Yield all campaigns that are not closed, page after page."""
    token = ""
    while True:
        found = await page(read, clock(), MOST_ON_PAGE, token, closed=False)
        yield found
        token = found.next_token
        if not token:
            return


async def _read(read: Read, after: str, limit: int, token: str) -> CampaignPage:
    try:
        return await read(after, limit, _READ_BYTES)
    except ServiceError as error:
        if error.code is Code.CAMPAIGN_NOT_FOUND:
            raise _no_token(token) from None
        raise


def _standings(records: Sequence[CampaignRecord], now: datetime) -> list[CampaignStatus]:
    return [CampaignStatus(record, _state(record, now)) for record in records]


def _state(record: CampaignRecord, now: datetime) -> State:
    """Return what `Campaign.state` would; decoding the queries would take far longer."""
    if record.closed:
        return State.CLOSED
    try:
        campaign = Campaign.FromString(CampaignEnvelope.FromString(record.published).campaign)
        opens, closes = (date.ToDatetime(UTC) for date in (campaign.opens, campaign.closes))
    except (DecodeError, ValueError, OverflowError) as error:
        # Not the caller's fault: written by a later version, or damaged.
        raise ServiceError(Code.INTERNAL, "a stored campaign can't be read") from error
    if now >= closes:
        return State.CLOSED
    return State.PENDING if now < opens else State.OPEN


def _token_of(campaign_id: str) -> str:
    return base64.urlsafe_b64encode(campaign_id.encode()).rstrip(b"=").decode()


def _campaign_of(token: str) -> str:
    padded = token + "=" * (-len(token) % 4)
    try:
        found = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise _no_token(token) from None
    if _token_of(found) != token:
        raise _no_token(token)
    return found


def _no_token(token: str) -> ParameterError:
    return ParameterError("page_token", token, "that of a page before, or empty")
