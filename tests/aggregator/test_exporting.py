"""Stored answers: read in blocks, complete, in an uninformative order and fitting columns."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from geoveil.aggregator import Store
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import PackedReport, Report, pack
from geoveil.aggregator.domain.rows import MOST_ROWS, Rows, export, rows_of
from geoveil.aggregator.store import CampaignRecord, StoredAnswers, Submission, open_store
from geoveil.campaign import (
    SmoothSpec,
)
from tools.vectors.examples import ONE_BY_ONE

from .conftest import value_campaign as points

WIDTH = 24


@pytest.fixture
def store(target):
    with open_store(target) as opened:
        for name in ("a", "b"):
            opened.create_campaign(
                CampaignRecord(campaign_id=name, published=name.encode(), queries=2)
            )
        yield opened


def random_points(random: Random, count: int) -> list[PackedReport]:
    return [
        PackedReport(random.randbytes(16), pack([(0, random.getrandbits(60)), (1, 7)]))
        for _ in range(count)
    ]


def commit(store: Store, reports: list[PackedReport], to: str = "a") -> None:
    for start in range(0, len(reports), 700):
        store.commit([Submission(to, reports[start : start + 700], True)])


def read(store: Store, limit: int, meanwhile: Callable[[], object] = lambda: None) -> list[bytes]:
    parts = []
    after: bytes | None = b""
    while after is not None:
        part = store.answers("a", after, limit)
        parts.append(part.packed)
        after = part.after
        meanwhile()
    return parts


def split(parts: list[bytes]) -> Counter[bytes]:
    joined = b"".join(parts)
    return Counter(joined[i : i + WIDTH] for i in range(0, len(joined), WIDTH))


@pytest.mark.parametrize("limit", [pytest.param(1, marks=pytest.mark.deep), 300, 1_500, 1 << 16])
def test_every_report_comes_once_and_few_at_a_time(store, limit):
    reports = random_points(Random(1), 1_500)
    commit(store, reports)
    commit(store, random_points(Random(2), 30), to="b")
    parts = read(store, limit)
    assert split(parts) == Counter(report.answers for report in reports)
    assert max(map(len, parts)) <= max(limit, 256) * WIDTH


def test_reports_that_come_meanwhile_disturb_nobody(store):
    """All that were there before come once; of the later ones, none twice."""
    random = Random(3)
    before, later = random_points(random, 1_000), random_points(random, 1_000)
    commit(store, before)
    waiting = iter(range(0, 1_000, 250))

    def meanwhile() -> None:
        start = next(waiting, None)
        if start is not None:
            commit(store, later[start : start + 250])

    seen = split(read(store, 300, meanwhile))
    assert max(seen.values()) == 1
    assert seen.keys() >= {report.answers for report in before}
    assert seen.keys() <= {report.answers for report in before + later}


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
