"""Test the contract of a store, for every implementation."""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from random import Random

import pytest

from geoveil.aggregator import Code, ServiceError, SQLiteStore
from geoveil.aggregator.domain.reports import Bins, PackedColumns, PackedReport, in_columns, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Progress, Submission
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.gp.estimation import Accumulator

from .refusals import refuses

ACCEPTED, DUPLICATE = Outcome.ACCEPTED, Outcome.DUPLICATE
ID_CONFLICT, NOT_OPEN = Outcome.ID_CONFLICT, Outcome.NOT_OPEN


def record(
    campaign_id: str = "a", published: bytes = b"a's bytes", queries: int = 3
) -> CampaignRecord:
    return CampaignRecord(campaign_id=campaign_id, published=published, queries=queries)


def report(number: int, *answers: tuple[int, int]) -> PackedReport:
    return PackedReport(number.to_bytes(16, "big"), pack(answers))


def submission(*reports: PackedReport, to: str = "a", admit: bool = True) -> Submission:
    return Submission(to, reports, admit)


class StoreContract(ABC):
    """What every store must do. A subclass says how one is opened."""

    @pytest.fixture
    @abstractmethod
    def open_store(self):
        """Return a function that opens the test's database."""

    @pytest.fixture
    def store(self, open_store):
        with open_store() as opened:
            opened.create_campaign(record())
            yield opened

    def test_campaigns_come_back_in_order_of_creation(self, store):
        others = [record("z", b"z", 1), record("b", b"b", 10_000)]
        for other in others:
            store.create_campaign(other)
        assert store.campaign_page().records == [record(), *others]
        assert store.get_campaign("b") == others[1]

    def test_a_page_leaves_out_campaigns_that_are_closed_at_a_time(self, store):
        now = datetime(2026, 1, 1, tzinfo=UTC)
        for name, closes in (("past", now), ("open", now + timedelta(seconds=1))):
            store.create_campaign(replace(record(name, name.encode()), closes=closes))
        store.close_campaign("a")
        assert [c.campaign_id for c in store.campaign_page(open_at=now).records] == ["open"]

    def test_creating_again_changes_nothing(self, store):
        store.close_campaign("a")
        store.create_campaign(record())
        assert [c.closed for c in store.campaign_page().records] == [True]

    def test_an_id_is_taken_by_its_bytes(self, store):
        with refuses(Code.CAMPAIGN_ID_TAKEN):
            store.create_campaign(record(published=b"other bytes"))
        assert store.campaign_page().records == [record()]

    def test_unknown_campaigns_are_not_found(self, store):
        calls: list[Callable[[], object]] = [
            lambda: store.get_campaign("b"),
            lambda: store.close_campaign("b"),
            lambda: store.totals("b"),
            lambda: store.answers("b"),
            lambda: store.commit([submission(report(1, (0, 5)), to="b")]),
        ]
        for call in calls:
            with refuses(Code.CAMPAIGN_NOT_FOUND):
                call()

    def test_a_failed_batch_leaves_no_trace(self, store):
        batch = [submission(report(1, (0, 5))), submission(report(2, (0, 5)), to="unknown")]
        with pytest.raises(ServiceError):
            store.commit(batch)
        assert store.totals("a") == [Accumulator()] * 3
        assert store.get_campaign("a").reports == 0
        assert store.commit(batch[:1]) == [[ACCEPTED]]

    def test_a_report_counts_once(self, store, open_store):
        batch = [submission(report(1, (0, 5)), report(2, (2, -7)))]
        assert store.commit(batch) == [[ACCEPTED, ACCEPTED]]
        assert store.commit(batch) == [[DUPLICATE, DUPLICATE]]
        with open_store() as reopened:
            assert reopened.commit(batch) == [[DUPLICATE, DUPLICATE]]
            assert reopened.totals("a") == [
                Accumulator(1, 5, 25),
                Accumulator(),
                Accumulator(1, -7, 49),
            ]
            assert reopened.get_campaign("a").reports == 2

    def test_an_id_twice_in_one_batch(self, store):
        same, other = report(1, (0, 5)), report(1, (0, 6))
        batch = [submission(same, same, other), submission(other, same)]
        assert store.commit(batch) == [[ACCEPTED, DUPLICATE, ID_CONFLICT], [ID_CONFLICT, DUPLICATE]]
        assert store.totals("a")[0] == Accumulator(1, 5, 25)

    def test_other_answers_conflict(self, store):
        store.commit([submission(report(1, (0, 5)))])
        others = [(0, 6)], [(1, 5)], [(0, 5), (1, 5)]
        for answers in others:
            assert store.commit([submission(report(1, *answers))]) == [[ID_CONFLICT]]
        assert store.totals("a") == [Accumulator(1, 5, 25), Accumulator(), Accumulator()]

    @pytest.mark.parametrize("by_analyst", [True, False])
    def test_known_reports_are_recognised_when_new_ones_are_not_taken(self, store, by_analyst):
        store.commit([submission(report(1, (0, 5)))])
        if by_analyst:
            store.close_campaign("a")
            store.close_campaign("a")
        late = submission(report(1, (0, 5)), report(1, (0, 6)), report(2, (0, 5)), admit=by_analyst)
        assert store.commit([late]) == [[DUPLICATE, ID_CONFLICT, NOT_OPEN]]
        assert store.totals("a")[0] == Accumulator(1, 5, 25)
        assert store.get_campaign("a").reports == 1

    def test_late_then_in_time_in_one_batch(self, store):
        batch = [submission(report(1, (0, 5)), admit=False), submission(report(1, (0, 5)))]
        assert store.commit(batch) == [[NOT_OPEN], [ACCEPTED]]

    def test_campaigns_do_not_share_ids(self, store):
        store.create_campaign(record("b", b"b"))
        batch = [
            submission(report(1, (0, 5))),
            submission(report(1, (0, 6)), to="b"),
            submission(report(2, (0, 7)), report(1, (0, 5))),
        ]
        assert store.commit(batch) == [[ACCEPTED], [ACCEPTED], [ACCEPTED, DUPLICATE]]
        assert store.totals("a")[0] == Accumulator.of([5, 7])
        assert store.totals("b")[0] == Accumulator.of([6])

    def test_sums_are_exact_beyond_64_bits(self, store):
        low, high = -(2**63), 2**63 - 1
        values = [high] * 5 + [low] * 7
        for number, value in enumerate(values):
            assert store.commit([submission(report(number, (1, value)))]) == [[ACCEPTED]]
        sums = store.totals("a")[1]
        assert (sums.n, sums.total) == (12, 5 * high + 7 * low)
        assert sums.total_of_squares == 5 * high**2 + 7 * low**2
        assert sums.total_of_squares > 2**128

    def test_reports_with_many_answers(self, store):
        store.create_campaign(record("wide", b"w", queries=1000))
        batch = [report(n, *[(q, n * q) for q in range(1000)]) for n in range(5)]
        assert store.commit([submission(*batch, to="wide")]) == [[ACCEPTED] * 5]
        expected = [Accumulator.of([n * q for n in range(5)]) for q in range(1000)]
        assert store.totals("wide") == expected

    def test_large_batches_with_everything_in_them(self, store):
        rng = Random(20300115)
        known: dict[int, tuple[int, int]] = {}
        for _ in range(3):
            batch, expected = [], []
            for _ in range(5000):
                number, answer = rng.randrange(9000), (rng.randrange(3), rng.randrange(-2, 3))
                batch.append(report(number, answer))
                if number not in known:
                    known[number] = answer
                    expected.append(ACCEPTED)
                else:
                    expected.append(DUPLICATE if known[number] == answer else ID_CONFLICT)
            assert {ACCEPTED, DUPLICATE, ID_CONFLICT} == set(expected)
            assert store.commit([submission(*batch)]) == [expected]
        totals = [Accumulator.of(v for q, v in known.values() if q == i) for i in range(3)]
        assert store.totals("a") == totals
        assert store.get_campaign("a").reports == len(known)

    def test_two_writers_count_each_report_once(self, store, open_store):
        outcomes: list[Outcome] = []

        def write() -> None:
            with open_store() as mine:
                for start in range(0, 300, 10):
                    batch = submission(*[report(n, (0, n)) for n in range(start, start + 10)])
                    outcomes.extend(mine.commit([batch])[0])

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes.count(o) for o in (ACCEPTED, DUPLICATE)) == [300, 300]
        assert store.totals("a")[0] == Accumulator.of(range(300))

    def test_closing_twice_is_harmless(self, open_store):
        opened = open_store()
        opened.close()
        opened.close()

    def test_deleted_reports_leave_their_sums_and_are_never_counted_again(self, open_store, store):
        """Also those beside a slot, by a store that knew them, and while some are left."""
        days = [datetime(2030, 1, day, tzinfo=UTC) for day in range(1, 4)]
        store.create_campaign(replace(record("d", b"d"), delete_after=days[1]))
        alike = [report(a << 64 | b, (0, a)) for a, b in ((5, 9), (9, 5), (4, 8))]
        reports = [*alike, *(report(1_000 + i, (i % 3, i)) for i in range(600))]
        store.commit([submission(*reports, to="d"), submission(reports[0])])
        sums = store.totals("d")
        with open_store() as other:
            other.commit([submission(reports[0], to="d")])
            assert [other.due(day) for day in days] == [[], ["d"], ["d"]]
            again = submission(*reports, report(7, (0, 7)), to="d")
            changed = submission(report(5 << 64 | 9, (1, 1)), to="d")
            left = store.delete_reports("d", 300)
            assert left == (len(store.answers("d").packed) > 0)
            assert len(store.answers("d").packed) < 12 * len(reports)
            while left:  # a process that was killed goes on in this way
                for each in (store, other):
                    outcomes = set(chain.from_iterable(each.commit([again, changed])))
                    assert outcomes <= {NOT_OPEN, DUPLICATE, ID_CONFLICT}
                    assert each.due(days[2]) == ["d"]
                left = other.delete_reports("d", 300)
            assert not store.delete_reports("d")
            with open_store() as new:
                for each in (store, other, new):
                    assert each.commit([again, changed]) == [[NOT_OPEN] * 604, [NOT_OPEN]]
                    assert each.totals("d") == sums
                    assert each.get_campaign("d").reports == len(reports)
                    assert each.answers("d") == (b"", None)
                    assert each.due(days[2]) == []
                    assert each.commit([submission(reports[0])]) == [[DUPLICATE]]


class OwnStoreContract(StoreContract):
    """What stores of geoveil's own do besides."""

    def test_days_and_plans_are_kept(self, store, open_store):
        store.create_campaign(record("b", b"b"))
        store.note_day(100)
        store.commit([submission(report(1, (0, 5))), submission(report(1, (0, 5)), to="b")])
        for day in (101, 102):  # on the second there is nothing new to note
            store.note_day(day)
        store.commit([submission(report(2, (0, 5)), report(3, (0, 5)))])
        with open_store() as other:  # another server of the same database
            other.note_day(103)
        store.commit([submission(report(4, (0, 5)))])
        store.note_day(103)
        store.plan_participants("a", 7)
        store.plan_participants("a", 2**40)
        store.plan_participants("b", 5)
        store.plan_participants("b", None)
        assert store.progress(["a", "b", "c", "\0"]) == {
            "a": Progress(2**40, [(101, 1), (103, 4)]),
            "b": Progress(None, [(101, 1)]),
        }
        assert store.progress([]) == {}
        with refuses(Code.CAMPAIGN_NOT_FOUND):
            store.plan_participants("c", 5)
        assert store.campaign_page().records[0].reports == 4
        assert (extent := store.extent()) is not None
        assert extent.size_bytes > 4_000
        assert extent.writers == 1

    def test_answers_are_counted_by_bin(self, store):
        """Two bins of every query but the last, which has three; also of many reports at once."""
        bins = Bins(3, ((0,), (0,), (-1, 2**62)))
        values = [-5, 0, 1, 2**62, 2**63 - 1] * 20
        answers = [(n % 3, value) for n, value in enumerate(values)]
        reports = [report(n, answer) for n, answer in enumerate(answers)]
        for batch in (reports[:2], PackedColumns(*in_columns(reports[2:])), reports[:2]):
            store.commit([Submission("a", batch, True, bins)])
        expected = Counter(
            3 + 64 * query + sum(value > end for end in bins.ends[query])
            for query, value in answers
        )
        assert store.sums("a").bin_counts == expected
        assert store.totals("a") == [
            Accumulator.of(value for q, value in answers if q == query) for query in range(3)
        ]


class TestSQLiteStore(OwnStoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: SQLiteStore(tmp_path / "reports.sqlite")


class TestPostgresStore(OwnStoreContract):
    @pytest.fixture
    def open_store(self, postgres_url):
        return lambda: PostgresStore(postgres_url)
