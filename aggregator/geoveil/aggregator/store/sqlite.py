"""A store in one SQLite file: no installation, and every acknowledged report is on disk.

Reports are in pages: many joined ids in ascending order, and their answers in the same order. A
page has the number of its first report, in order of counting. Only a campaign's last page changes:
the next reports fill it. A statement takes and returns all pages as one row, because `sqlite3`
releases the interpreter lock at every row, which allows only a thousand reports a second.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from sqlalchemy import URL, Connection, PoolProxiedConnection, create_engine, event, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import (
    ANSWER_BYTES,
    PackedColumns,
    PackedReport,
    in_columns,
    not_shown,
    tally,
)
from geoveil.aggregator.domain.store_contract import (
    Extent,
    Outcome,
    StoredAnswers,
    Submission,
    classify,
    gathered,
)
from geoveil.aggregator.store.id_index import IdIndex
from geoveil.aggregator.store.private_file import make_private_database, protect_database
from geoveil.aggregator.store.schema import REPORT_PAGE
from geoveil.aggregator.store.sql import SQLStore
from geoveil.campaign import REPORT_ID_BYTES
from geoveil.gp import Accumulator

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # acknowledged reports survive a power failure
    "cache_size = -16384",  # 16 MiB: reports are appended
    "wal_autocheckpoint = 4000",  # pages
)
_SHARD = 0
"""The only shard, since SQLite has one writer at a time."""
_READ_SUMS = """
    SELECT group_concat(query_index || ' ' || n || ' ' || total || ' ' || total_of_squares)
    FROM query_sum WHERE campaign_key = :key
"""
_READ_STANDING = f"""
    SELECT campaign.campaign_key, closed, deleted IS NOT NULL, coalesce(reports, 0),
        (SELECT group_concat(query_index || ' ' || n || ' ' || total || ' ' || total_of_squares)
            FROM query_sum
            WHERE campaign_key = campaign.campaign_key AND shard = {_SHARD}
            AND query_index IN (SELECT value FROM json_each(:indices))),
        first, ids, answers
    FROM campaign
    LEFT JOIN report_count ON
        report_count.campaign_key = campaign.campaign_key AND report_count.shard = {_SHARD}
    LEFT JOIN report_page ON
        report_page.campaign_key = campaign.campaign_key AND first = (
            SELECT max(first) FROM report_page WHERE campaign_key = campaign.campaign_key)
    WHERE campaign_id = :campaign_id
"""  # noqa: S608 - no input in it
_WRITE_SUMS = """
    INSERT OR REPLACE INTO query_sum
        (campaign_key, shard, query_index, n, total, total_of_squares) VALUES
"""
_SUMS_WRITTEN = 256
"""The number of sums written at once."""
_WRITE_COUNT = f"""
    INSERT OR REPLACE INTO report_count (campaign_key, shard, reports)
    VALUES (:key, {_SHARD}, :reports)
"""  # noqa: S608 - no input in it
_DELETE = """
    DELETE FROM report_page WHERE campaign_key = :key AND first IN (
        SELECT first FROM report_page WHERE campaign_key = :key ORDER BY first LIMIT :pages)
"""
_MOST_ON_PAGE = 256
"""The most reports on a page."""
_MOST_BYTES = 8192
"""The most bytes of a page with more than one report."""
_PAGES_READ = 1024
_PAGES_WRITTEN = 1024

_READ_IDS = f"""
    SELECT group_concat(first || ' ' || hex(ids)) FROM (
        SELECT first, ids FROM report_page WHERE campaign_key = :key AND first >= :first
        ORDER BY first LIMIT {_PAGES_READ})
"""  # noqa: S608 - no input in it
_READ_ANSWERS = """
    SELECT max(first), group_concat(hex(answers), '') FROM (
        SELECT first, answers FROM report_page WHERE campaign_key = :key AND first >= :first
        ORDER BY first LIMIT :pages)
"""
_CONTAINING = """
    SELECT coalesce(max(first), 0) FROM report_page WHERE campaign_key = :key AND first <= :number
"""
_READ_PAGES = """
    SELECT group_concat(first || ' ' || hex(ids) || ' ' || hex(answers)) FROM report_page
    WHERE campaign_key = :key AND first IN (SELECT value FROM json_each(:firsts))
"""
_WRITE_PAGES = "INSERT OR REPLACE INTO report_page (campaign_key, first, ids, answers) VALUES "


@not_shown
class _ReportPage(NamedTuple):
    """A page as it is stored, or to be written."""

    first: int
    ids: bytes
    answers: bytes
    fresh_ids: bytes = b""
    """The newly added ids."""


_Written: TypeAlias = tuple[IdIndex, list[_ReportPage], int]
"""A campaign's index, its newly written pages, and its new number of reports."""


class SQLiteStore(SQLStore):
    """A `Store` in a SQLite file, private to its owner and created if absent.

    It uses 8 bytes of memory per report of the campaigns for which it counts, and waits up to
    `busy_timeout_s` seconds for another writer.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with SQLiteStore(Path(folder) / "reports.sqlite") as store:
        ...         store.campaign_page()
        CampaignPage(records=[], more=False)
    """

    _unusable = Code.DATABASE_UNUSABLE
    _insert = staticmethod(insert)

    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0, create: bool = True) -> None:
        self._path = path
        make_private_database(path)
        engine = create_engine(
            URL.create("sqlite", database=str(path)),
            connect_args={
                "isolation_level": None,  # we begin transactions ourselves
                "check_same_thread": True,
                "timeout": busy_timeout_s,
            },
            poolclass=StaticPool,  # one connection for all statements
            hide_parameters=True,  # they are reports; no error may show them
        )
        event.listen(engine, "connect", _configure)
        event.listen(engine, "begin", _begin)
        self._indices: dict[int, IdIndex] = {}
        self._counting: PoolProxiedConnection | None = None
        """The connection that counts reports, from the first on."""
        super().__init__(engine, create=create)

    def _count(self, by_campaign: Mapping[str, Sequence[Submission]]) -> dict[str, list[Outcome]]:
        written: list[_Written] = []
        with self._counting_transaction() as connection:
            counted = {
                campaign_id: self._count_one(connection, campaign_id, submissions, written)
                for campaign_id, submissions in by_campaign.items()
            }
        # Only after the commit, since rolled-back reports must not be indexed.
        for index, pages, reports in written:
            index.add_new([(page.first, page.fresh_ids) for page in pages])
            index.reports = reports
        return counted

    @contextmanager
    def _counting_transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction by SQLite's own driver, several times as fast as SQLAlchemy.

        It commits or rolls back; errors are SQLAlchemy's.
        """
        if self._counting is None:
            self._counting = self._engine.raw_connection()
        connection = cast(sqlite3.Connection, self._counting.driver_connection)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            connection.rollback()
            if isinstance(error, sqlite3.Error):
                # The error hides the parameters, which are reports.
                hidden = DBAPIError.instance(None, None, error, sqlite3.Error)
                raise hidden from error
            raise

    def _count_one(
        self,
        connection: sqlite3.Connection,
        campaign_id: str,
        submissions: Sequence[Submission],
        written: list[_Written],
    ) -> list[Outcome]:
        """Count the reports to one campaign: one statement reads, three write.

        `sqlite3` caches statements by their texts; parsing them would dominate small transactions.
        """
        reports, admit = gathered(submissions)
        ids, answers = in_columns(reports)
        bins = submissions[0].bins
        sums = tally(answers, bins)
        parameters = {"campaign_id": campaign_id, "indices": str([*sums])}
        row = connection.execute(_READ_STANDING, parameters).fetchone()
        if row is None:
            raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
        key, closed, deleted, before, sums_before, *last = row
        if deleted:
            self._indices.pop(key, None)
            return classify(reports, [False] * len(reports), {})[0]
        index = self._indices.get(key)
        if index is None or index.reports > before:
            index = self._indices[key] = IdIndex()
        if index.reports < before:  # counted by another process, or before this one started
            index.add(_read_ids(connection, key, index.reports), before)
        candidates = index.find(ids)
        stored = _stored(connection, key, candidates, reports) if candidates else {}
        outcomes, fresh = classify(reports, [False] * len(reports) if closed else admit, stored)
        if fresh:
            if len(fresh) < len(reports):
                sums = tally(in_columns(fresh)[1], bins)
            page = None if last[0] is None else _ReportPage(*last)
            pages = _append(connection, key, before, fresh, page)
            _write_sums(connection, key, _sums(sums_before), sums)
            after = before + len(fresh)
            connection.execute(_WRITE_COUNT, {"key": key, "reports": after})
            written.append((index, pages, after))
        return outcomes

    def read_sums(self, connection: Connection, key: int) -> dict[int, Accumulator]:
        return _sums(connection.exec_driver_sql(_READ_SUMS, {"key": key}).scalar_one())

    def read_reports(self, connection: Connection, key: int) -> Iterator[tuple[bytes, bytes]]:
        query = select(REPORT_PAGE.c.ids, REPORT_PAGE.c.answers)
        rows = connection.execute(query.where(REPORT_PAGE.c.campaign_key == key))
        for partition in rows.partitions(_PAGES_READ):
            yield (
                b"".join([row.ids for row in partition]),
                b"".join([row.answers for row in partition]),
            )

    def read_answers(
        self, connection: Connection, key: int, after: bytes, limit: int
    ) -> StoredAnswers:
        pages = max(1, limit // _MOST_ON_PAGE)  # whole pages
        parameters = {"key": key, "first": int.from_bytes(after), "pages": pages}
        last, answers = connection.exec_driver_sql(_READ_ANSWERS, parameters).one()
        if last is None:
            return StoredAnswers(b"", None)
        return StoredAnswers(bytes.fromhex(answers), (last + 1).to_bytes(8))

    def delete_reports(self, campaign_id: str, limit: int = 1 << 16) -> bool:
        left = super().delete_reports(campaign_id, limit)
        if not left:  # remove them from the write-ahead log too, unless others read it
            with suppress(sqlite3.Error), closing(self._engine.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return left

    def _delete(self, connection: Connection, key: int, limit: int) -> bool:
        parameters = {"key": key, "pages": max(1, limit // _MOST_ON_PAGE)}
        before = connection.exec_driver_sql("PRAGMA secure_delete").scalar_one()
        connection.exec_driver_sql("PRAGMA secure_delete = ON").close()  # overwrite the pages
        deleted = connection.exec_driver_sql(_DELETE, parameters).rowcount
        connection.exec_driver_sql(f"PRAGMA secure_delete = {before}").close()
        return deleted > 0

    def extent(self) -> Extent:
        name = self._path.name
        files = [self._path.with_name(name + end) for end in ("", "-wal", "-shm")]
        return Extent(sum(file.stat().st_size for file in files if file.exists()), 1)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._path.parent).free

    def close(self) -> None:
        if self._counting is not None:
            self._counting.close()
        super().close()

    def protect(self) -> None:
        protect_database(self._path)

    def copy(self, target: Path) -> None:
        try:
            with closing(self._engine.raw_connection()) as connection:  # outside a transaction
                connection.cursor().execute("VACUUM INTO ?", (str(target),))
        except sqlite3.Error as error:
            raise ServiceError(Code.STORE_UNAVAILABLE, str(error)) from error

    def verify(self) -> None:
        def work(connection: Connection) -> str:
            problem = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            return " ".join(str(problem).split())

        first = self.run(work, failure=self._unusable)
        if first != "ok":
            raise ServiceError(
                self._unusable,
                f'{self._path} is malformed ({first}): see "A damaged database" in'
                " docs/operating.md",
            )

    def faults(self, connection: Connection) -> Sequence[str]:
        lines = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        return [] if lines == ["ok"] else lines

    def _reason(self, error: SQLAlchemyError) -> str:
        # SQLite's own texts, such as "database or disk is full", contain no parameters.
        words = str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__
        return f"{words} ({self._path})"


def _configure(connection: Any, _record: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("geoveil_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN DEFERRED")


def _stored(
    connection: sqlite3.Connection,
    key: int,
    candidates: Sequence[tuple[int, int]],
    reports: Sequence[PackedReport],
) -> dict[int, bool]:
    """Return position → equal answers for stored ids, given (position, page) candidates."""
    pages = _read_pages(connection, key, (page for _, page in candidates))
    stored = {}
    for position, page in candidates:
        report_id, answers = reports[position]
        held = _answers_of(pages[page], report_id)
        if held is not None:
            stored[position] = held == answers
    return stored


def _write_sums(
    connection: sqlite3.Connection,
    key: int,
    before: Mapping[int, Accumulator],
    added: Mapping[int, Accumulator],
) -> None:
    after = [(i, before[i] + sums if i in before else sums) for i, sums in added.items()]
    for at in range(0, len(after), _SUMS_WRITTEN):
        rows = after[at : at + _SUMS_WRITTEN]
        parameters = [
            value
            for i, sums in rows
            for value in (key, _SHARD, i, sums.n, str(sums.total), str(sums.total_of_squares))
        ]
        connection.execute(_WRITE_SUMS + ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(rows)), parameters)


def _sums(stored: str | None) -> dict[int, Accumulator]:
    """Return the sums in a text of numbers, which is None without sums."""
    rows = [map(int, row.split()) for row in stored.split(",")] if stored else []
    return {index: Accumulator(*sums) for index, *sums in rows}


def _read_ids(connection: sqlite3.Connection, key: int, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield (first report, ids) of pages, starting with the page of report `number`."""
    (first,) = connection.execute(_CONTAINING, {"key": key, "number": number}).fetchone()
    while joined := connection.execute(_READ_IDS, {"key": key, "first": first}).fetchone()[0]:
        for page in joined.split(","):
            start, ids = page.split(" ")
            first = int(start)
            yield first, bytes.fromhex(ids)
        first += 1


def _read_pages(
    connection: sqlite3.Connection, key: int, firsts: Iterable[int]
) -> dict[int, tuple[bytes, bytes]]:
    """Return first report → (ids, answers) of pages."""
    pages = {}
    wanted = sorted(set(firsts))
    for start in range(0, len(wanted), _PAGES_READ):
        parameters = {"key": key, "firsts": json.dumps(wanted[start : start + _PAGES_READ])}
        (joined,) = connection.execute(_READ_PAGES, parameters).fetchone()
        for page in joined.split(","):
            first, ids, answers = page.split(" ")
            pages[int(first)] = bytes.fromhex(ids), bytes.fromhex(answers)
    return pages


def _answers_of(page: tuple[bytes, bytes], report_id: bytes) -> bytes | None:
    """Return a page's answers for an id, or None.

    Example:
        >>> _answers_of((b"a" * 16 + b"b" * 16, b"1234"), b"b" * 16)
        b'34'
    """
    ids, answers = page
    at = ids.find(report_id)
    while at >= 0 and at % REPORT_ID_BYTES:
        at = ids.find(report_id, at + 1)
    if at < 0:
        return None
    width = len(answers) * REPORT_ID_BYTES // len(ids)
    start = at // REPORT_ID_BYTES * width
    return answers[start : start + width]


def _append(
    connection: sqlite3.Connection,
    key: int,
    first: int,
    reports: Sequence[PackedReport],
    last: _ReportPage | None,
) -> list[_ReportPage]:
    """Append reports to the `last` page, if any, and new pages; return the written pages."""
    pages: list[_ReportPage] = []
    widths = {ANSWER_BYTES} if type(reports) is PackedColumns else {len(r.answers) for r in reports}
    for width in sorted(widths):
        alike = reports if len(widths) == 1 else [r for r in reports if len(r.answers) == width]
        ids, answers = in_columns(alike)
        count = len(ids) // REPORT_ID_BYTES
        capacity = min(_MOST_ON_PAGE, max(1, _MOST_BYTES // (REPORT_ID_BYTES + width)))
        start = 0
        if last is not None:
            held = len(last.ids) // REPORT_ID_BYTES
            if len(last.answers) == held * width and held < capacity:
                start = capacity - held
                fresh = ids[: start * REPORT_ID_BYTES]
                held_and_fresh = last.ids + fresh, last.answers + answers[: start * width]
                pages.append(_page(last.first, *held_and_fresh, fresh))
        for at in range(start, count, capacity):
            fresh = ids[at * REPORT_ID_BYTES : (at + capacity) * REPORT_ID_BYTES]
            of_fresh = answers[at * width : (at + capacity) * width]
            pages.append(_page(first + at, fresh, of_fresh, fresh))
        first += count
        last = None
    for at in range(0, len(pages), _PAGES_WRITTEN):
        part = pages[at : at + _PAGES_WRITTEN]
        statement = _WRITE_PAGES + ", ".join(["(?, ?, ?, ?)"] * len(part))
        parameters = [value for p in part for value in (key, p.first, p.ids, p.answers)]
        connection.execute(statement, parameters)
    return pages


def _page(first: int, ids: bytes, answers: bytes, fresh: bytes) -> _ReportPage:
    """Return a page of reports, ordered by their ids."""
    halves = np.frombuffer(ids, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    rows = np.frombuffer(answers, np.uint8).reshape(len(order), -1)
    return _ReportPage(first, halves[order].tobytes(), rows[order].tobytes(), fresh)
