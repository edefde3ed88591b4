"""Counting reports in PostgreSQL, a whole batch per statement.

One INSERT unnests a binary array of ids and one of answers, which is as fast as COPY but needs no
temporary table. Nearly all reports are new, so it first inserts them without ON CONFLICT, which
would look up each slot twice; if a slot is taken, it starts again with ON CONFLICT.
"""

from collections.abc import Collection, Mapping, Sequence
from struct import Struct
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import Connection

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.reports import (
    ANSWER_BYTES,
    Bins,
    PackedColumns,
    PackedReport,
    in_columns,
    tally,
)
from geoveil.aggregator.domain.store_contract import Outcome, Submission, classify, gathered
from geoveil.aggregator.store.schema import REPORT_KEY, slots
from geoveil.campaign import REPORT_ID_BYTES
from geoveil.gp import Accumulator

CAMPAIGN_LOCKS = 0x67656F76
"""The class of campaigns' advisory locks: commits share them, a close takes them exclusively."""
SHARD_LOCKS = CAMPAIGN_LOCKS + 1
"""The class of shards' advisory locks, which the connection that writes a shard holds."""
SCHEMA_LOCK = CAMPAIGN_LOCKS << 32
"""The advisory lock for making the tables."""
_SHARDS = 4096
_WARY = 16
"""After meeting taken slots, a connection expects them for this many transactions."""

# A later statement reads the campaign, since after waiting for the lock it must see what has been
# committed meanwhile. In order of keys, so that two commits can't deadlock.
_LOCK = f"""
    SELECT pg_advisory_xact_lock_shared({CAMPAIGN_LOCKS}, campaign_key) FROM (
        SELECT campaign_key FROM campaign WHERE campaign_id = ANY(%(ids)s)
        ORDER BY campaign_key OFFSET 0) AS wanted
"""  # noqa: S608 - no input in it
_CAMPAIGNS = f"""
    SELECT campaign_id, campaign_key, {REPORT_KEY}, closed OR deleted IS NOT NULL FROM campaign
    WHERE campaign_id = ANY(%(ids)s)
    ORDER BY campaign_key
"""  # noqa: S608 - no input in it
_INSERT_NEW = "SELECT insert_new_reports(%(slots)s, %(ids)s, %(answers)s)"
"""Calls a function of the schema."""
_INSERTED = "SELECT string_agg(uuid_send(report_id), ''::bytea) FROM inserted"
_INSERT = f"""
    WITH inserted AS (
        INSERT INTO report (slot, report_id, answers)
        SELECT * FROM unnest(%(slots)s, %(ids)s, %(answers)s)
        ON CONFLICT DO NOTHING RETURNING report_id)
    {_INSERTED}
"""  # noqa: S608 - no input in it
_INSERT_BESIDE = f"""
    WITH inserted AS (
        INSERT INTO report_beside (campaign_key, report_id, answers)
        SELECT %(key)s, * FROM unnest(%(ids)s, %(answers)s)
        ON CONFLICT DO NOTHING RETURNING report_id)
    {_INSERTED}
"""  # noqa: S608 - no input in it
_STORED = "SELECT report_id::text, answers FROM report WHERE slot = ANY(%(slots)s)"
_STORED_BESIDE = """
    SELECT report_id::text, answers FROM report_beside
    WHERE campaign_key = %(key)s AND report_id = ANY(%(ids)s)
"""
_SHARD = f"""
    SELECT shard FROM generate_series(0, {_SHARDS - 1}) AS shard
    WHERE pg_try_advisory_lock({SHARD_LOCKS}, shard) LIMIT 1
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
    """Count the reports to each campaign, and return their outcomes in order."""
    ids = list(by_campaign)
    connection.exec_driver_sql(_LOCK, {"ids": ids})
    campaigns = connection.exec_driver_sql(_CAMPAIGNS, {"ids": ids}).all()
    if len(campaigns) < len(ids):
        raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
    outcomes: dict[str, list[Outcome]] = {}
    counted: dict[int, Sequence[PackedReport]] = {}
    bins: dict[int, Bins | None] = {}
    for campaign_id, key, report_key, closed in campaigns:
        reports, admit = gathered(by_campaign[campaign_id])
        bins[key] = by_campaign[campaign_id][0].bins
        if closed:
            admit = [False] * len(reports)
        stored = _insert(connection, report_key, reports, admit)
        outcomes[campaign_id], counted[key] = classify(reports, admit, stored)
    # Last, since others may wait for these rows if processes share a shard.
    for key, fresh in counted.items():
        if fresh:
            _add(connection, key, fresh, bins[key])
    return outcomes


def _insert(
    connection: Connection, key: int, reports: Sequence[PackedReport], admit: Sequence[bool]
) -> dict[int, bool]:
    """Insert the new reports; return position → equal answers for ids stored before."""
    new: Sequence[PackedReport] = reports
    if not all(admit):
        new = [report for report, is_new in zip(reports, admit, strict=True) if is_new]
    inserted = _inserted(connection, key, new)
    if inserted is None:
        if len(new) == len(reports):
            return {}
        inserted = {report.report_id for report in new}
    others = {report.report_id for report in reports}.difference(inserted)
    if not others:
        return {}
    stored = _stored(connection, _STORED, key, others)
    # A slot may hold a report with another id; the remaining ids go to the second table.
    taken = set(slots(key, b"".join(stored)).tolist())
    absent = sorted(others.difference(stored))
    of_absent = slots(key, b"".join(absent)).tolist()
    beside = {i for i, slot in zip(absent, of_absent, strict=True) if slot in taken}
    new_beside = [report for report in new if report.report_id in beside]
    of_beside = _inserted(connection, key, new_beside, beside=True)
    inserted |= {r.report_id for r in new_beside} if of_beside is None else of_beside
    if known_beside := beside - inserted:
        stored |= _stored(connection, _STORED_BESIDE, key, known_beside)
    return {
        position: stored[report.report_id] == report.answers
        for position, report in enumerate(reports)
        if report.report_id in stored and report.report_id not in inserted
    }


def _inserted(
    connection: Connection, key: int, new: Sequence[PackedReport], *, beside: bool = False
) -> set[bytes] | None:
    """Insert reports with free slots; return the inserted ids, None for all.

    Of two reports with the same id it inserts the first.
    """
    if not new:
        return set()
    ids, _ = in_columns(new)
    places = slots(key, ids)
    # In order of slots or ids, so that two transactions can't deadlock.
    order = np.argsort(places, kind="stable")
    answers: _Array
    if type(new) is PackedColumns:
        answers = BytesArray.of(new.answers, ANSWER_BYTES, order)
    else:
        answers = BytesArray.joined([new[i].answers for i in order.tolist()])
    parameters = {
        "key": key,
        "slots": BigintArray.of(places.astype(">i8").tobytes(), 8, order),
        "ids": UuidArray.of(ids, REPORT_ID_BYTES, order),
        "answers": answers,
    }
    if beside:
        inserted = connection.exec_driver_sql(_INSERT_BESIDE, parameters).scalar_one() or b""
    else:
        wary = connection.info.get("wary", 0)
        if not wary and connection.exec_driver_sql(_INSERT_NEW, parameters).scalar_one():
            return None
        inserted = connection.exec_driver_sql(_INSERT, parameters).scalar_one() or b""
        connection.info["wary"] = _WARY if len(inserted) < len(ids) else max(wary - 1, 0)
    if len(inserted) == len(ids):
        return None
    return {inserted[at : at + REPORT_ID_BYTES] for at in range(0, len(inserted), REPORT_ID_BYTES)}


def _stored(
    connection: Connection, statement: str, key: int, ids: Collection[bytes]
) -> dict[bytes, bytes]:
    """Return id → answers of the reports stored in some ids' slots."""
    every = b"".join(sorted(ids))
    parameters = {
        "key": key,
        "slots": BigintArray.of(slots(key, every).astype(">i8").tobytes(), 8),
        "ids": UuidArray.of(every, REPORT_ID_BYTES),
    }
    rows = connection.exec_driver_sql(statement, parameters)
    return {bytes.fromhex(text.replace("-", "")): bytes(answers) for text, answers in rows}


def _add(
    connection: Connection, key: int, reports: Sequence[PackedReport], bins: Bins | None
) -> None:
    """Add reports to a campaign's counters in this connection's shard."""
    shard = _shard(connection)
    connection.exec_driver_sql(_ADD_COUNT, {"key": key, "shard": shard, "reports": len(reports)})
    sums: Mapping[int, Accumulator] = tally(in_columns(reports)[1], bins)
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
    """Return this connection's shard, the lowest free one, which it holds until it ends."""
    if "shard" not in connection.info:
        shard = connection.exec_driver_sql(_SHARD).scalar()
        # If none is free, share one, which is slower but as exact.
        connection.info["shard"] = 0 if shard is None else int(shard)
    return int(connection.info["shard"])


_HEADER = Struct(">iiIii")
_LENGTH = Struct(">i")


class _Array:
    """Elements in PostgreSQL's binary format, each preceded by its length."""

    __slots__ = ("body", "count")
    types: ClassVar[tuple[int, int]]
    """PostgreSQL's numbers of the elements' type and of the array's."""

    def __init__(self, body: bytes, count: int) -> None:
        self.body, self.count = body, count

    @classmethod
    def of(cls, elements: bytes, size: int, order: NDArray[np.intp] | None = None) -> Self:
        """Return an array from joined elements of `size` bytes, in the order of positions."""
        rows = np.empty(len(elements) // size, [("length", ">i4"), ("element", f"V{size}")])
        rows["length"] = size
        in_order = np.frombuffer(elements, f"V{size}")
        rows["element"] = in_order if order is None else in_order[order]
        return cls(rows.tobytes(), len(rows))

    @classmethod
    def joined(cls, elements: Sequence[bytes]) -> Self:
        """Return an array of elements of any size."""
        prefix = {size: _LENGTH.pack(size) for size in set(map(len, elements))}
        return cls(b"".join([prefix[len(e)] + e for e in elements]), len(elements))


class UuidArray(_Array):
    """`uuid[]`, 16 bytes each."""

    types = 2950, 2951


class BigintArray(_Array):
    """`bigint[]`, 8 bytes each."""

    types = 20, 1016


class BytesArray(_Array):
    """`bytea[]`."""

    types = 17, 1001


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def __init__(self, cls: type[_Array], context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        self.element_type, self.oid = cls.types

    def dump(self, obj: _Array) -> bytes:
        return _HEADER.pack(1, 0, self.element_type, obj.count, 1) + obj.body


def register(connection: Any) -> None:
    """Let a psycopg connection accept these arrays as parameters."""
    for kind in (UuidArray, BigintArray, BytesArray):
        connection.adapters.register_dumper(kind, _ArrayDumper)
