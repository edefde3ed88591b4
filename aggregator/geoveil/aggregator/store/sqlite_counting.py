"""Counting reports in SQLite: all that a batch needs in one statement, all it adds in three.

Each is a text that `sqlite3` knows already, as its cost and not that of the reports is what a
transaction of few reports takes.
"""

import json
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport
from geoveil.aggregator.store.base import Outcome, Submission, judge
from geoveil.aggregator.store.id_index import IdIndex
from geoveil.aggregator.store.sqlite_pages import (
    Last,
    Page,
    answers_of,
    append,
    read_ids,
    read_pages,
)
from geoveil.aggregator.store.sums import tally
from geoveil.gp.estimation import Accumulator

_SHARD = 0
"""The only one: SQLite has one writer at a time."""
_PAGES_INDEXED = 1024
"""At once."""
_READ_SUMS = """
    SELECT json_group_array(json_array(query_index, n, total, total_of_squares)) FROM query_sum
    WHERE campaign_key = :key
"""
_READ_STANDING = f"""
    SELECT campaign.campaign_key, closed, coalesce(reports, 0),
        (SELECT json_group_array(json_array(query_index, n, total, total_of_squares))
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
_WRITE_SUMS = f"""
    INSERT OR REPLACE INTO query_sum
        (campaign_key, shard, query_index, n, total, total_of_squares)
    SELECT :key, {_SHARD}, json_extract(value, '$[0]'), json_extract(value, '$[1]'),
        json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(:sums)
"""  # noqa: S608 - no input in it
_WRITE_COUNT = f"""
    INSERT OR REPLACE INTO report_count (campaign_key, shard, reports)
    VALUES (:key, {_SHARD}, :reports)
"""  # noqa: S608 - no input in it


class Counted(NamedTuple):
    """What became of the reports to one campaign."""

    campaign_key: int
    outcomes: list[Outcome]
    pages: list[Page]
    reports: int
    """In all."""


def count(
    connection: Connection,
    campaign_id: str,
    submissions: Sequence[Submission],
    indices: MutableMapping[int, IdIndex],
) -> Counted:
    """Count the reports to one campaign.

    Args:
        connection: in a transaction that excludes other writers.
        campaign_id: of the campaign.
        submissions: to it.
        indices: by campaign key. They are brought up to what was stored before; the pages that
            are returned belong in them once the transaction is durable.
    """
    reports = [report for submission in submissions for report in submission.reports]
    sums = _sums(reports)
    parameters = {"campaign_id": campaign_id, "indices": json.dumps(list(sums))}
    row = connection.exec_driver_sql(_READ_STANDING, parameters).one_or_none()
    if row is None:
        raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
    key, closed, before, sums_before, *last = row
    index = _current(connection, key, before, indices)
    stored = _find(connection, key, index, reports)
    admitted = [s.admit and not closed for s in submissions for _ in s.reports]
    outcomes, fresh = judge(zip(reports, admitted, strict=True), stored)
    pages: list[Page] = []
    if fresh:
        if len(fresh) < len(reports):
            sums = _sums(fresh)
        pages = append(connection, key, before, fresh, None if last[0] is None else Last(*last))
        _write_sums(connection, key, _read(sums_before), sums)
        parameters = {"key": key, "reports": before + len(fresh)}
        connection.exec_driver_sql(_WRITE_COUNT, parameters)
    return Counted(key, outcomes, pages, before + len(fresh))


def _current(
    connection: Connection, key: int, reports: int, indices: MutableMapping[int, IdIndex]
) -> IdIndex:
    """Return the index of a campaign with all that is stored in it, by whatever process."""
    index = indices.get(key)
    if index is None or index.reports > reports:
        index = indices[key] = IdIndex()
    if index.reports < reports:
        pages = read_ids(connection, key, index.reports)
        while some := list(islice(pages, _PAGES_INDEXED)):
            index.add(some)
        index.reports = reports
    return index


def _find(
    connection: Connection, key: int, index: IdIndex, reports: Sequence[PackedReport]
) -> dict[int, bool]:
    """Return the positions of stored ids, each with whether its answers are the same."""
    candidates = index.find(b"".join([report_id for report_id, _ in reports]))
    pages = read_pages(connection, key, (page for _, page in candidates))
    stored = {}
    for position, page in candidates:
        report_id, answers = reports[position]
        held = answers_of(pages[page], report_id)
        if held is not None:
            stored[position] = held == answers
    return stored


def _sums(reports: Iterable[PackedReport]) -> dict[int, Accumulator]:
    return tally(b"".join([answers for _, answers in reports]))


def _write_sums(
    connection: Connection,
    key: int,
    before: Mapping[int, Accumulator],
    added: Mapping[int, Accumulator],
) -> None:
    rows = []
    for index, sums in added.items():
        after = before.get(index, Accumulator()) + sums
        rows.append((index, after.n, str(after.total), str(after.total_of_squares)))
    connection.exec_driver_sql(_WRITE_SUMS, {"key": key, "sums": json.dumps(rows)})


def read_sums(connection: Connection, key: int) -> dict[int, Accumulator]:
    """Return the sums of a campaign by query index."""
    return _read(connection.exec_driver_sql(_READ_SUMS, {"key": key}).scalar_one())


def _read(sums: str) -> dict[int, Accumulator]:
    return {index: Accumulator(n, int(s), int(ss)) for index, n, s, ss in json.loads(sums)}
