"""Stored answers as arrays, in blocks that keep memory use small.

Exported rows have no ids, for external analyses, at no further privacy cost.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import ANSWER_BYTES, PACKED_ANSWER, not_shown
from geoveil.aggregator.domain.store_contract import Store, StoredAnswers
from geoveil.aggregator.domain.threads import Reader
from geoveil.campaign import Campaign, FormCampaign, ValueCampaign

_ANSWERS = 1 << 17
"""The most answers per block, unless a single report has more."""


@not_shown
class Answers(NamedTuple):
    """Answers of many reports, as arrays of equal length."""

    periods: NDArray[np.uint32]
    cohorts: NDArray[np.uint32]
    """The cohort of each answer; 0 without cohorts."""
    columns: NDArray[np.uint32]
    """The question, or the point's coordinate, of each answer."""
    values: NDArray[np.int64]
    """Integers on the campaign's grid."""


@not_shown
class Points(NamedTuple):
    """Perturbed points of many reports to a value campaign."""

    periods: NDArray[np.uint32]
    """(n,)"""
    values: NDArray[np.int64]
    """(n, k), on the campaign's grid."""
    cohorts: NDArray[np.uint32] | None = None
    """(n,), the cohort of each point; None without cohorts."""


async def read_blocks(reader: Reader, campaign: Campaign) -> AsyncIterator[bytes]:
    """Yield the packed answers of all reports in blocks of whole reports.

    Other reads run between two blocks. No report comes twice; reports counted meanwhile may be
    missing.

    Raises:
        ServiceError: REPORTS_DELETED at the end, if reports were deleted meanwhile.
    """
    name, wanted = campaign.campaign_id, 0
    if campaign.delete_after is not None:
        counted = (await reader.call(lambda store: store.get_campaign(name))).reports
        wanted = counted * campaign.answers * ANSWER_BYTES
    limit = max(1, _ANSWERS // campaign.answers)
    after: bytes | None = b""
    while after is not None:
        block = await reader.call(partial(_read, name, after, limit))
        if block.packed:
            yield block.packed
        wanted -= len(block.packed)
        after = block.after
    if wanted > 0:
        raise ServiceError(Code.REPORTS_DELETED)


def _read(campaign_id: str, after: bytes, limit: int, store: Store) -> StoredAnswers:
    return store.answers(campaign_id, after, limit)


def answers_of(layout: Layout, packed: bytes) -> Answers:
    """Return packed answers as arrays.

    Example:
        >>> from geoveil.aggregator.domain.reports import pack
        >>> from unittest.mock import Mock
        >>> layout = Mock(blocks=1, campaign=Mock(columns=3, indices=6))
        >>> answers = answers_of(layout, pack([(10, -7)]))
        >>> [array.tolist() for array in answers]
        [[1], [1], [1], [-7]]
    """
    unpacked = np.frombuffer(packed, PACKED_ANSWER)
    slots = unpacked["sum_index"] // np.uint32(layout.blocks)
    campaign, values = layout.campaign, unpacked["value"].astype(np.int64)
    periods, columns = np.divmod(slots, np.uint32(campaign.indices))
    if campaign.indices == campaign.columns:
        return Answers(periods, np.zeros_like(periods), columns, values)
    return Answers(periods, *np.divmod(columns, np.uint32(campaign.columns)), values)


def points_of(layout: Layout, packed: bytes) -> Points:
    """Return packed answers of whole reports as points; ServiceError INTERNAL if impossible."""
    dimension = layout.campaign.columns
    periods, cohorts, columns, values = answers_of(layout, packed)
    if len(values) % dimension == 0:
        periods, cohorts, columns = (a.reshape(-1, dimension) for a in (periods, cohorts, columns))
        in_order = np.arange(dimension, dtype=np.uint32)
        same = (periods == periods[:, :1]).all() and (cohorts == cohorts[:, :1]).all()
        if (columns == in_order).all() and same:
            of_points = cohorts[:, 0] if layout.campaign.cohorts > 1 else None
            return Points(periods[:, 0], values.reshape(-1, dimension), of_points)
    raise ServiceError(Code.INTERNAL, "stored points can't be read")


MOST_ROWS = 1 << 16
"""The most rows per message with up to three columns; with more columns, 2.2 MB limit a message."""


@not_shown
class Rows(NamedTuple):
    """Rows sorted by period, query, cohort and value, which hides the order of arrival."""

    periods: NDArray[np.uint32]
    indices: NDArray[np.uint32] | None
    """The query of each row; None for points and forms."""
    columns: tuple[NDArray[np.int64], ...]
    """One column for answers, one per coordinate for points, one per column for forms."""
    cohorts: NDArray[np.uint32] | None = None
    """The cohort of each row; None without cohorts."""

    def at(self, places: Any) -> "Rows":
        """Return the rows at given places of the arrays."""
        return Rows(
            self.periods[places],
            None if self.indices is None else self.indices[places],
            tuple(column[places] for column in self.columns),
            None if self.cohorts is None else self.cohorts[places],
        )


def rows_of(layout: Layout, packed: bytes, periods: Collection[int]) -> Rows:
    """Return the packed answers (`read_blocks`) of whole reports in these periods as sorted rows.

    Rows do not link the answers of one report to a statistic campaign.
    """
    if isinstance(layout.campaign, ValueCampaign | FormCampaign):
        points = points_of(layout, packed)
        rows = Rows(points.periods, None, tuple(points.values.T), points.cohorts)
    else:
        answers = answers_of(layout, packed)
        cohorts = answers.cohorts if layout.campaign.cohorts > 1 else None
        rows = Rows(answers.periods, answers.columns, (answers.values,), cohorts)
    shown = rows.at(np.isin(rows.periods, np.array(list(periods), np.uint32)))
    keys = [*shown.columns[::-1], shown.cohorts, shown.indices, shown.periods]
    return shown.at(np.lexsort([key for key in keys if key is not None]))


async def export(reader: Reader, layout: Layout, periods: Collection[int]) -> AsyncIterator[Rows]:
    """Yield all rows of the periods, at most `MOST_ROWS` at a time."""
    async for packed in read_blocks(reader, layout.campaign):
        rows = await asyncio.to_thread(rows_of, layout, packed, periods)
        many = 3 * MOST_ROWS // max(3, len(rows.columns))
        for start in range(0, len(rows.periods), many):
            yield rows.at(slice(start, start + many))
