"""Stored reports as rows without ids, for external analyses, at no further privacy cost."""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import not_shown
from geoveil.aggregator.domain.rows import answers_of, points_of, read_blocks
from geoveil.aggregator.domain.threads import Reader
from geoveil.campaign import FormCampaign, ValueCampaign

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
