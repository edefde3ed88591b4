"""The tables. Whoever sent a report, from where and when, has no column.

Reports lie in the order of their random ids, so not even the order of arrival is kept.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = 1
"""Raised by every change to the tables."""

METADATA = MetaData()

VERSION = Table(
    "geoveil_schema",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
)

CAMPAIGN = Table(
    "campaign",
    METADATA,
    Column("campaign_key", Integer, primary_key=True),  # in order of creation
    Column("campaign_id", String(64), nullable=False, unique=True),
    Column("published", LargeBinary, nullable=False),
    Column("queries", Integer, nullable=False),
    Column("closed", Boolean, nullable=False),
    Column("reports", BigInteger, nullable=False),
)

REPORT = Table(
    "report",
    METADATA,
    Column("campaign_key", ForeignKey(CAMPAIGN.c.campaign_key), primary_key=True),
    Column("report_id", LargeBinary(16), primary_key=True),
    Column("answers", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

QUERY_SUM = Table(
    "query_sum",
    METADATA,
    Column("campaign_key", ForeignKey(CAMPAIGN.c.campaign_key), primary_key=True),
    Column("query_index", Integer, primary_key=True, autoincrement=False),
    Column("n", BigInteger, nullable=False),
    # Decimal digits: sums of 64-bit integers and of their squares outgrow 64 bits.
    Column("total", Text, nullable=False),
    Column("total_of_squares", Text, nullable=False),
    sqlite_with_rowid=False,
)
