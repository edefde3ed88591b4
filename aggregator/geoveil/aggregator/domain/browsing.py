"""List campaigns in pages, for devices and analysts."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from geoveil.aggregator.domain.campaign_cache import CampaignStatus
from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.store_contract import CampaignPage
from geoveil.gp import ParameterError, validation

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
