"""The tables. There is no column for a report's sender, place or time; each day has a count.

Reports are in order of their random ids: in PostgreSQL in an index, in SQLite within a page.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Uuid,
    event,
    insert,
    inspect,
    select,
    types,
)

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.campaign import REPORT_ID_BYTES

SCHEMA_VERSION = 10
"""Increased with every change of the tables; databases of other versions are refused."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ROOM = {"fillfactor": 50}
"""Every transaction rewrites counters; free space on their page avoids index updates."""


class ExactInteger(types.TypeDecorator[int]):
    """An integer of any size, since sums of 64-bit integers and their squares exceed 64 bits."""

    impl = Numeric
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> types.TypeEngine[Any]:
        """Store decimal digits if the database has no exact large integers."""
        exact = dialect.name == "postgresql"
        return dialect.type_descriptor(Numeric() if exact else Text())

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Any:
        return None if value is None else str(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:
        return None if value is None else int(value)


class Moment(types.TypeDecorator[datetime]):
    """A time in any zone, as microseconds since 1970, which every database sorts alike."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + value * _MICROSECOND


def _key(name: str, kind: type[Integer] = Integer) -> Column[int]:
    return Column(name, kind, primary_key=True, autoincrement=False)


METADATA = MetaData()

VERSION = Table("geoveil_revision", METADATA, Column("version_num", String(32), primary_key=True))

CAMPAIGN = Table(
    "campaign",
    METADATA,
    # In order of creation. It gives the upper bits of slots; the lower ones are an id's.
    Column("campaign_key", Integer, Identity(maxvalue=(1 << 19) - 1), primary_key=True),
    Column("campaign_id", String(64), nullable=False, unique=True),
    Column("queries", Integer, nullable=False),
    Column("closed", Boolean, nullable=False),
    Column("opens", Moment, nullable=False),
    Column("closes", Moment, nullable=False),
    Column("delete_after", Moment),  # time of the deletion of its reports; null: never
    Column("deleted", Boolean),  # whether all reports are deleted; null: no deletion has begun
    Column("block_key", LargeBinary),  # see `geoveil.aggregator.domain.layout`
    Column("published", LargeBinary, nullable=False),  # last: SQLite reads a row from its start
)

# Counts and sums are split into shards, which readers add up: processes that write to one database
# at once have separate shards, and never wait for each other's rows. There are no foreign keys,
# since campaigns are never deleted, and every row belongs to a campaign just read.
REPORT_COUNT = Table(
    "report_count",
    METADATA,
    _key("campaign_key"),
    _key("shard"),
    Column("reports", BigInteger, nullable=False),
    sqlite_with_rowid=False,
    postgresql_with=_ROOM,
)

# For whole days, so that it says little about when somebody took part.
REPORT_DAY = Table(
    "report_day",
    METADATA,
    _key("campaign_key"),
    _key("day"),  # since 1970-01-01, in UTC; 0: earlier
    Column("reports", BigInteger, nullable=False),  # the total last recorded on that day
    sqlite_with_rowid=False,
)

CAMPAIGN_PLAN = Table(
    "campaign_plan",
    METADATA,
    _key("campaign_key"),
    Column("participants", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

QUERY_SUM = Table(
    "query_sum",
    METADATA,
    _key("campaign_key"),
    _key("shard"),
    _key("query_index"),
    Column("n", BigInteger, nullable=False),
    Column("total", ExactInteger, nullable=False),
    Column("total_of_squares", ExactInteger, nullable=False),
    sqlite_with_rowid=False,
    postgresql_with=_ROOM,
)

# 44 bits of a random id suffice to find it, and halve the index. A report whose slot is taken goes
# to report_beside and stays there: a campaign's reports are deleted together, and it takes none
# afterwards. Each campaign with a signed deletion date has a partition.
REPORT = Table(
    "report",
    METADATA,
    _key("slot", BigInteger),  # see `slots`
    Column("report_id", Uuid, nullable=False),  # any 16 bytes
    Column("answers", LargeBinary, nullable=False),
    info={"dialect": "postgresql"},
    postgresql_partition_by="RANGE (slot)",
)

REPORT_BESIDE = Table(
    "report_beside",
    METADATA,
    _key("campaign_key"),  # as in slots
    Column("report_id", Uuid, primary_key=True),
    Column("answers", LargeBinary, nullable=False),
    info={"dialect": "postgresql"},
)

# SQLite has one writer at a time, so reports can be numbered, and one row can hold a page of them.
# With a row per report in order of random ids, each report would rewrite a page of the file.
REPORT_PAGE = Table(
    "report_page",
    METADATA,
    _key("campaign_key"),
    _key("first", BigInteger),
    # Joined ids in ascending order, then their answers in the same order, all of equal size.
    Column("ids", LargeBinary, nullable=False),
    Column("answers", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
    info={"dialect": "sqlite"},
)

_PARTITION = "CREATE TABLE report_kept PARTITION OF report FOR VALUES FROM (0) TO (MAXVALUE)"
# The server's log does not show errors that the function catches.
_INSERT_NEW = """
    CREATE FUNCTION insert_new_reports(bigint[], uuid[], bytea[]) RETURNS boolean
    LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO report (slot, report_id, answers) SELECT * FROM unnest($1, $2, $3);
        RETURN true;
    EXCEPTION WHEN unique_violation THEN
        RETURN false;
    END $$
"""


@event.listens_for(REPORT, "after_create")
def _complete(_table: Table, connection: Connection, **_: object) -> None:
    connection.exec_driver_sql(_PARTITION)
    connection.exec_driver_sql(_INSERT_NEW)


SLOT_BITS = 44
"""The lowest bits of a slot come from the id, those above from the campaign's `REPORT_KEY`."""
REPORT_KEY = f"campaign_key - CASE WHEN delete_after IS NULL THEN 0 ELSE {1 << 63 - SLOT_BITS} END"
"""Negative for reports with a deletion date, so that adding a partition there scans no other."""


def slots(key: int, ids: bytes) -> NDArray[np.int64]:
    """Return the slots of a campaign's reports, where PostgreSQL stores them if they are free.

    A slot is the exclusive or of the halves of an id (16 bytes), with the highest 20 bits folded
    into the lowest.

    Example:
        >>> slots(1, bytes.fromhex("0000100000000001" "0000000000000004")) - (1 << 44)
        array([4])
    """
    halves = np.frombuffer(ids, ">u8").astype(np.uint64).reshape(-1, REPORT_ID_BYTES // 8)
    folded = halves[:, 0] ^ halves[:, 1]
    folded ^= folded >> np.uint64(SLOT_BITS)
    folded &= np.uint64((1 << SLOT_BITS) - 1)
    return folded.astype(np.int64) + (key << SLOT_BITS)


def tables_of(dialect: str) -> list[Table]:
    """Return the tables of a dialect.

    Example:
        >>> [table.name for table in tables_of("sqlite")]
        ['geoveil_revision', 'campaign', 'report_count', 'report_day', 'campaign_plan', \
'query_sum', 'report_page']
    """
    tables = METADATA.tables.values()
    return [table for table in tables if table.info.get("dialect", dialect) == dialect]


def schema_version(connection: Connection) -> int:
    """Return the schema's version, 0 if empty; DATABASE_UNUSABLE for another program's."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return 0
    if VERSION.name in tables:
        stored = connection.execute(select(VERSION.c.version_num)).scalars().all()
        if len(stored) == 1 and re.fullmatch("[0-9]{1,9}", str(stored[0])):
            return int(stored[0])
    raise ServiceError(Code.DATABASE_UNUSABLE, "it holds another program's tables")


def require_current(version: int) -> None:
    """Refuse a database of another version with DATABASE_UNUSABLE, and say what to do.

    Example:
        >>> require_current(1)
        Traceback (most recent call last):
        geoveil.aggregator.domain.errors.ServiceError: the database can't be used: its schema has \
version 1, this version of geoveil needs 10: use the version of geoveil that made it, or a new \
database
    """
    if version == SCHEMA_VERSION:
        return
    advice = "install a later geoveil"
    if version < SCHEMA_VERSION:
        advice = "use the version of geoveil that made it, or a new database"
    raise ServiceError(
        Code.DATABASE_UNUSABLE,
        f"its schema has version {version}, this version of geoveil needs {SCHEMA_VERSION}:"
        f" {advice}",
    )


def create_tables(connection: Connection) -> None:
    """Create the tables of an empty database within the open transaction."""
    METADATA.create_all(connection, tables_of(connection.dialect.name), checkfirst=False)
    connection.execute(insert(VERSION).values(version_num=f"{SCHEMA_VERSION:04}"))
