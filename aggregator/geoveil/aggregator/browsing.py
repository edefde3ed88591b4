"""Campaigns for devices, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from geoveil.aggregator.library import CampaignStanding
from geoveil.campaign import State
from geoveil.gp import ParameterError

MOST_ON_PAGE = 1_000
_DEFAULT_ON_PAGE = 100
_MOST_BYTES = 2 << 20
"""Of a page: clients take messages of up to 4 MiB, and one campaign has at most 1."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some campaigns, and how to get those after them."""

    standings: Sequence[CampaignStanding]
    next_token: str
    """Empty if there are no more."""


def page(standings: Sequence[CampaignStanding], size: int, token: str) -> Page:
    """Return the page after `token` of the campaigns that are not closed.

    Args:
        standings: of all campaigns, in order of creation.
        size: most campaigns on it, 1 to 1,000; 100 if 0. Large campaigns make smaller pages.
        token: of the page before; empty for the first. It is the id of the campaign that page ends
            with, so that pages neither skip nor repeat one when campaigns are added or close.

    Raises:
        ParameterError: if the token is of no page, or the size out of range.
    """
    if not 0 <= size <= MOST_ON_PAGE:
        raise ParameterError("page_size", size, f"an integer from 0 to {MOST_ON_PAGE:,}")
    ids = [standing.record.campaign_id for standing in standings]
    if token and token not in ids:
        raise ParameterError("page_token", token, "that of a page before, or empty")
    rest = standings[ids.index(token) + 1 :] if token else standings
    shown: list[CampaignStanding] = []
    total = 0
    for standing in rest:
        if standing.state is State.CLOSED:
            continue
        total += len(standing.record.published)
        if len(shown) == (size or _DEFAULT_ON_PAGE) or (shown and total > _MOST_BYTES):
            return Page(shown, shown[-1].record.campaign_id)
        shown.append(standing)
    return Page(shown, "")
