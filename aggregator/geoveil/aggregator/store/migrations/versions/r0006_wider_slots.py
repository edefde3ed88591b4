"""A slot of PostgreSQL has 44 bits of an id, not 32, so that a batch seldom meets a taken one."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_HALVES = """
    CREATE TEMPORARY VIEW halves AS
    SELECT campaign_key, report_id, answers,
        ('x' || substr(id, 1, 16))::bit(64) # ('x' || substr(id, 17, 16))::bit(64) AS folded
    FROM (
        SELECT *, encode(uuid_send(report_id), 'hex') AS id FROM (
            SELECT (slot >> 32)::int AS campaign_key, report_id, answers FROM old_report
            UNION ALL SELECT campaign_key, report_id, answers FROM old_report_beside) AS stored
    ) AS named
"""
_SLOTTED = """
    CREATE TEMPORARY VIEW slotted AS
    SELECT (campaign_key::bigint << 44)
        + substring(folded # (folded >> 44) FROM 21)::bit(44)::bigint AS slot, report_id, answers
    FROM halves
"""
_BESIDE = """
    INSERT INTO report_beside SELECT (slot >> 44)::int, report_id, answers FROM slotted
    WHERE NOT EXISTS (
        SELECT 1 FROM report
        WHERE report.slot = slotted.slot AND report.report_id = slotted.report_id)
"""
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


def upgrade() -> None:
    """Move the reports, and make the function that inserts those whose slots are all free."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in ("report", "report_beside"):
        op.rename_table(table, f"old_{table}")
        op.execute(f"ALTER TABLE old_{table} RENAME CONSTRAINT {table}_pkey TO old_{table}_pkey")
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
    op.execute(_HALVES)
    op.execute(_SLOTTED)
    op.execute("INSERT INTO report SELECT DISTINCT ON (slot) * FROM slotted ORDER BY slot")
    op.create_primary_key("report_pkey", "report", ["slot"])
    op.execute(_BESIDE)
    op.execute("DROP VIEW slotted, halves")
    op.drop_table("old_report")
    op.drop_table("old_report_beside")
    op.execute(_INSERT_NEW)
    # The numbers of campaigns have the other bits of a slot, and the sign.
    op.execute("ALTER TABLE campaign ALTER campaign_key SET MAXVALUE 524287")
