"""One table that is ledger, outbox and history: in memory and on disk, shared and refused."""

import math
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from geoveil.campaign import Charge
from geoveil.client import Contribution, DeliveryStatus, JournalError, OutboxFull, Rejection
from geoveil.client.contributions import Entry
from geoveil.client.journal import Bounds, Journal
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import report_pb2
from tests.client.conftest import in_threads

T0 = datetime(2026, 5, 1, 12, tzinfo=UTC)
PRIVACY = GeoPrivacy(0.1, 8000.3, "dollar")
BOUNDS = Bounds(most_reports=100, most_bytes=10**6)
REFUSAL = Rejection("NOT_OPEN", "closed")


def made(campaign_id: str = "income", *, value: int = -7, period: int = 0) -> Contribution:
    report = report_pb2.Report(
        report_id=bytes(range(16)),
        answers=[report_pb2.Answer(query_index=3, value=value)],
        period=period,
    )
    return Contribution(
        campaign_id=campaign_id,
        period=period,
        digest=b"\x00\xff" * 16,
        report=report.SerializeToString(),
        charges=(Charge("household income", PRIVACY, math.inf),),
        step_exponent=-20,
        closes=T0 + timedelta(days=30),
    )


def permitted(history_of: Any) -> None:
    """Raise nothing: there is room in all limits."""


def record(
    journal: Journal,
    contribution: Contribution,
    at: datetime = T0,
    bounds: Bounds = BOUNDS,
) -> Entry:
    return journal.record(contribution, permitted, at, bounds)


def recorded(
    journal: Journal,
    entry: Entry,
    status: DeliveryStatus,
    at: datetime = T0,
    why: Rejection | None = None,
) -> Entry:
    journal.record_outcome(replace(entry, status=status, settled=at, rejection=why))
    found = journal.find(entry.contribution.campaign_id, entry.contribution.period)
    assert found is not None
    return found


@pytest.fixture
def journal(state_dir):
    journal = Journal(state_dir)
    yield journal
    journal.close()


def test_only_a_directory_is_durable(state_dir, journal):
    assert journal.durable == (state_dir is not None)


def test_what_is_recorded_is_found(journal):
    assert journal.find("income", 0) is None
    entry = Entry(contribution=made(), drawn=T0)
    assert record(journal, made()) == entry
    assert journal.find("income", 0) == entry
    assert journal.find("incom", 0) is None
    assert journal.find("income", 1) is None
    assert journal.find("income' OR '1'='1", 0) is None


def test_the_first_report_of_a_period_is_the_one_that_counts(journal):
    first = record(journal, made(value=1))

    def never(history_of: Any) -> None:
        raise AssertionError("what is answered needs no room")

    assert journal.admit("income", 0, never, BOUNDS) == first
    assert journal.record(made(value=3), never, T0, BOUNDS) == first
    settled = recorded(journal, first, DeliveryStatus.ACKNOWLEDGED)
    assert journal.admit("income", 0, never, BOUNDS) == settled
    assert journal.record(made(value=3), never, T0, BOUNDS) == settled
    assert record(journal, made(value=2, period=1)).contribution == made(value=2, period=1)
    assert record(journal, made("debt", value=2)).contribution == made("debt", value=2)


class Undone(Exception):  # noqa: N818 - it is no error
    """Raised by limits."""


def test_what_the_limits_refuse_leaves_nothing(journal):
    def fail(history_of: Any) -> None:
        assert not history_of("household income", "dollar").spendings()
        raise Undone

    for use in (
        lambda: journal.admit("income", 0, fail, BOUNDS),
        lambda: journal.record(made(), fail, T0, BOUNDS),
    ):
        with pytest.raises(Undone):
            use()
    assert journal.history() == ()
    assert record(journal, made()).contribution == made()


def test_what_waits_is_bounded(journal):
    for period in range(3):
        record(journal, made(period=period))
    size = sum(len(made(period=p).report) for p in range(3))
    for bounds in (replace(BOUNDS, most_reports=3), replace(BOUNDS, most_bytes=size)):
        for use in (
            lambda bounds=bounds: journal.admit("income", 3, permitted, bounds),
            lambda bounds=bounds: record(journal, made(period=3), bounds=bounds),
        ):
            with pytest.raises(OutboxFull) as raised:
                use()
            assert raised.value.reports == 3
            assert raised.value.size == size
    roomy = Bounds(most_reports=4, most_bytes=size + 1)
    assert journal.admit("income", 3, permitted, roomy) is None
    record(journal, made(period=3), bounds=roomy)  # the report that reaches the bound


def test_a_status_only_goes_up(journal):
    later = T0 + timedelta(seconds=1)
    entry = record(journal, made())
    assert recorded(journal, entry, DeliveryStatus.PENDING).settled is None
    assert recorded(journal, entry, DeliveryStatus.EXPIRED).status is DeliveryStatus.EXPIRED
    rejected = recorded(journal, entry, DeliveryStatus.REJECTED, later, REFUSAL)
    assert (rejected.status, rejected.rejection, rejected.settled) == (
        DeliveryStatus.REJECTED,
        REFUSAL,
        later,
    )
    # Another process heard that it had been counted before.
    counted = recorded(journal, entry, DeliveryStatus.ACKNOWLEDGED, later)
    assert (counted.status, counted.rejection) == (DeliveryStatus.ACKNOWLEDGED, None)
    assert recorded(journal, entry, DeliveryStatus.REJECTED, T0, REFUSAL) == counted
    assert recorded(journal, entry, DeliveryStatus.EXPIRED) == counted


def test_settling_what_was_never_recorded_changes_nothing(journal):
    unknown = Entry(contribution=made(), drawn=T0)
    journal.record_outcome(replace(unknown, status=DeliveryStatus.ACKNOWLEDGED, settled=T0))
    assert journal.history() == ()


def test_pending_are_those_without_an_answer_oldest_first(journal):
    east = timezone(timedelta(hours=14))
    record(journal, made("c"), T0 + timedelta(seconds=2))
    record(journal, made("b"), (T0 + timedelta(seconds=1)).astimezone(east))
    record(journal, made("a"), T0 + timedelta(microseconds=1))
    counted, refused = record(journal, made("d")), record(journal, made("e"))
    recorded(journal, counted, DeliveryStatus.ACKNOWLEDGED)
    recorded(journal, refused, DeliveryStatus.REJECTED, why=REFUSAL)
    assert [e.contribution.campaign_id for e in journal.pending()] == ["a", "b", "c"]
    assert [e.contribution.campaign_id for e in journal.history()] == ["d", "e", "a", "b", "c"]
    counts, size = journal.counts()
    assert counts == {
        DeliveryStatus.PENDING: 3,
        DeliveryStatus.EXPIRED: 0,
        DeliveryStatus.REJECTED: 1,
        DeliveryStatus.ACKNOWLEDGED: 1,
    }
    assert size == 3 * len(made().report)


def test_departure_is_noted_once_and_a_failure_until_it_is_settled(journal):
    entry = record(journal, made())
    journal.mark_sent([entry], T0)
    journal.mark_sent([entry], T0 + timedelta(hours=1))
    journal.record_outcome(replace(entry, failure="UNAVAILABLE: down"))
    (left,) = journal.pending()
    assert (left.sent, left.failure) == (T0, "UNAVAILABLE: down")
    assert left.receipt().failure == "UNAVAILABLE: down"
    assert recorded(journal, entry, DeliveryStatus.ACKNOWLEDGED).receipt().failure is None


def test_the_first_campaign_of_an_id_is_pinned(journal):
    assert journal.envelope("income") is None
    assert journal.pin("income", b"1" * 32, b"first", T0) == b"1" * 32
    assert journal.pin("income", b"2" * 32, b"second", T0) == b"1" * 32
    assert journal.envelope("income") == b"first"
    assert journal.envelope("debt") is None


def test_times_are_exact_and_in_utc(journal):
    odd = datetime(2026, 5, 1, 12, 0, 0, 123_457, tzinfo=timezone(timedelta(hours=-7)))
    entry = record(journal, made(), odd)
    (kept,) = journal.history()
    assert kept.drawn == entry.drawn == odd
    assert kept.drawn.utcoffset() == timedelta(0)


@pytest.mark.parametrize("own", [False, True], ids=["one journal", "each its own"])
def test_threads_that_race_all_get_one_report(journal, tmp_path, own):
    kept: list[Entry] = []

    def take_part(value: int) -> None:
        of = Journal(tmp_path / "raced") if own else journal
        kept.append(record(of, made(value=value)))

    in_threads(8, take_part)
    assert len(kept) == 8
    assert len({e.contribution.report for e in kept}) == 1
    assert [entry.fresh for entry in kept].count(True) == 1


def test_it_survives_its_object(tmp_path):
    first = Journal(tmp_path / "state")
    entry = record(first, made())
    first.pin("income", b"1" * 32, b"first", T0)
    first.close()
    again = Journal(tmp_path / "state")
    assert again.find("income", 0) == entry
    assert again.envelope("income") == b"first"
    again.close()


def test_it_holds_only_what_was_perturbed_or_is_public(tmp_path):
    Journal(tmp_path / "state").close()
    connection = sqlite3.connect(tmp_path / "state" / "journal.sqlite3")
    tables = {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    connection.close()
    assert tables == {
        "state": ["commits", "rows"],
        "campaign": ["campaign_id", "digest", "envelope", "seen", "checksum"],
        "report": [
            *("campaign_id", "period", "digest", "report", "step_exponent", "closes", "drawn"),
            *("epoch", "earlier", "departs"),
            *("status", "sent", "settled", "reason", "detail", "failure", "checksum"),
        ],
        "charge": [
            *("campaign_id", "period", "attribute", "unit", "epsilon", "per", "delta", "reach"),
            *("any_two", "checksum"),
        ],
        "reading": [
            *("attribute", "unit", "space", "begins", "ends", "epsilon", "per", "point", "drawn"),
            "checksum",
        ],
        "campaign_point": [
            *("campaign_id", "attribute", "unit", "space", "begins", "epsilon", "per", "point"),
            *("drawn", "checksum"),
        ],
    }


def test_a_price_that_nobody_wrote_is_not_added_up(tmp_path):
    journal = Journal(tmp_path / "state")
    record(journal, made())
    connection = sqlite3.connect(tmp_path / "state" / "journal.sqlite3")
    connection.execute("UPDATE charge SET epsilon = -100")
    connection.commit()
    connection.close()
    with pytest.raises(JournalError, match="row"):
        journal.spent("household income", "dollar", lambda history: list(history.spendings()))
    journal.close()


UNKNOWN = Entry(contribution=made(), drawn=T0)
OPERATIONS: dict[str, Callable[[Journal], object]] = {
    "pin": lambda journal: journal.pin("income", b"", b"", T0),
    "envelope": lambda journal: journal.envelope("income"),
    "find": lambda journal: journal.find("income", 0),
    "readings": lambda journal: journal.readings("income", "dollar", "Number()"),
    "points": lambda journal: journal.points("income", ()),
    "record": lambda journal: record(journal, made()),
    "admit": lambda journal: journal.admit("income", 0, permitted, BOUNDS),
    "pending": lambda journal: journal.pending(),
    "mark_sent": lambda journal: journal.mark_sent([UNKNOWN], T0),
    "record_outcome": lambda journal: journal.record_outcome(replace(UNKNOWN, failure="no")),
    "history": lambda journal: journal.history(),
    "counts": lambda journal: journal.counts(),
    "spent": lambda journal: journal.spent("a", "b", lambda history: list(history.spendings())),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_sqlite_says_becomes_a_journal_error(tmp_path, operation):
    journal = Journal(tmp_path / "state")
    journal.close()
    (tmp_path / "state" / "journal.sqlite3").write_bytes(b"not a database" * 1000)
    with pytest.raises(JournalError, match="not a database"):
        OPERATIONS[operation](journal)
    with pytest.raises(JournalError, match="not a database"):
        Journal(tmp_path / "state")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_journal_in_memory_that_was_closed_is_gone(operation):
    journal = Journal(None)
    journal.close()
    with pytest.raises(JournalError, match="it is closed"):
        OPERATIONS[operation](journal)


def test_no_operation_is_left_out_above():
    assert {name for name in vars(Journal) if not name.startswith("_")} == {
        *OPERATIONS, "close"
    }  # fmt: skip


def spent(journal: Journal) -> list[tuple[GeoPrivacy, int]]:
    return journal.spent(
        "household income", "dollar", lambda history: list(history.spendings().items())
    )


def test_what_was_spent_is_read_as_it_grows(tmp_path):
    """Whoever added it, and not before it is kept."""
    journal, other = Journal(tmp_path / "state"), Journal(tmp_path / "state")
    assert spent(journal) == spent(other) == []
    for count in range(1, 5):
        record((journal, other)[count % 2], made(period=count))
        assert spent(journal) == spent(other) == [(PRIVACY, count)]
    price = GeoPrivacy(1.0, 8000.3, "dollar")
    dear = replace(made("debt"), charges=(Charge("household income", price, math.inf),))
    with pytest.raises(Undone):
        journal.record(dear, undo, T0, BOUNDS)
    assert spent(journal) == spent(other) == [(PRIVACY, 4)]
    record(other, dear)
    assert spent(journal) == spent(other) == [(PRIVACY, 4), (price, 1)]
    journal.close()
    assert spent(journal) == [(PRIVACY, 4), (price, 1)]
    for one in (journal, other):
        one.close()


def undo(history_of: Any) -> None:
    raise Undone


def test_spending_is_told_by_campaign_and_by_when_it_was_told(journal):
    """Each count against one of all rows, by brute force; every fourth report waits."""
    hour = timedelta(hours=1)
    reports = [(f"c{i % 3}", i // 3, T0 + (7 * i % 12) * hour, i % 4 == 0) for i in range(12)]
    for campaign_id, period, at, waits in reports:
        entry = record(journal, made(campaign_id, period=period), T0)
        if not waits:
            journal.record_outcome(replace(entry, status=DeliveryStatus.REJECTED, settled=at))
    of_all = partial(journal.spent, "household income", "dollar")
    for asked in (None, "c0", "c2", "c3"):
        drawn = of_all(lambda history, asked=asked: dict(history.spendings(campaign_id=asked)))
        counted = sum(asked in (None, campaign_id) for campaign_id, *_ in reports)
        assert sum(drawn.values()) == counted
    for after in (None, T0 - hour, T0, T0 + 5 * hour, T0 + 11 * hour):
        tellings = of_all(lambda history, after=after: list(history.tellings(after=after)))
        told = [None if waits else at for *_, at, waits in reports]
        counted = [at for at in told if at is None or after is None or at > after]
        assert sorted(map(str, (t.last for t in tellings))) == sorted(map(str, counted))


@pytest.mark.parametrize("between", [False, True])
def test_room_is_looked_at_again_if_another_report_came(tmp_path, between):
    journal, other = Journal(tmp_path / "state"), Journal(tmp_path / "state")
    looked: list[list[Any]] = []

    def permit(history_of: Any) -> None:
        looked.append(list(history_of("household income", "dollar").spendings()))

    assert journal.admit("income", 0, permit, BOUNDS) is None
    if between:
        record(other, made("debt"))
    journal.record(made(), permit, T0, BOUNDS)
    assert [len(found) for found in looked] == ([0, 1] if between else [0])
    journal.record(made("rent"), permit, T0, BOUNDS)
    assert len(looked) == (3 if between else 2), "another campaign is another question"
    for one in (journal, other):
        one.close()


def test_departures_together_are_one_commit(tmp_path):
    journal = Journal(tmp_path / "state")
    entries = [record(journal, made(period=period)) for period in range(3)]
    statements: list[str] = []
    connection = journal._file._connection
    assert connection is not None
    connection.set_trace_callback(statements.append)
    journal.mark_sent(entries, T0)
    assert statements.count("COMMIT") == 1
    assert [entry.sent for entry in journal.history()] == [T0] * 3
    journal.close()


def test_what_is_admitted_is_told_from_one_state(tmp_path):
    """Another process that answers in between is seen whole or not at all."""
    journal, other = Journal(tmp_path / "state"), Journal(tmp_path / "state")
    spent: list[int] = []

    def permit(history_of: Any) -> None:
        record(other, made())
        spent.append(len(list(history_of("household income", "dollar").spendings())))

    assert journal.admit("income", 0, permit, BOUNDS) is None
    assert spent == [0]
    assert journal.admit("income", 0, permit, BOUNDS) is not None
    for one in (journal, other):
        one.close()
