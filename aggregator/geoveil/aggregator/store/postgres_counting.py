"""Counting reports in PostgreSQL, a whole batch per statement.

Batches are single parameters: an array of the ids and one of the answers, in PostgreSQL's binary
format. Unnested by one INSERT they are as fast as COPY into a temporary table and an INSERT from
there, and need no table.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, ClassVar

from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import Connection

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import PackedReport
from geoveil.aggregator.store.base import Outcome, Submission, judge
from geoveil.aggregator.store.sums import tally
from geoveil.campaign.admission import REPORT_ID_BYTES
from geoveil.gp.estimation import Accumulator

CAMPAIGN_LOCKS = 0x67656F76
"""The class of advisory locks of campaigns: commits share them, a close takes them alone."""
_SHARD_LOCKS = CAMPAIGN_LOCKS + 1
"""The class of advisory locks of shards, held by the connection that writes the shard."""
SCHEMA_LOCK = CAMPAIGN_LOCKS << 32
"""Advisory lock of whoever changes the schema."""
_SHARDS = 4096

# The lock first, and the campaign read by a later statement: one that waited for the lock has to
# see what was committed in the meantime. In order of keys, so that two commits can't deadlock.
_LOCK = f"""
    SELECT pg_advisory_xact_lock_shared({CAMPAIGN_LOCKS}, campaign_key) FROM (
        SELECT campaign_key FROM campaign WHERE campaign_id = ANY(%(ids)s)
        ORDER BY campaign_key OFFSET 0) AS wanted
"""  # noqa: S608 - no input in it
_CAMPAIGNS = """
    SELECT campaign_id, campaign_key, closed FROM campaign WHERE campaign_id = ANY(%(ids)s)
    ORDER BY campaign_key
"""
_INSERT = """
    WITH inserted AS (
        INSERT INTO report (campaign_key, report_id, answers)
        SELECT %(key)s, * FROM unnest(%(ids)s, %(answers)s)
        ON CONFLICT DO NOTHING RETURNING report_id)
    SELECT string_agg(uuid_send(report_id), ''::bytea) FROM inserted
"""
_STORED = """
    SELECT report_id::text, answers FROM report
    WHERE campaign_key = %(key)s AND report_id = ANY(%(ids)s)
"""
_SHARD = f"""
    SELECT shard FROM generate_series(0, {_SHARDS - 1}) AS shard
    WHERE pg_try_advisory_lock({_SHARD_LOCKS}, shard) LIMIT 1
"""  # noqa: S608 - no input in it
_ADD_COUNT = """
    INSERT INTO report_count AS old VALUES (%(key)s, %(shard)s, %(reports)s)
    ON CONFLICT (campaign_key, shard) DO UPDATE SET reports = old.reports + excluded.reports
"""
_ADD_SUMS = """
    INSERT INTO query_sum AS old (campaign_key, shard, query_index, n, total, total_of_squares)
    SELECT %(key)s, %(shard)s, * FROM unnest(
        %(indices)s::int[], %(n)s::bigint[], %(total)s::text[]::numeric[],
        %(squares)s::text[]::numeric[])
    ON CONFLICT (campaign_key, shard, query_index) DO UPDATE SET
        n = old.n + excluded.n, total = old.total + excluded.total,
        total_of_squares = old.total_of_squares + excluded.total_of_squares
"""


def count(
    connection: Connection, by_campaign: Mapping[str, Sequence[Submission]]
) -> dict[str, list[Outcome]]:
    """Count the reports to each campaign; return their outcomes in order."""
    ids = list(by_campaign)
    connection.exec_driver_sql(_LOCK, {"ids": ids})
    campaigns = connection.exec_driver_sql(_CAMPAIGNS, {"ids": ids}).all()
    if len(campaigns) < len(ids):
        raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
    outcomes: dict[str, list[Outcome]] = {}
    counted: dict[int, list[PackedReport]] = {}
    for campaign_id, key, closed in campaigns:
        submissions = by_campaign[campaign_id]
        reports = [(r, s.admit and not closed) for s in submissions for r in s.reports]
        stored = _insert(connection, key, reports)
        outcomes[campaign_id], counted[key] = judge(reports, stored)
    # Last of all, because others may wait for these rows if ever they come to share a shard.
    for key, fresh in counted.items():
        if fresh:
            _add(connection, key, fresh)
    return outcomes


def _insert(
    connection: Connection, key: int, reports: Sequence[tuple[PackedReport, bool]]
) -> dict[int, bool]:
    """Insert the reports that are admitted and new; return the positions of the ids stored before.

    Returns:
        Position → whether the answers stored before are the same.
    """
    new: dict[bytes, bytes] = {}
    for (report_id, answers), admitted in reports:
        if admitted:
            new.setdefault(report_id, answers)
    inserted: Iterable[bytes] = ()
    if new:
        ids = sorted(new)
        parameters = {
            "key": key,
            "ids": UuidArray(ids),
            "answers": BytesArray([new[report_id] for report_id in ids]),
        }
        found = connection.exec_driver_sql(_INSERT, parameters).scalar_one() or b""
        if len(found) == REPORT_ID_BYTES * len(ids) and len(ids) == len(reports):
            return {}
        starts = range(0, len(found), REPORT_ID_BYTES)
        inserted = {found[at : at + REPORT_ID_BYTES] for at in starts}
    others = {report.report_id for report, _ in reports}.difference(inserted)
    if not others:
        return {}
    parameters = {"key": key, "ids": UuidArray(sorted(others))}
    rows = connection.exec_driver_sql(_STORED, parameters)
    stored = {bytes.fromhex(text.replace("-", "")): bytes(answers) for text, answers in rows}
    return {
        position: stored[report.report_id] == report.answers
        for position, (report, _) in enumerate(reports)
        if report.report_id in stored
    }


def _add(connection: Connection, key: int, reports: Sequence[PackedReport]) -> None:
    """Add reports to the counters of a campaign, in the shard of this connection."""
    shard = _shard(connection)
    connection.exec_driver_sql(_ADD_COUNT, {"key": key, "shard": shard, "reports": len(reports)})
    sums: Mapping[int, Accumulator] = tally(b"".join([answers for _, answers in reports]))
    parameters: dict[str, Any] = {
        "key": key,
        "shard": shard,
        "indices": list(sums),
        "n": [of_query.n for of_query in sums.values()],
        "total": [str(of_query.total) for of_query in sums.values()],
        "squares": [str(of_query.total_of_squares) for of_query in sums.values()],
    }
    connection.exec_driver_sql(_ADD_SUMS, parameters)


def _shard(connection: Connection) -> int:
    """Return the shard that this connection holds until it ends: the least one that was free."""
    if "shard" not in connection.info:
        found = connection.exec_driver_sql(_SHARD).scalar()
        # With none free, one is shared: slower, and as exact.
        connection.info["shard"] = 0 if found is None else int(found)
    return int(connection.info["shard"])


_HEADER = Struct(">iiIii")
_LENGTH = Struct(">i")


class _Array:
    """Elements that are bytes already."""

    __slots__ = ("elements",)
    element_type: ClassVar[int]

    def __init__(self, elements: Sequence[bytes]) -> None:
        self.elements = elements

    def __repr__(self) -> str:
        return f"{type(self).__name__}(not shown)"


class UuidArray(_Array):
    """`uuid[]`, of 16 bytes each."""

    element_type = 2950


class BytesArray(_Array):
    """`bytea[]`."""

    element_type = 17


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: _Array) -> bytes:
        """Return the binary format of one array: a header, then length and bytes of each."""
        elements = obj.elements
        prefix = {size: _LENGTH.pack(size) for size in set(map(len, elements))}
        header = _HEADER.pack(1, 0, obj.element_type, len(elements), 1)
        return header + b"".join([prefix[len(e)] + e for e in elements])


class _UuidArrayDumper(_ArrayDumper):
    oid = 2951


class _BytesArrayDumper(_ArrayDumper):
    oid = 1001


def register(connection: Any) -> None:
    """Let a psycopg connection take these arrays as parameters."""
    connection.adapters.register_dumper(UuidArray, _UuidArrayDumper)
    connection.adapters.register_dumper(BytesArray, _BytesArrayDumper)
