"""How many reports each campaign had by the end of each day, and how many were planned."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables. What came on the days before stands under day 0, as nobody noted it."""
    op.create_table(
        "report_day",
        sa.Column("campaign_key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("reports", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO report_day SELECT campaign_key, 0, sum(reports) FROM report_count"
        " GROUP BY campaign_key"
    )
    op.create_table(
        "campaign_plan",
        sa.Column("campaign_key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("participants", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
