"""Counting reports in SQLite, a whole batch per statement.

Each statement takes the batch as one parameter and returns one row. `sqlite3` gives the interpreter
lock away at every row it steps over, and in a busy process it takes milliseconds to get it back:
with a step per report, that would bound the server to a thousand reports a second.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from geoveil.aggregator.errors import Code, ServiceError
from geoveil.aggregator.reports import ID_BYTES, PackedReport
from geoveil.aggregator.store.base import Outcome, Submission, judge, tally
from geoveil.aggregator.store.schema import CAMPAIGN
from geoveil.gp.estimation import Accumulator

_POSITIONS = """
    WITH RECURSIVE position(i) AS (
        SELECT 0 UNION ALL SELECT i + 1 FROM position WHERE i + 1 < :count)"""
# "3=,5!": the ids at positions 3 and 5 are stored, with the same answers and with other ones.
_FIND = f"""{_POSITIONS}
    SELECT group_concat(i || CASE
        WHEN report.answers = substr(:answers, 1 + i * :width, :width) THEN '=' ELSE '!' END)
    FROM position CROSS JOIN report
    ON report.campaign_key = :key
        AND report.report_id = substr(:ids, 1 + i * {ID_BYTES}, {ID_BYTES})
"""  # noqa: S608 - no input in it
_INSERT = f"""
    INSERT INTO report (campaign_key, report_id, answers) {_POSITIONS}
    SELECT :key, substr(:ids, 1 + i * {ID_BYTES}, {ID_BYTES}),
        substr(:answers, 1 + i * :width, :width) FROM position
"""  # noqa: S608 - no input in it
_READ_SUMS = """
    SELECT json_group_array(json_array(query_index, n, total, total_of_squares)) FROM query_sum
    WHERE campaign_key = :key
"""
_READ_SOME_SUMS = f"""{_READ_SUMS}
    AND query_index IN (SELECT value FROM json_each(:indices))
"""  # noqa: S608 - no input in it
_WRITE_SUMS = """
    INSERT OR REPLACE INTO query_sum (campaign_key, query_index, n, total, total_of_squares)
    SELECT :key, json_extract(value, '$[0]'), json_extract(value, '$[1]'),
        json_extract(value, '$[2]'), json_extract(value, '$[3]') FROM json_each(:sums)
"""


def count(
    connection: Connection, campaign_id: str, submissions: Sequence[Submission]
) -> list[Outcome]:
    """Count the reports to one campaign; return their outcomes in order."""
    row = connection.execute(
        select(CAMPAIGN.c.campaign_key, CAMPAIGN.c.closed).where(
            CAMPAIGN.c.campaign_id == campaign_id
        )
    ).one_or_none()
    if row is None:
        raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
    key = row.campaign_key
    reports = [(r, s.admit and not row.closed) for s in submissions for r in s.reports]
    stored = _find(connection, key, [report for report, _ in reports])
    outcomes, fresh = judge(reports, stored)
    if fresh:
        for width, positions in _by_width(fresh).items():
            parameters = _joined(key, width, [fresh[p] for p in positions])
            connection.exec_driver_sql(_INSERT, parameters)
        _add_sums(connection, key, tally(fresh))
        connection.execute(
            update(CAMPAIGN)
            .where(CAMPAIGN.c.campaign_key == key)
            .values(reports=CAMPAIGN.c.reports + len(fresh))
        )
    return outcomes


def _find(connection: Connection, key: int, reports: Sequence[PackedReport]) -> dict[int, bool]:
    """Return the positions of stored ids, each with whether its answers are the same."""
    stored = {}
    for width, positions in _by_width(reports).items():
        parameters = _joined(key, width, [reports[p] for p in positions])
        found = connection.exec_driver_sql(_FIND, parameters).scalar_one()
        for token in found.split(",") if found else ():
            stored[positions[int(token[:-1])]] = token[-1] == "="
    return stored


def _by_width(reports: Sequence[PackedReport]) -> dict[int, list[int]]:
    """Return the positions of reports by the size of their answers: one size, as a rule."""
    positions: dict[int, list[int]] = defaultdict(list)
    for position, (_, answers) in enumerate(reports):
        positions[len(answers)].append(position)
    return positions


def _joined(key: int, width: int, reports: Sequence[PackedReport]) -> dict[str, Any]:
    return {
        "key": key,
        "count": len(reports),
        "width": width,
        "ids": b"".join([report_id for report_id, _ in reports]),
        "answers": b"".join([answers for _, answers in reports]),
    }


def _add_sums(connection: Connection, key: int, added: Mapping[int, Accumulator]) -> None:
    indices = json.dumps(list(added))
    before = _read_sums(connection, _READ_SOME_SUMS, {"key": key, "indices": indices})
    rows = []
    for index, sums in added.items():
        after = before.get(index, Accumulator()) + sums
        rows.append((index, after.n, str(after.total), str(after.total_of_squares)))
    connection.exec_driver_sql(_WRITE_SUMS, {"key": key, "sums": json.dumps(rows)})


def read_sums(connection: Connection, key: int) -> dict[int, Accumulator]:
    """Return the sums of a campaign by query index."""
    return _read_sums(connection, _READ_SUMS, {"key": key})


def _read_sums(
    connection: Connection, query: str, parameters: dict[str, Any]
) -> dict[int, Accumulator]:
    rows = json.loads(connection.exec_driver_sql(query, parameters).scalar_one())
    return {index: Accumulator(n, int(s), int(ss)) for index, n, s, ss in rows}
