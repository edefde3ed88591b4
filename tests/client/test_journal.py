"""One contract for both journals; permissions, races and refusals of the one on disk."""

import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from geoveil.client import Contribution, JournalError, Receipt, ReportRejected
from geoveil.client.journal import Entry, Journal, MemoryJournal, Rejection, Status
from geoveil.client.sqlite_journal import SqliteJournal
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import report_pb2

T0 = datetime(2026, 5, 1, 12, tzinfo=UTC)
PRIVACY = GeoPrivacy(0.1, 8000.3, "dollar")


def entry(campaign_id: str = "income", *, value: int = -7, at: datetime = T0) -> Entry:
    report = report_pb2.Report(
        report_id=bytes(range(16)), answers=[report_pb2.Answer(query_index=3, value=value)]
    )
    return Entry(
        contribution=Contribution(
            campaign_id=campaign_id,
            digest=b"\x00\xff" * 16,
            report=report.SerializeToString(),
            privacy=PRIVACY,
        ),
        recorded=at,
    )


class Contract:
    """What every journal promises."""

    @pytest.fixture
    def journal(self) -> Journal:
        raise NotImplementedError

    def test_what_is_recorded_is_found(self, journal: Journal) -> None:
        assert journal.find("income") is None
        assert journal.record(entry()) == entry()
        assert journal.find("income") == entry()
        assert journal.find("incom") is None

    def test_the_first_report_of_a_campaign_is_the_one_that_counts(self, journal: Journal) -> None:
        journal.record(entry(value=1))
        assert journal.record(entry(value=2)) == entry(value=1)
        assert journal.find("income") == entry(value=1)
        assert journal.record(entry("debt", value=2)) == entry("debt", value=2)

    def test_a_settled_report_stays_the_first_one(self, journal: Journal) -> None:
        journal.record(entry(value=1))
        settled = journal.settle("income", Status.ACKNOWLEDGED, T0)
        assert journal.record(entry(value=2)) == settled

    def test_a_receipt_says_what_left_the_device(self, journal: Journal) -> None:
        journal.record(entry())
        receipt = journal.settle("income", Status.ACKNOWLEDGED, T0).receipt()
        assert receipt == Receipt(
            campaign_id="income",
            report_id="000102030405060708090a0b0c0d0e0f",
            digest="00ff" * 16,
            answers=receipt.answers,
            privacy=PRIVACY,
            acknowledged=True,
        )
        assert [(a.query_index, a.value) for a in receipt.answers] == [(3, -7)]

    def test_a_status_only_goes_up(self, journal: Journal) -> None:
        later = T0 + timedelta(seconds=1)
        refusal = Rejection("NOT_OPEN", "closed")
        journal.record(entry())
        assert journal.settle("income", Status.PENDING, T0).settled is None
        rejected = journal.settle("income", Status.REJECTED, T0, refusal)
        assert (rejected.status, rejected.rejection, rejected.settled) == (
            Status.REJECTED,
            refusal,
            T0,
        )
        with pytest.raises(ReportRejected, match=r"NOT_OPEN \(closed\)") as raised:
            rejected.receipt()
        assert not raised.value.receipt.acknowledged
        # Another process heard that it had been counted before.
        counted = journal.settle("income", Status.ACKNOWLEDGED, later)
        assert (counted.status, counted.rejection) == (Status.ACKNOWLEDGED, None)
        assert journal.settle("income", Status.REJECTED, T0, refusal) == counted
        assert journal.find("income") == counted

    def test_pending_are_those_without_an_answer_oldest_first(self, journal: Journal) -> None:
        east = timezone(timedelta(hours=14))
        journal.record(entry("c", at=T0 + timedelta(seconds=2)))
        journal.record(entry("b", at=(T0 + timedelta(seconds=1)).astimezone(east)))
        journal.record(entry("a", at=T0 + timedelta(microseconds=1)))
        journal.record(entry("d", at=T0))
        journal.record(entry("e", at=T0))
        journal.settle("d", Status.ACKNOWLEDGED, T0)
        journal.settle("e", Status.REJECTED, T0, Rejection("NOT_OPEN", ""))
        assert [e.contribution.campaign_id for e in journal.pending()] == ["a", "b", "c"]

    def test_nothing_is_settled_that_was_not_recorded(self, journal: Journal) -> None:
        with pytest.raises(JournalError, match="no entry for 'income'"):
            journal.settle("income", Status.ACKNOWLEDGED, T0)

    def test_threads_that_race_all_get_one_report(self, journal: Journal) -> None:
        barrier = threading.Barrier(8)
        kept: list[Entry] = []

        def race(value: int) -> None:
            barrier.wait()
            kept.append(journal.record(entry(value=value)))

        threads = [threading.Thread(target=race, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(kept) == 8
        assert {e.contribution.report for e in kept} == {kept[0].contribution.report}


class TestMemoryJournal(Contract):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal()


class TestSqliteJournal(Contract):
    @pytest.fixture
    def journal(self, tmp_path: Path) -> Journal:
        return SqliteJournal(tmp_path / "state")

    def test_it_survives_its_object(self, tmp_path: Path) -> None:
        SqliteJournal(tmp_path / "state").record(entry())
        again = SqliteJournal(tmp_path / "state")
        assert again.find("income") == entry()
        assert again.record(entry(value=2)) == entry()

    def test_only_the_owner_has_access(self, tmp_path: Path) -> None:
        directory = tmp_path / "a" / "state"
        before = os.umask(0)
        try:
            journal = SqliteJournal(directory)
            journal.record(entry())
            with journal._connection() as connection:  # while the WAL and its index exist
                connection.execute("SELECT * FROM entry").fetchall()
                modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()}
        finally:
            os.umask(before)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert modes == dict.fromkeys(
            ["journal.sqlite3", "journal.sqlite3-shm", "journal.sqlite3-wal"], 0o600
        )

    @pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
    def test_a_directory_that_others_can_enter_is_refused(self, tmp_path: Path, mode: int) -> None:
        (tmp_path / "state").mkdir()
        (tmp_path / "state").chmod(mode)
        with pytest.raises(JournalError, match="chmod 700"):
            SqliteJournal(tmp_path / "state")
        assert list((tmp_path / "state").iterdir()) == []

    def test_it_is_durable(self, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "state")
        with journal._connection() as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL

    def test_it_leaves_nothing_open_and_no_draft(self, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "state")
        journal.record(entry())
        assert [p.name for p in (tmp_path / "state").iterdir()] == ["journal.sqlite3"]
        opened = [os.readlink(f"/proc/self/fd/{d}") for d in _open_files()]
        assert not [path for path in opened if str(tmp_path) in path]

    def test_it_holds_only_what_was_perturbed_or_is_public(self, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "state")
        with journal._connection() as connection:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(entry)")]
        assert columns == [
            *("campaign_id", "digest", "report", "epsilon", "per", "unit", "recorded"),
            *("status", "reason", "detail", "settled"),
        ]

    def test_one_that_vanished_is_never_made_anew(self, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "state")
        journal.record(entry())
        (tmp_path / "state" / "journal.sqlite3").unlink()
        with pytest.raises(JournalError, match="unable to open"):
            journal.find("income")
        assert list((tmp_path / "state").iterdir()) == []

    @pytest.mark.parametrize("operation", ["find", "record", "settle", "pending"])
    def test_what_sqlite_says_becomes_a_journal_error(self, tmp_path: Path, operation: str) -> None:
        journal = SqliteJournal(tmp_path / "state")
        (tmp_path / "state" / "journal.sqlite3").write_bytes(b"not a database" * 1000)
        operations: dict[str, Callable[[], object]] = {
            "find": lambda: journal.find("income"),
            "record": lambda: journal.record(entry()),
            "settle": lambda: journal.settle("income", Status.REJECTED, T0),
            "pending": lambda: journal.pending(),
        }
        with pytest.raises(JournalError, match="not a database"):
            operations[operation]()
        with pytest.raises(JournalError, match="not a database"):
            SqliteJournal(tmp_path / "state")

    def test_rows_that_nobody_wrote_are_refused(self, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "state")
        journal.record(entry())
        with journal._connection() as connection:
            connection.execute("UPDATE entry SET epsilon = -1")
        with pytest.raises(JournalError, match="epsilon"):
            journal.find("income")

    def test_a_newer_format_is_refused(self, tmp_path: Path) -> None:
        SqliteJournal(tmp_path / "state")
        with sqlite3.connect(tmp_path / "state" / "journal.sqlite3") as connection:
            connection.execute("PRAGMA user_version = 2")
        connection.close()
        with pytest.raises(JournalError, match="its format is 2, this geoveil knows 1"):
            SqliteJournal(tmp_path / "state")

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
    def test_a_place_where_nothing_can_be_written_is_refused(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(JournalError, match="Permission denied"):
            SqliteJournal(tmp_path / "state")

    def test_a_file_in_place_of_the_directory_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "state").write_text("")
        with pytest.raises(JournalError):
            SqliteJournal(tmp_path / "state")

    def test_many_can_make_it_at_once(self, tmp_path: Path) -> None:
        barrier = threading.Barrier(8)
        kept: list[Entry] = []

        def race(value: int) -> None:
            barrier.wait()
            kept.append(SqliteJournal(tmp_path / "state").record(entry(value=value)))

        threads = [threading.Thread(target=race, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(kept) == 8
        assert {e.contribution.report for e in kept} == {kept[0].contribution.report}
        assert [p.name for p in (tmp_path / "state").iterdir()] == ["journal.sqlite3"]

    def test_odd_names_are_only_names(self, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "state?mode=memory#%41")
        journal.record(entry())
        assert (tmp_path / "state?mode=memory#%41" / "journal.sqlite3").exists()
        assert journal.find("income' OR '1'='1") is None


def _open_files() -> list[str]:
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        found.append(descriptor)
    return found
