"""Pages of reports: many joined ids in ascending order, and their answers in the same order.

A page has the number of its first report, in order of counting. Only a campaign's last page
changes: the next reports fill it. A statement takes and returns all pages as one row, because
`sqlite3` releases the interpreter lock at every row, which allows only a thousand reports a second.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from geoveil.aggregator.domain.reports import (
    ANSWER_BYTES,
    PackedColumns,
    PackedReport,
    in_columns,
    not_shown,
)
from geoveil.aggregator.store.driver import Driver
from geoveil.campaign import REPORT_ID_BYTES

MOST_REPORTS = 256
"""The most reports per page."""
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
_WRITE = "INSERT OR REPLACE INTO report_page (campaign_key, first, ids, answers) VALUES "


@not_shown
class ReportPage(NamedTuple):
    """A page as it is stored, or to be written."""

    first: int
    ids: bytes
    answers: bytes
    fresh_ids: bytes = b""
    """The newly added ids."""


def read_ids(driver: Driver, key: int, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield (first report, ids) of pages, starting with the page of report `number`."""
    (first,) = driver.execute(_CONTAINING, {"key": key, "number": number}).fetchone()
    while joined := driver.execute(_READ_IDS, {"key": key, "first": first}).fetchone()[0]:
        for page in joined.split(","):
            start, ids = page.split(" ")
            first = int(start)
            yield first, bytes.fromhex(ids)
        first += 1


def read_pages(driver: Driver, key: int, firsts: Iterable[int]) -> dict[int, tuple[bytes, bytes]]:
    """Return first report → (ids, answers) of pages."""
    pages = {}
    wanted = sorted(set(firsts))
    for start in range(0, len(wanted), _PAGES_READ):
        parameters = {"key": key, "firsts": json.dumps(wanted[start : start + _PAGES_READ])}
        (joined,) = driver.execute(_READ_PAGES, parameters).fetchone()
        for page in joined.split(","):
            first, ids, answers = page.split(" ")
            pages[int(first)] = bytes.fromhex(ids), bytes.fromhex(answers)
    return pages


def read_answers(
    connection: Connection, key: int, first: int, limit: int
) -> tuple[bytes, int | None]:
    """Return the answers of about `limit` reports, in whole pages from `first`, and their end."""
    pages = max(1, limit // MOST_REPORTS)
    parameters = {"key": key, "first": first, "pages": pages}
    last, answers = connection.exec_driver_sql(_READ_ANSWERS, parameters).one()
    return (b"", None) if last is None else (bytes.fromhex(answers), last + 1)


def answers_of(page: tuple[bytes, bytes], report_id: bytes) -> bytes | None:
    """Return a page's answers for an id, or None.

    Example:
        >>> answers_of((b"a" * 16 + b"b" * 16, b"1234"), b"b" * 16)
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


def append(
    driver: Driver,
    key: int,
    first: int,
    reports: Sequence[PackedReport],
    last: ReportPage | None,
) -> list[ReportPage]:
    """Append reports to the `last` page, if any, and new pages; return the written pages."""
    pages: list[ReportPage] = []
    widths = {ANSWER_BYTES} if type(reports) is PackedColumns else {len(r.answers) for r in reports}
    for width in sorted(widths):
        alike = reports if len(widths) == 1 else [r for r in reports if len(r.answers) == width]
        ids, answers = in_columns(alike)
        count = len(ids) // REPORT_ID_BYTES
        capacity = min(MOST_REPORTS, max(1, _MOST_BYTES // (REPORT_ID_BYTES + width)))
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
        statement = _WRITE + ", ".join(["(?, ?, ?, ?)"] * len(part))
        parameters = [value for p in part for value in (key, p.first, p.ids, p.answers)]
        driver.execute(statement, parameters)
    return pages


def _page(first: int, ids: bytes, answers: bytes, fresh: bytes) -> ReportPage:
    """Return a page of reports, ordered by their ids."""
    halves = np.frombuffer(ids, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    rows = np.frombuffer(answers, np.uint8).reshape(len(order), -1)
    return ReportPage(first, halves[order].tobytes(), rows[order].tobytes(), fresh)
