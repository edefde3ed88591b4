"""Broken parts: each breaks one promise, and nothing else."""

import hashlib
import secrets
import sqlite3
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import delete, insert, select

from geoveil.aggregator import Code, CollectorServicer, ServiceError, SQLiteStore, Writer
from geoveil.aggregator.domain.reports import PackedReport
from geoveil.aggregator.store import (
    CampaignPage,
    CampaignRecord,
    Outcome,
    StoredAnswers,
    Submission,
)
from geoveil.aggregator.store.schema import QUERY_SUM
from geoveil.campaign.admission import REPORT_ID_BYTES
from geoveil.proto.v1 import collector_pb2

from .campaigns import POINTS
from .in_process import Parts


class AcknowledgesBeforeCommit(SQLiteStore):
    """Says what a commit will do, and does it when the next one comes."""

    _waiting: Sequence[Submission] = ()

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        self._flush()
        with TemporaryDirectory() as folder:
            target = Path(folder) / "copy.sqlite"
            self.copy(target)
            with SQLiteStore(target) as copy:
                outcomes = copy.commit(batch)
        self._waiting = batch
        return outcomes

    def close_campaign(self, campaign_id: str) -> None:
        self._flush()
        super().close_campaign(campaign_id)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, ()
        if waiting:
            super().commit(waiting)


class ForgetsOnRestart(SQLiteStore):
    """Knows reports again only as long as it runs."""

    def __init__(self, path: Path) -> None:
        self._salt = secrets.token_bytes(8)
        super().__init__(path)

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        return super().commit(
            [s._replace(reports=[self._renamed(r) for r in s.reports]) for s in batch]
        )

    def _renamed(self, report: PackedReport) -> PackedReport:
        return report._replace(report_id=_salted(report.report_id, self._salt))


def _salted(report_id: bytes, salt: bytes) -> bytes:
    return hashlib.blake2b(report_id, key=salt, digest_size=REPORT_ID_BYTES).digest()


class LosesSumsOnConflict(SQLiteStore):
    """Puts the sums back when one report of many conflicts."""

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        before = self.run(lambda c: [dict(r._mapping) for r in c.execute(select(QUERY_SUM))])
        outcomes = super().commit(batch)
        if any(Outcome.ID_CONFLICT in of_one for of_one in outcomes):
            self.run(lambda c: _put_back(c, before), write=True)
        return outcomes


def _put_back(connection: Any, rows: list[dict[str, Any]]) -> None:
    connection.execute(delete(QUERY_SUM))
    if rows:
        connection.execute(insert(QUERY_SUM), rows)


class ClosesLate(SQLiteStore):
    """Closes campaigns after the next commit."""

    _closing: tuple[str, ...] = ()

    def close_campaign(self, campaign_id: str) -> None:
        self.get_campaign(campaign_id)
        self._closing = (*self._closing, campaign_id)

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        outcomes = super().commit(batch)
        closing, self._closing = self._closing, ()
        for campaign_id in closing:
            super().close_campaign(campaign_id)
        return outcomes


class IgnoresDates(SQLiteStore):
    """Takes reports whatever the clock says."""

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        return super().commit([s._replace(admit=True) for s in batch])


class CommitsRowsAlone(SQLiteStore):
    """Has the rows durable before the sums: what dies in between has rows and no sums."""

    @contextmanager
    def _counting_transaction(self) -> Iterator[Any]:
        with super()._counting_transaction() as connection:
            yield _Splitting(connection)


class _Splitting:
    """A connection that ends a transaction before it writes sums, and begins another."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if "INTO query_sum" in statement:
            self._connection.execute("COMMIT")
            self._connection.execute("BEGIN IMMEDIATE")
        return self._connection.execute(statement, *parameters)


class LosesCoordinates(SQLiteStore):
    """Stores points without their last coordinate."""

    def commit(self, batch: Sequence[Submission]) -> list[list[Outcome]]:
        return super().commit(
            [
                s._replace(reports=[_flat(r) for r in s.reports]) if s.campaign_id == POINTS else s
                for s in batch
            ]
        )


def _flat(report: PackedReport) -> PackedReport:
    return report._replace(answers=report.answers[:-8] + bytes(8))


class ExportsTwice(SQLiteStore):
    """Reads the first rows twice."""

    def answers(self, campaign_id: str, after: bytes = b"", limit: int = 1 << 16) -> StoredAnswers:
        found = super().answers(campaign_id, after, limit)
        return found._replace(packed=found.packed * 2)


class WatchesOldNumbers(SQLiteStore):
    """Tells who looks at a campaign again how many reports it had before."""

    def __init__(self, path: Path) -> None:
        self._seen: dict[str, int] = {}
        super().__init__(path)

    def get_campaign(self, campaign_id: str) -> CampaignRecord:
        record = super().get_campaign(campaign_id)
        return replace(record, reports=self._seen.setdefault(campaign_id, record.reports))


class FetchesOpen(SQLiteStore):
    """Shows campaigns as if they were never closed."""

    def get_campaign(self, campaign_id: str) -> CampaignRecord:
        return replace(super().get_campaign(campaign_id), closed=False)


class ListsOpen(SQLiteStore):
    """Lists campaigns as if they were never closed."""

    def campaign_page(self, *arguments: Any, **named: Any) -> CampaignPage:
        page = super().campaign_page(*arguments, **(named | {"open_at": None}))
        return page._replace(records=[replace(record, closed=False) for record in page.records])


class ForgetsInStreams(CollectorServicer):
    """Knows reports again only within one stream."""

    async def SubmitReportStream(
        self, request_iterator: AsyncIterable[Any], context: Any
    ) -> AsyncIterator[Any]:
        salt = secrets.token_bytes(8)
        async for message in request_iterator:
            request = collector_pb2.SubmitReportsRequest.FromString(message)
            for report in request.reports:
                if len(report.report_id) == REPORT_ID_BYTES:
                    report.report_id = _salted(report.report_id, salt)
            yield await self.SubmitReports(request.SerializeToString(), context)


class QueuesWhatItRefuses(Writer):
    """Says that a queue is full, and writes what came nevertheless."""

    async def submit(self, submission: Submission) -> list[Outcome]:
        try:
            return await super().submit(submission)
        except ServiceError as error:
            if error.code is Code.QUEUE_FULL:
                await self.call(lambda store: store.commit([submission]))
            raise


MUTANTS = {
    part.__name__: parts
    for part, parts in (
        *(
            (store, Parts(store=store))
            for store in SQLiteStore.__subclasses__()
            if store.__module__ == __name__  # other tests have stores of their own
        ),
        (ForgetsInStreams, Parts(collector=ForgetsInStreams)),
        (QueuesWhatItRefuses, Parts(writer=QueuesWhatItRefuses)),
    )
}
