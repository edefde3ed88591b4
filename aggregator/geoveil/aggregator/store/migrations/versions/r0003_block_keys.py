"""The key that the blocks of a campaign follow; campaigns that hold reports go on without one."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_KEY_BYTES = 16


def upgrade() -> None:
    """Add the column. A report that is sent again must find its block where it was."""
    op.add_column("campaign", sa.Column("block_key", sa.LargeBinary))
    connection = op.get_bind()
    without_reports = connection.exec_driver_sql(
        "SELECT campaign_key FROM campaign"
        " WHERE campaign_key NOT IN (SELECT campaign_key FROM report_count)"
    )
    change = sa.text("UPDATE campaign SET block_key = :secret WHERE campaign_key = :key")
    for key in without_reports.scalars().all():
        connection.execute(change, {"key": key, "secret": secrets.token_bytes(_KEY_BYTES)})
