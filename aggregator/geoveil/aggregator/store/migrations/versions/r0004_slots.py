"""Reports in PostgreSQL are found by a slot of 8 bytes, not by their whole id."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_VIEW = """
    CREATE TEMPORARY VIEW slotted AS
    SELECT (campaign_key::bigint << 32) + (
            ('x' || substr(id, 1, 8))::bit(32) # ('x' || substr(id, 9, 8))::bit(32)
            # ('x' || substr(id, 17, 8))::bit(32) # ('x' || substr(id, 25, 8))::bit(32)
        )::bigint AS slot, report_id, answers
    FROM (SELECT *, encode(uuid_send(report_id), 'hex') AS id FROM old_report) AS named
"""
_BESIDE = """
    INSERT INTO report_beside SELECT (slot >> 32)::int, report_id, answers FROM slotted
    WHERE NOT EXISTS (
        SELECT 1 FROM report
        WHERE report.slot = slotted.slot AND report.report_id = slotted.report_id)
"""


def upgrade() -> None:
    """Move the reports; those whose slot another one has taken stand beside."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.rename_table("report", "old_report")
    op.execute("ALTER TABLE old_report RENAME CONSTRAINT report_pkey TO old_report_pkey")
    op.create_table(
        "report",
        sa.Column("slot", sa.BigInteger, nullable=False),
        sa.Column("report_id", sa.Uuid, nullable=False),
        sa.Column("answers", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "report_beside",
        sa.Column("campaign_key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("report_id", sa.Uuid, primary_key=True),
        sa.Column("answers", sa.LargeBinary, nullable=False),
    )
    op.execute(_VIEW)
    op.execute("INSERT INTO report SELECT DISTINCT ON (slot) * FROM slotted ORDER BY slot")
    op.create_primary_key("report_pkey", "report", ["slot"])
    op.execute(_BESIDE)
    op.execute("DROP VIEW slotted")
    op.drop_table("old_report")
