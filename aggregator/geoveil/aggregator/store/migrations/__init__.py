"""Changes of the database schema, one file each, for SQLite and PostgreSQL alike.

They are run by `geoveil.aggregator.store.migrate`, without `alembic.ini` or `env.py`.
"""
