"""The tables of version 2; takes over a database of version 1, which only SQLite had."""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from alembic import op

from geoveil.campaign import seal

revision = "0002"
down_revision = None
branch_labels = None
depends_on = None

_PAGE = 256
_ROWS_HELD = 1 << 16
_KEY = ("campaign_key", "shard")


def upgrade() -> None:
    """Make the tables, and move what an older database holds."""
    connection = op.get_bind()
    old = "geoveil_schema" in sa.inspect(connection).get_table_names()
    if old:
        for table in ("campaign", "query_sum"):
            op.rename_table(table, f"old_{table}")
    _create(connection.dialect.name)
    if old:
        _move(connection)
        for table in ("report", "old_query_sum", "old_campaign", "geoveil_schema"):
            op.drop_table(table)


def _create(dialect: str) -> None:
    exact = sa.Numeric() if dialect == "postgresql" else sa.Text()
    op.create_table(
        "campaign",
        sa.Column("campaign_key", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("campaign_id", sa.String(64), nullable=False, unique=True),
        sa.Column("published", sa.LargeBinary, nullable=False),
        sa.Column("queries", sa.Integer, nullable=False),
        sa.Column("closed", sa.Boolean, nullable=False),
    )
    op.create_table(
        "report_count",
        *(sa.Column(name, sa.Integer, primary_key=True, autoincrement=False) for name in _KEY),
        sa.Column("reports", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "query_sum",
        *(
            sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)
            for name in (*_KEY, "query_index")
        ),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("total", exact, nullable=False),
        sa.Column("total_of_squares", exact, nullable=False),
        sqlite_with_rowid=False,
    )
    if dialect == "postgresql":
        # Rows of counters are rewritten by every transaction: room on the page spares the index.
        for table in ("report_count", "query_sum"):
            op.execute(f"ALTER TABLE {table} SET (fillfactor = 50)")
        op.create_table(
            "report",
            sa.Column("campaign_key", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("report_id", sa.Uuid, primary_key=True),
            sa.Column("answers", sa.LargeBinary, nullable=False),
        )
    else:
        op.create_table(
            "report_page",
            sa.Column("campaign_key", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("ids", sa.LargeBinary, nullable=False),
            sa.Column("answers", sa.LargeBinary, nullable=False),
            sqlite_with_rowid=False,
        )


def _move(connection: sa.Connection) -> None:
    # The first version kept a campaign's own bytes; now they are in an envelope, not signed.
    old = connection.exec_driver_sql(
        "SELECT campaign_key, campaign_id, published, queries, closed FROM old_campaign"
    ).all()
    if old:
        connection.exec_driver_sql(
            "INSERT INTO campaign VALUES (?, ?, ?, ?, ?)",
            [(key, name, seal(bytes(published)), *more) for key, name, published, *more in old],
        )
    connection.exec_driver_sql(
        "INSERT INTO report_count SELECT campaign_key, 0, reports FROM old_campaign WHERE reports"
    )
    connection.exec_driver_sql(
        "INSERT INTO query_sum SELECT campaign_key, 0, query_index, n, total, total_of_squares"
        " FROM old_query_sum"
    )
    insert = "INSERT INTO report_page (campaign_key, first, ids, answers) VALUES (?, ?, ?, ?)"
    for (key,) in connection.exec_driver_sql("SELECT campaign_key FROM campaign").all():
        first = 0
        for reports in _held(connection, key):
            pages = []
            for start in range(0, len(reports), _PAGE):
                page = reports[start : start + _PAGE]
                joined = [b"".join(column) for column in zip(*page, strict=True)]
                pages.append((key, first, *joined))
                first += len(page)
            connection.exec_driver_sql(insert, pages)


def _held(connection: sa.Connection, key: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """Yield the reports of a campaign, in pieces of one size of answers each, ordered by id."""
    widths = connection.exec_driver_sql(
        "SELECT DISTINCT length(answers) FROM report WHERE campaign_key = ?", (key,)
    ).scalars()
    for width in widths.all():
        found = connection.exec_driver_sql(
            "SELECT report_id, answers FROM report WHERE campaign_key = ? AND length(answers) = ?"
            " ORDER BY report_id",
            (key, width),
        )
        while rows := found.fetchmany(_ROWS_HELD):
            yield [(bytes(report_id), bytes(answers)) for report_id, answers in rows]
