"""Broken stores: each breaks one promise, and nothing else."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import delete, event, insert, select

from geoveil.aggregator import SQLiteStore
from geoveil.aggregator.reports import PackedReport
from geoveil.aggregator.store import Outcome, Submission
from geoveil.aggregator.store.schema import QUERY_SUM


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
            [replace(s, reports=[self._renamed(r) for r in s.reports]) for s in batch]
        )

    def _renamed(self, report: PackedReport) -> PackedReport:
        report_id = hashlib.blake2b(report.report_id, key=self._salt, digest_size=16).digest()
        return report._replace(report_id=report_id)


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
        return super().commit([replace(s, admit=True) for s in batch])


class CommitsRowsAlone(SQLiteStore):
    """Has the rows durable before the sums: what dies in between has rows and no sums."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        event.listen(self._engine, "before_cursor_execute", self._split)

    @staticmethod
    def _split(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "INTO query_sum" in statement:
            cursor.connection.execute("COMMIT")
            cursor.connection.execute("BEGIN IMMEDIATE")


MUTANTS = (
    AcknowledgesBeforeCommit,
    ForgetsOnRestart,
    LosesSumsOnConflict,
    ClosesLate,
    IgnoresDates,
    CommitsRowsAlone,
)
