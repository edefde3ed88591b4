"""A store in one SQLite file: no installation, and every acknowledged report is on disk."""

import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import URL, Connection, create_engine, event, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport, in_columns, tally
from geoveil.aggregator.store.base import (
    Extent,
    Outcome,
    StoredAnswers,
    Submission,
    classify,
    gathered,
)
from geoveil.aggregator.store.driver import Driver
from geoveil.aggregator.store.id_index import IdIndex
from geoveil.aggregator.store.private_file import make_private_database, protect_database
from geoveil.aggregator.store.schema import REPORT_PAGE
from geoveil.aggregator.store.sql import SQLStore
from geoveil.aggregator.store.sqlite_pages import (
    MOST_REPORTS,
    ReportPage,
    answers_of,
    append,
    read_answers,
    read_ids,
    read_pages,
)
from geoveil.gp import Accumulator

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # acknowledged reports survive a power failure
    "cache_size = -16384",  # 16 MiB: reports are appended
    "wal_autocheckpoint = 4000",  # pages
)
_Written: TypeAlias = tuple[IdIndex, list[ReportPage], int]
"""A campaign's index, its newly written pages, and its new number of reports."""
_PAGES_READ = 1024
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
        self._driver = Driver(engine)
        super().__init__(engine, create=create)

    def _count(self, by_campaign: Mapping[str, Sequence[Submission]]) -> dict[str, list[Outcome]]:
        written: list[_Written] = []
        with self._driver.transaction():
            counted = {
                campaign_id: self._count_one(campaign_id, submissions, written)
                for campaign_id, submissions in by_campaign.items()
            }
        # Only after the commit, since rolled-back reports must not be indexed.
        for index, pages, reports in written:
            index.add_new([(page.first, page.fresh_ids) for page in pages])
            index.reports = reports
        return counted

    def _count_one(
        self, campaign_id: str, submissions: Sequence[Submission], written: list[_Written]
    ) -> list[Outcome]:
        """Count the reports to one campaign: one statement reads, three write.

        `sqlite3` caches statements by their texts; parsing them would dominate small transactions.
        """
        reports, admit = gathered(submissions)
        ids, answers = in_columns(reports)
        bins, driver = submissions[0].bins, self._driver
        sums = tally(answers, bins)
        parameters = {"campaign_id": campaign_id, "indices": str([*sums])}
        row = driver.execute(_READ_STANDING, parameters).fetchone()
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
            index.add(read_ids(driver, key, index.reports), before)
        candidates = index.find(ids)
        stored = _stored(driver, key, candidates, reports) if candidates else {}
        outcomes, fresh = classify(reports, [False] * len(reports) if closed else admit, stored)
        if fresh:
            if len(fresh) < len(reports):
                sums = tally(in_columns(fresh)[1], bins)
            page = None if last[0] is None else ReportPage(*last)
            pages = append(driver, key, before, fresh, page)
            _write_sums(driver, key, _sums(sums_before), sums)
            after = before + len(fresh)
            driver.execute(_WRITE_COUNT, {"key": key, "reports": after})
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
        first = int.from_bytes(after)
        packed, following = read_answers(connection, key, first, limit)
        return StoredAnswers(packed, None if following is None else following.to_bytes(8))

    def delete_reports(self, campaign_id: str, limit: int = 1 << 16) -> bool:
        left = super().delete_reports(campaign_id, limit)
        if not left:  # remove them from the write-ahead log too, unless others read it
            with suppress(sqlite3.Error), closing(self._engine.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return left

    def _delete(self, connection: Connection, key: int, limit: int) -> bool:
        parameters = {"key": key, "pages": max(1, limit // MOST_REPORTS)}
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
        self._driver.close()
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
    driver: Driver,
    key: int,
    candidates: Sequence[tuple[int, int]],
    reports: Sequence[PackedReport],
) -> dict[int, bool]:
    """Return position → equal answers for stored ids, given (position, page) candidates."""
    pages = read_pages(driver, key, (page for _, page in candidates))
    stored = {}
    for position, page in candidates:
        report_id, answers = reports[position]
        held = answers_of(pages[page], report_id)
        if held is not None:
            stored[position] = held == answers
    return stored


def _write_sums(
    driver: Driver,
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
        driver.execute(_WRITE_SUMS + ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(rows)), parameters)


def _sums(stored: str | None) -> dict[int, Accumulator]:
    """Return the sums in a text of numbers, which is None without sums."""
    rows = [map(int, row.split()) for row in stored.split(",")] if stored else []
    return {index: Accumulator(*sums) for index, *sums in rows}
