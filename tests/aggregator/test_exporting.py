"""Test that stored answers are complete, in an uninformative order, and in fitting columns."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from geoveil.aggregator.domain.exporting import MOST_ROWS, Rows, export, rows_of
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import Report
from geoveil.aggregator.store import StoredAnswers
from geoveil.campaign import (
    SmoothSpec,
)
from tools.vectors.examples import ONE_BY_ONE

from .conftest import value_campaign as points


def packed(layout: Layout, reports: list[Report]) -> bytes:
    return b"".join(packed.answers for packed in layout.pack(reports))


def reports(count: int, columns: int, periods: int, *, all_columns: bool) -> list[Report]:
    random = Random(1)
    return [
        Report(
            random.randbytes(16),
            [
                (column, random.randrange(-(2**63), 2**63))
                for column in (range(columns) if all_columns else [random.randrange(columns)])
            ],
            random.randrange(periods),
        )
        for _ in range(count)
    ]


def test_points_are_rows_with_a_column_per_coordinate():
    layout = Layout.of(points(period=timedelta(days=7)))
    sent = reports(300, 2, 5, all_columns=True)
    rows = rows_of(layout, packed(layout, sent), [0, 3])
    assert rows.indices is None
    expected = sorted(
        (report.period, *(value for _, value in report.answers))
        for report in sent
        if report.period in (0, 3)
    )
    assert list(zip(rows.periods, *rows.columns, strict=True)) == expected


@pytest.mark.parametrize("blocks", [1, 32])
@pytest.mark.parametrize("allocation", ONE_BY_ONE)
def test_answers_are_rows_that_nothing_ties_together(publish, allocation, blocks):
    """Whatever sums the answers are added to: those of heavy-tailed noise are kept in 32 blocks."""
    mechanism = SmoothSpec(0.3) if blocks > 1 else None
    layout = Layout.of(publish(allocation=allocation, mechanism=mechanism).campaign)
    assert layout.blocks == blocks
    sent = reports(200, 3, 1, all_columns=allocation.answers_all)
    rows = rows_of(layout, packed(layout, sent), [0])
    assert rows.indices is not None
    low, high = layout.campaign.ranges[0]
    expected = sorted(
        (0, index, min(max(value, low), high)) for report in sent for index, value in report.answers
    )
    assert list(zip(rows.periods, rows.indices, *rows.columns, strict=True)) == expected


class Stored:
    """Stands in for reader and store: hands out parts that were made before."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    async def call(self, function: Callable[["Stored"], StoredAnswers]) -> StoredAnswers:
        return function(self)

    def answers(self, campaign_id: str, after: bytes, limit: int) -> StoredAnswers:
        number = int.from_bytes(after)
        more = number + 1 < len(self._parts)
        return StoredAnswers(self._parts[number], (number + 1).to_bytes(2) if more else None)


@pytest.mark.deep(keep=0)
async def test_every_row_comes_once_and_never_too_many_at_a_time():
    layout = Layout.of(points())
    sent = reports(MOST_ROWS + 500, 2, 1, all_columns=True)
    reader: Any = Stored([packed(layout, sent), b"", packed(layout, sent[:10])])
    seen: Counter[tuple[int, ...]] = Counter()
    sizes = []
    async for rows in export(reader, layout, [0]):
        seen.update(zip(*rows.columns, strict=True))
        sizes.append(len(rows.periods))
    assert sizes == [MOST_ROWS, 500, 10]
    expected = Counter(tuple(value for _, value in report.answers) for report in sent + sent[:10])
    assert seen == expected


def test_rows_are_shown_nowhere():
    layout = Layout.of(points())
    rows = rows_of(layout, packed(layout, [Report(bytes(16), [(0, 31415), (1, 9)])]), [0])
    assert isinstance(rows, Rows)
    assert "31415" not in repr(rows)
