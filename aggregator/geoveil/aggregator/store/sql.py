"""Common parts of stores in SQL databases: transactions, campaigns, and the order of a commit."""

import logging
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    cast,
    delete,
    false,
    func,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.store_contract import (
    CampaignPage,
    CampaignRecord,
    Outcome,
    Progress,
    Store,
    StoredAnswers,
    StoredSums,
    Submission,
)
from geoveil.aggregator.store.schema import (
    CAMPAIGN,
    CAMPAIGN_PLAN,
    QUERY_SUM,
    REPORT_COUNT,
    REPORT_DAY,
    create_tables,
    require_current,
    schema_version,
)
from geoveil.gp import Accumulator

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_ATTEMPTS = 8
"""The number of attempts at a transaction that the database aborts in favour of another."""

_RECORD = (
    CAMPAIGN.c.campaign_id,
    CAMPAIGN.c.published,
    CAMPAIGN.c.queries,
    CAMPAIGN.c.block_key,
    CAMPAIGN.c.closed,
    CAMPAIGN.c.opens,
    CAMPAIGN.c.closes,
    CAMPAIGN.c.delete_after,
    select(func.coalesce(func.sum(REPORT_COUNT.c.reports), 0))
    .where(REPORT_COUNT.c.campaign_key == CAMPAIGN.c.campaign_key)
    .scalar_subquery()
    .label("reports"),
)


class SQLStore(Store):
    """A `Store` in a SQL database; a subclass adds what its database needs.

    With `create` it makes the tables of an empty database and refuses other versions; without it
    the database is opened as it is, for maintenance.
    """

    _unusable: Code
    """The meaning of a failure to open the database."""
    _insert: Callable[..., Any]
    """The INSERT of the dialect."""

    def __init__(self, engine: Engine, *, create: bool) -> None:
        self._engine = engine
        try:
            if create:
                if self.run(schema_version, failure=self._unusable) == 0:
                    self.run(self._create, write=True, failure=self._unusable)
                require_current(self.run(schema_version, failure=self._unusable))
                self.protect()
        except BaseException:
            self.close()
            raise

    def create_campaign(self, record: CampaignRecord) -> None:
        values = {column.name: getattr(record, column.name) for column in _RECORD[:-1]}
        change = self._insert(CAMPAIGN).values(values).on_conflict_do_nothing()
        query = select(CAMPAIGN.c.published).where(CAMPAIGN.c.campaign_id == record.campaign_id)

        def work(connection: Connection) -> None:
            if connection.execute(change).rowcount:
                self._prepare(connection, record)
            if bytes(connection.execute(query).scalar_one()) != record.published:
                raise ServiceError(Code.CAMPAIGN_ID_TAKEN)

        self.run(work, write=True)

    def close_campaign(self, campaign_id: str) -> None:

        def work(connection: Connection) -> None:
            key = _find(connection, campaign_id).campaign_key
            self._exclude_commits(connection, key)
            change = update(CAMPAIGN).where(CAMPAIGN.c.campaign_key == key).values(closed=True)
            connection.execute(change)

        self.run(work, write=True)

    def get_campaign(self, campaign_id: str) -> CampaignRecord:
        query = select(*_RECORD).where(_is_named(campaign_id))
        row = self.run(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise ServiceError(Code.CAMPAIGN_NOT_FOUND, told=repr(campaign_id))
        return _record(row)

    def campaign_page(
        self,
        after: str = "",
        *,
        limit: int = 100,
        most_bytes: int = 2 << 20,
        only: Collection[str] | None = None,
        open_at: datetime | None = None,
    ) -> CampaignPage:
        key = CAMPAIGN.c.campaign_key
        # Sizes first, without the content, which may be large.
        sizes = select(key, func.length(CAMPAIGN.c.published)).order_by(key).limit(limit + 1)
        if only is not None:
            sizes = sizes.where(CAMPAIGN.c.campaign_id.in_(only))
        if open_at is not None:
            sizes = sizes.where(~CAMPAIGN.c.closed, CAMPAIGN.c.closes > open_at)

        def work(connection: Connection) -> CampaignPage:
            later = sizes.where(key > _find(connection, after).campaign_key) if after else sizes
            stored = connection.execute(later).all()
            totals = accumulate(size for _, size in stored[:limit])
            fitting = stored[: max(1, sum(total <= most_bytes for total in totals))]
            query = select(*_RECORD).where(key.in_([number for number, _ in fitting])).order_by(key)
            rows = connection.execute(query).all()
            return CampaignPage([_record(row) for row in rows], len(fitting) < len(stored))

        return self.run(work)

    def note_day(self, day: int) -> None:
        key = REPORT_COUNT.c.campaign_key
        total = cast(func.sum(REPORT_COUNT.c.reports), BigInteger)
        noted = (
            select(func.max(REPORT_DAY.c.reports))
            .where(REPORT_DAY.c.campaign_key == key)
            .correlate(REPORT_COUNT)
            .scalar_subquery()
        )
        grown = select(key, literal(day, BigInteger), total).group_by(key)
        grown = grown.having(or_(noted.is_(None), noted < total))
        change = self._insert(REPORT_DAY).from_select([*REPORT_DAY.c], grown)
        change = change.on_conflict_do_update(
            index_elements=[REPORT_DAY.c.campaign_key, REPORT_DAY.c.day],
            set_={"reports": change.excluded.reports},
        )
        self.run(lambda connection: connection.execute(change), write=True)

    def plan_participants(self, campaign_id: str, participants: int | None) -> None:

        def work(connection: Connection) -> None:
            key = _find(connection, campaign_id).campaign_key
            connection.execute(delete(CAMPAIGN_PLAN).where(CAMPAIGN_PLAN.c.campaign_key == key))
            if participants is not None:
                values = {"campaign_key": key, "participants": participants}
                connection.execute(self._insert(CAMPAIGN_PLAN).values(values))

        self.run(work, write=True)

    def progress(self, campaign_ids: Collection[str]) -> Mapping[str, Progress]:
        key = CAMPAIGN.c.campaign_key
        wanted = CAMPAIGN.c.campaign_id.in_([name for name in campaign_ids if "\0" not in name])
        plans = (
            select(CAMPAIGN.c.campaign_id, CAMPAIGN_PLAN.c.participants)
            .outerjoin(CAMPAIGN_PLAN, CAMPAIGN_PLAN.c.campaign_key == key)
            .where(wanted)
        )
        days = (
            select(CAMPAIGN.c.campaign_id, REPORT_DAY.c.day, REPORT_DAY.c.reports)
            .join(REPORT_DAY, REPORT_DAY.c.campaign_key == key)
            .where(wanted)
            .order_by(REPORT_DAY.c.day)
        )

        def work(connection: Connection) -> Mapping[str, Progress]:
            noted: dict[str, list[tuple[int, int]]] = {}
            for name, day, reports in connection.execute(days):
                noted.setdefault(name, []).append((day, int(reports)))
            planned = connection.execute(plans)
            return {name: Progress(people, noted.get(name, [])) for name, people in planned}

        return self.run(work)

    def probe(self) -> None:
        # A read-only PostgreSQL refuses even an UPDATE of no rows.
        nothing = update(CAMPAIGN).where(false()).values(closed=True)
        self.run(lambda connection: connection.execute(nothing), write=True)

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        by_campaign: dict[str, list[Submission]] = {}
        for submission in batch:
            by_campaign.setdefault(submission.campaign_id, []).append(submission)
        counted = self.attempt(partial(self._count, by_campaign))
        following = dict(zip(counted, map(iter, counted.values()), strict=True))
        return [list(islice(following[s.campaign_id], len(s.reports))) for s in batch]

    def sums(self, campaign_id: str) -> StoredSums:

        def work(connection: Connection) -> StoredSums:
            row = _find(connection, campaign_id)
            stored = self.read_sums(connection, row.campaign_key)
            return StoredSums(
                [stored.pop(index, Accumulator()) for index in range(row.queries)],
                {index: counted.n for index, counted in stored.items()},
            )

        return self.run(work)

    def answers(self, campaign_id: str, after: bytes = b"", limit: int = 1 << 16) -> StoredAnswers:

        def work(connection: Connection) -> StoredAnswers:
            key = _find(connection, campaign_id).campaign_key
            return self.read_answers(connection, key, after, limit)

        return self.run(work)

    def due(self, now: datetime) -> Sequence[str]:
        column = CAMPAIGN.c
        left = or_(column.deleted.is_(None), column.deleted.is_(False))
        query = select(column.campaign_id).where(column.delete_after <= now, left)
        return self.run(lambda connection: connection.execute(query).scalars().all())

    def delete_reports(self, campaign_id: str, limit: int = 1 << 16) -> bool:

        def work(connection: Connection) -> bool:
            key = _find(connection, campaign_id).campaign_key
            self._exclude_commits(connection, key)
            left = self._delete(connection, key, limit)
            change = update(CAMPAIGN).where(CAMPAIGN.c.campaign_key == key)
            connection.execute(change.values(deleted=not left))
            return left

        return self.run(work, write=True)

    def close(self) -> None:
        self._engine.dispose()

    def _prepare(self, connection: Connection, record: CampaignRecord) -> None:
        """Prepare storage for a new campaign's reports."""

    @abstractmethod
    def _count(self, by_campaign: Mapping[str, Sequence[Submission]]) -> dict[str, list[Outcome]]:
        """Count the reports to each campaign in one transaction, which `attempt` may repeat."""

    def read_sums(self, connection: Connection, key: int) -> dict[int, Accumulator]:
        """Return a campaign's sums by query index, with one statement."""
        column = QUERY_SUM.c
        query = select(column.query_index, column.n, column.total, column.total_of_squares).where(
            column.campaign_key == key
        )
        sums: dict[int, Accumulator] = {}
        for index, *shard in connection.execute(query):
            sums[index] = sums.get(index, Accumulator()) + Accumulator(*shard)
        return sums

    @abstractmethod
    def read_reports(self, connection: Connection, key: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield a campaign's reports in blocks: joined ids, and joined packed answers."""

    @abstractmethod
    def read_answers(
        self, connection: Connection, key: int, after: bytes, limit: int
    ) -> StoredAnswers:
        """Return the answers of a campaign's next reports; see `Store.answers`."""

    @abstractmethod
    def _delete(self, connection: Connection, key: int, limit: int) -> bool:
        """Delete about `limit` of a campaign's reports, or all; return whether any may be left."""

    def protect(self) -> None:
        """Make our database's files readable only by their owner."""

    @abstractmethod
    def copy(self, target: Path) -> None:
        """Write a copy at one moment to an empty file."""

    def freeze(self, connection: Connection) -> None:
        """Make all reads of the transaction see the same moment."""

    def faults(self, connection: Connection) -> Sequence[str]:
        """Return the faults that the database itself reports."""
        return ()

    def exclude_creation(self, connection: Connection) -> None:
        """Let only one process at a time create tables."""

    def _exclude_commits(self, connection: Connection, key: int) -> None:
        """Wait for commits to a campaign in flight, and make later ones wait."""

    def _create(self, connection: Connection) -> None:
        """Create the tables, unless another process has."""
        self.exclude_creation(connection)
        if schema_version(connection) == 0:
            create_tables(connection)

    def _is_transient(self, error: SQLAlchemyError) -> bool:
        """Return whether the same transaction may succeed if repeated at once."""
        return False

    @abstractmethod
    def _reason(self, error: SQLAlchemyError) -> str:
        """Return an error's text for the operator, without any part of a report."""

    def _cause(self, error: SQLAlchemyError) -> SQLAlchemyError | None:
        """Return the error itself, unless it quotes reports."""
        return error

    def run(
        self,
        work: Callable[[Connection], _Result],
        *,
        write: bool = False,
        failure: Code = Code.STORE_UNAVAILABLE,
    ) -> _Result:
        """Return work(connection), run in one transaction that commits or rolls back."""

        def attempted() -> _Result:
            with self.transaction(write=write) as connection:
                return work(connection)

        return self.attempt(attempted, failure)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """Provide a connection for one transaction, which commits or rolls back."""
        with self._engine.connect() as connection:
            connection = connection.execution_options(geoveil_write=write)
            with connection.begin():
                yield connection

    def attempt(
        self, transaction: Callable[[], _Result], failure: Code = Code.STORE_UNAVAILABLE
    ) -> _Result:
        """Return the result of a transaction; log its errors, and raise ours instead."""
        for last in (*[False] * (_ATTEMPTS - 1), True):
            try:
                return transaction()
            except SQLAlchemyError as error:
                if not last and self._is_transient(error):
                    continue
                reason = self._reason(error)
                cause = self._cause(error)
            # Outside the handler, which would always link the error to this one.
            _LOG.error("store_failed", extra={"store": type(self).__name__, "reason": reason})
            raise ServiceError(failure, reason) from cause
        raise AssertionError("the last attempt returns or raises")


def _is_named(campaign_id: str) -> ColumnElement[bool]:
    """Return the condition for a campaign's row; PostgreSQL's text can't contain a NUL."""
    return false() if "\0" in campaign_id else CAMPAIGN.c.campaign_id == campaign_id


def _find(connection: Connection, campaign_id: str) -> Any:
    columns = (CAMPAIGN.c.campaign_key, CAMPAIGN.c.queries, CAMPAIGN.c.closed)
    row = connection.execute(select(*columns).where(_is_named(campaign_id))).one_or_none()
    if row is None:
        raise ServiceError(Code.CAMPAIGN_NOT_FOUND, told=repr(campaign_id))
    return row


def _record(row: Any) -> CampaignRecord:
    """Return the record in a row, whose count may be a decimal number."""
    fields = dict(row._mapping)
    key = fields["block_key"]
    return CampaignRecord(
        **{
            **fields,
            "published": bytes(fields["published"]),
            "block_key": None if key is None else bytes(key),
            "reports": int(fields["reports"]),
        }
    )
