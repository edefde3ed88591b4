"""A store in one SQLite file: nothing to install, and every acknowledged report on disk."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from geoveil.aggregator.errors import Code, ServiceError
from geoveil.aggregator.store.base import (
    CampaignRecord,
    Outcome,
    Store,
    Submission,
)
from geoveil.aggregator.store.schema import (
    CAMPAIGN,
    METADATA,
    SCHEMA_VERSION,
    VERSION,
)
from geoveil.aggregator.store.sqlite_counting import count, read_sums
from geoveil.gp.estimation import Accumulator

_LOG = logging.getLogger(__name__)

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",  # an acknowledged report survives a power failure
    "foreign_keys = ON",
    "cache_size = -65536",  # 64 MiB: reports are inserted in random order
    "wal_autocheckpoint = 10000",  # pages; random inserts touch many pages, often the same ones
)
_RECORD = (
    CAMPAIGN.c.campaign_id,
    CAMPAIGN.c.published,
    CAMPAIGN.c.queries,
    CAMPAIGN.c.closed,
    CAMPAIGN.c.reports,
)


class SQLiteStore(Store):
    """See `Store`.

    Args:
        path: of the file; made if absent.
        busy_timeout_s: how long to wait, in seconds, for another writer.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = 5.0) -> None:
        self._engine = create_engine(
            URL.create("sqlite", database=str(path)),
            connect_args={
                "isolation_level": None,  # transactions begin where we say
                "check_same_thread": True,
                "timeout": busy_timeout_s,
            },
            pool_size=1,
            max_overflow=0,
            hide_parameters=True,  # they are reports; no error may show them
        )
        event.listen(self._engine, "connect", _configure)
        event.listen(self._engine, "begin", _begin)
        try:
            with self._transaction("IMMEDIATE", Code.DATABASE_UNUSABLE) as connection:
                _prepare(connection)
        except BaseException:
            self.close()
            raise

    def create_campaign(self, record: CampaignRecord) -> None:
        """See `Store.create_campaign`."""
        query = select(CAMPAIGN.c.published).where(CAMPAIGN.c.campaign_id == record.campaign_id)
        with self._transaction("IMMEDIATE") as connection:
            published = connection.execute(query).scalar_one_or_none()
            if published is None:
                values = {c.name: getattr(record, c.name) for c in _RECORD}
                connection.execute(insert(CAMPAIGN).values(values))
            elif published != record.published:
                raise ServiceError(Code.CAMPAIGN_ID_TAKEN)

    def close_campaign(self, campaign_id: str) -> None:
        """See `Store.close_campaign`."""
        change = update(CAMPAIGN).where(CAMPAIGN.c.campaign_id == campaign_id).values(closed=True)
        with self._transaction("IMMEDIATE") as connection:
            if connection.execute(change).rowcount == 0:
                raise ServiceError(Code.CAMPAIGN_NOT_FOUND)

    def get_campaign(self, campaign_id: str) -> CampaignRecord:
        """See `Store.get_campaign`."""
        query = select(*_RECORD).where(CAMPAIGN.c.campaign_id == campaign_id)
        with self._transaction("DEFERRED") as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
        return CampaignRecord(**row._mapping)

    def list_campaigns(self) -> list[CampaignRecord]:
        """See `Store.list_campaigns`."""
        query = select(*_RECORD).order_by(CAMPAIGN.c.campaign_key)
        with self._transaction("DEFERRED") as connection:
            rows = connection.execute(query).all()
        return [CampaignRecord(**row._mapping) for row in rows]

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        """See `Store.commit`."""
        by_campaign: dict[str, list[int]] = defaultdict(list)
        for place, submission in enumerate(batch):
            by_campaign[submission.campaign_id].append(place)
        outcomes: list[list[Outcome]] = [[] for _ in batch]
        with self._transaction("IMMEDIATE") as connection:
            for campaign_id, places in by_campaign.items():
                of_campaign = iter(count(connection, campaign_id, [batch[p] for p in places]))
                for place in places:
                    outcomes[place] = [next(of_campaign) for _ in batch[place].reports]
        return outcomes

    def totals(self, campaign_id: str) -> list[Accumulator]:
        """See `Store.totals`."""
        query = select(CAMPAIGN.c.campaign_key, CAMPAIGN.c.queries).where(
            CAMPAIGN.c.campaign_id == campaign_id
        )
        with self._transaction("DEFERRED") as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                raise ServiceError(Code.CAMPAIGN_NOT_FOUND)
            sums = read_sums(connection, row.campaign_key)
        return [sums.get(index, Accumulator()) for index in range(row.queries)]

    def close(self) -> None:
        """See `Store.close`."""
        self._engine.dispose()

    @contextmanager
    def _transaction(
        self, mode: str, failure: Code = Code.STORE_UNAVAILABLE
    ) -> Iterator[Connection]:
        """Commit what the block does, or nothing if it raises."""
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(geoveil_begin=mode)
                with connection.begin():
                    yield connection
        except SQLAlchemyError as error:
            # SQLite's own words, for example "database or disk is full": they hold no parameters.
            reason = str(error.orig) if isinstance(error, DBAPIError) else type(error).__name__
            _LOG.error("SQLite: %s", reason)
            raise ServiceError(failure, reason) from error


def _configure(connection: Any, _record: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options()['geoveil_begin']}")


def _prepare(connection: Connection) -> None:
    """Make the tables of a new database; check that those of an old one are ours."""
    tables = inspect(connection).get_table_names()
    if not tables:
        METADATA.create_all(connection)
        connection.execute(insert(VERSION).values(version=SCHEMA_VERSION))
        return
    if VERSION.name not in tables:
        raise ServiceError(Code.DATABASE_UNUSABLE, "it holds the tables of something else")
    version = connection.execute(select(VERSION.c.version)).scalar_one_or_none()
    if version != SCHEMA_VERSION:
        raise ServiceError(
            Code.DATABASE_UNUSABLE,
            f"its schema has version {version}, this version of geoveil needs {SCHEMA_VERSION}",
        )
