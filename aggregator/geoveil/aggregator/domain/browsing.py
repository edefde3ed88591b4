"""List campaigns in pages, for devices and analysts."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from geoveil.aggregator.domain.campaign_cache import CampaignStatus
from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.store import CampaignPage
from geoveil.gp import ParameterError

MOST_ON_PAGE = 1_000
_DEFAULT_ON_PAGE = 100
_MOST_BYTES = 256 << 10
"""The most bytes of a page with several campaigns; a single campaign may have up to 1 MiB."""

Read = Callable[[str, int, int, datetime | None], Awaitable[CampaignPage]]
"""Returns `Store.campaign_page` for `after`, `limit`, `most_bytes` and `open_at`."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of campaigns, and the token of the next page."""

    statuses: Sequence[CampaignStatus]
    next_token: str
    """Empty on the last page."""


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
    if not 0 <= size <= MOST_ON_PAGE:
        raise ParameterError("page_size", size, f"an integer from 0 to {MOST_ON_PAGE:,}")
    after = _campaign_of(token)
    try:
        of_store = await read(after, size or _DEFAULT_ON_PAGE, _MOST_BYTES, None if closed else now)
    except ServiceError as error:
        if error.code is Code.CAMPAIGN_NOT_FOUND:
            raise _no_token(token) from None
        raise
    shown = [CampaignStatus(record, record.state(now)) for record in of_store.records]
    return Page(shown, _token_of(shown[-1].record.campaign_id) if of_store.more else "")


def _token_of(campaign_id: str) -> str:
    return base64.urlsafe_b64encode(campaign_id.encode()).rstrip(b"=").decode()


def _campaign_of(token: str) -> str:
    padded = token + "=" * (-len(token) % 4)
    try:
        campaign_id = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise _no_token(token) from None
    if _token_of(campaign_id) != token:
        raise _no_token(token)
    return campaign_id


def _no_token(token: str) -> ParameterError:
    return ParameterError("page_token", token, "one from an earlier page, or empty")
