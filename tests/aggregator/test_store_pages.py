"""Test pages of campaigns from every store: complete, bounded, and cheap for any number."""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, text

from geoveil.aggregator import Code
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignPage, CampaignRecord, Submission, open_store
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.aggregator.store.schema import CAMPAIGN
from geoveil.aggregator.store.sql import SQLStore

from .refusals import refuses

MANY = 10_000


@pytest.fixture
def store(target):
    with open_store(target) as opened:
        yield opened


def add(store: SQLStore, names: list[str], size: int = 300) -> None:
    """Create campaigns in one transaction: one after the other would take minutes."""
    rows = [
        {
            "campaign_id": name,
            "published": bytes(size),
            "queries": 1,
            "closed": False,
            "opens": datetime(2030, 1, 1, tzinfo=UTC),
            "closes": datetime(2031, 1, 1, tzinfo=UTC),
        }
        for name in names
    ]
    store.run(lambda connection: connection.execute(insert(CAMPAIGN), rows), write=True)


def shuffled(count: int) -> list[str]:
    """Ids whose order says nothing of the order of creation."""
    names = [f"c{i}" for i in range(count)]
    Random(5).shuffle(names)
    return names


def walked(store: SQLStore, **bounds: int) -> list[list[str]]:
    """Return the ids on each page."""
    pages = []
    page = CampaignPage((), True)
    after = ""
    while page.more:
        page = store.campaign_page(after, **bounds)
        pages.append([record.campaign_id for record in page.records])
        after = pages[-1][-1]
    return pages


def rows_read(store: SQLStore, after: str, limit: int) -> int:
    """Return the work of one page: rows of campaigns in PostgreSQL, steps of SQLite's machine."""
    if isinstance(store, PostgresStore):
        return _rows_of_postgres(store, lambda: store.campaign_page(after, limit=limit))
    found = [0]

    def step() -> int:
        found[0] += 1
        return 0

    with store._engine.connect() as connection:
        raw: Any = connection.connection.dbapi_connection
    raw.set_progress_handler(step, 1)
    store.campaign_page(after, limit=limit)
    raw.set_progress_handler(None, 1)
    return found[0]


def _rows_of_postgres(store: SQLStore, work: Callable[[], object]) -> int:
    """Return how many rows of campaigns the one transaction of `work` reads."""
    query = text(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
        " WHERE relname = 'campaign'"
    )
    # Counts run on over transactions, and are reset between two of them, nobody knows when.
    counts: list[int] = []

    def count(connection: Connection) -> None:
        counts.append(connection.execute(query).scalar_one())

    for moment in ("begin", "commit"):
        event.listen(store._engine, moment, count)
    work()
    for moment in ("begin", "commit"):
        event.remove(store._engine, moment, count)
    before, after = counts
    return after - before


def test_pages_follow_each_other_without_gap_or_repetition(store):
    names = shuffled(100)
    add(store, names)
    for limit in (1, 7, 99, 100, 101):
        pages = walked(store, limit=limit)
        assert [name for on_page in pages for name in on_page] == names
        assert [len(on_page) for on_page in pages[:-1]] == [limit] * ((100 - 1) // limit)


@pytest.mark.deep
def test_a_page_costs_among_ten_thousand_what_it_costs_among_a_thousand(store):
    names = shuffled(MANY)
    add(store, names[:1_000])
    few = rows_read(store, names[499], limit=100)
    add(store, names[1_000:])
    many = [rows_read(store, names[i], limit=100) for i in (0, 499, 9_000)]
    assert few > 0
    assert all(work <= 1.05 * few for work in many)
    if isinstance(store, PostgresStore):
        # The campaign before the page, 101 sizes, 100 campaigns. Once it knows the table, the
        # planner looks at an end of the index, at most for each of the three statements.
        assert all(0 <= rows - (1 + 101 + 100) <= 3 for rows in many)
    control = rows_read(store, names[499], limit=1_000)
    assert control > 5 * few


def test_pages_hold_what_was_published_and_counted(store):
    records = [
        CampaignRecord(campaign_id=name, published=name.encode(), queries=2) for name in "cab"
    ]
    for record in records:
        store.create_campaign(record)
    report = PackedReport(bytes(16), pack([(1, 5)]))
    store.commit([Submission("a", [report], True)])
    store.close_campaign("b")
    (counted, closed), more = store.campaign_page("c")
    assert not more
    assert (counted.campaign_id, counted.reports, counted.closed) == ("a", 1, False)
    assert (closed.campaign_id, closed.reports, closed.closed) == ("b", 0, True)
    assert store.campaign_page("c", limit=1) == CampaignPage([counted], True)
    assert store.campaign_page("b") == CampaignPage([], False)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([500, 500, 1], [2, 1]),
        ([500, 501, 499], [1, 2]),
        ([5_000, 1, 5_000], [1, 1, 1]),
        ([1_000], [1]),
    ],
)
def test_large_campaigns_make_small_pages(store, sizes, expected):
    for number, size in enumerate(sizes):
        add(store, [f"c{number}"], size)
    assert [len(on_page) for on_page in walked(store, most_bytes=1_000)] == expected


def test_campaigns_created_meanwhile_come_last(store):
    names = shuffled(6)
    add(store, names[:4])
    first = store.campaign_page(limit=2)
    add(store, names[4:])
    second = store.campaign_page(first.records[-1].campaign_id)
    assert [r.campaign_id for page in (first, second) for r in page.records] == names


@pytest.mark.parametrize("after", ["unknown", "c0\0", "'; DROP TABLE campaign; --"])
def test_there_is_no_page_after_what_is_no_campaign(store, after):
    add(store, ["c0"])
    for ask in (store.campaign_page, store.get_campaign, store.totals):
        with refuses(Code.CAMPAIGN_NOT_FOUND):
            ask(after)
    assert walked(store) == [["c0"]]


def test_a_probe_finds_a_database_that_is_read_only(store):
    read_only = (
        "SET default_transaction_read_only = on"
        if isinstance(store, PostgresStore)
        else "PRAGMA query_only = ON"
    )

    def forbid(connection: Any, _: object) -> None:
        connection.execute(read_only)
        if isinstance(store, PostgresStore):
            connection.commit()

    store._engine.dispose()
    event.listen(store._engine, "connect", forbid)
    with refuses(Code.STORE_UNAVAILABLE):
        store.probe()
    assert store.campaign_page() == CampaignPage([], False)
    event.remove(store._engine, "connect", forbid)
    store._engine.dispose()
    store.probe()
