"""Test any sequence of calls to a store against a dict and a loop."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.reports import Bins, PackedColumns, PackedReport, in_columns, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission, open_store

QUERIES = 2
CAMPAIGNS = st.sampled_from(["a", "b"])
EXTREMES = [-(2**63), -1, 0, 1, 2**62, 2**63 - 1]
# Few ids and values, so that duplicates and conflicts are common.
REPORTS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.lists(
            st.tuples(st.integers(0, QUERIES - 1), st.sampled_from(EXTREMES)),
            min_size=1,
            max_size=2,
        ),
    ),
    min_size=1,
    max_size=8,
)
# The last integers of bins: two bins of the one query, three of the other.
BINS = Bins(QUERIES, ((0,), (-1, 2**62)))
BATCHES = st.lists(st.tuples(CAMPAIGNS, REPORTS, st.booleans()), min_size=1, max_size=4)


def id_of(n: int) -> bytes:
    """Return an id; of 13 some share a slot in PostgreSQL, and none half an id."""
    return bytes([*bytes(7), n % 3, *bytes(7), n // 3])


SETTINGS = settings(stateful_step_count=25)


class StoreModel(RuleBasedStateMachine):
    empty: Callable[[], AbstractContextManager[Path | str]]
    """Makes an empty database."""

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        self.database = self.stack.enter_context(self.empty())
        self.store = open_store(self.database)
        self.campaigns: dict[str, bytes] = {}
        self.closed: set[str] = set()
        self.counted: dict[tuple[str, int], list[tuple[int, int]]] = {}

    @rule(campaign=CAMPAIGNS, published=st.sampled_from([b"1", b"2"]))
    def create(self, campaign: str, published: bytes) -> None:
        record = CampaignRecord(campaign_id=campaign, published=published, queries=QUERIES)
        if self.campaigns.setdefault(campaign, published) == published:
            self.store.create_campaign(record)
            return
        with pytest.raises(ServiceError) as caught:
            self.store.create_campaign(record)
        assert caught.value.code is Code.CAMPAIGN_ID_TAKEN

    @rule(campaign=CAMPAIGNS)
    def close(self, campaign: str) -> None:
        if campaign in self.campaigns:
            self.store.close_campaign(campaign)
            self.closed.add(campaign)

    @precondition(lambda self: self.campaigns)
    @rule(batch=BATCHES, columns=st.booleans())
    def commit(
        self, batch: list[tuple[str, list[tuple[int, list[tuple[int, int]]]], bool]], columns: bool
    ) -> None:
        batch = [entry for entry in batch if entry[0] in self.campaigns]
        submissions, expected = [], []
        for campaign, reports, admit in batch:
            packed: Sequence[PackedReport]
            if columns:
                reports = [(n, answers[:1]) for n, answers in reports]
            packed = [PackedReport(id_of(n), pack(a)) for n, a in reports]
            if columns:
                packed = PackedColumns(*in_columns(packed))
            submissions.append(Submission(campaign, packed, admit, BINS))
            expected.append([self.classify(campaign, n, a, admit) for n, a in reports])
        assert self.store.commit(submissions) == expected

    def classify(
        self, campaign: str, n: int, answers: list[tuple[int, int]], admit: bool
    ) -> Outcome:
        if (campaign, n) in self.counted:
            same = self.counted[campaign, n] == answers
            return Outcome.DUPLICATE if same else Outcome.ID_CONFLICT
        if not admit or campaign in self.closed:
            return Outcome.NOT_OPEN
        self.counted[campaign, n] = answers
        return Outcome.ACCEPTED

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.database)

    @invariant()
    def bins_agree(self) -> None:
        for name in self.campaigns:
            expected: dict[int, int] = {}
            for (campaign, _), answers in self.counted.items():
                for query, value in answers if campaign == name else ():
                    row = QUERIES + 64 * query + sum(value > end for end in BINS.ends[query])
                    expected[row] = expected.get(row, 0) + 1
            assert self.store.sums(name).bin_counts == expected

    @invariant()
    def campaigns_agree(self) -> None:
        assert [
            (c.campaign_id, c.published, c.closed, c.reports)
            for c in self.store.campaign_page().records
        ] == [
            (name, published, name in self.closed, sum(c == name for c, _ in self.counted))
            for name, published in self.campaigns.items()
        ]

    @invariant()
    def sums_agree(self) -> None:
        for campaign in self.campaigns:
            totals = self.store.totals(campaign)
            assert len(totals) == QUERIES
            for query, sums in enumerate(totals):
                values = [
                    value
                    for (name, _), answers in self.counted.items()
                    for index, value in answers
                    if (name, index) == (campaign, query)
                ]
                assert sums.n == len(values)
                assert sums.total == sum(values)
                assert sums.total_of_squares == sum(v * v for v in values)

    def teardown(self) -> None:
        self.store.close()
        self.stack.close()


@contextmanager
def empty_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "reports.sqlite"


@pytest.mark.deep
@pytest.mark.parametrize("number", [12, pytest.param(40, marks=pytest.mark.deep)])
def test_any_sequence_of_calls_to_sqlite(number):
    class Model(StoreModel):
        empty = staticmethod(empty_file)

    run_state_machine_as_test(Model, settings=settings(SETTINGS, max_examples=number))


@pytest.mark.deep
@pytest.mark.parametrize("number", [6, pytest.param(20, marks=pytest.mark.deep)])
def test_any_sequence_of_calls_to_postgresql(postgres_server, number):
    class Model(StoreModel):
        empty = staticmethod(postgres_server.database)

    run_state_machine_as_test(Model, settings=settings(SETTINGS, max_examples=number))
