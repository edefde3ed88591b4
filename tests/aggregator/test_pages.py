"""Pages list every (open) campaign once, whatever happens between calls, and cheaply."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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
from geoveil.campaign import State, seal
from geoveil.gp import ParameterError

from .refusals import refuses

NOW, DAY = datetime(2030, 1, 10, tzinfo=UTC), timedelta(days=1)


@pytest.fixture
def listing(start_service, publish):
    """Starts a service with campaigns of these titles; of a closed one the title is "closed"."""

    async def start(*titles):
        service = (await start_service()).service
        for number, title in enumerate(titles):
            await service.create_campaign(seal(publish(f"c{number}", title=title).published))
            if title == "closed":
                await service.close_campaign(f"c{number}")
        return service

    return start


async def walked(ask, size):
    """Return the ids on each page."""
    pages, token = [], ""
    while not pages or token:
        page = await ask(size, token)
        pages.append([status.record.campaign_id for status in page.statuses])
        token = page.next_token
    return pages


@pytest.mark.parametrize("size", [1, 3, 4, 5, 0])
async def test_pages_follow_each_other_without_gap_or_repetition(listing, size):
    service = await listing("a", "b", "closed", "c", "d", "closed")
    seen = ["c0", "c1", "c3", "c4"]
    for ask, expected in (
        (service.browse_campaigns, seen),
        (service.list_campaigns, [f"c{i}" for i in range(6)]),
    ):
        pages = await walked(ask, size)
        assert [name for on_page in pages for name in on_page] == expected
        assert all(len(on_page) == size for on_page in pages[:-1])
    assert await service.count_open_campaigns() == 4


def fill(store, rows, **same):
    """Create campaigns in one transaction: one after the other would take minutes."""
    rows = [{"published": b"x", "queries": 1, "opens": NOW - DAY} | same | row for row in rows]
    store.run(lambda connection: connection.execute(insert(CAMPAIGN), rows), write=True)


async def test_large_campaigns_make_small_pages(start_service, store):
    rows = [{"campaign_id": f"c{i}", "closed": False} for i in range(5)]
    fill(store, rows, published=bytes(100_000), closes=NOW + 30 * DAY)
    service = (await start_service()).service
    assert [len(on_page) for on_page in await walked(service.list_campaigns, 0)] == [2, 2, 1]


async def test_a_page_ends_where_it_ended_though_its_last_campaign_closes(listing):
    service = await listing(*"abcd")
    token = (await service.browse_campaigns(2)).next_token
    await service.close_campaign("c1")
    page = await service.browse_campaigns(2, token)
    assert [status.record.campaign_id for status in page.statuses] == ["c2", "c3"]


async def test_what_is_no_page_is_refused(listing):
    service = await listing("a", "b")
    asks = (service.browse_campaigns, service.list_campaigns)
    (token,) = {(await ask(1)).next_token for ask in asks}
    for ask in asks:
        for wrong in ("unknown", "a", "YWFh", token + "=", token + "A", "é", "_w", " " + token):
            with pytest.raises(ParameterError, match="page_token"):
                await ask(0, wrong)
        for size in (-1, 1_001):
            with pytest.raises(ParameterError, match="page_size"):
                await ask(size)


def test_a_page_reads_no_closed_campaign_however_many_there_are(store):
    rows = [{"campaign_id": f"old{i}", "closed": i % 2 == 0} for i in range(2_500)]
    fill(store, rows, closes=NOW)
    store.create_campaign(CampaignRecord(campaign_id="new", published=b"x", queries=1))
    shown = store.campaign_page(limit=5, open_at=NOW)
    assert ([r.campaign_id for r in shown.records], shown.more) == (["new"], False)
    later = store.campaign_page("old7", limit=5, open_at=NOW)  # after a campaign that is closed
    assert later == shown
    # The control: without the filter a page is full of closed campaigns.
    unfiltered = [record.campaign_id for record in store.campaign_page(limit=5).records]
    assert unfiltered == [f"old{i}" for i in range(5)]


async def test_states_are_those_of_the_campaign(listing, clock):
    service = await listing("a")
    moments = {
        clock.opens: [State.PENDING, State.OPEN, State.OPEN],
        clock.closes: [State.OPEN, State.CLOSED, State.CLOSED],
    }
    for moment, states in moments.items():
        for step, state in zip((-1, 0, 1), states, strict=True):
            clock.now = moment + timedelta(microseconds=step)
            (status,) = (await service.list_campaigns()).statuses
            assert status.state is state
            assert (await service.get_campaign("c0")).state is state
            assert len((await service.browse_campaigns()).statuses) == (state is not State.CLOSED)
            assert await service.count_open_campaigns() == (state is State.OPEN)
    for _ in range(2):
        await service.close_campaign("c0")
    clock.now = clock.opens
    shown = [await service.get_campaign("c0"), *(await service.list_campaigns()).statuses]
    assert [status.state for status in shown] == 2 * [State.CLOSED]


async def test_campaigns_of_several_pages_are_counted(start_service, clock, store):
    rows = [{"campaign_id": f"c{i}", "closed": i % 10 == 0} for i in range(2_500)]
    fill(store, rows, opens=clock.opens, closes=clock.closes)
    assert await (await start_service()).service.count_open_campaigns() == 2_250


MANY = 10_000


@pytest.fixture
def either_store(target):
    with open_store(target) as opened:
        yield opened


def add(either_store: SQLStore, names: list[str], size: int = 300) -> None:
    rows = [{"campaign_id": name, "closed": False} for name in names]
    fill(either_store, rows, published=bytes(size), closes=NOW + 365 * DAY)


def shuffled(count: int) -> list[str]:
    """Ids whose order says nothing of the order of creation."""
    names = [f"c{i}" for i in range(count)]
    Random(5).shuffle(names)
    return names


def pages_of(either_store: SQLStore, **bounds: int) -> list[list[str]]:
    """Return the ids on each page."""
    pages = []
    page = CampaignPage((), True)
    after = ""
    while page.more:
        page = either_store.campaign_page(after, **bounds)
        pages.append([record.campaign_id for record in page.records])
        after = pages[-1][-1]
    return pages


def rows_read(either_store: SQLStore, after: str, limit: int) -> int:
    """Return the work of one page: rows of campaigns in PostgreSQL, steps of SQLite's machine."""
    if isinstance(either_store, PostgresStore):
        return _rows_of_postgres(
            either_store, lambda: either_store.campaign_page(after, limit=limit)
        )
    found = [0]

    def step() -> int:
        found[0] += 1
        return 0

    with either_store._engine.connect() as connection:
        raw: Any = connection.connection.dbapi_connection
    raw.set_progress_handler(step, 1)
    either_store.campaign_page(after, limit=limit)
    raw.set_progress_handler(None, 1)
    return found[0]


def _rows_of_postgres(either_store: SQLStore, work: Callable[[], object]) -> int:
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
        event.listen(either_store._engine, moment, count)
    work()
    for moment in ("begin", "commit"):
        event.remove(either_store._engine, moment, count)
    before, after = counts
    return after - before


def test_pages_of_a_store_follow_each_other(either_store):
    names = shuffled(100)
    add(either_store, names)
    for limit in (1, 7, 99, 100, 101):
        pages = pages_of(either_store, limit=limit)
        assert [name for on_page in pages for name in on_page] == names
        assert [len(on_page) for on_page in pages[:-1]] == [limit] * ((100 - 1) // limit)


@pytest.mark.deep
def test_a_page_costs_among_ten_thousand_what_it_costs_among_a_thousand(either_store):
    names = shuffled(MANY)
    add(either_store, names[:1_000])
    few = rows_read(either_store, names[499], limit=100)
    add(either_store, names[1_000:])
    many = [rows_read(either_store, names[i], limit=100) for i in (0, 499, 9_000)]
    assert few > 0
    assert all(work <= 1.05 * few for work in many)
    if isinstance(either_store, PostgresStore):
        # The campaign before the page, 101 sizes, 100 campaigns. Once it knows the table, the
        # planner looks at an end of the index, at most for each of the three statements.
        assert all(0 <= rows - (1 + 101 + 100) <= 3 for rows in many)
    control = rows_read(either_store, names[499], limit=1_000)
    assert control > 5 * few


def test_pages_hold_what_was_published_and_counted(either_store):
    records = [
        CampaignRecord(campaign_id=name, published=name.encode(), queries=2) for name in "cab"
    ]
    for record in records:
        either_store.create_campaign(record)
    report = PackedReport(bytes(16), pack([(1, 5)]))
    either_store.commit([Submission("a", [report], True)])
    either_store.close_campaign("b")
    (counted, closed), more = either_store.campaign_page("c")
    assert not more
    assert (counted.campaign_id, counted.reports, counted.closed) == ("a", 1, False)
    assert (closed.campaign_id, closed.reports, closed.closed) == ("b", 0, True)
    assert either_store.campaign_page("c", limit=1) == CampaignPage([counted], True)
    assert either_store.campaign_page("b") == CampaignPage([], False)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([500, 500, 1], [2, 1]),
        ([500, 501, 499], [1, 2]),
        ([5_000, 1, 5_000], [1, 1, 1]),
        ([1_000], [1]),
    ],
)
def test_large_campaigns_make_small_pages_of_a_store(either_store, sizes, expected):
    for number, size in enumerate(sizes):
        add(either_store, [f"c{number}"], size)
    assert [len(on_page) for on_page in pages_of(either_store, most_bytes=1_000)] == expected


def test_campaigns_created_meanwhile_come_last(either_store):
    names = shuffled(6)
    add(either_store, names[:4])
    first = either_store.campaign_page(limit=2)
    add(either_store, names[4:])
    second = either_store.campaign_page(first.records[-1].campaign_id)
    assert [r.campaign_id for page in (first, second) for r in page.records] == names


@pytest.mark.parametrize("after", ["unknown", "c0\0", "'; DROP TABLE campaign; --"])
def test_there_is_no_page_after_what_is_no_campaign(either_store, after):
    add(either_store, ["c0"])
    for ask in (either_store.campaign_page, either_store.get_campaign, either_store.totals):
        with refuses(Code.CAMPAIGN_NOT_FOUND):
            ask(after)
    assert pages_of(either_store) == [["c0"]]


def test_a_probe_finds_a_database_that_is_read_only(either_store):
    read_only = (
        "SET default_transaction_read_only = on"
        if isinstance(either_store, PostgresStore)
        else "PRAGMA query_only = ON"
    )

    def forbid(connection: Any, _: object) -> None:
        connection.execute(read_only)
        if isinstance(either_store, PostgresStore):
            connection.commit()

    either_store._engine.dispose()
    event.listen(either_store._engine, "connect", forbid)
    with refuses(Code.STORE_UNAVAILABLE):
        either_store.probe()
    assert either_store.campaign_page() == CampaignPage([], False)
    event.remove(either_store._engine, "connect", forbid)
    either_store._engine.dispose()
    either_store.probe()
